"""The guard's first deadline: what may lower it, and how an event loop sees it."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # imported before the guard stands, and so without typing and asyncio
if TYPE_CHECKING:
    import asyncio

    from deepagents_ro import _mcpro

VARIABLE = "DEEPAGENTS_RO_DEADLINE_MS"


def lower_deadline(guard: _mcpro.Guard, *, managed: bool) -> None:
    """Take a lower deadline in milliseconds from `VARIABLE`, but not in a managed runtime."""
    if not managed:
        guard.lower_deadline(os.environ.get(VARIABLE, ""))


def first_deadline(guard: _mcpro.Guard) -> asyncio.Future[None]:
    """A future of the running loop that is done once the first deadline has come."""
    import asyncio

    loop = asyncio.get_running_loop()
    expired: asyncio.Future[None] = loop.create_future()

    def expire() -> None:
        loop.remove_reader(guard.cancel_fd)
        expired.set_result(None)

    loop.add_reader(guard.cancel_fd, expire)
    return expired
