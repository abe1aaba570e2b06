"""The read-only verdict: every rule, an independent oracle, and DCode's own predicates."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from budget import examples
from hypothesis import given
from hypothesis import strategies as st

from deepagents_ro._mcpro import JSONError, hint_verdict

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def entry(annotations: str) -> bytes:
    """A tools/list entry with these annotations, as raw text."""
    return (
        '{"name":"t","inputSchema":{"type":"object"},"annotations":' + annotations + "}"
    ).encode()


ALLOWED = {
    "plain": '{"readOnlyHint":true}',
    "all_hints": '{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,'
    '"openWorldHint":false}',
    "escaped_name": '{"read\\u004fnlyHint":true}',
    "title_of_any_type": '{"title":5,"readOnlyHint":true}',
    "unknown_key": '{"readOnlyHint":true,"x":"maybe","y":[null]}',
    "other_case": '{"readOnlyHint":true,"DestructiveHint":true,"readonlyhint":false}',
    "nul_behind_a_hint": '{"destructiveHint\\u0000":true,"readOnlyHint":true}',
    "long_number": '{"readOnlyHint":true,"x":' + "9" * 100 + "}",
}

DENIED = {
    "yes": ('{"readOnlyHint":"yes"}', "read_only_not_boolean"),
    "one": ('{"readOnlyHint":1}', "read_only_not_boolean"),
    "one_point_zero": ('{"readOnlyHint":1.0}', "read_only_not_boolean"),
    "true_in_quotes": ('{"readOnlyHint":"true"}', "read_only_not_boolean"),
    "maybe": ('{"readOnlyHint":"maybe"}', "read_only_not_boolean"),
    "null": ('{"readOnlyHint":null}', "read_only_not_boolean"),
    "false": ('{"readOnlyHint":false}', "read_only_not_true"),
    "absent": ('{"destructiveHint":false}', "read_only_missing"),
    "forged_by_nul": ('{"readOnlyHint\\u0000x":true}', "read_only_missing"),
    "forged_by_case": ('{"ReadOnlyHint":true}', "read_only_missing"),
    "destructive": ('{"readOnlyHint":true,"destructiveHint":true}', "destructive"),
    "destructive_null": (
        '{"readOnlyHint":true,"destructiveHint":null}',
        "destructive_not_boolean",
    ),
    "destructive_zero": (
        '{"readOnlyHint":true,"destructiveHint":0}',
        "destructive_not_boolean",
    ),
    "open_world_one": ('{"readOnlyHint":true,"openWorldHint":1}', "open_world_not_boolean"),
    "idempotent_no": ('{"readOnlyHint":true,"idempotentHint":"no"}', "idempotent_not_boolean"),
    "twice": ('{"readOnlyHint":false,"readOnlyHint":true}', "duplicate_key"),
    "twice_escaped": ('{"readOnlyHint":false,"read\\u004fnlyHint":true}', "duplicate_key"),
    "unknown_twice": ('{"readOnlyHint":true,"x":1,"x":1}', "duplicate_key"),
    "annotations_twice": (
        '{"readOnlyHint":false},"annotations":{"readOnlyHint":true}',
        "annotations_duplicated",
    ),
    "annotations_null": ("null", "annotations_not_object"),
    "annotations_array": ("[]", "annotations_not_object"),
}


@pytest.mark.parametrize("annotations", ALLOWED.values(), ids=ALLOWED)
def test_allowed(annotations: str) -> None:
    assert hint_verdict(entry(annotations)) == (True, "read_only")


@pytest.mark.parametrize(("annotations", "reason"), DENIED.values(), ids=DENIED)
def test_denied(annotations: str, reason: str) -> None:
    assert hint_verdict(entry(annotations)) == (False, reason)


def test_keys_of_a_schema_are_no_hints() -> None:
    raw = b'{"name":"t","inputSchema":{"a":1,"a":2},"annotations":{"readOnlyHint":true}}'
    assert hint_verdict(raw) == (True, "read_only")
    inside = b'{"name":"t","annotations":{"readOnlyHint":true,"x":{"a":1,"a":2}}}'
    assert hint_verdict(inside) == (False, "duplicate_key")


def test_denied_without_annotations() -> None:
    assert hint_verdict(b'{"name":"t"}') == (False, "annotations_missing")
    assert hint_verdict(b'{"name":"t","name":"u","annotations":{"readOnlyHint":true}}') == (
        False,
        "duplicate_key",
    )


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "empty"),
        (b"[]", "not_object"),
        (b" 5", "not_object"),
        (b'{"annotations":{"readOnlyHint":true}', "truncated"),
        (b'{"annotations":{"readOnlyHint":true}}x', "trailing"),
        (b'{"annotations":{"readOnlyHint":True}}', "syntax"),
        (b"\xef\xbb\xbf{}", "bom"),
    ],
)
def test_what_is_no_object_raises(raw: bytes, code: str) -> None:
    with pytest.raises(JSONError) as caught:
        hint_verdict(raw)
    assert caught.value.code == code


def test_depth_counts_from_the_entry() -> None:
    raw = entry('{"readOnlyHint":true,"x":[[]]}')
    assert hint_verdict(raw, max_depth=4) == (True, "read_only")
    with pytest.raises(JSONError) as caught:
        hint_verdict(raw, max_depth=3)
    assert caught.value.code == "depth"
    with pytest.raises(ValueError, match="max_depth"):
        hint_verdict(raw, max_depth=0)


# ---- generated annotations ----


def spell(name: str, escaped: int) -> str:
    """The name as a raw JSON string, one of its characters escaped if it has that many."""
    if escaped >= len(name):
        return json.dumps(name)
    head, char, tail = name[:escaped], name[escaped], name[escaped + 1 :]
    return json.dumps(head)[:-1] + f"\\u{ord(char):04X}" + json.dumps(tail)[1:]


NAMES = st.one_of(
    st.sampled_from(HINTS),
    st.sampled_from(HINTS),
    st.sampled_from(["title", "x", "_meta", "_deepagents_code_mcp", "", "\x00", "\xe4"]),
    st.sampled_from(HINTS).map(str.lower),
    st.sampled_from(HINTS).map(lambda name: name + "\x00x"),
    st.sampled_from(HINTS).map(lambda name: name + " "),
)
VALUES = st.one_of(
    st.sampled_from(["true", "false"]),
    st.sampled_from(["true", "false"]),
    st.sampled_from(
        ["null", "0", "1", "1.0", "-0", "1e0", '"true"', '"yes"', '"maybe"', '""', "[]", "{}"]
    ),
    st.sampled_from(["[true]", '{"readOnlyHint":true}', "7" * 80, '{"a":1,"a":2}']),
)
MEMBERS = st.lists(
    st.tuples(NAMES, st.integers(0, 40), VALUES).map(
        lambda member: f"{spell(member[0], member[1])}:{member[2]}"
    ),
    max_size=6,
)
LEADING = st.sampled_from(
    [[], ['"readOnlyHint":true'], ['"readOnlyHint":true', '"destructiveHint":false']]
)
OBJECTS = st.builds(lambda a, b: "{" + " , ".join(a + b) + "}", LEADING, MEMBERS)
SETTINGS = examples(4000)


class DuplicateKeyError(Exception):
    """What the rules refuse and json.loads would not."""


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise DuplicateKeyError
    return dict(pairs)


def oracle(raw: bytes) -> bool:
    """The rules once more, on Python's own parser."""
    try:
        annotations = json.loads(raw, object_pairs_hook=refuse_duplicates).get("annotations")
    except DuplicateKeyError:
        return False
    return (
        isinstance(annotations, dict)
        and annotations.get("readOnlyHint") is True
        and annotations.get("destructiveHint", False) is False
        and all(isinstance(annotations.get(name, True), bool) for name in HINTS)
    )


