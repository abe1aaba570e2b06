"""What a run leaves behind: no session, no process, no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.dcode import DCODE, INPUT, Dcode, processes_of
from servers.stdio import StdioServer, alive

from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, http

Make = Callable[..., RawServer]


def _stall(request: Request, wire: Wire) -> None:
    wire.stall()


def _reset(request: Request, wire: Wire) -> None:
    wire.reset()


def ids(server: RawServer) -> list[bytes | None]:
    """The session ids that were deleted, sorted; the last may still be on its way to the server."""
    server.wait_for("DELETE", server.count("initialize"), timeout=2.0)
    return sorted(request.header("mcp-session-id") or b"" for request in server.of("DELETE"))


def test_one_delete_for_each_session(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("initialize") == 2
    assert ids(server) == [b"session-1", b"session-2"]


@pytest.mark.parametrize(
    ("handlers", "tools", "code"),
    [
        ({}, ['{"name":"look","inputSchema":{"type":"object"}}'], "tool_not_read_only"),
        ({}, [], "tool_not_found"),
        ({"tools/list": http(500)}, None, "tool_not_found"),
        ({"tools/call": http(500)}, None, "runtime_failure"),
        ({"tools/call": _reset}, None, "runtime_failure"),
        ({"tools/call": http(200, b"hello")}, None, "malformed_result"),
    ],
    ids=["denied", "absent", "list fails", "call fails", "call reset", "malformed"],
)
def test_sessions_are_deleted_after_any_failure(
    dcode: Dcode, raw: Make, handlers: dict[str, object], tools: list[str] | None, code: str
) -> None:
    server = raw(sessions=True, handlers=handlers)
    if tools is not None:
        server.tools = tools
    dcode.serve(raw=server)
    dcode.run("raw_look").expect(code)
    issued = server.count("initialize")
    assert ids(server) == [b"session-%d" % (number + 1) for number in range(issued)]


@pytest.mark.parametrize("end", ["timeout", "interrupted"])
def test_sessions_are_deleted_when_time_is_up(dcode: Dcode, raw: Make, end: str) -> None:
    server = raw(sessions=True, handlers={"tools/call": _stall})
    dcode.serve(raw=server)
    running = dcode.start("raw_look", deadline_ms=3000)
    if end == "interrupted":
        assert server.wait_for("tools/call")
        os.kill(running.pid, signal.SIGTERM)
    running.finish().expect(end)
    assert ids(server) == [b"session-1", b"session-2"]


@pytest.mark.parametrize(
    "reply",
    [http(405, content_type=None), http(500), http(404), _reset, _stall,
     http(307, headers=[("location", "/elsewhere")])],
    ids=["405", "500", "404", "reset", "stall", "redirect"],
)  # fmt: skip
def test_whatever_delete_answers(dcode: Dcode, raw: Make, reply: object) -> None:
    server = raw(sessions=True, handlers={"DELETE": reply})
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    assert run.first_byte_at is not None
    assert run.exited_at - run.first_byte_at <= 0.25 + 0.5
    assert ids(server) == [b"session-1", b"session-2"]


def test_the_envelope_does_not_wait_for_delete(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)
    server.handlers["DELETE"] = _stall
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    assert run.first_byte_at is not None
    assert run.first_byte_at - server.sent_at["tools/call"] <= 0.25


def test_no_session_no_delete(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("DELETE") == 0


def test_connections_are_closed(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    end = time.monotonic() + 10
    while server.live and time.monotonic() < end:
        time.sleep(0.02)
    assert not server.live


def test_children_that_existed_before_are_not_ours(dcode: Dcode, raw: Make) -> None:
    """A shell's background child survives the command that replaces the shell."""
    dcode.serve(raw=raw())
    done = subprocess.run(
        ["/bin/sh", "-c", 'sleep 30 >/dev/null 2>&1 </dev/null & echo $! >"$PIDFILE"; exec "$@"',
         "sh", str(DCODE), "tools", "call-read-only", "raw_look", "--json"],
        input=INPUT, capture_output=True, timeout=20, cwd=dcode.project,
        env={**dcode.env, "PIDFILE": str(dcode.project / "pid")},
    )  # fmt: skip
    child = int((dcode.project / "pid").read_text())
    try:
        assert b'"ok":true' in done.stdout
        os.kill(child, 0)
        assert any(line.startswith(f"process {child} ") for line in processes_of(dcode.home))
    finally:
        os.kill(child, signal.SIGKILL)


