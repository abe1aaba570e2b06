"""Servers of the older transport, `"type": "sse"`: the same promises over another wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from servers.dcode import Dcode
from servers.raw_server import RawServer, Request, Wire, event, http

Make = Callable[..., RawServer]
Handle = Callable[[Request, Wire], bytes | None]


class Legacy:
    """A scripted server of the older transport: one GET stream, answers to POSTs through it."""

    def __init__(self, server: RawServer) -> None:
        self.server = server
        self.streams: list[Wire] = []
        server.handlers["GET"] = self.stream
        for kind in ("initialize", "notifications/initialized", "tools/list", "tools/call"):
            server.handlers[kind] = self.post

    @property
    def entry(self) -> dict[str, Any]:
        """The configuration entry."""
        return {"type": "sse", "url": self.server.url}

    def stream(self, request: Request, wire: Wire) -> None:
        """Names the endpoint and stays open."""
        wire.chunked_head()
        self.streams.append(wire)
        wire.chunk(event("/messages?session=1", name="endpoint"))
        wire.stall(30)

    def post(self, request: Request, wire: Wire) -> bytes:
        """Answers through the stream."""
        _, _, payload = self.server.default(request, wire).partition(b"\r\n\r\n")
        if payload:
            self.streams[-1].chunk(event(payload, name="message"))
        return http(202, content_type=None)


def test_a_good_call(dcode: Dcode, raw: Make) -> None:
    server = raw(result='{"content":[],"structuredContent":{"n":1.10,"e":1e2}}')
    dcode.serve(raw=Legacy(server).entry)
    run = dcode.run("raw_look", stdin=b'{"n":1.10,"empty":""}')
    assert run.structured() == b'{"n":1.10,"e":1e2}'
    (call,) = server.of("tools/call")
    assert b'"arguments":{"n":1.10,"empty":""}' in call.body.replace(b" ", b"")
    assert call.target == "/messages?session=1"


@pytest.mark.parametrize("hint", ['"yes"', "false", "1"])
def test_a_denied_call(dcode: Dcode, raw: Make, hint: str) -> None:
    tool = '{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%s}}'
    server = raw(tools=[tool % hint])
    dcode.serve(raw=Legacy(server).entry)
    dcode.run("raw_look").expect("tool_not_read_only")
    assert server.count("tools/call") == 0


@pytest.mark.parametrize("broken", ["500", "stream ends", "stream resets", "reset"])
def test_a_lost_call(dcode: Dcode, raw: Make, broken: str) -> None:
    server = raw()
    legacy = Legacy(server)

    def handler(request: Request, wire: Wire) -> bytes | None:
        if broken == "500":
            return http(500)
        if broken == "reset":
            wire.reset()
            return None
        stream = legacy.streams[-1]
        if broken == "stream ends":
            stream.finish()
        else:
            stream.reset()
        return http(202, content_type=None)

    server.handlers["tools/call"] = handler
    dcode.serve(raw=legacy.entry)
    run = dcode.run("raw_look").expect("runtime_failure")
    run.prompt_after(server.of("tools/call")[0].at)
    assert server.count("tools/call") == 1


def test_a_silent_stream(dcode: Dcode, raw: Make) -> None:
    server = raw()
    legacy = Legacy(server)
    server.handlers["tools/call"] = http(202, content_type=None)
    dcode.serve(raw=legacy.entry)
    run = dcode.run("raw_look", deadline_ms=3000).expect("timeout")
    run.ended_between(2.95, 4.0)
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("where", ["other origin", "other scheme"])
def test_an_endpoint_elsewhere(dcode: Dcode, raw: Make, where: str) -> None:
    server, other = raw(), raw(tls=where != "other scheme")

    def stream(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        wire.chunk(event(other.url, name="endpoint"))
        wire.stall(30)

    server.handlers["GET"] = stream
    dcode.serve(
        raw={"type": "sse", "url": server.url, "headers": {"Authorization": "Bearer own-1"}}
    )
    dcode.run("raw_look", deadline_ms=4000).expect("tool_not_found", "timeout")
    assert not other.connections
