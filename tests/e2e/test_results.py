"""Answers to the one call: which code, how soon, and never a second call."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import (
    READ_ONLY_TOOL,
    RawServer,
    Request,
    Wire,
    answer,
    error_message,
    event,
    http,
    result_message,
)

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside
Handle = Callable[[Request, Wire], bytes | None]

TEXT = '{"type":"text","text":"t"}'
AUDIO = '{"type":"audio","data":"UklG","mimeType":"audio/wav"}'
WITH_SCHEMA = (
    '{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"},'
    '"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}'
)


def one_call(server: RawServer) -> None:
    """The server counted one call, on one connection."""
    assert server.count("tools/call") == 1


def body(text: str | bytes) -> Handle:
    """Answers with a JSON body in which `@` stands for the request's id."""
    raw = text.encode() if isinstance(text, str) else text
    return lambda request, wire: http(200, raw.replace(b"@", request.id_text.encode()))


MALFORMED_RESULTS = [
    "[]",
    "null",
    "5",
    '"x"',
    "{}",
    '{"content":null}',
    '{"content":{}}',
    '{"content":"x"}',
    '{"content":[5]}',
    '{"content":[null]}',
    '{"content":[{}]}',
    '{"content":[{"type":"hologram"}]}',
    '{"content":[{"type":5}]}',
    '{"content":[{"type":"text"}]}',
    '{"content":[{"type":"text","text":5}]}',
    '{"content":[{"type":"image","data":5,"mimeType":"image/png"}]}',
    '{"content":[{"type":"resource","resource":{"uri":"a:b"}}]}',
    '{"content":[%s,{"type":"hologram"}]}' % AUDIO,
    '{"content":[],"isError":"true"}',
    '{"content":[],"isError":1}',
    '{"content":[],"isError":null}',
    '{"content":[],"isError":"no"}',
    '{"content":[],"structuredContent":[]}',
    '{"content":[],"structuredContent":"x"}',
    '{"content":[],"structuredContent":5}',
    '{"content":[],"structuredContent":null}',
    '{"content":[],"structuredContent":{"a":1,"a":1}}',
    '{"content":[],"structuredContent":{"a":1,"\\u0061":1}}',
    '{"content":[],"structuredContent":{"a":NaN}}',
    '{"content":[],"structuredContent":{"a":Infinity}}',
    '{"content":[],"structuredContent":{"a":"\\ud800"}}',
    '{"content":[],"structuredContent":{"\\udc00":1}}',
    '{"content":[],"structuredContent":{"a":01}}',
    '{"content":[],"content":[]}',
    '{"content":[{"type":"text","text":"a","text":"b"}]}',
    '{"content":[{"type":"text","text":"\\ud800"}]}',
]


@pytest.mark.parametrize("result", MALFORMED_RESULTS)
def test_malformed_results(dcode: Dcode, raw: Make, result: str) -> None:
    server = raw(result=result)
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("malformed_result")
    run.prompt_after(server.sent_at["tools/call"])
    one_call(server)


