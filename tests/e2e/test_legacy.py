"""Servers of the older transport, `"type": "sse"`: the same promises over another wire."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from servers.dcode import Dcode
from servers.legacy import LegacyServer

from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, event, http

Make = Callable[..., RawServer]
Handle = Callable[[Request, Wire], bytes | None]


def legacy_of(server: RawServer) -> LegacyServer:
    """A server of the older transport, whose acknowledgements have no body."""
    return LegacyServer(
        server,
        preamble=event("/messages?session=1", name="endpoint"),
        acknowledge=http(202, content_type=None),
    )


def test_a_good_call(dcode: Dcode, raw: Make) -> None:
    server = raw(result='{"content":[],"structuredContent":{"n":1.10,"e":1e2}}')
    dcode.serve(raw=legacy_of(server).entry)
    run = dcode.run("raw_look", stdin=b'{"n":1.10,"empty":""}')
    assert run.structured() == b'{"n":1.10,"e":1e2}'
    (call,) = server.of("tools/call")
    assert b'"arguments":{"n":1.10,"empty":""}' in call.body.replace(b" ", b"")
    assert call.target == "/messages?session=1"


@pytest.mark.parametrize("hint", ['"yes"', "false", "1"])
def test_a_denied_call(dcode: Dcode, raw: Make, hint: str) -> None:
    tool = '{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%s}}'
    server = raw(tools=[tool % hint])
    dcode.serve(raw=legacy_of(server).entry)
    dcode.run("raw_look").expect("tool_not_read_only")
    assert server.count("tools/call") == 0


@pytest.mark.parametrize("broken", ["500", "stream ends", "stream resets", "reset"])
def test_a_lost_call(dcode: Dcode, raw: Make, broken: str) -> None:
    server = raw()
    legacy = legacy_of(server)

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
    legacy = legacy_of(server)
    server.handlers["tools/call"] = http(202, content_type=None)
    dcode.serve(raw=legacy.entry)
    run = dcode.run("raw_look", deadline_ms=3000).expect("timeout")
    run.ended_between(2.95, 3 + 2.9)
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
