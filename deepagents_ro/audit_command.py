"""`dcode tools audit-read-only [--json]`: the audit as a table or as one envelope.

The same guard as the call's: one document, the same deadline, nothing left behind. At the deadline
the audit reports what it has.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from deepagents_ro import _mcpro, host, startup
from deepagents_ro.command import DEADLINE_VARIABLE, Command, parse_options
from deepagents_ro.deadline import first_deadline

if TYPE_CHECKING:
    from deepagents_ro.audit import ServerRow

WORDS = ("tools", "audit-read-only")
COMMAND = "tools audit-read-only"
MAX_BYTES = 131_072
PIPE_WIDTH = 160
MESSAGES = {
    "invalid_command": "Use: dcode tools audit-read-only [--json]",
    "interrupted": "The audit was interrupted.",
    "timeout": "The audit exceeded its time limit.",
    "runtime_failure": "The audit failed: DCode cannot read the MCP configuration.",
    "result_too_large": "The audit exceeds the managed size limit; use the table.",
}

HELP = """\
Usage: dcode [--mcp-config FILE] [--trust-project-mcp] [--no-mcp]
             tools audit-read-only [--json]

Ask every configured MCP server for its tools, call none of them, and say of
each server and each tool whether `dcode tools call-read-only` can use it, or
what is in the way: down to the hint that failed.

  --json   print one JSON document instead of a table
  -h, --help
"""


@dataclass(frozen=True, slots=True)
class Terminal:
    """What standard output and error were before the guard took them."""

    output: bool
    width: int
    progress: int | None
    """A private descriptor of a terminal for progress, or `None`."""


def look_at_terminal() -> Terminal:
    try:
        output = os.isatty(1)
        progress = os.dup(2) if os.isatty(2) else None
    except OSError:
        output, progress = False, None
    width = shutil.get_terminal_size().columns if output else PIPE_WIDTH
    return Terminal(output, width, progress)


def failure(code: str) -> bytes:
    """The failure envelope with its newline."""
    data = {"ok": False, "status": "error", "code": code, "message": MESSAGES[code]}
    return document(data)


def document(data: dict[str, Any]) -> bytes:
    envelope = {"schema_version": 1, "command": COMMAND, "data": data}
    return json.dumps(envelope, separators=(",", ":")).encode("ascii") + b"\n"


def parse(argv: list[str], *, managed: bool) -> tuple[Command, bool] | None:
    """The command and whether `--json` was given; `None` for a wrong shape."""
    split = next(i for i in range(len(argv) - 1) if tuple(argv[i : i + 2]) == WORDS)
    options = parse_options(argv[:split], managed=managed)
    rest = argv[split + 2 :]
    if options is None:
        return None
    if rest in (["-h"], ["--help"]):
        return Command(help=True), False
    return (Command(**options), bool(rest)) if rest in ([], ["--json"]) else None


def main(argv: list[str]) -> NoReturn:
    """Run the audit on the arguments behind the program's name; never returns."""
    terminal = look_at_terminal()
    guard = _mcpro.Guard.start(timeout=failure("timeout"), interrupted=failure("interrupted"))
    try:
        run(argv, guard, terminal)
    except KeyboardInterrupt:  # a signal that came just before the guard took over
        guard.finish(130, failure("interrupted"))
    except BaseException:  # noqa: BLE001 - one document is owed for anything at all
        guard.finish(1, failure("runtime_failure"))


def run(argv: list[str], guard: _mcpro.Guard, terminal: Terminal) -> NoReturn:
    host.prepare_package()
    managed = host.is_managed()
    parsed = parse(argv, managed=managed)
    if parsed is None:
        guard.finish(2, failure("invalid_command"))
    command, as_json = parsed
    if command.help:
        guard.finish(0, HELP.encode())
    if not managed:
        guard.lower_deadline(os.environ.get(DEADLINE_VARIABLE, ""))
    if managed:
        host.check_managed_runtime()
    host.load_environment()
    sources = host.read_configuration(command, managed=managed)
    rows: list[ServerRow] = []
    if sources is not None and sources.allowed():
        startup.install()
        host.import_stack()
        rows = asyncio.new_event_loop().run_until_complete(
            collect(command, sources, guard, terminal)
        )
        if startup.used():
            guard.finish(1, failure("runtime_failure"))
    if not as_json:
        guard.finish(0, table(rows, terminal))
    text = document({"ok": True, "status": "ok", "servers": [row.as_json() for row in rows]})
    if len(text) > MAX_BYTES + 1:
        guard.finish(1, failure("result_too_large"))
    guard.finish(0, text)


async def collect(
    command: Command, sources: host.Sources, guard: _mcpro.Guard, terminal: Terminal
) -> list[ServerRow]:
    """Ask the servers until the first deadline."""
    from deepagents_ro.audit import Audit

    expired = first_deadline(guard)
    audit = Audit(command, sources)
    guard.set_exit_hook(audit.call.exit_hook())
    with Progress(terminal, len(audit.names)) as progress:
        rows = await audit.run(expired, progress.step)
    KEPT.append(audit)  # the exit hook needs it until the process is gone
    return rows


KEPT: list[Any] = []


class Progress:
    """A bar on a terminal while servers are asked; nothing elsewhere."""

    def __init__(self, terminal: Terminal, total: int) -> None:
        self._bar: Any = None
        self._task: Any = None
        if terminal.progress is None:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        stream = os.fdopen(terminal.progress, "w", encoding="utf-8")
        self._bar = Bar(
            TextColumn("asking"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=Console(file=stream, force_terminal=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, name: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=name)


def table(rows: list[ServerRow], terminal: Terminal) -> bytes:
    """The report for people, in colour on a terminal alone."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from deepagents_ro.audit import REASONS, STATES

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=terminal.width,
        force_terminal=terminal.output,
        no_color=not terminal.output or None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if not rows:
        console.print("No MCP servers are configured.")
    for row in rows:
        good = row.state == "reachable"
        head = Text.assemble(
            (visible(row.name), "bold"),
            f" ({row.transport}) ",
            (STATES[row.state], "green" if good else "red"),
        )
        if row.detail:
            head.append(f" [{row.detail}]")
        console.print(head)
        if row.tools:
            tools = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
            for tool in row.tools:
                style = "green" if tool.callable else "yellow"
                tools.add_row(
                    visible(tool.name),
                    Text("read-only" if tool.callable else "refused", style=style),
                    REASONS.get(tool.reason, f"hint: {tool.reason} (tool_not_read_only)"),
                )
            console.print(tools)
    return stream.getvalue().encode("utf-8", "replace")


def visible(text: str) -> str:
    """`text` with control characters spelled out, so that a name cannot steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