MALFORMED_BODIES = {
    "empty": b"",
    "not json": b"hello",
    "half": b'{"jsonrpc":"2.0","id":@,"result":{"content":[',
    "trailing": b'{"jsonrpc":"2.0","id":@,"result":{"content":[]}} x',
    "two": b'{"jsonrpc":"2.0","id":@,"result":{"content":[]}}' * 2,
    "bom": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":@,"result":{"content":[]}}',
    "batch": b'[{"jsonrpc":"2.0","id":@,"result":{"content":[]}}]',
    "array": b"[]",
    "null": b"null",
    "wrong id": b'{"jsonrpc":"2.0","id":999,"result":{"content":[]}}',
    "null id": b'{"jsonrpc":"2.0","id":null,"result":{"content":[]}}',
    "no id": b'{"jsonrpc":"2.0","result":{"content":[]}}',
    "string id": b'{"jsonrpc":"2.0","id":"@","result":{"content":[]}}',
    "two ids": b'{"jsonrpc":"2.0","id":@,"id":@,"result":{"content":[]}}',
    "no version": b'{"id":@,"result":{"content":[]}}',
    "version 1": b'{"jsonrpc":"1.0","id":@,"result":{"content":[]}}',
    "version number": b'{"jsonrpc":2.0,"id":@,"result":{"content":[]}}',
    "neither": b'{"jsonrpc":"2.0","id":@}',
    "both": b'{"jsonrpc":"2.0","id":@,"result":{"content":[]},"error":{"code":1,"message":"m"}}',
    "error text": b'{"jsonrpc":"2.0","id":@,"error":"no"}',
    "error null": b'{"jsonrpc":"2.0","id":@,"error":null}',
    "deep": b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"_meta":{"a":'
    + b"[" * 200 + b"]" * 200 + b"}}}",
    "surrogate": b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"x":"\\udfff"}}',
    "invalid utf-8": b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"x":"\xff"}}',
    "overlong utf-8": b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"x":"\xc0\x80"}}',
    "utf-16": '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'.encode("utf-16"),
    "raw control": b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"x":"\x1f"}}',
    "nul byte": b'{"jsonrpc":"2.0","id":@,"result":{"content":[]}}\0',
    "request": b'{"jsonrpc":"2.0","id":@,"method":"ping"}',
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED_BODIES)
def test_malformed_answers_are_told_at_once(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw(handlers={"tools/call": body(MALFORMED_BODIES[name])})
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("malformed_result")
    run.prompt_after(server.sent_at["tools/call"])
    one_call(server)


@pytest.mark.parametrize(
    "result",
    [
        '{"content":[]}',
        '{"content":[{"type":"text","text":"the failure"}],"isError":false}',
    ],
)
def test_no_structured_content(dcode: Dcode, raw: Make, result: str) -> None:
    dcode.serve(raw=raw(result=result))
    assert "structured_content" not in dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ('{"content":[%s],"isError":true}' % TEXT, "tool_failed"),
        ('{"content":[],"isError":true}', "tool_failed"),
        ('{"content":[%s],"isError":true}' % AUDIO, "tool_failed"),
        ('{"content":[{"type":"hologram"}],"isError":true}', "tool_failed"),
        ('{"content":[%s]}' % AUDIO, "runtime_failure"),
        ('{"content":[%s,%s]}' % (TEXT, AUDIO), "runtime_failure"),
    ],
)
def test_tool_failures_and_audio(dcode: Dcode, raw: Make, result: str, code: str) -> None:
    server = raw(result=result)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect(code).prompt_after(server.sent_at["tools/call"])
    one_call(server)


@pytest.mark.parametrize("code", [-32000, -32601, -32602, -32603, -32800, 0, 401])
def test_a_json_rpc_error_is_the_tools_failure(dcode: Dcode, raw: Make, code: int) -> None:
    server = raw(
        handlers={
            "tools/call": lambda request, wire: http(200, error_message(request, code, "words"))
        }
    )
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_failed").prompt_after(server.sent_at["tools/call"])
    one_call(server)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ('{"content":[],"structuredContent":{"n":1}}', None),
        ('{"content":[],"structuredContent":{"n":"1"}}', "malformed_result"),
        ('{"content":[],"structuredContent":{}}', "malformed_result"),
        ('{"content":[]}', "malformed_result"),
        ('{"content":[],"isError":true}', "tool_failed"),
    ],
)
def test_output_schema(dcode: Dcode, raw: Make, result: str, code: str | None) -> None:
    server = raw(result=result, tools=[WITH_SCHEMA])
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    if code is None:
        run.expect_ok("raw_look")
    else:
        run.expect(code)
    one_call(server)
    assert server.count("tools/list") == 1


