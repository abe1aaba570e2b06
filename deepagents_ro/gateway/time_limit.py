"""The one timer of the gateway: how long an exchange may take.

A limit that falls due while the event loop was busy with something else says nothing about the
gateway: its answer may be waiting to be read. The limit then gives the loop a moment to do so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LATE_S = 0.05
"""Seconds after its time at which a timer that runs shows that the loop was busy."""
MOMENT_S = 0.25
"""Seconds that a loop gets for what arrived while it was busy."""


def is_limit(value: object) -> bool:
    """Whether a configured value is a positive, finite number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Cancel the body after `seconds`; TimeoutError then, as from `asyncio.timeout`."""
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds

    def reached() -> None:
        now = loop.time()
        scope.reschedule(now + MOMENT_S if now - due > LATE_S else now)

    async with asyncio.timeout(None) as scope:
        handle = loop.call_at(due, reached)
        try:
            yield
        finally:
            handle.cancel()
