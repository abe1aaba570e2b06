"""Deep agents for the tests; what makes them is imported when the first one is made.

`deepagents` imports every provider's client, which would be the dearest part of each worker's
collection.
"""

from __future__ import annotations

from typing import Any


async def acreate_deep_agent(*args: Any, **kwargs: Any) -> Any:
    """`deepagents_ro.gateway.acreate_deep_agent`."""
    from deepagents_ro.gateway import acreate_deep_agent as create

    return await create(*args, **kwargs)


def create_deep_agent(*args: Any, **kwargs: Any) -> Any:
    """`deepagents_ro.gateway.create_deep_agent`."""
    from deepagents_ro.gateway import create_deep_agent as create

    return create(*args, **kwargs)
