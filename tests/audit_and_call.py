"""Audits and then calls every tool in one process; prints what both say as JSON.

    python -I tests/audit_and_call.py TOOL...

The private world comes from the environment (tests/servers/dcode.py). Names that the audit does not
list can be given as arguments.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from deepagents_ro import call, host
from deepagents_ro.audit import Audit
from deepagents_ro.command_line import Command


class Unhurried:
    """What the call needs of a guard, without a deadline."""

    def __init__(self) -> None:
        self.cancel_fd, self._other_end = os.pipe()
        self.hook: Any = None

    def set_exit_hook(self, hook: Any) -> None:
        self.hook = hook


def audited() -> list[dict[str, Any]]:
    host.prepare_package()
    host.load_environment(trust_project=False)
    command = Command()
    sources = host.read_configuration(command, managed=False)
    assert sources is not None
    host.import_stack()

    async def ask() -> list[dict[str, Any]]:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        rows = await Audit(command, sources).run(never, lambda _name: None)
        return [row.as_json() for row in rows]

    return asyncio.new_event_loop().run_until_complete(ask())


def called(tool: str) -> str:
    _status, document = call.run(Command(tool=tool), b"{}", Unhurried(), managed=False)
    data = json.loads(document)["data"]
    return "ok" if data["ok"] else data["code"]


def main() -> None:
    rows = audited()
    names = {tool["name"] for row in rows for tool in row["tools"]} | set(sys.argv[1:])
    print(json.dumps({"servers": rows, "calls": {name: called(name) for name in sorted(names)}}))
    sys.stdout.flush()
    os._exit(0)  # workers and loops of every call are left to the end of the process


if __name__ == "__main__":
    main()
