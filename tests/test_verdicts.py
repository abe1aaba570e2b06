"""Envelopes, results and tool lists through the extension's Python functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepagents_ro._mcpro import (
    ENVELOPE_CODES,
    JSONError,
    envelope_error,
    envelope_exit,
    envelope_ok,
    judge_result,
    reduce_tool_list,
)

MAX_STDOUT = 131072
MAX_ANSWER = 1024 * 1024

# ---- envelopes ----


def test_codes_are_the_table() -> None:
    assert ENVELOPE_CODES == (
        "invalid_command",
        "invalid_tool_name",
        "interrupted",
        "timeout",
        "input_required",
        "input_too_large",
        "invalid_input",
        "runtime_failure",
        "not_mcp_tool",
        "tool_not_found",
        "ambiguous_tool",
        "tool_not_read_only",
        "result_too_large",
        "malformed_result",
        "tool_failed",
    )


@pytest.mark.parametrize("code", ENVELOPE_CODES)
def test_failure_document(code: str) -> None:
    raw = envelope_error(code)
    document = json.loads(raw)
    assert list(document) == ["schema_version", "command", "data"]
    assert document["schema_version"] == 1
    assert document["command"] == "tools call-read-only"
    assert list(document["data"]) == ["ok", "status", "code", "message"]
    assert document["data"]["ok"] is False
    assert document["data"]["status"] == "error"
    assert document["data"]["code"] == code
    assert raw == json.dumps(document, separators=(",", ":")).encode()
    exits = {"invalid_command": 2, "invalid_tool_name": 2, "interrupted": 130}
    assert envelope_exit(code) == exits.get(code, 1)


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


def test_content_is_ascii() -> None:
    with pytest.raises(ValueError, match="ASCII"):
        envelope_ok("s_t", '["ä"]'.encode(), None)


# ---- results ----


def answer(result: str, request_id: str = "7") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{request_id},"result":{result}}}'.encode()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (answer('{"content":[]}'), "ok"),
        (answer('{"content":[]}', "8"), "malformed_result"),
        (answer('{"content":[]}', '"7"'), "malformed_result"),
        (answer('{"content":[],"isError":true}'), "tool_failed"),
        (answer('{"content":[{}]}'), "malformed_result"),
        (
            answer('{"content":[{"type":"audio","data":"","mimeType":"a/b"}]}'),
            "runtime_failure",
        ),
        (answer('{"content":[],"structuredContent":{"a":NaN}}'), "malformed_result"),
        (answer('{"content":[],"structuredContent":{"a":1,"a":1}}'), "malformed_result"),
        (answer('{"content":[],"structuredContent":{"a":"\\ud800"}}'), "malformed_result"),
        (answer('{"content":[]}') + b"x", "malformed_result"),
        (b"", "malformed_result"),
        (b"<html>", "malformed_result"),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m"}}', "tool_failed"),
        (answer('{"content":[' + " " * MAX_ANSWER + "]}"), "result_too_large"),
    ],
)
def test_result_code(message: bytes, code: str) -> None:
    assert judge_result(message, 7) == code


def test_result_depth_counts_from_the_message() -> None:
    def nested(levels: int) -> bytes:
        return answer(
            '{"content":[],"structuredContent":{"a":' + "[" * levels + "]" * levels + "}}"
        )

    assert judge_result(nested(61), 7) == "ok"
    assert judge_result(nested(62), 7) == "malformed_result"


def test_result_id() -> None:
    assert judge_result(answer('{"content":[]}', '"\\u00e4"'), "ä") == "ok"
    assert judge_result(answer('{"content":[]}', '"1"'), "1") == "ok"
    assert judge_result(answer('{"content":[]}', str(2**70)), 2**70) == "ok"
    assert judge_result(answer('{"content":[]}', "-1"), -1) == "ok"
    for wrong in (None, 1.0, True, b"7"):
        with pytest.raises(TypeError):
            judge_result(answer('{"content":[]}'), wrong)  # type: ignore[arg-type]


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
@settings(
    max_examples=3000,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_well_formed_is_what_the_models_accept(result: dict[str, Any]) -> None:
    types = pytest.importorskip("mcp.types")
    from pydantic import ValidationError

    code = judge_result(answer(json.dumps(result)), 7)
    try:
        types.CallToolResult.model_validate(result)
    except ValidationError:
        assert code == "malformed_result"
    else:
        assert code == "ok"


# ---- tool lists ----


def page(*entries: str, rest: str = "") -> bytes:
    return (
        '{"jsonrpc":"2.0","id":3,"result":{"tools":[' + ",".join(entries) + "]" + rest + "}}"
    ).encode()


def test_reduction_keeps_the_bytes_of_one_name() -> None:
    mine = '{"name" : "t", "x": 1.10}'
    message, entries = reduce_tool_list(
        page('{"name":"a","title":5}', mine, "7", rest=', "nextCursor" : "n", "_meta":{}'),
        "s_",
        "s_t",
    )
    assert message == page(mine, rest=',"nextCursor":"n"')
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
