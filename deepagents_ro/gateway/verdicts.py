"""Why each tool of the gateway is exposed, or is not. No I/O: entries in, findings out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .allocation import Allocation
from .names import matches, runs_sql
from .wire import Entry

EXPOSED = "exposed"
REASONS = {
    EXPOSED: "given to the agents named",
    "sql": "runs SQL, which belongs to the agent's own guarded path",
    "broken_definition": "its definition is not a valid MCP tool",
    "not_listed": "no agent's table lists it",
    "malformed_hints": "its read-only hints are malformed",
    "contradictory_hints": "its hints say read-only and destructive",
    "write": "its hints do not say read-only",
    "no_hints": "it has no hints, and hints are required",
    "ambiguous_name": "more than one gateway tool matches the listed name",
}
NEVER = ("malformed_hints", "contradictory_hints", "write")
"""What no table can change."""
_WRITE = ("read_only_missing", "read_only_not_true")


@dataclass(frozen=True, slots=True)
class Finding:
    """One tool of the gateway. `reason` is a key of REASONS."""

    name: str
    reason: str
    detail: str = ""
    allowed_name: str = ""
    agents: tuple[str, ...] = ()
    annotated: bool = True

    @property
    def exposed(self) -> bool:
        """Whether any agent gets it."""
        return self.reason == EXPOSED

    @property
    def read_only(self) -> bool:
        """Whether it is exposed and the gateway says that it is read-only."""
        return self.exposed and self.annotated

    def as_json(self) -> dict[str, Any]:
        """The finding for a report."""
        return {
            "name": self.name,
            "exposed": self.exposed,
            "reason": self.reason,
            "detail": self.detail,
            "allowed_name": self.allowed_name or None,
            "agents": list(self.agents),
            "has_hints": self.annotated,
        }


def judge(
    entries: Iterable[Entry], allocation: Allocation, *, require_hints: bool
) -> list[Finding]:
    """One finding per entry, in the gateway's order."""
    listed = list(entries)
    allowed = allocation.allowed()
    usable = [entry.name for entry in listed if not entry.broken]
    claimed = {
        name: [candidate for candidate in usable if matches(candidate, name)] for name in allowed
    }
    return [_finding(entry, claimed, allowed, require_hints) for entry in listed]


def missing(findings: Iterable[Finding], allocation: Allocation) -> list[str]:
    """The allowed names that no usable gateway tool matches, in the order of the table."""
    usable = [finding.name for finding in findings if finding.reason != "broken_definition"]
    return [
        name
        for name in allocation.allowed()
        if not any(matches(candidate, name) for candidate in usable)
    ]


def _finding(
    entry: Entry,
    claimed: dict[str, list[str]],
    allowed: dict[str, tuple[str, ...]],
    require_hints: bool,
) -> Finding:
    names = [name for name, candidates in claimed.items() if entry.name in candidates]

    def found(reason: str, detail: str = "", agents: tuple[str, ...] = ()) -> Finding:
        allowed_name = names[0] if names else ""
        return Finding(entry.name, reason, detail, allowed_name, agents, entry.annotated)

    if runs_sql(entry.name):
        return found("sql")
    if entry.broken:
        return found("broken_definition", entry.broken)
    refused = _hints(entry, require_hints)
    if refused in NEVER:
        return found(refused, entry.reason)
    if not names:
        return found("not_listed")
    if refused:
        return found(refused, entry.reason)
    rivals = [name for name in names if len(claimed[name]) > 1]
    if rivals or len(names) > 1:
        return found("ambiguous_name", ", ".join(rivals or names))
    return found(EXPOSED, "" if entry.annotated else "no hints", allowed[names[0]])


def _hints(entry: Entry, require_hints: bool) -> str:
    """The reason that the hints give against the tool; empty when there is none."""
    if entry.allowed:
        return ""
    if not entry.annotated:
        return "no_hints" if require_hints else ""
    if entry.reason in _WRITE:
        return "write"
    return "contradictory_hints" if entry.reason == "destructive" else "malformed_hints"
