"""Every number of the bounds, one below it, at it and one above; and the memory they keep."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from servers.dcode import Dcode, Run

from deepagents_ro.qualify.lab.oracle import MAX_DOCUMENT_BYTES
from deepagents_ro.qualify.lab.raw_server import (
    READ_ONLY_TOOL,
    RawServer,
    Request,
    Wire,
    answer,
    event,
    http,
    result_message,
)

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside
THOROUGH = pytest.mark.thorough
KIB = 1024
MIB = 1024 * 1024
ANSWER = MIB
DISCOVERY = 8 * MIB
AROUND = pytest.mark.parametrize("over", [-1, 0, 1], ids=["below", "at", "above"])


def expect_within(dcode: Dcode, over: int, *codes: str) -> Run:
    """A run that succeeds up to a bound and is refused, with one of `codes`, above it."""
    run = dcode.run("raw_look")
    if over <= 0:
        run.expect_ok("raw_look")
    else:
        run.expect(*(codes or ("result_too_large",)))
    return run


def padded(message: bytes, size: int) -> bytes:
    """`message` with white space before its last brace, `size` bytes in all."""
    return message[:-1] + b" " * (size - len(message)) + message[-1:]


def chunked(payload: bytes, wire: Wire, content_type: str = "application/json") -> None:
    """Sends `payload` in chunks of 16 KiB."""
    wire.chunked_head(content_type=content_type)
    for start in range(0, len(payload), 16 * KIB):
        wire.chunk(payload[start : start + 16 * KIB])
    wire.end()


@AROUND
@pytest.mark.parametrize("form", ["length", "chunked", "sse"])
def test_the_calls_answer(dcode: Dcode, raw: Make, over: int, form: str) -> None:
    size = ANSWER + over

    def handler(request: Request, wire: Wire) -> bytes | None:
        message = result_message(request, '{"content":[]}')
        if form == "length":
            return http(200, padded(message, size))
        if form == "chunked":
            return chunked(padded(message, size), wire)
        payload = event(padded(message, size - len(event(b""))))
        assert len(payload) == size
        return http(200, payload, content_type="text/event-stream")

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    expect_within(dcode, over)
    assert server.count("tools/call") == 1


@AROUND
def test_a_stream_counts_what_it_passes_over(dcode: Dcode, raw: Make, over: int) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        last = event(result_message(request, '{"content":[]}'))
        return http(200, b":" * (ANSWER + over - len(last) - 1) + b"\n" + last,
                    content_type="text/event-stream")  # fmt: skip

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    expect_within(dcode, over)


@AROUND
def test_an_answer_counts_after_content_decoding(dcode: Dcode, raw: Make, over: int) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        payload = padded(result_message(request, '{"content":[]}'), ANSWER + over)
        if b"gzip" not in (request.header("accept-encoding") or b""):
            return http(200, payload)
        return http(200, gzip.compress(payload), headers=[("content-encoding", "gzip")])

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    expect_within(dcode, over)


@AROUND
@pytest.mark.parametrize("where", ["content", "structured"])
def test_the_envelope(dcode: Dcode, raw: Make, over: int, where: str) -> None:
    def result(size: int) -> str:
        if where == "content":
            return '{"content":[{"type":"text","text":"%s"}]}' % ("a" * size)
        return '{"content":[],"structuredContent":{"t":"%s"}}' % ("a" * size)

    data: dict[str, Any] = {"ok": True, "status": "ok", "tool": "raw_look"}
    if where == "content":
        data["content"] = [{"type": "text", "text": ""}]
    else:
        data.update(content=[], structured_content={"t": ""})
    envelope = {"schema_version": 1, "command": "tools call-read-only", "data": data}
    overhead = len(json.dumps(envelope, separators=(",", ":")))
    dcode.serve(raw=raw(result=result(MAX_DOCUMENT_BYTES - overhead + over)))
    run = expect_within(dcode, over)
    assert over > 0 or len(run.stdout) == MAX_DOCUMENT_BYTES + over + 1


def test_the_envelope_counts_escapes(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw(result='{"content":[{"type":"text","text":"%s"}]}' % ("\u00e9" * 30_000)))
    dcode.run("raw_look").expect("result_too_large")


@pytest.mark.parametrize(
    ("flavour", "code"),
    [("malformed", "result_too_large"), ("failed", "tool_failed"), ("audio", "result_too_large")],
)
def test_too_large_comes_first(dcode: Dcode, raw: Make, flavour: str, code: str) -> None:
    """Over the answer's bound nothing else is looked at; a failure has no envelope to fill."""
    big = "a" * (2 * MIB if flavour != "failed" else 200_000)
    result = {
        "malformed": '{"content":5,"pad":"%s"}',
        "failed": '{"content":[{"type":"text","text":"%s"}],"isError":true}',
        "audio": '{"content":[{"type":"audio","data":"%s","mimeType":"audio/wav"}]}',
    }[flavour] % big
    dcode.serve(raw=raw(result=result))
    dcode.run("raw_look").expect(code)