@pytest.mark.parametrize(
    "status", [204, 302, 307, 400, 401, 403, 404, 405, 408, 410, 413, 417, 425, 429, 500, 503]
)
def test_http_statuses_at_the_call(dcode: Dcode, raw: Make, status: int) -> None:
    headers = {
        302: [("location", "/mcp")],
        307: [("location", "/mcp")],
        401: [("www-authenticate", 'Bearer resource_metadata="https://127.0.0.1:1/meta"')],
        429: [("retry-after", "0")],
        503: [("retry-after", "0")],
    }.get(status, [])

    def handler(request: Request, wire: Wire) -> bytes:
        payload = b"" if status == 204 else result_message(request, '{"content":[]}')
        return http(status, payload, headers=headers, length=None if status == 204 else True)

    server = raw(handlers={"tools/call": handler}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("runtime_failure")
    run.prompt_after(server.sent_at["tools/call"])
    one_call(server)


def test_202_to_the_call(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"tools/call": http(202, content_type=None)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("runtime_failure").prompt_after(server.sent_at["tools/call"])
    one_call(server)


@pytest.mark.parametrize(
    "content_type",
    ["text/html", "text/plain", "application/octet-stream", "application/jsonx", "", None],
)
def test_content_types_at_the_call(dcode: Dcode, raw: Make, content_type: str | None) -> None:
    server = raw(handlers={"tools/call": answer('{"content":[]}', content_type=content_type)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("runtime_failure").prompt_after(server.sent_at["tools/call"])
    one_call(server)


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;a=b"]
)
def test_json_under_any_spelling(dcode: Dcode, raw: Make, content_type: str) -> None:
    server = raw(handlers={"tools/call": answer('{"content":[]}', content_type=content_type)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


def _reset(request: Request, wire: Wire) -> None:
    wire.reset()


def _close(request: Request, wire: Wire) -> None:
    wire.close()


def _finish(request: Request, wire: Wire) -> None:
    wire.finish()


def _head_only(request: Request, wire: Wire) -> None:
    wire.send(http(200, length=100))
    wire.close()


def _half_body(request: Request, wire: Wire) -> None:
    reply = http(200, result_message(request, '{"content":[]}'))
    wire.send(reply[:-3])
    wire.close()


def _half_body_reset(request: Request, wire: Wire) -> None:
    wire.send(http(200, result_message(request, '{"content":[]}'))[:-3])
    time.sleep(0.05)
    wire.reset()


def _half_head(request: Request, wire: Wire) -> None:
    wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: appl")
    wire.close()


def _half_chunk(request: Request, wire: Wire) -> None:
    wire.chunked_head(content_type="application/json")
    wire.chunk(result_message(request, '{"content":[]}'))
    wire.close()


def _bad_chunk(request: Request, wire: Wire) -> None:
    wire.chunked_head(content_type="application/json")
    wire.send(b"zz\r\n{}\r\n")


def _not_http(request: Request, wire: Wire) -> None:
    wire.send(b"SSH-2.0-OpenSSH_9.2\r\n")
    wire.finish()


def _http2_frames(request: Request, wire: Wire) -> None:
    wire.send(b"\0\0\6\4\0\0\0\0\0\0\3\0\0\0\x64")
    wire.finish()


def _half_sse(request: Request, wire: Wire) -> None:
    wire.chunked_head()
    wire.chunk(b"data: " + result_message(request, '{"content":[]}')[:-4])
    wire.close()


LOST = [_reset, _close, _finish, _head_only, _half_body, _half_body_reset, _half_head,
        _half_chunk, _bad_chunk, _not_http, _http2_frames, _half_sse]  # fmt: skip


@pytest.mark.parametrize("handler", LOST, ids=lambda handler: handler.__name__)
def test_a_lost_connection_is_told_at_once_and_not_repeated(
    dcode: Dcode, raw: Make, handler: Handle
) -> None:
    server = raw(handlers={"tools/call": handler}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("runtime_failure")
    run.prompt_after(server.sent_at["tools/call"])
    one_call(server)


def test_a_connection_that_dies_between_discovery_and_call(dcode: Dcode, raw: Make) -> None:
    """A reused connection may be dead: the call is sent once, on whichever lives."""

    def closing(request: Request, wire: Wire) -> None:
        wire.send(server.default(request, wire))
        wire.finish()

    server = raw(handlers={"tools/list": closing})
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    assert server.count("tools/call") <= 1
    if server.count("tools/call") == 1:
        run.expect_ok("raw_look")
    else:
        run.expect("runtime_failure")


def test_every_answer_may_close_its_connection(dcode: Dcode, raw: Make) -> None:
    def closing(request: Request, wire: Wire) -> None:
        reply = server.default(request, wire)
        wire.send(reply.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
        wire.finish()

    kinds = ("initialize", "notifications/initialized", "tools/list", "tools/call")
    server = raw()
    server.handlers.update(dict.fromkeys(kinds, closing))
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    one_call(server)


def test_the_answer_by_sse_and_then_a_close(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        wire.chunk(event(result_message(request, '{"content":[]}'), name="message"))
        wire.close()

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    one_call(server)


def test_a_body_that_ends_with_the_connection(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> None:
        wire.send(http(200, result_message(request, '{"content":[]}'), length=None))
        wire.finish()

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


def test_interim_answers_are_passed_over(dcode: Dcode, raw: Make) -> None:
    def handler(request: Request, wire: Wire) -> bytes:
        wire.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
        wire.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        return http(200, result_message(request, '{"content":[]}'))

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize("phase", ["initialize", "tools/list"])
@pytest.mark.parametrize(
    "broken",
    ["reset", "half", "not json", "wrong id", "html", "202", "neither", "deep", "stream ends"],
)
def test_prompt_failures_in_discovery(dcode: Dcode, raw: Make, phase: str, broken: str) -> None:
    deep = b'{"jsonrpc":"2.0","id":@,"result":' + b"[" * 200 + b"]" * 200 + b"}"
    handler: Handle | bytes = {
        "reset": _reset,
        "half": _half_body,
        "not json": http(200, b"hello"),
        "wrong id": body('{"jsonrpc":"2.0","id":999,"result":{"tools":[]}}'),
        "html": http(200, b"<html>", content_type="text/html"),
        "202": http(202, content_type=None),
        "neither": body('{"jsonrpc":"2.0","id":@}'),
        "deep": body(deep),
        "stream ends": http(200, b": nothing\n\n", content_type="text/event-stream"),
    }[broken]
    server = raw(handlers={phase: handler}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("tool_not_found")
    run.prompt_after(server.sent_at[phase])
    assert server.count("tools/call") == 0


LONG = "7" * 4301
GOOD_SCHEMA = '{"type":"object"}'
UNREADABLE = {
    "entry": ("tools/list", '{"name":"look","annotations":{"readOnlyHint":true},'
              '"inputSchema":%s,"x":[%s]}' % (GOOD_SCHEMA, LONG)),
    "schema": ("tools/list", '{"name":"look","annotations":{"readOnlyHint":true},'
               '"inputSchema":{"type":"object","maxProperties":%s}}' % LONG),
    "initialize": ("initialize", '{"protocolVersion":"2025-06-18","capabilities":{},'
                   '"serverInfo":{"name":"n","version":"1","x":%s}}' % LONG),
}  # fmt: skip


@pytest.mark.parametrize("where", UNREADABLE)
def test_a_number_that_the_models_cannot_read(dcode: Dcode, raw: Make, where: str) -> None:
    """The SDK would never answer its caller: the server's discovery fails at once."""
    phase, text = UNREADABLE[where]
    server = raw(tools=[text]) if phase == "tools/list" else raw(handlers={phase: answer(text)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").prompt_after(server.sent_at[phase])
    assert server.count("tools/call") == 0


def test_a_block_that_the_models_cannot_read(dcode: Dcode, raw: Make) -> None:
    server = raw(result='{"content":[{"type":"text","text":"a","x":%s}]}' % LONG)
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("malformed_result")
    run.prompt_after(server.sent_at["tools/call"])
    one_call(server)


def test_a_long_number_where_no_model_reads(dcode: Dcode, raw: Make) -> None:
    """Of a sibling, and of a structuredContent that no schema checks."""
    sibling = '{"name":"other","inputSchema":{"maximum":%s}}' % LONG
    result = '{"content":[],"structuredContent":{"n":%s},"_meta":{"n":%s}}' % (LONG, LONG)
    dcode.serve(raw=raw(tools=[sibling, READ_ONLY_TOOL], result=result))
    run = dcode.run("raw_look")
    assert run.exit_code == 0
    # `json.loads` does not read it either
    assert run.stdout.endswith(b'"structured_content":{"n":%s}}}\n' % LONG.encode())


@pytest.mark.parametrize(
    "result",
    [
        '{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"n","version":"1"}}',
        '{"capabilities":{},"serverInfo":{"name":"n","version":"1"}}',
        '{"protocolVersion":5,"capabilities":{},"serverInfo":{"name":"n","version":"1"}}',
        "{}",
        "[]",
    ],
)
def test_initialize_results_that_the_sdk_refuses(dcode: Dcode, raw: Make, result: str) -> None:
    server = raw(handlers={"initialize": answer(result)})
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("tool_not_found")
    run.prompt_after(server.sent_at["initialize"])


@pytest.mark.parametrize("broken", ["500", "error", "reset", "html"])
@pytest.mark.parametrize("phase", ["initialize", "notifications/initialized"])
def test_the_call_session_does_not_open(dcode: Dcode, raw: Make, phase: str, broken: str) -> None:
    """The call failed before it was sent.

    The second session that opens is refused. Both open at one time: where it is discovery's, the
    tool is not found.
    """
    server = raw(sessions=True)
    bad: Handle | bytes = {
        "500": http(500),
        "error": lambda request, wire: (
            http(200, error_message(request)) if "id" in request.message else http(400)
        ),
        "reset": _reset,
        "html": http(403, b"<html>", content_type="text/html"),
    }[broken]
    server.handlers[phase] = [server.default, bad]
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("runtime_failure", "tool_not_found")
    run.prompt_after(server.sent_at[phase])
    assert server.count("tools/call") == 0


BROKEN_FRAMING = {
    "two lengths": b"content-length: 5\r\ncontent-length: 7\r\n\r\n{}     ",
    "negative length": b"content-length: -1\r\n\r\n{}",
    "no number": b"content-length: many\r\n\r\n{}",
    "huge length": b"content-length: 99999999999999999999\r\n\r\n{}",
    "length below zero in hex": b"transfer-encoding: chunked\r\n\r\n-1\r\n{}\r\n",
    "huge chunk": b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n",
    "unknown coding": b"content-encoding: zip\r\ncontent-length: 2\r\n\r\n{}",
    "broken gzip": b"content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    "cut": b"content-encoding: gzip\r\ncontent-length: 10\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\3",
}


@pytest.mark.parametrize("name", BROKEN_FRAMING)
def test_broken_framing(dcode: Dcode, raw: Make, name: str) -> None:
    def handler(request: Request, wire: Wire) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        wire.send(head + BROKEN_FRAMING[name])
        wire.finish()

    server = raw(handlers={"tools/call": handler})
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("runtime_failure", "malformed_result", "result_too_large")
    run.prompt_after(server.sent_at["tools/call"])
    one_call(server)


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ('{"type":"image","data":"aGk="}', "malformed_result"),
        ('{"type":"audio","data":"aGk="}', "malformed_result"),
        ('{"type":"resource_link","name":"n","uri":"::"}', "malformed_result"),
        ('{"type":"resource_link","uri":"a:b"}', "malformed_result"),
        ('{"type":"resource","resource":{"uri":"a:b","blob":"aGk="}}', "runtime_failure"),
        ('{"type":"image","data":"","mimeType":"image/png"}', "runtime_failure"),
    ],
)
def test_blocks_at_the_edge_of_the_adapter(dcode: Dcode, raw: Make, block: str, code: str) -> None:
    server = raw(result='{"content":[%s]}' % block)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect(code)
    one_call(server)
