"""The shipped schemas, and the codes in README, C and schemas held together."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers.schemas import check_output, problems, validator

from deepagents_ro import _mcpro, audit_command, schemas
from deepagents_ro.gateway import document, reasons, verdicts
from deepagents_ro.reasons import STATES, Hint, Reason, ToolReason

CODES = [code for code in _mcpro.ENVELOPE_CODES if code != "ok"]
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schemas.text_of(name))
    return found


def test_the_codes_are_those_of_c_and_readme() -> None:
    call, audit, gateway = map(schema, schemas.NAMES)
    assert call["$defs"]["code"]["enum"] == CODES
    assert audit["$defs"]["verdict"]["properties"]["code"]["enum"] == ["ok", *CODES]
    rows = [line.split("|") for line in README.splitlines() if line.startswith("| `")]
    table = [row[1].strip(" `") for row in rows if row[2].strip() in ("1", "2", "130")]
    assert table == CODES
    assert audit["$defs"]["failure"]["properties"]["code"]["enum"] == list(audit_command.MESSAGES)
    assert audit["$defs"]["state"]["enum"] == list(STATES)
    assert gateway["$defs"]["failure"]["properties"]["code"]["enum"] == list(document.MESSAGES)
    found = gateway["$defs"]["audit"]["properties"]
    assert found["gateway"]["properties"]["state"]["enum"] == list(reasons.STATES)
    assert found["tools"]["items"]["properties"]["reason"]["enum"] == list(verdicts.REASONS)


@pytest.mark.parametrize("name", schemas.NAMES)
def test_each_is_a_schema_of_2020_12_that_the_command_prints(name: str) -> None:
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    validator(name)
    words = [sys.executable, "-I", "-c", "from deepagents_ro.console import main; main()"]
    done = subprocess.run([*words, "schema", name], capture_output=True, check=True)
    assert done.stdout.decode() == schemas.text_of(name)


def test_every_failure_of_the_call_is_described() -> None:
    for code in CODES:
        check_output(_mcpro.envelope_error(code) + b"\n")


def success() -> dict[str, Any]:
    data = {"ok": True, "status": "ok", "tool": "a_b", "content": [{"type": "text", "text": ""}]}
    return {"schema_version": 1, "command": "tools call-read-only", "data": data}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("ok", False),
        ("tool", "a b"),
        ("content", {}),
        ("content", [{}]),
        ("structured_content", []),
        ("code", "timeout"),
    ],
)
def test_what_is_no_success(member: str, value: object) -> None:
    good = success()
    assert problems(good) == []
    assert problems({**good, "data": {**good["data"], "structured_content": {"n": 1e400}}}) == []
    bad = copy.deepcopy(good)
    bad["data"][member] = value
    assert problems(bad)


def test_what_is_described_by_nothing() -> None:
    assert problems({"command": "tools list"})
    assert problems([])
    with pytest.raises(AssertionError):
        check_output(b'{"schema_version":2,"command":"tools call-read-only","data":{}}\n')
    check_output(b'{"schema_version":1,"comm')  # of a reader that went away


def test_words_of_the_audit_are_open() -> None:
    """A reason is a word of a table that grows: the schema names the table, not its rows."""
    assert {type(cause.word) for cause in (*Reason, *ToolReason, *Hint)} == {str}
    tool = schema("audit")["$defs"]["tool"]["properties"]
    assert "enum" not in tool["reason"]
