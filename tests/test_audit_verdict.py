"""The verdict on one tool, from rows, and the tables for people at two widths."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from deepagents_ro import audit, audit_table
from deepagents_ro.audit import ServerRow, ToolRow, sent_hints, settle
from deepagents_ro.audit_verdict import judge, refuse
from deepagents_ro.causes import Cause
from deepagents_ro.reasons import Hint, Reason, ToolReason

LONG = "worker-broker_" + "a_very_long_name_of_a_tool_" * 3


def server(name: str, *tools: ToolRow, why: Any = Reason.NONE, subject: str = "") -> ServerRow:
    lost = why is not Reason.NONE and why is not Reason.DISABLED
    return ServerRow(name, "http", Cause(why, subject), list(tools), lost, len(tools))


def tool(name: str, reason: Any = ToolReason.READ_ONLY) -> ToolRow:
    return ToolRow(name, callable=reason is ToolReason.READ_ONLY, reason=reason.word)


BROKEN = ServerRow("<config:.mcp.json>", audit.FILE, Cause(Reason.BROKEN_FILE, "/p/.mcp.json:3:4"))


@pytest.mark.parametrize(
    ("rows", "reason", "code", "step"),
    [
        (
            [server("a", tool("a_b_x"))],
            "read_only",
            "ok",
            "dcode tools call-read-only a_b_x --json",
        ),
        (
            [server("a", tool("a_b_x", Hint.ANNOTATIONS_MISSING))],
            "annotations_missing",
            "tool_not_read_only",
            "ToolAnnotations(readOnlyHint=True)",
        ),
        (
            [server("a", tool("a_b_y"))],
            "not_listed",
            "tool_not_found",
            "dcode tools audit-read-only",
        ),
        ([], "no_owner", "tool_not_found", "dcode mcp config"),
        ([BROKEN], "no_owner", "tool_not_found", "Mend /p/.mcp.json:3:4: the configuration file"),
        (
            [server("a", why=Reason.UNSET_VARIABLE, subject="TOKEN")],
            "server_not_loaded",
            "tool_not_found",
            "The server a its configuration cannot be used (TOKEN): the entry names a variable",
        ),
        (
            [server("a", tool("a_b_x"), why=Reason.HTTP_5XX)],
            "server_not_loaded",
            "tool_not_found",
            "The server a answered, but not as an MCP server",
        ),
        (
            [server("a", tool("a_b_x")), server("a_b", why=Reason.LOGIN)],
            "rival_not_loaded",
            "ambiguous_tool",
            "log in: dcode mcp login a_b.",
        ),
        (
            [server("a", tool("a_b_x", Hint.DESTRUCTIVE)), server("a_b", why=Reason.SILENT)],
            "rival_not_loaded",
            "ambiguous_tool",
            "The server a_b did not answer in time",
        ),
        (
            [server("a", tool("a_b_x")), server("a_b", why=Reason.DISABLED)],
            "read_only",
            "ok",
            "dcode tools call-read-only a_b_x",
        ),
        (
            [server("a", tool("a_b_x")), server("a", tool("a_b_x"))],
            "ambiguous",
            "ambiguous_tool",
            "Rename one of the servers.",
        ),
        (
            [server("a", tool("a_b_x", ToolReason.FILTERED)), server("a_b", tool("a_b_x"))],
            "read_only",
            "ok",
            "dcode tools call-read-only a_b_x",
        ),
        (
            [server("a", tool("a_b_x", ToolReason.FILTERED))],
            "filtered",
            "tool_not_found",
            "Change allowedTools or disabledTools",
        ),
    ],
)
def test_the_verdict(rows: list[ServerRow], reason: str, code: str, step: str) -> None:
    verdict = judge("a_b_x", settle(copy.deepcopy(rows)))
    assert (verdict.reason, verdict.code, verdict.callable) == (reason, code, code == "ok")
    assert step in verdict.next_step
    assert verdict.explanation
    data = verdict.as_json()
    assert [row["name"] for row in data["servers"]] == [row.name for row in rows]
    assert all(each["name"] == "a_b_x" for row in data["servers"] for each in row["tools"])


def test_a_built_in_tool_and_a_name_of_none() -> None:
    assert judge("ls", []).code == "not_mcp_tool"
    assert refuse("a b", ToolReason.NAME_NOT_CALLABLE).code == "invalid_tool_name"


@pytest.mark.parametrize(
    ("annotations", "sent"),
    [
        ("", ()),
        (',"annotations":5', ()),
        (',"annotations":["readOnlyHint"]', ()),
        (
            ',"annotations":{"title":"secret","readOnlyHint":true,"read\\u004fnlyHint":"secret"}',
            (("readOnlyHint", "true"), ("readOnlyHint", "a string")),
        ),
        (
            ',"annotations":{"destructiveHint":null,"openWorldHint":1.5},'
            '"annotations":{"idempotentHint":[],"readOnlyHint":{}}',
            (
                ("destructiveHint", "null"),
                ("openWorldHint", "a number"),
                ("idempotentHint", "an array"),
                ("readOnlyHint", "an object"),
            ),
        ),
        (f',"annotations":{{"openWorldHint":{"7" * 5000}}}', (("openWorldHint", "a number"),)),
    ],
)
def test_what_was_sent(annotations: str, sent: tuple[tuple[str, str], ...]) -> None:
    assert sent_hints(f'{{"name":"x"{annotations}}}'.encode()) == sent


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_name_is_folded_and_never_cut(width: int) -> None:
    rows = [server("worker-broker", tool(LONG), tool(LONG + "2", Hint.ANNOTATIONS_MISSING))]
    table = audit_table.of_servers(rows, width, colour=False)
    assert {"annotations_missing", "(tool_not_read_only)"} <= set(table.decode().split())
    for page in (
        table,
        audit_table.of_verdict(judge(LONG, copy.deepcopy(rows)), width, colour=False),
    ):
        lines = page.decode().splitlines()
        assert max(map(len, lines)) <= width
        folded = "".join(line[:width].replace(" ", "") for line in lines)
        assert "…" not in folded
        first = LONG[: width // 2 - 20]
        assert any(first in line for line in lines)


def test_a_reason_is_explained_once() -> None:
    rows = [server("a", *(tool(f"a_{n}", Hint.ANNOTATIONS_MISSING) for n in range(9)))]
    page = audit_table.of_servers(rows, 200, colour=False).decode()
    assert page.count("ToolAnnotations(readOnlyHint=True)") == 1
    assert "\x1b" not in page
    assert "\x1b" in audit_table.of_servers(rows, 200, colour=True).decode()


def test_a_name_cannot_steer_the_terminal() -> None:
    rows = [server("a", tool("a_\x1b[2J"))]
    assert b"a_\\x1b[2J" in audit_table.of_servers(rows, 80, colour=False)
