"""The guard's first deadline as an event loop sees it."""

from __future__ import annotations

import asyncio

from deepagents_ro import _mcpro


def first_deadline(guard: _mcpro.Guard) -> asyncio.Future[None]:
    """A future of the running loop that is done once the first deadline has come."""
    loop = asyncio.get_running_loop()
    expired: asyncio.Future[None] = loop.create_future()

    def expire() -> None:
        loop.remove_reader(guard.cancel_fd)
        expired.set_result(None)

    loop.add_reader(guard.cancel_fd, expire)
    return expired