@AROUND
@pytest.mark.parametrize("phase", ["initialize", "tools/list"])
def test_a_discovery_answer(dcode: Dcode, raw: Make, over: int, phase: str) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        _, _, message = server.default(request, wire).partition(b"\r\n\r\n")
        return http(200, padded(message, DISCOVERY + over))

    server = raw()
    server.handlers[phase] = [handler, server.default]
    dcode.serve(raw=server)
    expect_within(dcode, over, "tool_not_found")
    assert server.count("tools/call") == (1 if over <= 0 else 0)


def paged(count: int, size: int = 0, repeat: int | None = None) -> Callable[..., bytes]:
    """A list of `count` pages of `size` bytes whose last one has the tool.

    Page `repeat` answers with the cursor that led to it.
    """

    def handler(request: Request, wire: Wire) -> bytes:
        cursor = (request.message.get("params") or {}).get("cursor", "0")
        index = int(cursor)
        following = index if index == repeat else index + 1
        result = (
            '{"tools":[%s]}' % READ_ONLY_TOOL
            if index == count - 1
            else '{"tools":[],"nextCursor":"%d"}' % following
        )
        message = result_message(request, result)
        return http(200, padded(message, max(size, len(message))))

    return handler


@pytest.mark.parametrize(("count", "found"), [(63, True), (64, True), (65, False)])
def test_pages(dcode: Dcode, raw: Make, count: int, found: bool) -> None:
    server = raw(handlers={"tools/list": paged(count)})
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    if found:
        run.expect_ok("raw_look")
        assert server.count("tools/list") == count
    else:
        run.expect("tool_not_found")
        assert server.count("tools/list") <= 64


