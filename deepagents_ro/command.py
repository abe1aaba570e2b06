"""`dcode tools call-read-only TOOL --json`: command line, input, one envelope, exit.

Nothing heavy is imported before the output guard stands. `main` never returns: it ends the process
through the guard, which writes exactly one document, whatever else happens.
"""

from __future__ import annotations

import gc
from typing import NoReturn

from deepagents_ro import _mcpro
from deepagents_ro.command_line import TOOL_NAME, parse_call
from deepagents_ro.deadline import lower_deadline

MAX_INPUT_BYTES = _mcpro.MAX_STDIN

HELP = f"""\
Usage: dcode [--mcp-config FILE] [--trust-project-mcp] [--no-mcp]
             tools call-read-only TOOL --json

Make one exact, read-only MCP tool call, with no model in the loop.

  TOOL     the full name, <server>_<tool>, as `dcode tools list` shows it
  --json   print the result as one JSON document (required)
  -h, --help

The tool's arguments are one JSON object on standard input, at most {MAX_INPUT_BYTES}
bytes. The call is made only if the server itself says, coherently, that the
tool is read-only. Exit status: 0 success, 1 denied or failed, 2 wrong command
line or tool name, 130 interrupted. `dcode tools audit-read-only` tells why a
tool is not found or not read-only.

  printf '%s' '{{"task_id":"worker.1"}}' |
    dcode tools call-read-only worker-broker_worker_task_context --json
"""


def start_guard() -> _mcpro.Guard:
    """Take over descriptors, signals and the deadline; see `csrc/guard/guard.h`."""
    gc.disable()
    return _mcpro.Guard.start(
        timeout=_mcpro.envelope_error("timeout") + b"\n",
        interrupted=_mcpro.envelope_error("interrupted") + b"\n",
        failed=_mcpro.envelope_error("runtime_failure") + b"\n",
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
    except KeyboardInterrupt:  # raised by other code: signals are the guard's
        fail(guard, "interrupted")
    except BaseException:  # noqa: BLE001 - one envelope is owed for anything at all
        fail(guard, "runtime_failure")


def run(argv: list[str], guard: _mcpro.Guard) -> NoReturn:
    """`main` behind the guard."""
    from deepagents_ro import host
    from deepagents_ro import managed as managed_runtime

    host.prepare_package()
    managed = managed_runtime.is_installed()
    command = parse_call(argv, managed=managed)
    if command is None:
        fail(guard, "invalid_command")
    if command.help:
        guard.finish(0, HELP.encode())
    if TOOL_NAME.match(command.tool) is None:
        fail(guard, "invalid_tool_name")
    lower_deadline(guard, managed=managed)
    arguments = read_arguments(guard)

    from deepagents_ro import call

    code, document = call.run(command, arguments, guard, managed=managed)
    guard.finish(code, document + b"\n")
