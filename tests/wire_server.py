"""An asyncio server whose every byte the test decides, with or without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Wire:
    """One accepted connection."""

    def __init__(
        self, server: WireServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = len(server.wires)
        self.reader = reader
        self.writer = writer
        self.ended = asyncio.Event()
        """Set when the handler has returned."""
        self._server = server

    async def request(self) -> bytes:
        """The next request, head and body; b'' when the peer is gone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        self._server.note(head + body)
        return head + body

    async def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def gone(self) -> None:
        """Until the peer has closed."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Handler = Callable[[Wire], Awaitable[None]]


def answering(*answers: bytes) -> Handler:
    """Each request of a connection gets the next answer, the last one for ever."""

    async def handle(wire: Wire) -> None:
        count = 0
        while await wire.request():
            await wire.send(answers[min(count, len(answers) - 1)])
            count += 1

    return handle


def closing(answer: bytes) -> Handler:
    """One answer, then the connection is closed."""

    async def handle(wire: Wire) -> None:
        if await wire.request():
            await wire.send(answer)

    return handle


class WireServer:
    """`async with WireServer(handler) as server:`; `requests` are in order of arrival."""

    def __init__(
        self, handler: Handler, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.requests: list[bytes] = []
        self.wires: list[Wire] = []
        self._handler = handler
        self._tls = tls
        self._host = host
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    async def __aenter__(self) -> WireServer:
        self._server = await asyncio.start_server(
            self._accept, self._host, 0, ssl=self._tls, limit=1 << 20
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for wire in self.wires:
            wire.writer.transport.abort()

    def note(self, request: bytes) -> None:
        self.requests.append(request)
        self._tell()

    async def arrived(self, *, requests: int = 0, connections: int = 0) -> None:
        """Until so many requests and so many connections have come; fails after ten seconds."""
        async with asyncio.timeout(10):
            while len(self.requests) < requests or len(self.wires) < connections:
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def url(self, path: str = "/", host: str | None = None) -> str:
        scheme = "http" if self._tls is None else "https"
        name = host or ("localhost" if self._tls else self._host)
        return f"{scheme}://{f'[{name}]' if ':' in name else name}:{self.port}{path}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(self, reader, writer)
        self.wires.append(wire)
        self._tell()
        task = asyncio.ensure_future(self._handler(wire))
        self._tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError, ConnectionError, ssl.SSLError):
            await task
        wire.ended.set()
        with contextlib.suppress(ConnectionError):
            writer.close()
