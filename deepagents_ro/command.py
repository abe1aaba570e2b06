"""`dcode tools call-read-only TOOL --json`: command line, input, one envelope, exit.

Nothing heavy is imported before the output guard stands. `main` never returns: it ends the process
through the guard, which writes exactly one document, whatever else happens.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from dataclasses import dataclass
from typing import NoReturn

from deepagents_ro import _mcpro

MAX_INPUT_BYTES = 131_072
TOOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
DEADLINE_VARIABLE = "DEEPAGENTS_RO_DEADLINE_MS"
WORDS = ("tools", "call-read-only")

HELP = """\
Usage: dcode [--mcp-config FILE] [--trust-project-mcp] [--no-mcp]
             tools call-read-only TOOL --json

Make one exact, read-only MCP tool call, with no model in the loop.

  TOOL     the full name, <server>_<tool>, as `dcode tools list` shows it
  --json   print the result as one JSON document (required)
  -h, --help

The tool's arguments are one JSON object on standard input, at most 131072
bytes. The call is made only if the server itself says, coherently, that the
tool is read-only. Exit status: 0 success, 1 denied or failed, 2 wrong command
line or tool name, 130 interrupted. `dcode tools audit-read-only` tells why a
tool is not found or not read-only.

  printf '%s' '{"task_id":"worker.1"}' |
    dcode tools call-read-only worker-broker_worker_task_context --json
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line of the right shape; `tool` is not checked yet."""

    tool: str = ""
    help: bool = False
    mcp_config: str | None = None
    trust_project_mcp: bool = False
    no_mcp: bool = False


def parse(argv: list[str], *, managed: bool) -> Command | None:
    """Read the arguments behind the program's name; `None` for a wrong shape.

    `managed` (a managed runtime is installed) refuses `--mcp-config` and `--trust-project-mcp`,
    and ignores the `--no-mcp` and `--sandbox none` that launchers put first.
    """
    split = next((i for i in range(len(argv) - 1) if tuple(argv[i : i + 2]) == WORDS), None)
    if split is None:
        return None
    options = parse_options(argv[:split], managed=managed)
    rest = argv[split + 2 :]
    if options is None:
        return None
    if rest in (["-h"], ["--help"]):
        return Command(help=True)
    if len(rest) != 2 or rest.count("--json") != 1:
        return None
    tool = rest[1] if rest[0] == "--json" else rest[0]
    if tool == "-h" or tool.startswith("--"):
        return None
    return Command(tool=tool, **options)


def parse_options(before: list[str], *, managed: bool) -> dict[str, object] | None:
    """The options that may stand before `tools`, as keyword arguments of `Command`."""
    found: dict[str, object] = {}
    words = iter(before)
    for word in words:
        if word == "--no-mcp":
            if not managed:
                found["no_mcp"] = True
        elif managed:
            if word == "--sandbox=none" or (word == "--sandbox" and next(words, None) == "none"):
                continue
            return None
        elif word == "--trust-project-mcp":
            found["trust_project_mcp"] = True
        elif word == "--mcp-config":
            value = next(words, None)
            if value is None or (value.startswith("-") and value != "-"):
                return None
            found["mcp_config"] = value
        elif word.startswith("--mcp-config="):
            found["mcp_config"] = word.partition("=")[2]
        else:
            return None
    return found


def start_guard() -> _mcpro.Guard:
    """Take over descriptors, signals and the deadline; see `csrc/guard/guard.h`."""
    gc.disable()
    return _mcpro.Guard.start(
        timeout=_mcpro.envelope_error("timeout") + b"\n",
        interrupted=_mcpro.envelope_error("interrupted") + b"\n",
    )


def fail(guard: _mcpro.Guard, code: str) -> NoReturn:
    """End the process with the failure envelope of `code` (contract, section 1)."""
    guard.finish(_mcpro.envelope_exit(code), _mcpro.envelope_error(code) + b"\n")


def read_arguments(guard: _mcpro.Guard) -> bytes:
    """Standard input as one strict JSON object; ends the process when it is not."""
    status, data = guard.read_stdin(MAX_INPUT_BYTES)
    if status != "ok":
        fail(guard, INPUT_CODES[status])
    try:
        _mcpro.json_check(data)
        is_object = data.lstrip(b" \t\r\n").startswith(b"{")
    except _mcpro.JSONError:
        fail(guard, "invalid_input")
    if not is_object:
        fail(guard, "invalid_input")
    return data


INPUT_CODES = {
    "missing": "input_required",
    "too_large": "input_too_large",
    "broken": "invalid_input",
    "timeout": "timeout",
    "stopping": "interrupted",
    "no_memory": "runtime_failure",
}


def main(argv: list[str]) -> NoReturn:
    """Run the command on the arguments behind the program's name; never returns."""
    guard = start_guard()
    try:
        run(argv, guard)
    except KeyboardInterrupt:  # a signal that came just before the guard took over
        fail(guard, "interrupted")
    except BaseException:  # noqa: BLE001 - one envelope is owed for anything at all
        fail(guard, "runtime_failure")


def run(argv: list[str], guard: _mcpro.Guard) -> NoReturn:
    """`main` behind the guard."""
    from deepagents_ro import host

    host.prepare_package()
    managed = host.is_managed()
    command = parse(argv, managed=managed)
    if command is None:
        fail(guard, "invalid_command")
    if command.help:
        guard.finish(0, HELP.encode())
    if TOOL_NAME.match(command.tool) is None:
        fail(guard, "invalid_tool_name")
    if not managed:
        guard.lower_deadline(os.environ.get(DEADLINE_VARIABLE, ""))
    arguments = read_arguments(guard)

    from deepagents_ro import call

    code, document = call.run(command, arguments, guard, managed=managed)
    guard.finish(code, document + b"\n")


def module_main() -> NoReturn:
    """`python -m deepagents_ro [options] TOOL --json`: the same command without `dcode`."""
    argv = sys.argv[1:]
    if not any(tuple(argv[i : i + 2]) == WORDS for i in range(len(argv) - 1)):
        split = 0
        while split < len(argv) and argv[split] in OPTION_WORDS:
            split += 2 if argv[split] in OPTIONS_WITH_VALUE else 1
        while split < len(argv) and argv[split].startswith(INLINE_OPTIONS):
            split += 1
        argv = [*argv[:split], *WORDS, *argv[split:]]
    main(argv)


OPTIONS_WITH_VALUE = ("--mcp-config", "--sandbox")
OPTION_WORDS = (*OPTIONS_WITH_VALUE, "--trust-project-mcp", "--no-mcp")
INLINE_OPTIONS = ("--mcp-config=", "--sandbox=")
