"""Why each tool of the gateway is exposed, or is not. No I/O: entries in, findings out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .allocation import Allocation
from .document import Document
from .listing import Entry, twice
from .names import matches, runs_sql, similar
from .schemas import fault

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
    "unusable_schema": "a model's client cannot use its schema",
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

    def as_json(self) -> Document:
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
    listed_twice = twice(listed)
    refused = [_refused(entry, require_hints) for entry in listed]
    # What is refused for itself drops out first: it is no rival of a usable one.
    usable = [entry.name for entry, (reason, _) in zip(listed, refused, strict=True) if not reason]
    claimed = _claims(usable, allocation)
    every = _claims([entry.name for entry in listed], allocation)
    return [
        _finding(entry, found, claimed, every, allocation, entry.name in listed_twice)
        for entry, found in zip(listed, refused, strict=True)
    ]


def missing(findings: Iterable[Finding], allocation: Allocation) -> list[str]:
    """The allowed names that no usable gateway tool matches, in the order of the table."""
    usable = [finding.name for finding in findings if finding.reason != "broken_definition"]
    claimed = _claims(usable, allocation)
    return [name for name in allocation.allowed() if not claimed[name]]


def near_misses(findings: Iterable[Finding], name: str) -> list[str]:
    """Gateway tools that are not the allowed one but read like it: `utils_x` for `x`."""
    return [
        finding.name
        for finding in findings
        if not matches(finding.name, name) and similar(finding.name, name)
    ]


def _claims(names: list[str], allocation: Allocation) -> dict[str, list[str]]:
    """For each allowed name the gateway's names that match it."""
    distinct = list(dict.fromkeys(names))
    found = {}
    for name in allocation.allowed():
        alias = allocation.settings(name).gateway_name
        found[name] = [
            candidate
            for candidate in distinct
            if (candidate == alias if alias else matches(candidate, name))
        ]
    return found


def _refused(entry: Entry, require_hints: bool) -> tuple[str, str]:
    """Reason and detail against a tool whatever the table says; empty when there is none."""
    if runs_sql(entry.name):
        return "sql", ""
    if entry.broken:
        return "broken_definition", entry.broken
    hints = _hints(entry, require_hints)
    return (hints, entry.reason) if hints else ("", "")


def _finding(
    entry: Entry,
    refused: tuple[str, str],
    claimed: dict[str, list[str]],
    every: dict[str, list[str]],
    allocation: Allocation,
    listed_twice: bool,
) -> Finding:
    names = [name for name, candidates in every.items() if entry.name in candidates]

    def found(reason: str, detail: str = "", agents: tuple[str, ...] = ()) -> Finding:
        allowed_name = names[0] if names else ""
        return Finding(entry.name, reason, detail, allowed_name, agents, entry.annotated)

    reason, detail = refused
    if reason in ("sql", "broken_definition", *NEVER):
        return found(reason, detail)
    if not names:
        return found("not_listed")
    if reason:
        return found(reason, detail)
    if listed_twice:
        return found("ambiguous_name", f"the gateway lists {entry.name} twice")
    rivals = [name for name in names if len(claimed[name]) > 1]
    if rivals:
        others = [other for name in rivals for other in claimed[name] if other != entry.name]
        return found("ambiguous_name", ", ".join(dict.fromkeys(others)))
    if len(names) > 1:
        return found("ambiguous_name", ", ".join(names))
    unusable = fault(entry.tool())
    if unusable:
        return found("unusable_schema", unusable)
    return found(EXPOSED, "" if entry.annotated else "no hints", allocation.allowed()[names[0]])


def _hints(entry: Entry, require_hints: bool) -> str:
    """The reason that the hints give against the tool; empty when there is none."""
    if entry.allowed:
        return ""
    if not entry.annotated:
        return "no_hints" if require_hints else ""
    if entry.reason in _WRITE:
        return "write"
    return "contradictory_hints" if entry.reason == "destructive" else "malformed_hints"
