"""HTTP with SSE: where messages go, what a stream may say, and how it may end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from servers.dcode import Dcode
from servers.legacy import PHASES, LegacyServer

from deepagents_ro.qualify.lab.raw_server import (
    RawServer,
    Request,
    Wire,
    event,
    http,
    result_message,
)

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside
LIMIT = 1024 * 1024


def test_what_is_sent(dcode: Dcode, raw: Make) -> None:
    """A stream for each session, messages to its endpoint, one call, and nothing left open."""
    server = raw(result='{"content":[],"structuredContent":{"n":1.10,"big":1E400}}')
    legacy = LegacyServer(server)
    dcode.serve(raw=legacy.entry | {"headers": {"X-Own": "v"}})
    run = dcode.run("raw_look", stdin=b'{"n": 1.10, "run_manager": null}')
    assert run.structured() == b'{"n":1.10,"big":1E400}'
    assert [label for label in server.labels() if label != "HEAD"] == [
        "GET", "initialize", "notifications/initialized", "tools/list",
        "GET", "initialize", "notifications/initialized", "tools/call",
    ]  # fmt: skip
    for stream in server.of("GET"):
        assert stream.target == "/mcp"
        assert stream.header("accept") == b"text/event-stream"
        assert stream.header("cache-control") == b"no-store"
        assert stream.header("x-own") == b"v"
        assert stream.header("content-type") is None
        assert stream.body == b""
    for phase in PHASES:
        for request in server.of(phase):
            assert request.target == "/messages?session_id=1"
            assert request.header("content-type") == b"application/json"
            assert request.header("x-own") == b"v"
            assert request.header("mcp-session-id") is None
    assert b'"arguments":{"n":1.10,"run_manager":null}' in server.of("tools/call")[0].body
    end = time.monotonic() + 10
    while not all(not wire.open for wire in legacy.streams) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(wire.open for wire in legacy.streams)


# The endpoint.


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("/messages", "/messages"),
        ("messages/x?y=1", "/messages/x?y=1"),
        ("?session_id=2", "/mcp?session_id=2"),
        ("../up/./here", "/up/here"),
        ("@/absolute?a=%2F&b=%20", "/absolute?a=%2F&b=%20"),
        ("//127.0.0.1:#/network-path", "/network-path"),
        ("/m/%E2%82%AC/a%2Fb", "/m/%E2%82%AC/a%2Fb"),
        ("/messages#fragment", "/messages"),
        ("/mess ages", "/mess%20ages"),
        ("/m/\u20ac?a=\u20ac", "/m/%e2%82%ac?a=%e2%82%ac"),
    ],
)
def test_endpoints(dcode: Dcode, raw: Make, endpoint: str, target: str) -> None:
    server = raw()
    if endpoint.startswith("@"):
        endpoint = server.origin + endpoint[1:]
    if endpoint.startswith("//"):
        endpoint = endpoint.replace("#", str(server.port))
    legacy = LegacyServer(server, preamble=event(endpoint, name="endpoint"))
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect_ok("raw_look")
    assert {request.target for phase in PHASES for request in server.of(phase)} == {target}


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://127.0.0.1:{other}/messages",
        "//127.0.0.1:{other}/messages",
        "https://localhost:{own}/messages",
        "http://127.0.0.1:{own}/messages",
        "https://user:pass@127.0.0.1:{own}/messages",
        "https://127.0.0.1:{own}@127.0.0.1:{other}/messages",
        "https://127.0.0.1.example.invalid:{own}/messages",
        "ftp://127.0.0.1:{own}/messages",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "/mess\nages",
        "/mess\tages",
        "/mess\0ages",
    ],
)
def test_endpoints_that_are_refused(dcode: Dcode, raw: Make, endpoint: str) -> None:
    other, server = raw(), raw()
    text = endpoint.format(own=server.port, other=other.port)
    legacy = LegacyServer(server, preamble=event(text, name="endpoint"))
    dcode.serve(raw=legacy.entry | {"headers": {"authorization": "Bearer static-token"}})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert set(server.labels()) <= {"HEAD", "GET"}
    assert server.count("GET") == 1
    assert not other.connections


@pytest.mark.parametrize("second", ["/elsewhere", "{other}/messages", "/mess ages", ""])
def test_the_first_endpoint_wins(dcode: Dcode, raw: Make, second: str) -> None:
    other, server = raw(), raw()
    text = second.format(other=other.origin)
    first = event("/first", name="endpoint")
    legacy = LegacyServer(server, preamble=first + event(text, name="endpoint"))
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect_ok("raw_look")
    assert {request.target for phase in PHASES for request in server.of(phase)} == {"/first"}
    assert not other.connections


def test_no_message_counts_before_the_endpoint(dcode: Dcode, raw: Make) -> None:
    early = event('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"early"}}', name="message")
    legacy = LegacyServer(raw(), preamble=early + event("/messages", name="endpoint"))
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect_ok("raw_look")


# The stream.


@pytest.mark.parametrize(
    "noise",
    [
        b": a comment\n\n",
        b"event: weather\ndata: not json at all\n\n",
        b"event: message\ndata:\n\n",
        b"event: message\ndata\n\n",
        b"id: 7\nretry: 1\n\n",
        b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress",'
        b'"params":{"progressToken":1,"progress":1}}\n\n',
        b"\xef\xbb\xbf",
        b"event: ping\rdata: x\r\r",
        b'data: {"type":"heartbeat"}\n\ndata: \xef\xbb\xbf[]\n\n',
    ],
    ids=[
        *("comment", "unknown", "empty", "no data", "fields", "progress", "no bom", "lone cr"),
        "heartbeat",
    ],
)
def test_passed_over(dcode: Dcode, raw: Make, noise: bytes) -> None:
    server = raw()
    legacy = LegacyServer(server)

    def noisy(request: Request, wire: Wire) -> bytes | None:
        if noise.startswith(b"\xef"):  # not at the start: part of a field's name
            legacy.streams[-1].chunk(noise + b"data: x\n\n")
        else:
            legacy.streams[-1].chunk(noise * 3)
        return legacy.posted(request, wire)

    server.handlers["tools/call"] = noisy
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize("form", ["unnamed", "crlf", "lines", "bytes", "glued"])
def test_forms_of_an_event(dcode: Dcode, raw: Make, form: str) -> None:
    server = raw()
    legacy = LegacyServer(server)

    def shaped(request: Request, wire: Wire) -> bytes:
        stream = legacy.streams[-1]
        message = result_message(request, '{"content":[{"type":"text","text":"\u20ac"}]}')
        if form == "unnamed":
            legacy.say(message, name=None)
        elif form == "crlf":
            stream.chunk(b"event: message\r\ndata: " + message + b"\r\n\r\n")
        elif form == "lines":
            stream.chunk(event(json.dumps(json.loads(message), indent=1), name="message"))
        elif form == "bytes":
            for byte in event(message, name="message"):
                stream.chunk(bytes([byte]))
        else:
            stream.chunk(b":ping\n\n" + event(message, name="message") + b"event: mess")
        return legacy.acknowledge

    server.handlers["tools/call"] = shaped
    dcode.serve(raw=legacy.entry)
    data = dcode.run("raw_look").expect_ok("raw_look")
    assert data["content"] == [{"type": "text", "text": "\u20ac"}]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b'{"jsonrpc":"2.0","id":999,"result":{"content":[]}}', "malformed_result"),
        (b'{"jsonrpc":"2.0","id":"@","result":{"content":[]}}', "malformed_result"),
        (b'{"jsonrpc":"2.0","id":@,"result":{"content":[NaN]}}', "malformed_result"),
        (b'{"jsonrpc":"2.0","id":@,"result":{"content":{}}}', "malformed_result"),
        (b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"content":[]}}', "malformed_result"),
        (b'{"jsonrpc":"2.0","id":@,"error":{"code":1,"message":"x"}}', "tool_failed"),
        (b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"isError":true}}', "tool_failed"),
    ],
)
def test_answers_that_are_none(dcode: Dcode, raw: Make, message: bytes, code: str) -> None:
    server = raw()
    legacy = LegacyServer(server)

    def says(request: Request, wire: Wire) -> bytes:
        legacy.say(message.replace(b"@", request.id_text.encode()))
        return legacy.acknowledge

    server.handlers["tools/call"] = says
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect(code).before_the_deadline()
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("over", [0, 1])
def test_the_calls_bound(dcode: Dcode, raw: Make, over: int) -> None:
    server = raw()
    legacy = LegacyServer(server)

    def large(request: Request, wire: Wire) -> bytes:
        empty = result_message(request, '{"content":[],"_meta":{"x":""}}')
        frame = event(b"", name="message")
        room = LIMIT - len(empty) - len(frame) + over
        legacy.say(result_message(request, '{"content":[],"_meta":{"x":"%s"}}' % ("a" * room)))
        return legacy.acknowledge

    server.handlers["tools/call"] = large
    dcode.serve(raw=legacy.entry)
    run = dcode.run("raw_look")
    if over:
        run.expect("result_too_large")
    else:
        run.expect_ok("raw_look")


@pytest.mark.parametrize(
    ("method", "answered"),
    [
        ("ping", '"result":{}'),
        ("sampling/createMessage", '"error"'),
        ("roots/list", '"error"'),
        ("elicitation/create", '"error"'),
    ],
)
def test_requests_of_the_server(dcode: Dcode, raw: Make, method: str, answered: str) -> None:
    server = raw()
    legacy = LegacyServer(server)

    def asks(request: Request, wire: Wire) -> bytes | None:
        legacy.say(b'{"jsonrpc":"2.0","id":"s-1","method":"%s"}' % method.encode())
        assert server.wait_for("response", timeout=5)
        return legacy.posted(request, wire)

    server.handlers["tools/call"] = asks
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect_ok("raw_look")
    (response,) = server.of("response")
    assert response.target == "/messages?session_id=1"
    assert '"id":"s-1"' in response.body.decode()
    assert answered in response.body.decode()


@pytest.mark.parametrize("end", ["finish", "close", "reset"])
@pytest.mark.parametrize("phase", ["initialize", "tools/list", "tools/call"])
def test_a_stream_that_ends(dcode: Dcode, raw: Make, phase: str, end: str) -> None:
    server = raw()
    legacy = LegacyServer(server)

    def ends(request: Request, wire: Wire) -> bytes:
        getattr(legacy.streams[-1], end)()
        return legacy.acknowledge

    server.handlers[phase] = ends
    dcode.serve(raw=legacy.entry)
    run = dcode.run("raw_look")
    run.expect("runtime_failure" if phase == "tools/call" else "tool_not_found")
    run.prompt_after(server.of(phase)[0].at)
    assert server.count(phase) == 1


STREAMS: dict[str, Any] = {
    "404": http(404),
    "405": http(405),
    "500": http(500),
    "204": http(204, content_type=None),
    "json": http(200, b"{}"),
    "html": http(200, b"<html>", content_type="text/html"),
    "no type": http(200, b"", content_type=None),
    "other type": http(200, b"", content_type="text/event-stream2"),
    "empty": http(200, b"", content_type="text/event-stream"),
    "reset": lambda request, wire: wire.reset(),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_does_not_open(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw()
    legacy = LegacyServer(server)
    server.handlers["GET"] = STREAMS[name]
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert set(server.labels()) <= {"HEAD", "GET"}
    assert server.count("GET") == 1


@pytest.mark.parametrize("kind", ["Text/Event-Stream", "text/event-stream; charset=utf-8"])
def test_types_of_a_stream(dcode: Dcode, raw: Make, kind: str) -> None:
    legacy = LegacyServer(raw(), content_type=kind)
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect_ok("raw_look")


# Posts.


@pytest.mark.parametrize(
    "acknowledge",
    [
        http(200, b"ok", content_type="text/plain"),
        http(202, content_type=None),
        http(204, content_type=None, length=None),
        http(200, b'{"ignored":true}'),
        http(202, headers=[("connection", "close")]),
    ],
    ids=["200", "202", "204", "json", "close"],
)
def test_acknowledgements(dcode: Dcode, raw: Make, acknowledge: bytes) -> None:
    server = raw()
    legacy = LegacyServer(server, acknowledge=acknowledge)
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/call") == 1


def test_an_answer_before_its_acknowledgement(dcode: Dcode, raw: Make) -> None:
    server = raw()
    legacy = LegacyServer(server)

    def never(request: Request, wire: Wire) -> None:
        legacy.say(legacy.answer_to(request, wire))
        wire.stall(20)

    server.handlers["tools/call"] = never
    dcode.serve(raw=legacy.entry)
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    run.prompt_after(server.of("tools/call")[0].at)


@pytest.mark.parametrize("status", [302, 307, 400, 401, 404, 417, 500, 503])
def test_a_call_that_is_not_taken(dcode: Dcode, raw: Make, status: int) -> None:
    headers = [("location", "/again")] if status < 400 else []
    server = raw()
    legacy = LegacyServer(server)
    server.handlers["tools/call"] = http(status, headers=headers)
    dcode.serve(raw=legacy.entry)
    run = dcode.run("raw_look").expect("runtime_failure")
    run.prompt_after(server.of("tools/call")[0].at)
    assert server.count("tools/call") == 1


# Redirects.


def test_redirects_inside_the_origin(dcode: Dcode, raw: Make) -> None:
    """The slash that frameworks add: the stream, and the endpoint that `initialize` moves."""
    server = raw()
    legacy = LegacyServer(server, preamble=event("/messages", name="endpoint"))

    def stream(request: Request, wire: Wire) -> bytes | None:
        if request.target == "/mcp":
            return http(302, headers=[("location", "/mcp/")])
        if request.target == "/mcp/":
            return http(307, headers=[("location", "/stream?x=1")])
        assert request.header("x-own") == b"v"
        assert request.header("accept") == b"text/event-stream"
        return legacy.open(request, wire)  # type: ignore[func-returns-value]

    def message(request: Request, wire: Wire) -> bytes | None:
        if request.target == "/messages":
            return http(308, headers=[("location", "/messages/")])
        return legacy.posted(request, wire)

    server.handlers["GET"] = stream
    server.handlers.update(dict.fromkeys(PHASES, message))
    dcode.serve(raw=legacy.entry | {"headers": {"x-own": "v"}})
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("GET") == 6
    assert server.count("tools/call") == 1
    sent = server.of("initialize")
    for first, second in zip(sent[::2], sent[1::2], strict=True):
        assert (first.target, second.target) == ("/messages", "/messages/")
        assert first.body == second.body
        assert second.header("x-own") == b"v"
    for phase in ("notifications/initialized", "tools/list", "tools/call"):
        assert {request.target for request in server.of(phase)} == {"/messages/"}


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("phase", ["GET", "initialize", "notifications/initialized", "tools/list"])
def test_a_redirect_to_another_origin(dcode: Dcode, raw: Make, phase: str, status: int) -> None:
    other, server = raw(), raw()
    legacy = LegacyServer(server)
    server.handlers[phase] = http(status, headers=[("location", other.url)])
    dcode.serve(raw=legacy.entry | {"headers": {"authorization": "Bearer static-token"}})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert server.count(phase) == 1
    assert not other.connections


@pytest.mark.parametrize("phase", ["GET", "initialize"])
def test_a_redirect_loop(dcode: Dcode, raw: Make, phase: str) -> None:
    server = raw()
    legacy = LegacyServer(server)
    server.handlers[phase] = http(307, headers=[("location", "/mcp")])
    dcode.serve(raw=legacy.entry)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert 1 < server.count(phase) <= 10


# The verdict.


@pytest.mark.parametrize(
    "annotations",
    [
        '"annotations":{"readOnlyHint":1}',
        '"annotations":{"readOnlyHint":true,"destructiveHint":null}',
        '"annotations":{"readOnlyHint":false,"readOnlyHint":true}',
        '"annotations":{"readOnlyHint":true},"annotations":{"readOnlyHint":true}',
    ],
)
def test_hints_are_judged_as_strictly(dcode: Dcode, raw: Make, annotations: str) -> None:
    server = raw(tools=['{"name":"look","inputSchema":{"type":"object"},%s}' % annotations])
    dcode.serve(raw=LegacyServer(server).entry)
    dcode.run("raw_look").expect("tool_not_read_only")
    assert server.count("tools/call") == 0
    assert server.count("GET") == 1
