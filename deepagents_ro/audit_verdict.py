"""The audit of one tool: who was asked, what came, the verdict, and the next step.

The verdict is the code that `dcode tools call-read-only TOOL --json` would end with before it
sends its one `tools/call`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepagents_ro import host
from deepagents_ro.reasons import ToolReason, of_tool

if TYPE_CHECKING:
    from deepagents_ro.audit import ServerRow, ToolRow
    from deepagents_ro.reasons import ToolVerdict


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the call of a tool would meet; `rows` are the servers that were asked about it."""

    tool: str
    reason: str
    next_step: str
    rows: list[ServerRow]

    @property
    def code(self) -> str:
        """The envelope code of the call; `ok` when nothing is in the way."""
        return of_tool(self.reason).code

    @property
    def callable(self) -> bool:
        """Whether a call of the tool would be made."""
        return self.code == "ok"

    @property
    def explanation(self) -> str:
        """What the reason means, in words."""
        return of_tool(self.reason).text

    def as_json(self) -> dict[str, object]:
        """The verdict for programs; see `schemas`."""
        return {
            "tool": self.tool,
            "callable": self.callable,
            "code": self.code,
            "reason": self.reason,
            "explanation": self.explanation,
            "next_step": self.next_step,
            "servers": [_server(row) for row in self.rows],
        }


def _server(row: ServerRow) -> dict[str, object]:
    tools = [
        {
            "name": tool.name,
            "callable": tool.callable,
            "reason": tool.reason,
            "sent": [{"hint": name, "value": value} for name, value in tool.sent],
        }
        for tool in row.tools
    ]
    return {**row.as_json(), "listed": row.listed, "tools": tools}


def judge(tool: str, rows: list[ServerRow]) -> Verdict:
    """The verdict on `tool` from the settled rows of its owners and of the broken files."""
    for row in rows:
        row.tools = [each for each in row.tools if each.name == tool]
    found = [(row, each) for row in rows for each in row.tools]
    # of two servers with the name the one whose tool the user's filter leaves
    found.sort(key=lambda pair: pair[1].reason == ToolReason.FILTERED.word)
    reason = found[0][1].reason if found else _missing(tool, rows)
    return Verdict(tool, reason, sentence(next_step(tool, reason, rows, found)), rows)


def refuse(tool: str, reason: ToolVerdict) -> Verdict:
    """The verdict on a tool that nobody is asked about."""
    return Verdict(tool, reason.word, sentence(reason.remedy), [])


def _missing(tool: str, rows: list[ServerRow]) -> str:
    if tool in host.BUILT_IN_TOOLS:
        return ToolReason.BUILT_IN.word
    owners = [row for row in rows if not row.is_file]
    if not owners:
        return ToolReason.NO_OWNER.word
    lost = any(row.cause.reason.word for row in owners)
    return (ToolReason.SERVER_NOT_LOADED if lost else ToolReason.NOT_LISTED).word


def next_step(
    tool: str, reason: str, rows: list[ServerRow], found: list[tuple[ServerRow, ToolRow]]
) -> str:
    """What to do: about the server that is in the way where there is one, else by the reason."""
    if reason == ToolReason.READ_ONLY.word:
        call = f"dcode tools call-read-only {tool} --json"
        return f"call it with its arguments on standard input: {call}"
    holders = {row.name for row, _ in found}
    if reason == ToolReason.RIVAL_NOT_LOADED.word:
        lost = [row for row in rows if row.lost and row.name not in holders]
    elif reason == ToolReason.SERVER_NOT_LOADED.word:
        lost = [row for row in rows if row.cause.reason.word and not row.is_file]
    elif reason == ToolReason.NO_OWNER.word:
        lost = [row for row in rows if row.is_file]
    else:
        lost = []
    if not lost:
        return of_tool(reason).remedy
    # the longest name is the likeliest owner
    return step_of(max(lost, key=lambda row: len(row.name)))


def step_of(row: ServerRow) -> str:
    """What to do about a server or a file that did not load."""
    if row.is_file:
        return f"mend {row.cause.subject}: {row.explanation}"
    return f"the server {row.name} {row.state_text}{row.about}: {row.explanation}"


def sentence(text: str) -> str:
    """`text` with a capital and, unless it ends in a command, a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith("--json") else ".")
