"""A raw TLS server whose every byte is under control, for the memory measurements.

    python bench/hostile.py CERTIFICATE LOG MODE [--tools N] [--entry-bytes B]

MODE: `small` answers everything properly and has N more tools whose entries have B bytes each,
sent in one answer that was made beforehand; `body-200mb` answers the call with 200 MB of JSON;
`body-endless` answers it without end; `list-endless` sends a tool list without end;
`list-pages` sends pages of tools without end. The rest is legal and bulky: `entry-keys` and
`initialize-keys` have 400,000 more members in the tool's entry or in the answer to `initialize`,
`schema` has 50,000 properties in the tool's schema, `blocks` 38,000 empty text blocks in the
result, `meta` 1 MB of `_meta`. LOG as in server.py.
"""

from __future__ import annotations

import argparse
import json
import ssl
from collections.abc import Iterator
from typing import Any

from sandbox import EXPECTED

from deepagents_ro.qualify.lab import helper
from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire

BULKY = ("entry-keys", "initialize-keys", "schema", "blocks", "meta")
MODES = ("small", "body-200mb", "body-endless", "list-endless", "list-pages", *BULKY)
MEGABYTE = 1_000_000
TOOL = {
    "name": "worker_task_context",
    "description": "The context of one task.",
    "inputSchema": {"type": "object", "properties": {"task_id": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
ENTRY_BYTES = 4096
KEYS = {f"k{number}": number for number in range(400_000)}
# made beforehand: the client's time must not be the server's
MORE_MEMBERS = b"," + json.dumps(KEYS)[1:-1].encode()
PROPERTIES = {f"field_{number}": {"type": "string"} for number in range(50_000)}
META = {f"key_{number}": "x" * 8 for number in range(37_000)}
EMPTY_BLOCKS = [{"type": "text", "text": ""}] * 38_000


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


def small_call(identity: Any, mode: str) -> Iterator[bytes]:
    """A proper answer, with what the mode adds."""
    block = {"type": "text", "text": json.dumps(EXPECTED)}
    result: dict[str, Any] = {"content": [block], "structuredContent": EXPECTED}
    if mode == "blocks":
        result["content"] = EMPTY_BLOCKS
    if mode == "meta":
        result["_meta"] = META
    yield answer(identity, result)


def the_tool(mode: str) -> dict[str, Any]:
    """The tool's entry, with what the mode adds."""
    if mode == "entry-keys":
        return TOOL | KEYS
    if mode == "schema":
        return TOOL | {"inputSchema": {"type": "object", "properties": PROPERTIES}}
    return TOOL


def large_call(identity: Any, megabytes: int | None) -> Iterator[bytes]:
    """An answer whose text has so many megabytes, or no end."""
    head, tail = answer(identity, {"content": [{"type": "text", "text": "@"}]}).split(b"@")
    yield head
    sent = 0
    while megabytes is None or sent < megabytes:
        yield b"a" * MEGABYTE
        sent += 1
    yield tail


def endless_list(identity: Any) -> Iterator[bytes]:
    """A tool list that never closes its array."""
    yield b'{"jsonrpc":"2.0","id":%s,"result":{"tools":[' % json.dumps(identity).encode()
    yield json.dumps(TOOL).encode()
    number = 0
    while True:
        yield b"".join(b"," + other_tool(number + step) for step in range(64))
        number += 64


def tools_array(mode: str, tools: int, size: int) -> bytes:
    """The tool and so many others, as JSON."""
    entries = [
        json.dumps(the_tool(mode)).encode(),
        *(other_tool(number, size) for number in range(tools)),
    ]
    return b"[%s]" % b",".join(entries)


def whole_list(identity: Any, tools: bytes) -> Iterator[bytes]:
    """A proper tool list."""
    identity = json.dumps(identity).encode()
    yield b'{"jsonrpc":"2.0","id":%s,"result":{"tools":%s}}' % (identity, tools)


def page(identity: Any, cursor: str | None) -> Iterator[bytes]:
    """One page of tools; there is always a next one."""
    number = int(cursor or 0)
    tools: list[Any] = [] if number else [TOOL]
    tools += [json.loads(other_tool(number * 16 + step)) for step in range(16)]
    yield answer(identity, {"tools": tools, "nextCursor": str(number + 1)})


class HostileServer(RawServer):
    """The lab's scripted server, with what `mode` adds; every request is in the log."""

    def __init__(self, options: argparse.Namespace) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.certificate)
        posts = ("initialize", "tools/list", "tools/call")
        super().__init__(context, handlers=dict.fromkeys(posts, self.stream))
        self._mode = options.mode
        self._log = helper.Log(options.log)
        self._list = tools_array(options.mode, options.tools, options.entry_bytes)

    def arrived(self, number: int) -> None:
        super().arrived(number)
        self._log.write(connection=number)

    def note(self, request: Request) -> int:
        tool = request.message["params"]["name"] if request.label == "tools/call" else None
        self._log.write(method=request.method, rpc=request.label, tool=tool)
        return super().note(request)

    def stream(self, request: Request, wire: Wire) -> None:
        """The answer, in chunks."""
        wire.chunked_head(content_type="application/json", headers=[("Mcp-Session-Id", "session")])
        for chunk in self._chunks(request):
            wire.chunk(chunk)
        wire.end()

    def _chunks(self, request: Request) -> Iterator[bytes]:
        identity = request.message["id"]
        if request.label == "initialize":
            message = self.initialized(request).partition(b"\r\n\r\n")[2]
            if self._mode == "initialize-keys":
                message = message.removesuffix(b"}}") + MORE_MEMBERS + b"}}"
            return iter([message])
        if request.label == "tools/list":
            cursor = (request.message.get("params") or {}).get("cursor")
            if self._mode == "list-endless":
                return endless_list(identity)
            if self._mode == "list-pages":
                return page(identity, cursor)
            return whole_list(identity, self._list)
        megabytes = {"body-200mb": 200, "body-endless": None}
        if self._mode in megabytes:
            return large_call(identity, megabytes[self._mode])
        return small_call(identity, self._mode)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("certificate")
    parser.add_argument("log")
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("--entry-bytes", type=int, default=ENTRY_BYTES)
    with HostileServer(parser.parse_args()) as server:
        helper.announce(server.port)
        helper.wait()
