"""Why each tool can or cannot be called read-only: every server, every tool, calling none.

Each server is asked on its own, all at once, over the same path as the call: DCode's loader, the C
transport, the C verdict on the bytes that the server sent. What has not answered when the deadline
comes is reported as that.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deepagents_ro import _mcpro, host
from deepagents_ro.exchange import Exchanges

if TYPE_CHECKING:
    from deepagents_ro.command import Command

STATES = {
    "reachable": "answered with its tools",
    "needs_login": "wants a login: dcode mcp login <server>",
    "denied": "refused the configured credentials",
    "unreachable": "could not be reached",
    "timed_out": "did not answer in time",
    "disabled": "is switched off by the user",
    "malformed_list": "answered with a list that cannot be used",
    "misconfigured": "its entry cannot be used: an unset variable, or a field of a wrong type",
    "not_trusted": "is a project's server that nobody has approved",
    "failed": "failed while it was asked",
}
READ_ONLY = "read_only"
REASONS = {
    READ_ONLY: "can be called",
    "broken_definition": "DCode's models refuse its definition (tool_not_found)",
    "filtered": "allowedTools or disabledTools leave it out (tool_not_found)",
    "name_not_callable": "its name is not one that the command takes (invalid_tool_name)",
    "ambiguous": "more than one tool has this full name (ambiguous_tool)",
}
"""Reasons beside those of the hints, which are `tool_not_read_only` with the hint that failed."""

MALFORMED = ("not_json", "not_an_answer", "list_malformed", "list_too_deep", "list_cursor_repeated",
             "list_too_many_pages", "too_large", "content_type", "no_answer")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool of one server; `reason` is a key of REASONS or the name of a failed hint."""

    name: str
    callable: bool
    reason: str


@dataclass(slots=True)
class ServerRow:
    """One server; `state` is a key of STATES, `detail` a static word of the transport or ''."""

    name: str
    transport: str
    state: str
    detail: str = ""
    tools: list[ToolRow] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "transport": self.transport,
            "state": self.state,
            "detail": self.detail,
            "tools": [
                {"name": tool.name, "callable": tool.callable, "reason": tool.reason}
                for tool in self.tools
            ],
        }


class Audit:
    """The servers of one configuration on one event loop."""

    def __init__(self, command: Command, sources: host.Sources) -> None:
        self.command = command
        self.sources = sources
        self.names = sources.allowed()
        self.call = _mcpro.Call("")
        self.exchanges = Exchanges(self.call, asyncio.get_running_loop())
        self.configured: set[str] = set()
        self.infos: dict[str, Any] = {}

    async def run(
        self, expired: asyncio.Future[None], done: Callable[[str], None]
    ) -> list[ServerRow]:
        """Ask every server until all have answered or `expired`; `done` is told of each."""
        tasks = {asyncio.ensure_future(self.ask(name)): name for name in self.names}
        waiting: set[asyncio.Future[Any]] = {*tasks, expired}
        while not expired.done() and len(waiting) > 1:
            finished, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in finished - {expired}:
                done(tasks[task])  # type: ignore[index]
        late = {tasks[task] for task in tasks if not task.done()}
        failed = {
            name
            for task, name in tasks.items()
            if task.done() and (task.cancelled() or task.exception() is not None)
        }
        return mark_ambiguous([self.row(name, late, failed) for name in self.names])

    async def ask(self, name: str) -> None:
        """One server through DCode's loader, every other one left out."""

        def complete(connections: dict[str, Any]) -> None:
            for other in list(connections):
                if other != name:
                    del connections[other]
                    continue
                self.configured.add(name)
                self.exchanges.complete(name, connections[name])

        plan = host.plan_for(self.sources, frozenset({name}), self.command)
        _tools, infos = await host.load_tools(plan, host.session_manager(complete))
        for info in infos:
            if info.name == name:
                self.infos[name] = info

    def row(self, name: str, late: set[str], failed: set[str]) -> ServerRow:
        entries = [layer[name] for layer in self.sources.layers() if name in layer]
        info = self.infos.get(name)
        state, detail = self.state(name, entries[-1], late, failed)
        row = ServerRow(name, host.transport_of(entries[-1]), state, detail)
        if info is not None and info.transport != "unknown":
            row.transport = info.transport
        if state in ("reachable", "failed", "timed_out"):
            row.tools = self.tools(name, entries[-1])
        return row

    def state(
        self, name: str, entry: dict[str, Any], late: set[str], failed: set[str]
    ) -> tuple[str, str]:
        info = self.infos.get(name)
        noted = self.call.noted(name) or ""
        if name in late:
            return "timed_out", noted
        if info is None:
            return ("failed", noted) if name in failed else ("not_trusted", "")
        if info.status == "disabled":
            return "disabled", ""
        if info.status == "unauthenticated" or name in self.exchanges.challenged:
            return "needs_login", noted
        if noted:
            return state_of(noted), noted
        if info.status == "ok" or (name in self.configured and self.call.entries(name)):
            return "reachable", ""
        if name in self.configured:
            return "failed", ""
        return ("unreachable" if host.resolves(name, entry) else "misconfigured"), ""

    def tools(self, name: str, entry: dict[str, Any]) -> list[ToolRow]:
        """Every tool that the server sent, with its verdict."""
        raw = self.call.entries(name)
        names = [full_name(name, each) for each in raw]
        left = host.filtered_names(name, entry, [each for each in names if each is not None])
        return [judge(each, full, left) for each, full in zip(raw, names, strict=True)]


def full_name(server: str, entry: bytes) -> str | None:
    """`<server>_<name>` of a raw entry, or `None` when its name is no string."""
    name = json.loads(entry).get("name")  # of two members the last, as DCode's loader reads it
    return f"{server}_{name}" if isinstance(name, str) else None


def judge(entry: bytes, name: str | None, left: set[str]) -> ToolRow:
    from deepagents_ro.command import TOOL_NAME

    if name is None or not host.is_valid_definition(entry):
        return ToolRow(name or "", callable=False, reason="broken_definition")
    if name not in left:
        return ToolRow(name, callable=False, reason="filtered")
    if TOOL_NAME.match(name) is None:
        return ToolRow(name, callable=False, reason="name_not_callable")
    allowed, reason = _mcpro.hint_verdict(entry)
    return ToolRow(name, callable=allowed, reason=READ_ONLY if allowed else reason)


def state_of(noted: str) -> str:
    """The state that a word of the transport stands for."""
    if noted == "http_401":
        return "needs_login"
    if noted == "http_403":
        return "denied"
    return "malformed_list" if noted in MALFORMED else "unreachable"


def mark_ambiguous(rows: list[ServerRow]) -> list[ServerRow]:
    """Refuse every tool whose full name stands more than once."""
    counts = Counter(tool.name for row in rows for tool in row.tools if tool.reason != "filtered")
    for row in rows:
        row.tools = [
            ToolRow(tool.name, callable=False, reason="ambiguous")
            if counts[tool.name] > 1 and tool.reason != "filtered"
            else tool
            for tool in row.tools
        ]
    return rows
