"""Why each tool can or cannot be called read-only: every server, every tool, calling none.

Each server is asked on its own, all at once, over the same path as the call: DCode's loader, the C
transport, the C verdict on the bytes that the server sent. A server that has not answered when its
own time is over is reported as that; the others are not waited for any longer because of it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deepagents_ro import _mcpro, causes, host
from deepagents_ro.causes import Cause
from deepagents_ro.command_line import TOOL_NAME
from deepagents_ro.exchange import Exchanges
from deepagents_ro.reasons import STATES, Reason, ToolReason, of_tool, of_word
from deepagents_ro.refusal import HostError

if TYPE_CHECKING:
    from deepagents_ro.command_line import Command
    from deepagents_ro.plan import Sources
    from deepagents_ro.protocols import Connections, ServerInfo
    from deepagents_ro.reasons import ServerReason, ToolVerdict

READ_ONLY = ToolReason.READ_ONLY.word
# Seconds that a server may leave one request without an answer; DCode's preflight has 2 a phase.
SERVER_SECONDS = 5.0
# Seconds between two looks at who is late.
LOOK_SECONDS = 0.25
# What a server's row says where none could be had: its own states come from `Reason`.
REACHABLE = Reason.NONE.state
# What a row has for a transport that stands for a configuration file.
FILE = "config"
# What the verdict is about, in the order of the specification.
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool of one server; `reason` is a word of ToolReason or of the hint that failed."""

    name: str
    callable: bool
    reason: str
    sent: tuple[tuple[str, str], ...] = ()
    """The standard hints as they were sent, each with its value or the value's kind."""


@dataclass(slots=True)
class ServerRow:
    """One server, or one configuration file that cannot be read.

    `lost` says that the call would refuse a tool of another server that this one could own.
    """

    name: str
    transport: str
    cause: Cause
    tools: list[ToolRow] = field(default_factory=list)
    lost: bool = False
    listed: int = 0
    """How many tools the server sent."""

    @property
    def is_file(self) -> bool:
        """Whether this is a configuration file and no server."""
        return self.transport == FILE

    @property
    def explanation(self) -> str:
        """What to do about the cause, or ''."""
        reason = self.cause.reason
        return reason.text.replace("<server>", self.name) if reason.word else ""

    @property
    def state(self) -> str:
        """A key of `reasons.STATES`."""
        return self.cause.reason.state

    @property
    def state_text(self) -> str:
        """The state in words, with the server's name where they have a command."""
        return STATES[self.state].replace("<server>", self.name)

    @property
    def about(self) -> str:
        """The subject of the cause, in parentheses behind a space, or ''."""
        return f" ({self.cause.subject})" if self.cause.subject else ""

    def as_json(self) -> dict[str, object]:
        """The row for programs; see `schemas`."""
        return {
            "name": self.name,
            "transport": self.transport,
            "state": self.state,
            "detail": self.cause.reason.word,
            "subject": self.cause.subject,
            "explanation": self.explanation,
            "tools": [
                {"name": tool.name, "callable": tool.callable, "reason": tool.reason}
                for tool in self.tools
            ],
        }