# As root the tests have CAP_SYS_PTRACE, which a command and its servers need not have.
WITHOUT_CAPABILITIES = """
import ctypes, os, sys
for capability in range(64):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_server_cannot_look_into_its_parent(dcode: Dcode) -> None:
    server = StdioServer(
        dcode,
        """
def on_call(message):
    parent = f"/proc/{os.getppid()}"
    names = ["environ", "mem", *(f"fd/{fd}" for fd in range(40))]
    for name in names:
        try:
            os.close(os.open(f"{parent}/{name}", os.O_RDONLY))
            note("opened", name.encode())
        except OSError as error:
            note(type(error).__name__, name.encode())
    write(answer(message, '{"content":[]}') + b"\\n")
""",
    )
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CAPABILITIES, str(DCODE), "tools", "call-read-only",
         "raw_look", "--json"],
        input=INPUT, capture_output=True, timeout=20, cwd=dcode.project, env=dcode.env,
    )  # fmt: skip
    assert b'"ok":true' in done.stdout
    assert server.lines("opened") == []
    assert len(server.lines("PermissionError")) > 2, "environ, mem and what is open"


def test_a_child_ends_when_the_command_is_killed(dcode: Dcode) -> None:
    """SIGKILL, which nothing can handle: the server ignores SIGTERM and the end of its input."""
    server = StdioServer(
        dcode,
        """
def on_call(message):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("called", b"")
    while True:
        time.sleep(60)
""",
    )
    running = dcode.start("raw_look")
    end = time.monotonic() + 10
    while not server.lines("called") and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.finish()
    while any(map(alive, server.pids())) and time.monotonic() < end:
        time.sleep(0.02)
    assert len(server.pids()) == 2
    assert not any(map(alive, server.pids()))


STUBBORN = """
import json, os, signal, subprocess, sys, time
mode, home = sys.argv[1], sys.argv[2]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stderr.write("a server's own words\\n")
sleeper = [sys.executable, "-c", "import signal, time\\n"
           "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\ntime.sleep(60)", home]
subprocess.Popen(sleeper)
subprocess.Popen(sleeper, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, sleeper)
    os._exit(0)
os.wait()
def say(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": number, "result": {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": number, "result": {"tools": [
            {"name": "look", "inputSchema": {"type": "object"},
             "annotations": {"readOnlyHint": mode != "denied"}}]}})
    elif method == "tools/call":
        with open(os.path.join(home, "calls"), "a") as calls:
            calls.write("call\\n")
        if mode == "stalled":
            time.sleep(60)
        if mode == "failed":
            os._exit(1)
        say({"jsonrpc": "2.0", "id": number, "result": {"content": []}})
while True:
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("mode", "code", "calls"),
    [
        ("good", None, 1),
        ("denied", "tool_not_read_only", 0),
        ("failed", "runtime_failure", 1),
        ("stalled", "timeout", 1),
        ("interrupted", "interrupted", 1),
    ],
)
def test_stubborn_children_and_their_children(
    dcode: Dcode, tmp_path: Path, mode: str, code: str | None, calls: int
) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN)
    argument = "stalled" if mode == "interrupted" else mode
    dcode.serve(raw={"command": sys.executable, "args": [str(script), argument, str(dcode.home)]})
    log = dcode.home / "calls"
    running = dcode.start("raw_look", deadline_ms=4000)
    if mode == "interrupted":
        end = time.monotonic() + 4
        while not log.exists() and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGTERM)
    run = running.finish()
    if code is None:
        run.expect_ok("raw_look")
    else:
        run.expect(code)
    assert (log.read_text().count("call") if log.exists() else 0) == calls
    assert not processes_of(dcode.home)
