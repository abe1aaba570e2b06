"""A stdio server made for one test: a plain script with the test's own functions in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from servers.dcode import Dcode

SCRIPT = r'''
import json, os, signal, sys, time

home = sys.argv[1]
TOOL = ('{"name":"look","inputSchema":{"type":"object"},'
        '"annotations":{"readOnlyHint":true,"destructiveHint":false}}')

def note(kind, data):
    """One line of the log: a kind and bytes."""
    with open(os.path.join(home, "log"), "ab") as log:
        log.write(kind.encode() + b" " + data.rstrip(b"\n") + b"\n")

def write(data):
    """Raw bytes to standard output."""
    while data:
        data = data[os.write(1, data):]

def answer(message, result):
    """The answer to message, result being JSON text."""
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (
        json.dumps(message["id"]).encode(), result.encode())

def on_start():
    pass

def on_initialize(message):
    write(answer(message, json.dumps({
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})) + b"\n")

def on_list(message):
    write(answer(message, '{"tools":[%s]}' % TOOL) + b"\n")

def on_call(message):
    write(answer(message, '{"content":[{"type":"text","text":"seen"}]}') + b"\n")

def on_other(message):
    pass

def on_end():
    pass

#HOOKS#

note("start", b"%d" % os.getpid())
on_start()
for line in sys.stdin.buffer:
    message = json.loads(line)
    method = message.get("method", "response")
    note(method, line)
    {"initialize": on_initialize, "tools/list": on_list, "tools/call": on_call}.get(
        method, on_other)(message)
on_end()
'''


class StdioServer:
    """The script, written for `dcode`; `hooks` are Python text that redefines its functions."""

    def __init__(self, dcode: Dcode, hooks: str = "", **entry: Any) -> None:
        self.script = dcode.project / "server.py"
        self.script.write_text(SCRIPT.replace("#HOOKS#", hooks))
        self._log = dcode.home / "log"
        self.entry: dict[str, Any] = {
            "command": sys.executable,
            "args": ["-I", "-S", str(self.script), str(dcode.home)],
            **entry,
        }
        dcode.serve(raw=self.entry)

    def lines(self, kind: str) -> list[bytes]:
        """What the script has noted of one kind, over all its processes."""
        if not self._log.exists():
            return []
        mark = kind.encode() + b" "
        found = self._log.read_bytes().split(b"\n")
        return [line[len(mark) :] for line in found if line.startswith(mark)]

    def pids(self) -> list[int]:
        """The processes that ran it, in order."""
        return [int(line) for line in self.lines("start")]

    def note(self, kind: str) -> Any:
        """The one JSON text that was noted under `kind`."""
        (line,) = self.lines(kind)
        return json.loads(line)


def alive(pid: int) -> bool:
    """Whether a process runs or is a zombie."""
    return Path(f"/proc/{pid}").exists()
