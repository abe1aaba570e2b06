"""The reference: the same call in plain Python on DCode's own loader.

    printf '%s' '{"task_id":"worker.1"}' | python bench/reference.py TOOL --json

It does what a careful Python command would do and nothing else: read standard input with
`json.loads`, load the servers that `dcode tools list` loads, select the exact tool, ask
DCode's two helpers, invoke once, clean up, print one envelope. It has none of the guarantees
of `dcode tools call-read-only`; it is here so that time and memory can be measured against it.

With `REFERENCE_PHASES=FILE` it appends one JSON object per run to FILE: seconds since the
process started, at the end of each phase.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = "tools call-read-only"
MESSAGES = {
    "invalid_command": "Use: dcode tools call-read-only TOOL --json",
    "invalid_input": "Standard input must be one JSON object.",
    "not_mcp_tool": "The selected tool is not an MCP tool.",
    "tool_not_found": "The exact MCP tool is unavailable.",
    "ambiguous_tool": "The exact MCP tool name is ambiguous.",
    "tool_not_read_only": "The selected MCP tool is not coherently read-only.",
    "tool_failed": "The MCP tool reported a failure.",
    "runtime_failure": "The managed MCP tool call failed.",
}
DEADLINE_S = 15.0


def seconds_since_start() -> float:
    """Seconds since the kernel started this process (clock ticks are 10 ms)."""
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


PHASES: dict[str, float] = {}


def phase(name: str) -> None:
    """Note the end of a phase, when somebody asked for it."""
    if "REFERENCE_PHASES" in os.environ:
        PHASES[name] = round(seconds_since_start(), 3)


class CallError(Exception):
    """A failure with one of the codes above."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call the one tool; returns the members of a successful `data`."""
    from deepagents_code.auto_mode import is_mcp_tool, mcp_tool_is_coherently_read_only
    from deepagents_code.mcp_tools import resolve_and_load_mcp_tools
    from deepagents_code.plugins.adapters.mcp import discover_plugin_mcp_configs
    from deepagents_code.project_utils import ProjectContext

    phase("loader imported")
    context = ProjectContext.from_user_cwd(Path.cwd())
    tools, manager, _infos = await resolve_and_load_mcp_tools(
        explicit_config_path=None,
        no_mcp=False,
        trust_project_mcp=None,
        project_context=context,
        additional_configs=discover_plugin_mcp_configs(
            project_dir=context.project_root or context.user_cwd
        ),
    )
    phase("tools discovered")
    try:
        found = [tool for tool in tools if tool.name == name]
        if not found:
            raise CallError("tool_not_found")
        if len(found) > 1:
            raise CallError("ambiguous_tool")
        if not is_mcp_tool(found[0]):
            raise CallError("not_mcp_tool")
        if not mcp_tool_is_coherently_read_only(found[0]):
            raise CallError("tool_not_read_only")
        message = await found[0].ainvoke(
            {"type": "tool_call", "id": "call", "name": name, "args": arguments}
        )
        phase("tool called")
    finally:
        if manager is not None:
            await manager.cleanup()
            phase("cleaned up")
    if message.status != "success":
        raise CallError("tool_failed")
    content = message.content
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    data: dict[str, Any] = {
        "tool": name,
        "content": [{k: v for k, v in block.items() if k != "id"} for block in content],
    }
    if message.artifact is not None:
        data["structured_content"] = message.artifact["structured_content"]
    return data


def main(argv: list[str]) -> int:
    """Print one envelope; 0 success, 1 failure, 2 wrong command line."""
    exit_code = 0
    try:
        if len(argv) != 2 or argv[1] != "--json":
            raise CallError("invalid_command")
        arguments = json.loads(sys.stdin.buffer.read())
        if not isinstance(arguments, dict):
            raise CallError("invalid_input")
        phase("input read")
        found = asyncio.run(asyncio.wait_for(call(argv[0], arguments), DEADLINE_S))
        data: dict[str, Any] = {"ok": True, "status": "ok", **found}
    except json.JSONDecodeError:
        data, exit_code = failure("invalid_input"), 1
    except CallError as error:
        data, exit_code = failure(error.code), 2 if error.code == "invalid_command" else 1
    except Exception:  # the envelope is the report; what went wrong is not its business
        data, exit_code = failure("runtime_failure"), 1
    envelope = {"schema_version": 1, "command": COMMAND, "data": data}
    sys.stdout.write(json.dumps(envelope, separators=(",", ":")) + "\n")
    sys.stdout.flush()
    if "REFERENCE_PHASES" in os.environ:
        phase("envelope written")
        with Path(os.environ["REFERENCE_PHASES"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(PHASES) + "\n")
    return exit_code


def failure(code: str) -> dict[str, Any]:
    """The `data` of a failed call."""
    return {"ok": False, "status": "error", "code": code, "message": MESSAGES[code]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