class Audit:
    """The servers of one configuration on one event loop: all, or those that can own a tool."""

    def __init__(self, command: Command, sources: Sources) -> None:
        self.command = command
        self.sources = sources
        self.names = [
            name
            for name in sources.allowed()
            if not command.tool or host.can_own(name, command.tool)
        ]
        self.worker = _mcpro.Worker("")
        self.exchanges = Exchanges(self.worker, asyncio.get_running_loop())
        self.configured: set[str] = set()
        self.infos: dict[str, ServerInfo] = {}
        self.skipped: dict[str, Cause] = {}

    async def run(
        self, expired: asyncio.Future[None], done: Callable[[str], None]
    ) -> list[ServerRow]:
        """Ask every server until all have answered or `expired`; `done` is told of each."""
        ends: dict[str, asyncio.Future[None]] = {
            name: asyncio.ensure_future(self.ask(name)) for name in self.names
        }
        names = {task: name for name, task in ends.items()}
        waiting = {*names}
        while not expired.done() and any(not self.is_late(names[task]) for task in waiting):
            finished, _ = await asyncio.wait(
                {*waiting, expired}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for task in finished - {expired}:
                waiting.discard(task)
                done(names[task])
        files = [
            ServerRow(f"<config:{fault.path.name}>", FILE, Cause(Reason.BROKEN_FILE, str(fault)))
            for fault in self.sources.faults
        ]
        return settle([*files, *(self.row(name, ends[name]) for name in self.names)])

    def is_late(self, name: str) -> bool:
        """Whether a server has had its time. What this process takes is not counted."""
        since = self.exchanges.asked.get(name)
        return since is not None and time.monotonic() - since > SERVER_SECONDS

    async def ask(self, name: str) -> None:
        """One server through DCode's loader, every other one left out."""

        def complete(connections: Connections) -> None:
            for other, connection in list(connections.items()):
                if other != name:
                    del connections[other]
                    continue
                self.configured.add(name)
                connections[name] = self.exchanges.complete(name, connection)

        plan = host.plan_for(self.sources, frozenset({name}), self.command)
        _tools, infos = await host.load_tools(plan, host.session_manager(complete))
        for info in infos:
            if info.name == name:
                self.infos[name] = info
                if info.status == "error" and name not in self.configured:
                    self.skipped[name] = await causes.of_skipped(name, self.entry(name))

    def entry(self, name: str) -> object:
        """A server's unresolved entry, of the source that wins."""
        return self.sources.entries(name)[-1]

    def row(self, name: str, task: asyncio.Future[None]) -> ServerRow:
        """A server's row, from what its task has found out until now."""
        entry = self.entry(name)
        info = self.infos.get(name)
        row = ServerRow(name, host.transport_of(entry), self.cause(name, entry, task))
        if info is not None and info.transport != "unknown":
            row.transport = info.transport
        if name in self.configured and isinstance(entry, dict) and host.is_valid_entry(name, entry):
            row.tools = self.tools(name, entry)
            row.listed = len(row.tools)
        if info is not None:
            row.lost = info.status in host.NOT_LOADED and row.state != REACHABLE
        else:
            row.lost = not task.done() or has_failed(task)
        return row

    def cause(self, name: str, entry: object, task: asyncio.Future[None]) -> Cause:
        """Why a server is not usable; `Reason.NONE` when it is."""
        info = self.infos.get(name)
        known = causes.of_asked(name, entry, self.worker, self.exchanges)
        if not task.done():
            return known if known.reason is not Reason.NONE else Cause(Reason.SILENT)
        if info is None:
            if not host.is_valid_entry(name, entry):
                return Cause(Reason.BAD_ENTRY)
            if known.reason is not Reason.NONE or not has_failed(task):
                return known if has_failed(task) else Cause(Reason.NOT_TRUSTED)
            return Cause(failure_reason(task))
        if info.status == "disabled":
            return Cause(Reason.DISABLED)
        if name in self.skipped:
            return self.skipped[name]
        if known.reason is not Reason.NONE:
            return known
        if info.status == "unauthenticated":
            return Cause(Reason.LOGIN)
        if info.status == "ok" or self.is_spoilt(name):
            return Cause(Reason.NONE)
        return causes.of_refused(name, self.worker)

    def is_spoilt(self, name: str) -> bool:
        """Whether DCode refused a list for entries that the call would not hand to it."""
        lists = map(handed_up, self.worker.entries(name))
        return any(each is None or not host.is_valid_list(each) for each in lists)

    def tools(self, name: str, entry: dict[str, object]) -> list[ToolRow]:
        """Every tool that the server sent, with its verdict."""
        raw = self.worker.entries(name)
        names = [full_name(name, each) for each in raw]
        left = host.filtered_names(name, entry, [each for each in names if each is not None])
        rows = [judge(each, full, left) for each, full in zip(raw, names, strict=True)]
        if name in self.exchanges.moved:
            return [refuse(row, ToolReason.MOVED) if row.callable else row for row in rows]
        return rows


def has_failed(task: asyncio.Future[None]) -> bool:
    """Whether a task that is done raised or was cancelled."""
    return task.cancelled() or task.exception() is not None


def failure_reason(task: asyncio.Future[None]) -> ServerReason:
    """Why a server's task broke off."""
    error = None if task.cancelled() else task.exception()
    return of_word(error.reason) if isinstance(error, HostError) else Reason.INTERNAL


def full_name(server: str, entry: bytes) -> str | None:
    """`<server>_<name>` of a raw entry, or `None` when its name is no string."""
    # of two members the last, as DCode's loader reads it; an integer may be longer than `int` reads
    name = json.loads(entry, parse_int=float).get("name")
    return f"{server}_{name}" if isinstance(name, str) else None


LIST_HEAD = b'{"jsonrpc":"2.0","id":0,"result":'


def handed_up(entry: bytes) -> bytes | None:
    """The list of one tool that DCode's models get for a raw entry; `None` when they get none."""
    answer = LIST_HEAD + b'{"tools":[%b]}}' % entry
    up = _mcpro.reduce_tool_list(answer, "", "")[0].removeprefix(LIST_HEAD)[:-1]
    return None if up == b'{"tools":[]}' else up


def judge(entry: bytes, name: str | None, left: set[str]) -> ToolRow:
    """The row of one raw entry; `left` are the full names that the user's filters leave."""
    up = handed_up(entry)
    if up is None:
        return ToolRow(name or "", callable=False, reason=ToolReason.OUT_OF_BOUNDS.word)
    if name is None or not host.is_valid_list(up):
        return ToolRow(name or "", callable=False, reason=ToolReason.BROKEN_DEFINITION.word)
    if name not in left:
        return ToolRow(name, callable=False, reason=ToolReason.FILTERED.word)
    if TOOL_NAME.match(name) is None:
        return ToolRow(name, callable=False, reason=ToolReason.NAME_NOT_CALLABLE.word)
    allowed, reason = _mcpro.hint_verdict(entry)
    sent = sent_hints(entry)
    return ToolRow(name, callable=allowed, reason=READ_ONLY if allowed else reason, sent=sent)


def sent_hints(entry: bytes) -> tuple[tuple[str, str], ...]:
    """The standard hints of a raw entry, as often as they stand in it.

    A literal is shown, any other value by its kind: a server may put anything there.
    """

    def pairs(document: object) -> list[tuple[str, object]]:
        return document if isinstance(document, Members) else []

    kept = json.loads(entry, object_pairs_hook=Members, parse_int=float)
    found = [each for name, value in pairs(kept) if name == "annotations" for each in pairs(value)]
    return tuple((name, shown(value)) for name, value in found if name in HINTS)


class Members(list[tuple[str, object]]):
    """The members of a JSON object, each as often as it stands there."""


def shown(value: object) -> str:
    """A literal as JSON, any other value by its kind."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds: dict[type, str] = {str: "a string", float: "a number", Members: "an object"}
    return kinds.get(type(value), "an array")


def refuse(row: ToolRow, reason: ToolVerdict) -> ToolRow:
    """The same tool, which cannot be called for `reason`."""
    return replace(row, callable=False, reason=reason.word)


# What the call says of a tool only after it has looked at the servers around it.
JUDGED_LAST = ("ok", "tool_not_read_only", "runtime_failure")


def settle(rows: list[ServerRow]) -> list[ServerRow]:
    """Refuse what the call refuses for what is around a tool: its server, a namesake, a rival."""
    counts = Counter(
        tool.name for row in rows for tool in row.tools if tool.reason != ToolReason.FILTERED.word
    )
    lost = [row.name for row in rows if row.lost]

    def settled(row: ServerRow, tool: ToolRow) -> ToolRow:
        if tool.reason == ToolReason.FILTERED.word:
            return tool
        if counts[tool.name] > 1:
            return refuse(tool, ToolReason.AMBIGUOUS)
        if of_tool(tool.reason).code not in JUDGED_LAST:
            return tool
        if row.state != REACHABLE:
            return refuse(tool, ToolReason.SERVER_NOT_LOADED)
        if any(name != row.name and host.can_own(name, tool.name) for name in lost):
            return refuse(tool, ToolReason.RIVAL_NOT_LOADED)
        return tool

    for row in rows:
        row.tools = [settled(row, tool) for tool in row.tools]
    return rows