@given(OBJECTS)
@SETTINGS
def test_verdict_is_the_rule(annotations: str) -> None:
    raw = entry(annotations)
    allowed, reason = hint_verdict(raw)
    assert allowed == oracle(raw)
    assert allowed == (reason == "read_only")


@cache
def dcode() -> tuple[Callable[[bytes], list[Any]], Callable[[Any], bool]]:
    """DCode's path from wire bytes to its tools, and its two predicates in one."""
    auto_mode = pytest.importorskip("deepagents_code.auto_mode")
    from deepagents_code.mcp_tools import MCPSessionManager, _build_cached_mcp_tool
    from mcp.types import JSONRPCMessage, ListToolsResult

    manager = MCPSessionManager()

    def load(raw: bytes) -> list[Any]:
        """The tools that the models accept of one entry; raises what they raise."""
        message = JSONRPCMessage.model_validate_json(
            b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + raw + b"]}}"
        )
        page = ListToolsResult.model_validate(message.root.result)
        return [
            _build_cached_mcp_tool(
                mcp_tool=tool, server_name="s", session_manager=manager, tool_name_prefix=True
            )
            for tool in page.tools
        ]

    def allows(tool: Any) -> bool:
        return auto_mode.is_mcp_tool(tool) and auto_mode.mcp_tool_is_coherently_read_only(tool)

    return load, allows


@given(OBJECTS)
@SETTINGS
def test_whatever_is_allowed_dcode_allows(annotations: str) -> None:
    from pydantic import ValidationError

    load, allows = dcode()
    raw = entry(annotations)
    if not hint_verdict(raw)[0]:
        return
    try:
        tools = load(raw)
    except ValidationError:
        return  # its existence is the loader's word
    assert len(tools) == 1
    assert allows(tools[0])


def test_the_comparison_reaches_both_verdicts() -> None:
    load, allows = dcode()
    for allowed in ALLOWED.values():
        if "title" not in allowed:
            assert allows(load(entry(allowed))[0])
    assert not allows(load(entry('{"readOnlyHint":false}'))[0])
    assert not allows(load(entry('{"readOnlyHint":true,"destructiveHint":true}'))[0])
    assert not allows(load(entry("null"))[0])
    # What a typed model makes of these is why the bytes are judged.
    for coerced in ('{"readOnlyHint":"yes"}', '{"readOnlyHint":1}', '{"readOnlyHint":1.0}'):
        assert allows(load(entry(coerced))[0])
