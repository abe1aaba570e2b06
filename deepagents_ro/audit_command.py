"""`dcode tools audit-read-only [TOOL] [--json]`: the audit as a table or as one envelope.

The same guard as the call's: one document, the same deadline, nothing left behind. At the deadline
the audit reports what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from deepagents_ro import _mcpro, document, host, startup
from deepagents_ro import managed as managed_runtime
from deepagents_ro.command_line import AUDIT, TOOL_NAME, parse_audit
from deepagents_ro.deadline import first_deadline, lower_deadline
from deepagents_ro.refusal import REASONS, HostError
from deepagents_ro.terminal import PIPE_WIDTH, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deepagents_ro.audit import Audit, ServerRow
    from deepagents_ro.audit_verdict import Verdict
    from deepagents_ro.command_line import Command
    from deepagents_ro.plan import Sources

COMMAND = " ".join(AUDIT)
MESSAGES = {
    "invalid_command": "Use: dcode tools audit-read-only [TOOL] [--json]",
    "interrupted": "The audit was interrupted.",
    "timeout": "The audit exceeded its time limit.",
    "runtime_failure": "The audit failed: DCode cannot read the MCP configuration.",
    "result_too_large": "The audit exceeds the managed size limit; use the table.",
}

HELP = """\
Usage: dcode [--mcp-config FILE] [--trust-project-mcp] [--no-mcp]
             tools audit-read-only [TOOL] [--json]

Ask every configured MCP server for its tools, call none of them, and say of
each server and each tool whether `dcode tools call-read-only` can use it, or
what is in the way: down to the hint that failed. With TOOL, the full name
<server>_<tool>, ask only the servers that could own it, and say what to do
next. Exit status: 0 the audit was made, or TOOL can be called; 1 it failed,
or TOOL cannot be called; 2 wrong command line; 130 interrupted. Every reason:
python -m deepagents_ro.reasons

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
    """What the descriptors 1 and 2 are now; 2 is kept for progress when it is a terminal."""
    try:
        output = os.isatty(1)
        progress = os.dup(2) if os.isatty(2) else None
    except OSError:
        output, progress = False, None
    width = shutil.get_terminal_size().columns if output else PIPE_WIDTH
    return Terminal(output, width, progress)


def failure(code: str, reason: str = "", subject: str = "") -> bytes:
    """The failure envelope with its newline; `reason` is '' or a word of `reasons.Refusal`."""
    more = {}
    if reason:
        more = {"reason": reason, "subject": subject, "explanation": REASONS[reason]}
    return document.failure(COMMAND, code, MESSAGES[code], more).encode("ascii")


def main(argv: list[str]) -> NoReturn:
    """Run the audit on the arguments behind the program's name; never returns."""
    terminal = look_at_terminal()
    guard = _mcpro.Guard.start(
        timeout=failure("timeout"),
        interrupted=failure("interrupted"),
        failed=failure("runtime_failure"),
    )
    try:
        run(argv, guard, terminal)
    except KeyboardInterrupt:  # raised by other code: signals are the guard's
        guard.finish(130, failure("interrupted"))
    except HostError as refused:
        guard.finish(1, failure("runtime_failure", refused.reason))
    except BaseException:  # noqa: BLE001 - one document is owed for anything at all
        guard.finish(1, failure("runtime_failure"))


def run(argv: list[str], guard: _mcpro.Guard, terminal: Terminal) -> NoReturn:
    """`main` behind the guard."""
    host.prepare_package()
    managed = managed_runtime.is_installed()
    command = parse_audit(argv, managed=managed)
    if command is None:
        guard.finish(2, failure("invalid_command"))
    if command.help:
        guard.finish(0, HELP.encode())
    report = Report(guard, terminal, as_json=command.as_json)
    if command.tool and TOOL_NAME.match(command.tool) is None:
        report.of_unasked(command.tool)
    lower_deadline(guard, managed=managed)
    if managed:
        managed_runtime.check()
    host.load_environment(trust_project=command.trust_project_mcp)
    try:
        sources = host.read_configuration(command, managed=managed)
    except HostError as refused:
        fault = "" if managed else explicit_fault(command.mcp_config)
        report.of_refusal(refused.reason, fault)
    report.of_rows(command.tool, ask(command, sources, guard, terminal))


