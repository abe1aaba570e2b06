"""The audit for people: tables that fold a long name and never cut it, colour on a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from deepagents_ro.reasons import of_tool
from deepagents_ro.terminal import console, visible

if TYPE_CHECKING:
    from deepagents_ro.audit import ServerRow, ToolRow
    from deepagents_ro.audit_verdict import Verdict

# Columns that the verdict and the reason of a tool have at least, beside its name.
REASON_COLUMNS = 48


class Sheet:
    """What goes to standard output: lines of a width, in colour or not."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self._stream = io.StringIO()
        self.console = console(self._stream, terminal=colour, width=width)

    def bytes(self) -> bytes:
        """What was printed, as UTF-8, without white space at the ends of lines."""
        lines = (line.rstrip() for line in self._stream.getvalue().splitlines())
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def of_servers(rows: list[ServerRow], width: int, *, colour: bool) -> bytes:
    """Every server with its tools, and what to do about each reason, once."""
    sheet = Sheet(width, colour=colour)
    if not rows:
        sheet.console.print("No MCP servers are configured.")
    for row in rows:
        sheet.console.print(server_line(row))
        if row.cause.reason.word:
            sheet.console.print(f"  {row.cause.reason.word}{visible(row.about)}: {row.explanation}")
        if row.tools:
            sheet.console.print(tools_of(row.tools, width))
    refused = dict.fromkeys(t.reason for row in rows for t in row.tools if not t.callable)
    if refused:
        sheet.console.print(remedies(list(refused)))
    return sheet.bytes()


def of_verdict(verdict: Verdict, width: int, *, colour: bool) -> bytes:
    """One tool: who was asked, what came, the verdict, the next step."""
    sheet = Sheet(width, colour=colour)
    lines = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    lines.add_row("tool", Text(visible(verdict.tool), style="bold"))
    for row in verdict.rows:
        lines.add_row("asked", server_line(row))
        if row.cause.reason.word:
            lines.add_row("", f"{row.cause.reason.word}{visible(row.about)}: {row.explanation}")
        lines.add_row("came", came(row))
    words = "can be called" if verdict.callable else f"refused: {verdict.code} ({verdict.reason})"
    lines.add_row("verdict", Text(words, style="green" if verdict.callable else "yellow"))
    lines.add_row("because", verdict.explanation)
    lines.add_row("next", visible(verdict.next_step))
    sheet.console.print(lines)
    return sheet.bytes()


def server_line(row: ServerRow) -> Text:
    """A server's name, transport and state."""
    good = row.state == "reachable"
    state = (row.state_text, "green" if good else "red")
    return Text.assemble((visible(row.name), "bold"), f" ({row.transport}) ", state)


def came(row: ServerRow) -> str:
    """What a server sent of the one tool."""
    if not row.tools and row.cause.reason.word:
        return "no list of tools"
    if not row.tools:
        listed = "1 tool" if row.listed == 1 else f"{row.listed} tools"
        return f"{listed}, none of that name"
    each = (", ".join(f"{name} {value}" for name, value in t.sent) or "no hints" for t in row.tools)
    return "; ".join(each)


def tools_of(tools: list[ToolRow], width: int) -> Table:
    """One line a tool; a name longer than its column is folded."""
    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    longest = max(len(visible(tool.name)) for tool in tools)
    table.add_column(overflow="fold", width=min(longest, max(width - REASON_COLUMNS, 8)))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for tool in tools:
        style = "green" if tool.callable else "yellow"
        verdict = Text("read-only" if tool.callable else "refused", style=style)
        table.add_row(visible(tool.name), verdict, why(tool.reason))
    return table


def remedies(words: list[str]) -> Table:
    """What each reason means and what to do about it."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for word in words:
        cause = of_tool(word)
        table.add_row(word, f"{cause.text}: {cause.remedy}")
    return table


def why(word: str) -> str:
    """What a person reads of a tool's reason beside the tool."""
    cause = of_tool(word)
    return cause.text if cause.code == "ok" else f"{word} ({cause.code})"
