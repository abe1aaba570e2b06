"""Event streams: what is passed over, what decides, and how often one is resumed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from servers.dcode import Dcode

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
RESULT = '{"content":[{"type":"text","text":"seen"}]}'
SSE = "text/event-stream"


def stream(*parts: bytes | str) -> Callable[[Request, Wire], bytes]:
    """Answers with these bytes as one stream; "@" alone is the good answer's event."""

    def handler(request: Request, wire: Wire) -> bytes:
        good = event(result_message(request, RESULT))
        raw = b"".join(good if part == "@" else part for part in parts)  # type: ignore[misc]
        return http(200, raw, content_type=SSE)

    return handler


def note(method: str, params: str = "{}") -> bytes:
    return event(f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}')


PASSED_OVER = {
    "nothing": b"",
    "comments": b": hello\n:\n:\n\n: more\n\n",
    "named message": b"event: message\n",
    "unknown event": b"event: weather\ndata: not json at all\n\n",
    "unknown field": b"colour: blue\nid\nretry: soon\n",
    "priming": b"id: 1\ndata:\n\n",
    "empty event": b"\n\n\n",
    "empty data": b"data\n\n",
    "bom": b"\xef\xbb\xbf",
    "progress": note("notifications/progress", '{"progressToken":1,"progress":1}') * 50,
    "log message": note("notifications/message", '{"level":"info","data":{"a":[]}}'),
    "list changed": note("notifications/tools/list_changed"),
    "unknown notification": note("notifications/unheard/of"),
    "carriage returns": b": c\r\r\n: d\r\n",
    "heartbeats": event('{"type":"heartbeat"}') * 8 + b"data: hello\n\ndata: []\n\n",
    "bom of an event": b"data: \xef\xbb\xbf{}\n\n",
}


