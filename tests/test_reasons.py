"""The tables of causes as Python and people see them."""

from __future__ import annotations

from deepagents_ro import _mcpro
from deepagents_ro.reasons import (
    EXITS,
    STATES,
    Hint,
    Reason,
    Refusal,
    ToolReason,
    as_markdown,
    of_tool,
    of_word,
)


def test_every_row_is_a_member() -> None:
    assert [cause.word for cause in Reason] == [row[0] for row in _mcpro.REASONS]
    assert [cause.word for cause in ToolReason] == [row[0] for row in _mcpro.TOOL_REASONS]
    assert {cause.state for cause in Reason} == set(STATES)
    words = [cause.word for cause in (*Reason, *Refusal)]
    assert len(set(words)) == len(words)
    assert {cause.code for cause in ToolReason} <= {"ok", *_mcpro.ENVELOPE_CODES}


def test_of_word() -> None:
    assert of_word(None) is of_word("") is Reason.NONE
    assert of_word("refused_port") is Reason.REFUSED_PORT
    assert Reason.REFUSED_PORT.state == "unreachable"
    assert of_word("loader_json") is Refusal.LOADER_JSON
    assert [cause.word for cause in ToolReason if cause.code == "ok"] == ["read_only"]


def test_the_tables_in_markdown() -> None:
    text = as_markdown()
    words = [cause.word for cause in (*Reason, *Refusal, *ToolReason, *Hint) if cause.word]
    for word in (*words, *STATES):
        assert f"| `{word}` |" in text
    for status in EXITS:
        assert f"| {status} |" in text
    widths = {len(line.split("|")) for line in text.splitlines() if line}
    assert widths == {4, 5, 6}


def test_every_reason_of_a_tool_has_a_remedy() -> None:
    words = [cause.word for cause in (*ToolReason, *Hint)]
    assert len(set(words)) == len(words)
    assert {row[0] for row in _mcpro.HINTS} == {"read_only", *(cause.word for cause in Hint)}
    for word in words:
        cause = of_tool(word)
        assert (cause.word, bool(cause.text), bool(cause.remedy)) == (word, True, True)
    assert {cause.code for cause in Hint} == {"tool_not_read_only"}
    assert "ToolAnnotations(readOnlyHint=True)" in Hint.ANNOTATIONS_MISSING.remedy
    assert of_tool("read_only") is ToolReason.READ_ONLY
