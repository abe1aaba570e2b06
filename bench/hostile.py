"""A raw TLS server whose every byte is under control, for the memory measurements.

    python bench/hostile.py CERTIFICATE LOG MODE [--tools N] [--entry-bytes B]

MODE: `small` answers everything properly and has N more tools whose entries have B bytes each,
sent in one answer that was made beforehand; `body-200mb` answers the call with 200 MB of JSON;
`body-endless` answers it without end; `list-endless` sends a tool list without end;
`list-pages` sends pages of tools without end. LOG as in server.py. Ends when standard input
ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import lifeline
from sandbox import EXPECTED

MODES = ("small", "body-200mb", "body-endless", "list-endless", "list-pages")
MEGABYTE = 1_000_000
TOOL = {
    "name": "worker_task_context",
    "description": "The context of one task.",
    "inputSchema": {"type": "object", "properties": {"task_id": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
ENTRY_BYTES = 4096


def answer(identity: Any, result: dict[str, Any]) -> bytes:
    """One JSON-RPC answer."""
    return json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}).encode()


def other_tool(number: int, size: int = ENTRY_BYTES) -> bytes:
    """A well-formed list entry of about `size` bytes that nobody asked for."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    entry = {
        "name": f"other_{number}",
        "description": "One of many.",
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True},
    }
    missing = size - len(json.dumps(entry))
    for field in range(max(0, missing) // 128):
        schema["properties"][f"field_{field:03d}"] = {"type": "string", "description": "x" * 66}
    return json.dumps(entry).encode()


async def small_call(identity: Any) -> AsyncIterator[bytes]:
    """A proper answer."""
    block = {"type": "text", "text": json.dumps(EXPECTED)}
    yield answer(identity, {"content": [block], "structuredContent": EXPECTED})


async def large_call(identity: Any, megabytes: int | None) -> AsyncIterator[bytes]:
    """An answer whose text has so many megabytes, or no end."""
    head, tail = answer(identity, {"content": [{"type": "text", "text": "@"}]}).split(b"@")
    yield head
    sent = 0
    while megabytes is None or sent < megabytes:
        yield b"a" * MEGABYTE
        sent += 1
    yield tail


async def endless_list(identity: Any) -> AsyncIterator[bytes]:
    """A tool list that never closes its array."""
    yield b'{"jsonrpc":"2.0","id":%s,"result":{"tools":[' % json.dumps(identity).encode()
    yield json.dumps(TOOL).encode()
    number = 0
    while True:
        yield b"".join(b"," + other_tool(number + step) for step in range(64))
        number += 64


def tools_array(tools: int, size: int) -> bytes:
    """The tool and so many others, as JSON."""
    entries = [json.dumps(TOOL).encode(), *(other_tool(number, size) for number in range(tools))]
    return b"[%s]" % b",".join(entries)


async def whole_list(identity: Any, tools: bytes) -> AsyncIterator[bytes]:
    """A proper tool list."""
    identity = json.dumps(identity).encode()
    yield b'{"jsonrpc":"2.0","id":%s,"result":{"tools":%s}}' % (identity, tools)


async def page(identity: Any, cursor: str | None) -> AsyncIterator[bytes]:
    """One page of tools; there is always a next one."""
    number = int(cursor or 0)
    tools: list[Any] = [] if number else [TOOL]
    tools += [json.loads(other_tool(number * 16 + step)) for step in range(16)]
    yield answer(identity, {"tools": tools, "nextCursor": str(number + 1)})


class Connection:
    """One HTTP/1.1 connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        mode: str,
        tools: bytes,
        log: lifeline.Log,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._mode = mode
        self._tools = tools
        self._log = log

    async def run(self) -> None:
        """Answer requests until the peer goes away."""
        self._log.write("connection", self._writer.get_extra_info("peername")[1])
        try:
            while await self._exchange():
                continue
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self._log.write("gone")
        finally:
            self._writer.close()

    async def _exchange(self) -> bool:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method = head.split(" ", 1)[0]
        self._log.write("request", method)
        length = 0
        for line in head.split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        body = await self._reader.readexactly(length)
        if method != "POST":
            await self._plain(200 if method == "DELETE" else 405)
            return True
        await self._post(json.loads(body))
        return True

    async def _plain(self, status: int) -> None:
        reason = {200: "OK", 202: "Accepted", 405: "Method Not Allowed"}[status]
        self._writer.write(f"HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\n\r\n".encode())
        await self._writer.drain()

    async def _post(self, message: dict[str, Any]) -> None:
        method, identity = message.get("method"), message.get("id")
        if identity is None:
            await self._plain(202)
        elif method == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
            await self._send(once(answer(identity, result)))
        elif method == "tools/list":
            cursor = (message.get("params") or {}).get("cursor")
            if self._mode == "list-endless":
                await self._send(endless_list(identity))
            elif self._mode == "list-pages":
                await self._send(page(identity, cursor))
            else:
                await self._send(whole_list(identity, self._tools))
        elif method == "tools/call":
            self._log.write("call", message["params"]["name"])
            megabytes = {"body-200mb": 200, "body-endless": None}
            if self._mode in megabytes:
                await self._send(large_call(identity, megabytes[self._mode]))
            else:
                await self._send(small_call(identity))
        else:
            await self._send(once(answer(identity, {})))

    async def _send(self, chunks: AsyncIterator[bytes]) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Mcp-Session-Id: session\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        async for chunk in chunks:
            self._writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await self._writer.drain()
            await asyncio.sleep(0)  # or the loop never gets to see that the client has left
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


async def once(body: bytes) -> AsyncIterator[bytes]:
    """A body in one piece."""
    yield body


async def serve(options: argparse.Namespace) -> None:
    """Accept on a free port and announce it."""
    log = lifeline.Log(options.log)
    tools = tools_array(options.tools, options.entry_bytes)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options.certificate)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(reader, writer, options.mode, tools, log).run()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    lifeline.announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("certificate")
    parser.add_argument("log")
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("--entry-bytes", type=int, default=ENTRY_BYTES)
    lifeline.hold()
    asyncio.run(serve(parser.parse_args()))