@pytest.mark.parametrize("name", PASSED_OVER)
def test_passed_over(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw(handlers={"tools/call": stream(PASSED_OVER[name], "@")})
    dcode.serve(raw=server)
    data = dcode.run("raw_look").expect_ok("raw_look")
    assert data["content"] == [{"type": "text", "text": "seen"}]
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("space", [b" ", b""], ids=["space", "no space"])
def test_line_endings(dcode: Dcode, raw: Make, ending: bytes, space: bytes) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        data = b"data:" + space + result_message(request, RESULT)
        return http(200, ending.join((b"event: message", data, b"", b"")), content_type=SSE)

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


def test_one_byte_at_a_time(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        for byte in b": c\n" + event(result_message(request, RESULT), id="7"):
            wire.chunk(bytes([byte]))
        wire.end()

    def dripped(request: Request, wire: Wire) -> None:
        wire.drip(server.default(request, wire), 0.0)

    server = raw(handlers={"tools/call": handler, "tools/list": dripped, "initialize": dripped})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize(
    "decides",
    [
        b'data: {"jsonrpc":"2.0","id":999,"result":{"content":[]}}\n\n',
        b'data: {"jsonrpc":"2.0","id":null,"result":{"content":[]}}\n\n',
        b'data: {"jsonrpc":"2.0","id":@,"result":{"content":[NaN]}}\n\n',
    ],
    ids=repr,
)
def test_what_comes_first_decides(dcode: Dcode, raw: Make, decides: bytes) -> None:
    """What each message is by itself is a table of tests/c/messages.h."""

    def handler(request: Request, wire: Wire) -> bytes:
        first = decides.replace(b"@", request.id_text.encode())
        return stream(b": c\n\n", first, "@")(request, wire)

    server = raw(handlers={"tools/call": handler}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("malformed_result")
    run.prompt_after(server.sent_at["tools/call"])
    assert server.count("tools/call") == 1


def test_an_id_of_another_type_is_wrong(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        wrong = result_message(request, RESULT).replace(
            b'"id":' + request.id_text.encode(), b'"id":"' + request.id_text.encode() + b'"'
        )
        return http(200, event(wrong) + event(result_message(request, RESULT)), content_type=SSE)

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("malformed_result")


def test_nothing_but_junk_ends_at_the_bound(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        wire.chunk(event('{"type":"heartbeat"}') * 65)
        wire.stall(20)

    server = raw(handlers={"tools/call": handler}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("runtime_failure")
    run.prompt_after(server.sent_at["tools/call"])


def test_what_follows_the_answer_does_not_matter(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        wire.chunk(event(result_message(request, RESULT)) + b"data: hello\n\n")
        wire.stall(20)

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    run.prompt_after(server.sent_at["tools/call"])


def test_the_open_stream_after_the_answer_is_not_waited_for(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        wire.chunk(event(result_message(request, RESULT)))
        while True:
            wire.chunk(b": still here\n\n")
            wire.sleep(0.05)

    server = raw(handlers={"tools/call": handler}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect_ok("raw_look").get("content")
    assert run.exited_at - server.of("tools/call")[0].at < 1.75


@pytest.mark.parametrize(
    ("method", "answered"),
    [
        ("ping", "result"),
        ("sampling/createMessage", "error"),
        ("roots/list", "error"),
        ("elicitation/create", "error"),
        ("no/such/method", "error"),
    ],
)
def test_requests_of_the_server(dcode: Dcode, raw: Make, method: str, answered: str) -> None:
    """`ping` is answered, the rest declined; the answer is waited for by the server."""
    params = {
        "sampling/createMessage": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "q"}}],
            "maxTokens": 5,
        },
        "elicitation/create": {
            "message": "m",
            "requestedSchema": {"type": "object", "properties": {}},
        },
    }.get(method, {})

    def handler(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        asked = {"jsonrpc": "2.0", "id": "from-server", "method": method, "params": params}
        wire.chunk(event(json.dumps(asked)))
        assert server.wait_for("response", 1, 5), "the server's request was not answered"
        wire.chunk(event(result_message(request, RESULT)))
        wire.end()

    server = raw(handlers={"tools/call": handler}, sessions=True)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    (reply,) = server.of("response")
    assert reply.message["id"] == "from-server"
    assert answered in reply.message
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("phase", ["initialize", "tools/list"])
def test_discovery_by_stream(dcode: Dcode, raw: Make, phase: str) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        _, _, payload = server.default(request, wire).partition(b"\r\n\r\n")
        events = b": c\n\n" + note("notifications/message", '{"level":"info","data":1}')
        return http(200, events + event(payload), content_type=SSE)

    server = raw(handlers={phase: handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


def test_an_end_without_answer_is_told_at_once(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"tools/call": stream(b": c\n\n", note("notifications/x"))})
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("runtime_failure")
    run.prompt_after(server.sent_at["tools/call"])
    assert server.count("GET") == 0
    assert server.count("tools/call") == 1


def test_an_unfinished_event_at_the_end_is_no_answer(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        return http(200, b"data: " + result_message(request, RESULT) + b"\n", content_type=SSE)

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("runtime_failure")


@pytest.mark.parametrize("answer_at", [1, 2, 3], ids=["first", "second", "never"])
def test_resumption(dcode: Dcode, raw: Make, answer_at: int) -> None:
    """At most two resumptions, each with the last event id; the call is not sent again."""
    calls: list[Request] = []

    def call(request: Request, wire: Wire) -> bytes:
        calls.append(request)
        return http(200, b"id: event-1\nretry: 10\ndata:\n\n", content_type=SSE)

    resumed = 0

    def get(request: Request, wire: Wire) -> bytes:
        nonlocal resumed
        if request.header("last-event-id") is None:
            return http(405, content_type=None)
        resumed += 1
        if resumed == answer_at:
            return http(200, event(result_message(calls[0], RESULT)), content_type=SSE)
        return http(200, event(None, id=f"event-{resumed + 1}") + b": c\n\n", content_type=SSE)

    server = raw(handlers={"tools/call": call, "GET": get}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    resumptions = [
        request.header("last-event-id")
        for request in server.of("GET")
        if request.header("last-event-id") is not None
    ]
    if answer_at <= 2:
        run.expect_ok("raw_look")
        assert len(resumptions) == answer_at
    else:
        run.expect("runtime_failure")
        assert len(resumptions) == 2
    assert resumptions[0] == b"event-1"
    assert server.count("tools/call") == 1


def test_a_retry_storm_is_damped(dcode: Dcode, raw: Make) -> None:
    """`retry: 0` with an event id in every stream: few GETs, and an end."""

    def storm(request: Request, wire: Wire) -> bytes:
        return http(200, b"retry: 0\nid: 1\ndata:\n\n", content_type=SSE)

    server = raw(handlers={"tools/call": storm, "GET": storm}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look", deadline_ms=6000).expect("runtime_failure", "timeout")
    gets = [request.at for request in server.of("GET")]
    assert len(gets) <= 20
    for first, fourth in zip(gets, gets[3:], strict=False):
        assert fourth - first >= 0.9, "more than 3 GETs a second"
    assert server.count("tools/call") == 1
    run.before_the_deadline()


def test_a_storm_on_the_session_stream_while_the_call_waits(dcode: Dcode, raw: Make) -> None:
    def slow(request: Request, wire: Wire) -> bytes:
        wire.sleep(3.0)
        return http(200, result_message(request, RESULT))

    server = raw(
        handlers={
            "tools/call": slow,
            "GET": http(200, b"retry: 0\n\n", content_type=SSE),
        },
        sessions=True,
    )
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    gets = [request.at for request in server.of("GET")]
    for first, fourth in zip(gets, gets[3:], strict=False):
        assert fourth - first >= 0.9, "more than 3 GETs a second"


def test_the_session_stream_opens_only_for_a_slow_call(dcode: Dcode, raw: Make) -> None:
    def slow(request: Request, wire: Wire) -> bytes:
        wire.sleep(1.8)
        return http(200, result_message(request, RESULT))

    server = raw(handlers={"tools/call": slow}, sessions=True)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    call = server.of("tools/call")[0]
    gets = server.of("GET")
    assert len(gets) == 1
    assert gets[0].at - call.at >= 0.9
    assert gets[0].header("mcp-session-id") == call.header("mcp-session-id")


def test_a_refused_notification_is_waited_for(dcode: Dcode, raw: Make) -> None:
    """Nothing of its session overtakes `notifications/initialized`."""

    def slow(request: Request, wire: Wire) -> bytes:
        wire.sleep(0.4)
        answered.append((request, list(server.requests)))
        return http(202, content_type=None)

    answered: list[tuple[Request, list[Request]]] = []
    server = raw(handlers={"notifications/initialized": slow}, sessions=True)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    for request, seen in answered:
        session = request.header("mcp-session-id")
        of_session = [each for each in seen if each.header("mcp-session-id") == session]
        assert session is not None
        assert of_session == [request], "a request overtook the notification"
    assert len(answered) == 2
