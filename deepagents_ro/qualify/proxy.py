"""Two proxies: one that must never be used, one that puts a token in a placeholder's place."""

from __future__ import annotations

import asyncio
import contextlib

from .authority import Authority
from .http1 import read_request, response

PLACEHOLDER = "Bearer openshell:resolve:env:QUALIFICATION_TOKEN"
# Known to this proxy and to the server behind it.
REAL_TOKEN = "Bearer qualification-0f6c1d9e7b"


class Tripwire:
    """What every run is told to use as proxy for other hosts; refuses, and notes who came."""

    def __init__(self) -> None:
        self.url = ""
        self.targets: list[str] = []
        """First line of each request; of anything else its first bytes."""

    async def start(self, host: str) -> None:
        server = await asyncio.start_server(self._serve, host, 0)
        self.url = f"http://{host}:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            data = await reader.read(4096)
            self.targets.append(data.split(b"\r\n")[0][:200].decode("latin-1"))
            writer.write(response(403))
            await writer.drain()
        writer.close()


class PlaceholderProxy:
    """CONNECT, TLS ended here, the placeholder replaced in each request's head, TLS onward.

    So the token is in this proxy and at the server, never in the process that makes the call.
    """

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._host = ""
        self._target = 0
        self.url = ""
        self.tunnels: list[str] = []
        """`host:port` of each CONNECT."""
        self.replaced = 0

    async def start(self, host: str, target_port: int) -> None:
        """Listen on a free port of `host`; every tunnel leads to `target_port` there."""
        server = await asyncio.start_server(self._serve, host, 0)
        self._host, self._target = host, target_port
        self.url = f"http://{host}:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request = await read_request(reader)
            if request.method != "CONNECT":
                writer.write(response(405))
                await writer.drain()
            else:
                self.tunnels.append(request.target)
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await writer.start_tls(self._authority.server_context())
                await self._relay(reader, writer)
        writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward = await asyncio.open_connection(
            self._host, self._target, ssl=self._authority.client_context()
        )
        back = asyncio.create_task(_pump(onward_reader, writer))
        try:
            await self._requests(reader, onward)
        finally:
            onward.close()
            back.cancel()

    async def _requests(self, reader: asyncio.StreamReader, onward: asyncio.StreamWriter) -> None:
        placeholder, token = PLACEHOLDER.encode(), REAL_TOKEN.encode()
        while True:
            request = await read_request(reader)
            self.replaced += request.head.count(placeholder)
            onward.write(request.head.replace(placeholder, token) + request.body)
            await onward.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
