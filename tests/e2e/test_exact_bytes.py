"""Token for token, both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import RawServer, event, http, result_message

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside

PICKY_SCHEMA = (
    '{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object",'
    '"properties":{"empty":{"type":"string"},"n":{"type":"integer","default":7},'
    '"config":{"type":"object"},"list":{"type":"array","items":{"type":"string"}}},'
    '"additionalProperties":true}}'
)


def arguments_of(body: bytes) -> bytes:
    """The raw text of `params.arguments` in a request's body.

    The tests' objects hold no brace inside a string.
    """
    mark = b'"arguments":'
    start = body.index(mark) + len(mark)
    start += len(body[start:]) - len(body[start:].lstrip())
    level = 0
    for position in range(start, len(body)):
        level += (body[position : position + 1] == b"{") - (body[position : position + 1] == b"}")
        if level == 0:
            return body[start : position + 1]
    raise AssertionError(body)


def squeezed(text: bytes) -> bytes:
    """JSON text without the white space between tokens."""
    out, inside, escaped = bytearray(), False, False
    for byte in text:
        if not inside and byte in b" \t\r\n":
            continue
        out.append(byte)
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = False
        elif byte == 0x22:
            inside = True
    return bytes(out)


ARGUMENTS = [
    b"{}",
    b'{"n":1.10}',
    b'{"n":1E400,"m":-0.0,"o":-0,"p":1e-999}',
    b'{"n":12345678901234567890123,"f":0.1000000000000000055511151231257827}',
    b'{"empty":"","s":""}',
    b'{"n":null,"empty":null,"config":null}',
    b'{"config":{"a":1},"run_manager":1,"runtime":"r","self":[],"cls":0,"kwargs":{},"args":[]}',
    b'{"callbacks":1,"tags":["x"],"metadata":{"k":"v"},"run_id":"r","name":"n","type":"t"}',
    b'{"z":1,"a":2,"\\u0061b":3,"B":{"y":1,"x":2}}',
    b'{"u":"\\u00e9","raw":"\xc3\xa9","pair":"\\ud83d\\ude00","bs":"\\/","nul":"\\u0000"}',
    b'{"list":[1,"two",[],{},true,false,null],"n":"7"}',
    b'{"task_id":"worker.1","nested":{"":{"":""}}}',
    b'{"big":' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("stdin", ARGUMENTS, ids=lambda value: value.decode()[:30])
def test_arguments_reach_the_server_as_sent(dcode: Dcode, raw: Make, stdin: bytes) -> None:
    server = raw(tools=[PICKY_SCHEMA])
    dcode.serve(raw=server)
    dcode.run("raw_look", stdin=stdin).expect_ok("raw_look")
    (call,) = server.of("tools/call")
    assert squeezed(arguments_of(call.body)) == squeezed(stdin)
    assert call.message["params"]["name"] == "look"
    assert call.message["jsonrpc"] == "2.0"
    assert call.header("content-length") == b"%d" % len(call.body)
    assert call.header("content-type") == b"application/json"
    accepted = call.header("accept") or b""
    assert b"application/json" in accepted
    assert b"text/event-stream" in accepted


def test_white_space_around_tokens_changes_no_token(dcode: Dcode, raw: Make) -> None:
    server = raw(tools=[PICKY_SCHEMA])
    dcode.serve(raw=server)
    stdin = b' \n{ "a b" :\t[ 1.0 , "c  d" ]\r\n} '
    dcode.run("raw_look", stdin=stdin).expect_ok("raw_look")
    (call,) = server.of("tools/call")
    assert squeezed(arguments_of(call.body)) == b'{"a b":[1.0,"c  d"]}'


STRUCTURED = [
    b"{}",
    b'{"n":1.10,"e":1e2,"E":1E400,"z":-0.0,"big":12345678901234567890123}',
    b'{"nul":"\\u0000","esc":"\\u0041\\/\\"","raw":"\xc3\xa9\xf0\x9f\x98\x80\xe2\x80\xa8","pair":"\\ud83d\\ude00"}',
    b'{"lower":"\\u00e9","upper":"\\u00E9","del":"\x7f"}',
    b'{"b":1,"a":2,"":3,"__proto__":{},"\\u0061x":null}',
    b' { "s p" : [ 1 ,\t2\r\n, " in  side " ] } ',
    b'{"result":[[],{},[{}],true,false,null]}',
    b'{"qualification":{"output_attestation":"Bearer 0123456789abcdefghij.0123456789"}}',
]


@pytest.mark.parametrize("sse", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("structured", STRUCTURED, ids=lambda value: repr(value)[2:32])
def test_structured_content_is_handed_on_as_sent(
    dcode: Dcode, raw: Make, structured: bytes, sse: bool
) -> None:
    result = b'{"content":[],"structuredContent":%s}' % structured
    server = raw(result=result)
    if sse:
        server.handlers["tools/call"] = lambda request, wire: http(
            200,
            event(result_message(request, result.replace(b"\r", b"").replace(b"\n", b""))),
            content_type="text/event-stream",
        )
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    assert run.structured() == squeezed(structured)
    assert run.expect_ok("raw_look")["content"] == []


def test_data_lines_of_one_event_are_joined(dcode: Dcode, raw: Make) -> None:
    result = b'{"content":[],\n"structuredContent":{"a":\n1.50}}'
    server = raw()
    server.handlers["tools/call"] = lambda request, wire: http(
        200, event(result_message(request, result)), content_type="text/event-stream"
    )
    dcode.serve(raw=server)
    assert dcode.run("raw_look").structured() == b'{"a":1.50}'


def test_members_that_are_not_ours_do_not_matter(dcode: Dcode, raw: Make) -> None:
    result = (
        b'{"_meta":{"x":1},"other":[{}],"content":[{"type":"text","text":"a","annotations":'
        b'{"audience":["user"]},"_meta":{"k":1},"extra":2}],"isError":false}'
    )
    dcode.serve(raw=raw(result=result))
    data = dcode.run("raw_look").expect_ok("raw_look")
    assert data["content"] == [{"type": "text", "text": "a"}]
    assert "structured_content" not in data


def test_text_content_survives(dcode: Dcode, raw: Make) -> None:
    result = (
        b'{"content":[{"type":"text","text":"\\u0000\\u001f\\u007f\\ud83d\\ude00\xc3\xa9\\/"},'
        b'{"type":"text","text":""}]}'
    )
    dcode.serve(raw=raw(result=result))
    run = dcode.run("raw_look")
    assert run.expect_ok("raw_look")["content"] == [
        {"type": "text", "text": "\0\x1f\x7f\U0001f600\u00e9/"},
        {"type": "text", "text": ""},
    ]