def ask(
    command: Command, sources: Sources | None, guard: _mcpro.Guard, terminal: Terminal
) -> list[ServerRow]:
    """The rows of every server that the audit is about."""
    rows: list[ServerRow] = []
    if sources is not None and (sources.allowed() or sources.faults):
        host.import_stack(startup.prepare())
        rows = asyncio.new_event_loop().run_until_complete(
            collect(command, sources, guard, terminal)
        )
        if startup.used():
            guard.finish(1, failure("runtime_failure"))
    return rows


class Report:
    """How the process ends: with a table or an envelope, and its exit status."""

    def __init__(self, guard: _mcpro.Guard, terminal: Terminal, *, as_json: bool) -> None:
        self._guard = guard
        self._terminal = terminal
        self._as_json = as_json

    def of_rows(self, tool: str, rows: list[ServerRow]) -> NoReturn:
        """Report all servers, or the verdict on `tool` unless it is empty."""
        if tool:
            from deepagents_ro.audit_verdict import judge

            self._one(judge(tool, rows))
        if self._as_json:
            self._envelope(0, {"servers": [row.as_json() for row in rows]})
        from deepagents_ro import audit_table

        self._guard.finish(
            0,
            audit_table.of_servers(rows, width=self._terminal.width, colour=self._terminal.output),
        )

    def of_refusal(self, reason: str, subject: str) -> NoReturn:
        """Report a configuration that cannot be read."""
        if self._as_json:
            self._guard.finish(1, failure("runtime_failure", reason, subject))
        about = f" ({visible(subject)})" if subject else ""
        text = f"{MESSAGES['runtime_failure']}\n{reason}{about}: {REASONS[reason]}\n"
        self._guard.finish(1, text.encode("utf-8", "replace"))

    def of_unasked(self, tool: str) -> NoReturn:
        """Report a tool whose name no server is asked about."""
        from deepagents_ro.audit_verdict import refuse
        from deepagents_ro.reasons import ToolReason

        self._one(refuse(tool, ToolReason.NAME_NOT_CALLABLE))

    def _one(self, verdict: Verdict) -> NoReturn:
        status = 0 if verdict.callable else 1
        if self._as_json:
            self._envelope(status, verdict.as_json())
        from deepagents_ro import audit_table

        self._guard.finish(
            status,
            audit_table.of_verdict(
                verdict, width=self._terminal.width, colour=self._terminal.output
            ),
        )

    def _envelope(self, status: int, data: dict[str, object]) -> NoReturn:
        text = document.success(COMMAND, data)
        if not document.fits(text):
            self._guard.finish(1, failure("result_too_large"))
        self._guard.finish(status, text.encode("ascii"))


def explicit_fault(path: str | None) -> str:
    """Where the explicit file is wrong, or ''; what stands there is not quoted."""
    return "" if path is None else str(host.fault_of(Path(path).expanduser()))


async def collect(
    command: Command, sources: Sources, guard: _mcpro.Guard, terminal: Terminal
) -> list[ServerRow]:
    """Ask the servers until the first deadline."""
    from deepagents_ro.audit import Audit

    expired = first_deadline(guard)
    audit = Audit(command, sources)
    guard.set_exit_hook(audit.worker.exit_hook())
    with progress(terminal, len(audit.names)) as step:
        rows = await audit.run(expired, step)
    KEPT.append(audit)  # the exit hook needs it until the process is gone
    return rows


KEPT: list[Audit] = []


@contextlib.contextmanager
def progress(terminal: Terminal, total: int) -> Iterator[Callable[[str], None]]:
    """What is told of each server that has answered: a bar on a terminal, nothing elsewhere."""
    if terminal.progress is None:
        yield lambda _name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    stream = os.fdopen(terminal.progress, "w", encoding="utf-8")
    with Progress(
        TextColumn("asking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=Console(file=stream, force_terminal=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)
