"""Where a qualification's servers live: one event loop on one thread, and what they saw."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self

from .authority import Authority, make_authority
from .journal import Journal
from .proxy import PlaceholderProxy, Tripwire
from .raw_server import RawServer
from .sdk_server import SDKServer

# Resolved by nobody: only the proxy knows where it leads.
PROXIED_HOST = "worker-broker.invalid"
START_SECONDS = 30.0


class Lab:
    """All servers of one qualification; a context manager. `host` is the address they listen on."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.journal = Journal()
        self._directory = tempfile.TemporaryDirectory(prefix="deepagents-ro-qualify-")
        self.root = Path(self._directory.name)
        self.authority: Authority = make_authority(self.root, [host, "localhost", PROXIED_HOST])
        stranger = self.root / "stranger"
        stranger.mkdir()
        self.stranger: Authority = make_authority(stranger, [host])
        self.sdk = SDKServer(self.journal, self.authority)
        self.raw = RawServer(self.journal, self.authority)
        self.tripwire = Tripwire()
        self.proxy = PlaceholderProxy(self.authority)
        self._runs = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lab", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._do(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        try:
            if self._thread.is_alive():
                self._do(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_SECONDS)
            self._loop.close()
            self._directory.cleanup()

    def name_run(self) -> str:
        """A name for one run; no name is part of another."""
        return f"run-{next(self._runs):04d}"

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    async def _start(self) -> None:
        await self.sdk.start(self.host)
        await self.raw.start(self.host)
        await self.tripwire.start(self.host)
        await self.proxy.start(self.host, self.raw.port)

    async def _stop(self) -> None:
        this = asyncio.current_task()
        await self.sdk.stop()
        rest = [task for task in asyncio.all_tasks() if task is not this]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    @property
    def proxied_url(self) -> str:
        """The raw server behind the placeholder's proxy."""
        return f"https://{PROXIED_HOST}/mcp"
