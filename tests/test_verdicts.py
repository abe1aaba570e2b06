"""Envelopes, results and tool lists through the extension's Python functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from budget import examples
from hypothesis import given
from hypothesis import strategies as st

from deepagents_ro._mcpro import (
    JSONError,
    envelope_error,
    envelope_exit,
    envelope_ok,
    hand_up,
    reduce_tool_list,
    rpc_failure,
)

MAX_STDOUT = 131072

# ---- envelopes ----


def test_unknown_codes() -> None:
    assert envelope_exit("ok") == 0
    with pytest.raises(ValueError, match="unknown"):
        envelope_error("ok")
    for function in (envelope_error, envelope_exit):
        with pytest.raises(ValueError, match="unknown"):
            function("Timeout")
        with pytest.raises(TypeError):
            function(b"timeout")  # type: ignore[arg-type]


def test_success_document() -> None:
    assert envelope_ok(
        "s_t", b'[ {"type" : "text"} ]', b'{ "a" : [ 1.10 , "\xc3\xa4\\u0000" ] }'
    ) == (
        b'{"schema_version":1,"command":"tools call-read-only","data":{"ok":true,"status":"ok",'
        b'"tool":"s_t","content":[{"type":"text"}],'
        b'"structured_content":{"a":[1.10,"\xc3\xa4\\u0000"]}}}'
    )
    assert envelope_ok("s_t", b"[]", None) == (
        b'{"schema_version":1,"command":"tools call-read-only","data":{"ok":true,"status":"ok",'
        b'"tool":"s_t","content":[]}}'
    )


def test_success_document_is_bounded() -> None:
    rest = len(envelope_ok("s_t", b'[""]', b"{}"))
    fits = b'["' + b"x" * (MAX_STDOUT - rest) + b'"]'
    assert len(envelope_ok("s_t", fits, b"{}")) == MAX_STDOUT
    with pytest.raises(ValueError, match="too large"):
        envelope_ok("s_t", fits[:-2] + b'x"]', b"{}")
    with pytest.raises(ValueError, match="too large"):
        envelope_ok("s_t", fits, b'{"":0}')
    assert len(envelope_ok("s_t", fits, b" { } ")) == MAX_STDOUT


@pytest.mark.parametrize(
    ("content", "structured"),
    [
        (b"{}", None),
        (b"", None),
        (b"[NaN]", None),
        (b"[]", b"[]"),
        (b"[]", b"null"),
        (b"[]", b""),
        (b"[]", b'{"a":1,"a":2}'),
        (b"[]", b'{"a":"\xff"}'),
    ],
)
def test_success_document_of_other_bytes(content: bytes, structured: bytes | None) -> None:
    with pytest.raises(JSONError):
        envelope_ok("s_t", content, structured)


def test_content_becomes_ascii() -> None:
    content = ["ä\x7f€😀\n", {"ß": None}]
    text = json.dumps(content, ensure_ascii=False)
    found = envelope_ok("s_t", text.encode(), text.encode().replace(b"[", b'{"":[', 1) + b"}")
    assert b'"content":["\\u00e4\x7f\\u20ac\\ud83d\\ude00\\n",{"\\u00df":null}],' in found
    assert '"structured_content":{"":["ä\x7f€😀\\n",{"ß":null}]}}'.encode() in found


# ---- results ----


def answer(result: str, request_id: str = "7") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{request_id},"result":{result}}}'.encode()


def test_result_depth_counts_from_the_message() -> None:
    def nested(levels: int) -> bytes:
        return answer(
            '{"content":[],"structuredContent":{"a":' + "[" * levels + "]" * levels + "}}"
        )

    assert hand_up(nested(61), 7, call=True)
    with pytest.raises(JSONError, match="deeper"):
        hand_up(nested(62), 7, call=True)


@pytest.mark.parametrize("identity", ["7", '"a\\u0064"', '""', "-1"])
def test_the_error_of_a_request_that_failed_here(identity: str) -> None:
    request = '{ "jsonrpc": "2.0", "id": %s }' % identity
    error = '{"code":-32603,"message":"The request failed."}'
    answer = '{"jsonrpc":"2.0","id":%s,"error":%s}' % (identity, error)
    assert rpc_failure(request.encode()) == answer.encode()


@pytest.mark.parametrize(
    "request_",
    [b"", b"{", b"[]", b'"id"', b'{"jsonrpc":"2.0","method":"m"}', b'{"id":1,"id":1}'],
)
def test_what_nobody_waits_for_has_no_error(request_: bytes) -> None:
    assert rpc_failure(request_) is None


def test_result_id() -> None:
    for request_id, raw in ((7, "7"), ("1", '"1"'), (2**70, str(2**70)), (-1, "-1")):
        assert hand_up(answer('{"content":[]}', raw), request_id, call=True)
    up = hand_up(answer('{"content":[]}', '"\\u00e4"'), "ä", call=True)
    assert json.loads(up)["id"] == "ä"
    with pytest.raises(ValueError, match="not a tools/call result"):
        hand_up(answer('{"content":[]}', '"7"'), 7, call=True)
    for wrong in (None, 1.0, True, b"7"):
        with pytest.raises(TypeError):
            hand_up(answer('{"content":[]}'), wrong, call=True)  # type: ignore[arg-type]


TEXTS = st.sampled_from(["", "a", "x:y", "image/png"])
ODD = st.sampled_from([None, 0, 1, True, [], {}, "a", 1.5])
OFTEN_TEXT = st.one_of(TEXTS, TEXTS, TEXTS, TEXTS, ODD)
OPTIONAL = st.fixed_dictionaries(
    {},
    optional={
        "annotations": st.sampled_from([None, {}, {"x": 1}, 5, []]),
        "_meta": st.sampled_from([None, {}, {"x": 1}, "a"]),
        "extra": ODD,
    },
)


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    required = st.fixed_dictionaries({}, optional=fields)
    full = st.fixed_dictionaries(fields)
    return st.builds(
        lambda own, extra: {"type": kind, **own, **extra}, st.one_of(full, full, required), OPTIONAL
    )


URIS = st.sampled_from(["http://h/p", "file:///a", "x:y", 5, None])
RESOURCES = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {"uri": URIS}, optional={"text": OFTEN_TEXT, "blob": OFTEN_TEXT, "mimeType": OFTEN_TEXT}
    ),
)
BLOCKS = st.one_of(
    block("text", text=OFTEN_TEXT),
    block("image", data=OFTEN_TEXT, mimeType=OFTEN_TEXT),
    block("resource_link", uri=URIS, name=OFTEN_TEXT, mimeType=OFTEN_TEXT),
    block("resource", resource=RESOURCES),
    block("video", data=OFTEN_TEXT),
    ODD,
)
RESULTS = st.fixed_dictionaries(
    {"content": st.lists(BLOCKS, max_size=3)},
    optional={
        "isError": st.just(False),
        "structuredContent": st.dictionaries(TEXTS, ODD, max_size=2),
    },
)


@given(RESULTS)
@examples(3000)
def test_well_formed_is_what_the_models_accept(result: dict[str, Any]) -> None:
    types = pytest.importorskip("mcp.types")
    from pydantic import ValidationError

    try:
        types.CallToolResult.model_validate(result)
    except ValidationError:
        with pytest.raises(ValueError, match="not a tools/call result"):
            hand_up(answer(json.dumps(result)), 7, call=True)
    else:
        assert hand_up(answer(json.dumps(result)), 7, call=True)


# ---- tool lists ----


def page(*entries: str, rest: str = "") -> bytes:
    return (
        '{"jsonrpc":"2.0","id":3,"result":{"tools":[' + ",".join(entries) + "]" + rest + "}}"
    ).encode()


def test_reduction_keeps_what_is_read_of_one_name() -> None:
    mine = '{"inputSchema" : {"x": 1.10}, "name" : "t", "x": 1.10}'
    message, entries = reduce_tool_list(
        page('{"name":"a","title":5}', mine, "7", rest=', "nextCursor" : "n", "_meta":{}'),
        "s_",
        "s_t",
    )
    up = '{"name":"t","inputSchema":{"x":1.10}}'
    assert message == page(up, rest=',"nextCursor":"n"')
    assert entries == [mine.encode()]


def test_reduction_without_a_name_keeps_every_object() -> None:
    message, entries = reduce_tool_list(page("{}", "null", '{"name":"ä"}'), "s_", "")
    assert message == page("{}", '{"name":"ä"}')
    assert entries == [b"{}", '{"name":"ä"}'.encode()]


def test_reduction_of_what_is_no_list() -> None:
    for message in (b"{}", b"[]", answer("null"), answer('{"tools":{}}')):
        with pytest.raises(ValueError, match="not a tools/list result"):
            reduce_tool_list(message, "s_", "s_t")
    with pytest.raises(JSONError):
        reduce_tool_list(page("{]"), "s_", "s_t")


def test_reduction_depth_counts_from_the_entry() -> None:
    def nested(levels: int) -> str:
        return '{"name":"u","x":' + "[" * levels + "]" * levels + "}"

    assert reduce_tool_list(page('{"name":"t"}', nested(63)), "s_", "s_t")[1] == [b'{"name":"t"}']
    with pytest.raises(JSONError) as caught:
        reduce_tool_list(page('{"name":"t"}', nested(64)), "s_", "s_t")
    assert caught.value.code == "depth"
