"""Why a server or a tool cannot be used: the C tables (`csrc/mcp/reason.h`), for Python and people.

    python -m deepagents_ro.reasons

prints them as Markdown, for documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from deepagents_ro import _mcpro, refusal

STATES: dict[str, str] = dict(_mcpro.STATES)
"""What the audit says of a server first: word to text."""


@dataclass(frozen=True, slots=True)
class ServerReason:
    """Why a server cannot be used: its word, a key of STATES, and what to do about it."""

    word: str
    state: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """Why a tool can or cannot be called: its word, what it means, and what to do about it.

    `code` is the envelope code that a call of the tool ends with; `ok` when it can be called.
    """

    word: str
    code: str
    text: str
    remedy: str


Row = TypeVar("Row", bound=ServerReason | ToolVerdict)


class Table(Generic[Row]):
    """Rows in their order; each is an attribute too, by its word in capitals (NONE for '')."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = {(row.word or "none").upper(): row for row in rows}

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def __getattr__(self, name: str) -> Row:
        if name.startswith("_") or name not in self._rows:
            raise AttributeError(f"no row {name!r}")
        return self._rows[name]

    def get(self, word: str) -> Row | None:
        """The row of a word."""
        return self._rows.get((word or "none").upper())


Reason = Table(ServerReason(*row) for row in _mcpro.REASONS)
"""Why a server cannot be used; `Reason.NONE` when nothing is in the way."""

ToolReason = Table(ToolVerdict(*row) for row in _mcpro.TOOL_REASONS)
"""Why a tool can or cannot be called, beside the verdict on its hints."""

Hint = Table(
    ToolVerdict(word, "tool_not_read_only", f"the server sent {sent}", remedy)
    for word, sent, remedy in _mcpro.HINTS
    if word != ToolReason.READ_ONLY.word
)
"""What in a tool's hints keeps it from being called."""

Refusal = Table(
    ServerReason(word, Reason.BROKEN_FILE.state, text) for word, text in refusal.REASONS.items()
)
"""Why DCode or a managed runtime refuses the configuration as a whole."""

EXITS = {
    0: "the audit was made; of one `TOOL`: it can be called",
    1: "it failed: the configuration cannot be read, or the deadline or a bound was passed; "
    "of one `TOOL`: it cannot be called",
    2: "wrong command line",
    130: "interrupted",
}
"""Exit statuses of `dcode tools audit-read-only [TOOL]`."""


def of_word(word: str | None) -> ServerReason:
    """The `Reason` or `Refusal` of a word of the tables; `Reason.NONE` for none.

    Raises:
        KeyError: no table has it.
    """
    return _of(word or "", Refusal, Reason)


def of_tool(word: str) -> ToolVerdict:
    """The `ToolReason` or `Hint` of a word that the audit says of a tool.

    Raises:
        KeyError: no table has it.
    """
    return _of(word, ToolReason, Hint)


def _of(word: str, *tables: Table[Row]) -> Row:
    for table in tables:
        row = table.get(word)
        if row is not None:
            return row
    raise KeyError(word)


def as_markdown() -> str:
    """All tables as Markdown."""
    lines: list[str] = []

    def table(*rows: tuple[str, ...]) -> None:
        head, *body = rows
        lines.extend(["", _line(head), _line(tuple("---" for _ in head))])
        lines.extend(_line(row) for row in body)

    table(("exit status", "meaning"), *((str(code), text) for code, text in EXITS.items()))
    table(("state of a server", "meaning"), *((f"`{k}`", text) for k, text in STATES.items()))
    table(
        ("reason of a server", "state", "what to do"),
        *((f"`{r.word}`", f"`{r.state}`", r.text) for r in (*Reason, *Refusal) if r.word),
    )
    table(
        ("reason of a tool", "code of the call", "meaning", "what to do"),
        *((f"`{r.word}`", f"`{r.code}`", r.text, r.remedy) for r in (*ToolReason, *Hint)),
    )
    return "\n".join(lines).lstrip("\n") + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    print(as_markdown(), end="")