@pytest.mark.parametrize("repeat", [1, 3])
def test_a_repeated_cursor(dcode: Dcode, raw: Make, repeat: int) -> None:
    server = raw(handlers={"tools/list": paged(10, repeat=repeat)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert server.count("tools/list") <= repeat + 2


def test_an_empty_cursor_ends_the_list(dcode: Dcode, raw: Make) -> None:
    handler = answer('{"tools":[%s],"nextCursor":""}' % READ_ONLY_TOOL)
    server = raw(handlers={"tools/list": handler})
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    assert server.count("tools/list") <= 2
    if server.count("tools/list") == 1:
        run.expect_ok("raw_look")
    else:
        run.expect("ambiguous_tool")


@pytest.mark.parametrize(("count", "found"), [(3, True), (5, False)])
def test_bytes_in_all(dcode: Dcode, raw: Make, count: int, found: bool) -> None:
    server = raw(handlers={"tools/list": paged(count, size=DISCOVERY - 1)})
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    if found:
        run.expect_ok("raw_look")
    else:
        run.expect("tool_not_found")
        assert server.count("tools/call") == 0


@AROUND
@pytest.mark.parametrize("phase", ["tools/list", "tools/call"])
def test_response_headers(dcode: Dcode, raw: Make, over: int, phase: str) -> None:
    """All header bytes of the answer: status line, fields and the blank line."""

    def handler(request: Request, wire: Wire) -> bytes:
        head, _, payload = server.default(request, wire).partition(b"\r\n\r\n")
        missing = 256 * KIB + over - len(head) - 4
        line = b"\r\nx-pad: "
        while missing > 0:
            size = min(missing, 8 * KIB)
            if missing - size < len(line) + 1 and missing != size:
                size -= len(line) + 1
            head += line + b"p" * (size - len(line))
            missing -= size
        assert len(head) + 4 == 256 * KIB + over
        return head + b"\r\n\r\n" + payload

    server = raw()
    server.handlers[phase] = handler
    dcode.serve(raw=server)
    code = "tool_not_found" if phase == "tools/list" else "runtime_failure"
    expect_within(dcode, over, code, "result_too_large")


@pytest.mark.parametrize("phase", ["initialize", "tools/call"])
def test_endless_headers(dcode: Dcode, raw: Make, phase: str) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
        wire.endless(b"x-more: " + b"m" * 1000 + b"\r\n", limit=64 * MIB)

    server = raw(handlers={phase: handler})
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect("tool_not_found" if phase == "initialize" else "runtime_failure",
               "result_too_large").before_the_deadline()  # fmt: skip


def test_endless_interim_answers(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.endless(b"HTTP/1.1 103 Early Hints\r\nx: " + b"y" * 1000 + b"\r\n\r\n", limit=64 * MIB)

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("runtime_failure", "result_too_large").before_the_deadline()


@AROUND
def test_a_configured_header_value(dcode: Dcode, raw: Make, over: int) -> None:
    server = raw()
    value = "v" * (16 * KIB + over)
    dcode.serve(raw={"url": server.url, "headers": {"x-long": value}})
    expect_within(dcode, over, "tool_not_found")
    if over <= 0:
        assert server.of("tools/call")[0].header("x-long") == value.encode()
    else:
        assert set(server.labels()) <= {"HEAD"}


def nested(levels: int) -> str:
    """`levels` containers inside each other."""
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("depth", [63, 64, 65])
@pytest.mark.parametrize("where", ["structuredContent", "_meta"])
def test_depth_of_the_answer(dcode: Dcode, raw: Make, depth: int, where: str) -> None:
    # the message is 1, the result 2, the member 3
    result = '{"content":[],"%s":{"a":%s}}' % (where, nested(depth - 3))
    dcode.serve(raw=raw(result=result))
    run = dcode.run("raw_look")
    if depth <= 64:
        run.expect_ok("raw_look")
    else:
        run.expect("malformed_result")


@pytest.mark.parametrize("depth", [63, 64, 65])
@pytest.mark.parametrize("whose", ["own", "sibling"])
def test_depth_of_a_list_entry(dcode: Dcode, raw: Make, depth: int, whose: str) -> None:
    # the entry is 1, its schema 2
    deep = (
        '{"name":"%s","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","x":%s}}'
        % ("look" if whose == "own" else "other", nested(depth - 2))
    )
    tools = [deep] if whose == "own" else [deep, READ_ONLY_TOOL]
    dcode.serve(raw=raw(tools=tools))
    run = dcode.run("raw_look")
    if depth <= 64:
        run.expect_ok("raw_look")
    else:
        run.expect("tool_not_found")


def _big_body(request: Request, wire: Wire) -> None:
    wire.send(http(200, length=200 * MIB))
    wire.endless(b" " * (256 * KIB), limit=200 * MIB)


def _endless_body(request: Request, wire: Wire) -> None:
    wire.chunked_head(content_type="application/json")
    wire.endless(b"40000\r\n" + b" " * (256 * KIB) + b"\r\n", limit=512 * MIB)


def _endless_line(request: Request, wire: Wire) -> None:
    wire.chunked_head()
    wire.endless(b"40000\r\n" + b"d" * (256 * KIB) + b"\r\n", limit=512 * MIB)


def _bomb(request: Request, wire: Wire) -> None:
    payload = gzip.compress(b" " * (64 * MIB), compresslevel=1)
    wire.send(http(200, payload, headers=[("content-encoding", "gzip")]))


@pytest.mark.parametrize(
    ("phase", "code", "handlers"),
    [
        ("tools/call", "result_too_large", [_endless_body, _bomb]),
        pytest.param("tools/call", "result_too_large", [_big_body, _endless_line], marks=THOROUGH),
        ("tools/list", "tool_not_found", [_endless_line]),
        pytest.param(
            "tools/list", "tool_not_found", [_big_body, _endless_body, _bomb], marks=THOROUGH
        ),
    ],
    ids=["call", "call, others", "list", "list, others"],
)
def test_memory_over_a_bound(
    dcode: Dcode, raw: Make, phase: str, code: str, handlers: list[Callable[[Request, Wire], None]]
) -> None:
    """Within 16 MiB of the same command's small call."""
    dcode.serve(raw=raw())
    small = dcode.run("raw_look", measure=True)
    small.expect_ok("raw_look")
    assert small.peak is not None
    for handler in handlers:
        dcode.serve(raw=raw(handlers={phase: handler}))
        run = dcode.run("raw_look", measure=True).expect(code)
        assert run.peak is not None
        assert run.peak - small.peak <= 16 * KIB, (handler.__name__, run.peak)
        run.before_the_deadline()


@pytest.mark.thorough
def test_memory_of_an_endless_list(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw())
    small = dcode.run("raw_look", measure=True)
    assert small.peak is not None

    def endless(request: Request, wire: Wire) -> None:
        wire.chunked_head(content_type="application/json")
        wire.chunk(b'{"jsonrpc":"2.0","id":%s,"result":{"tools":[' % request.id_text.encode())
        piece = READ_ONLY_TOOL.replace("look", "other").encode() + b","
        wire.endless(b"%x\r\n%s\r\n" % (len(piece) * 500, piece * 500), limit=256 * MIB)

    dcode.serve(raw=raw(handlers={"tools/list": endless}))
    run = dcode.run("raw_look", measure=True).expect("tool_not_found")
    assert run.peak is not None
    assert run.peak - small.peak <= 16 * KIB


@pytest.mark.thorough
def test_memory_of_what_is_legal(dcode: Dcode, raw: Make) -> None:
    """Within 40 MiB: three full pages of tools and a full answer."""
    dcode.serve(raw=raw())
    small = dcode.run("raw_look", measure=True)
    assert small.peak is not None

    def crowded(request: Request, wire: Wire) -> bytes:
        cursor = int((request.message.get("params") or {}).get("cursor", "0"))
        entry = READ_ONLY_TOOL.replace("look", f"other{cursor}")
        listed = ",".join([entry] * ((DISCOVERY - 1000) // (len(entry) + 1)))
        if cursor == 2:
            return http(200, result_message(request, '{"tools":[%s]}' % READ_ONLY_TOOL))
        tail = ',"nextCursor":"%d"' % (cursor + 1)
        return http(200, result_message(request, '{"tools":[%s]%s}' % (listed, tail)))

    def full(request: Request, wire: Wire) -> bytes:
        blocks = '{"a":[],"b":0},' * 60_000
        message = result_message(request, '{"content":[],"_meta":{"x":[%s{}]}}' % blocks)
        return http(200, message)

    server = raw(handlers={"tools/list": crowded, "tools/call": full})
    dcode.serve(raw=server)
    run = dcode.run("raw_look", measure=True)
    run.expect_ok("raw_look")
    assert run.peak is not None
    assert run.peak - small.peak <= 40 * KIB


ENTRY = '{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{%s}%s}'
MANY_KEYS = ",".join(f'"k{number}":{number}' for number in range(400_000))
MANY_PROPERTIES = ",".join('"p%d":{"type":"string"}' % number for number in range(50_000))
BULKY: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "a tool's entry": ("ok", lambda: {"tools": [ENTRY % ("", "," + MANY_KEYS)]}),
    "initialize": (
        "ok",
        lambda: {
            "handlers": {
                "initialize": answer(
                    '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":'
                    '{"name":"n","version":"1"},%s}' % MANY_KEYS
                )
            }
        },
    ),
    "a schema": ("ok", lambda: {"tools": [ENTRY % ('"properties":{%s}' % MANY_PROPERTIES, "")]}),
    "an output schema": (
        "tool_not_found",
        lambda: {"tools": [ENTRY % ("", ',"outputSchema":{%s}' % MANY_PROPERTIES)]},
    ),
    "empty blocks": (
        "result_too_large",
        lambda: {"result": '{"content":[%s]}' % ",".join(['{"type":"text","text":""}'] * 38_000)},
    ),
    "_meta": (
        "ok",
        lambda: {
            "result": '{"content":[{"type":"text","text":"a","_meta":{%s}}],"_meta":{%s}}'
            % (MANY_KEYS[:450_000].rpartition(",")[0], MANY_KEYS[:450_000].rpartition(",")[0])
        },
    ),
}


@pytest.mark.thorough
def test_memory_of_what_is_bulky(dcode: Dcode, raw: Make) -> None:
    """Within 40 MiB: many values, legal or refused before a model sees them."""
    dcode.serve(raw=raw())
    small = dcode.run("raw_look", measure=True)
    assert small.peak is not None
    for name, (code, make) in BULKY.items():
        dcode.serve(raw=raw(**make()))
        run = dcode.run("raw_look", measure=True)
        if code == "ok":
            run.expect_ok("raw_look")
        else:
            run.expect(code)
        assert run.peak is not None
        assert run.peak - small.peak <= 40 * KIB, (name, run.peak)
