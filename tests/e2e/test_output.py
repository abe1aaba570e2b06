"""Exactly one envelope, whatever becomes of the descriptors; signals; silence."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.dcode import DCODE, DEADLINE, INPUT, Dcode, Running

from deepagents_ro.qualify.lab.oracle import failure_document
from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire

Make = Callable[..., RawServer]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
_SYS_TGKILL = {"x86_64": 234, "aarch64": 131}[platform.machine()]


def _stall(request: Request, wire: Wire) -> None:
    wire.stall()


def guarded(running: Running) -> None:
    """Until the command has taken over its signals."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
        (caught,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
        if all(caught >> (number - 1) & 1 for number in SIGNALS):
            return
        time.sleep(0.005)
    raise AssertionError("the command did not take over its signals")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("phase", ["stdin", "initialize", "tools/list", "tools/call"])
def test_signals(dcode: Dcode, raw: Make, number: signal.Signals, phase: str) -> None:
    server = raw(handlers={phase: _stall}, sessions=True)
    dcode.serve(raw=server)
    running = dcode.start("raw_look", stdin=subprocess.PIPE if phase == "stdin" else INPUT)
    if phase == "stdin":
        guarded(running)
    else:
        assert server.wait_for(phase)
    sent = time.monotonic()
    os.kill(running.pid, number)
    running.finish().expect("interrupted").prompt_after(sent)
    assert server.count("tools/call") == (phase == "tools/call")


def test_many_signals_one_envelope(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"tools/call": _stall})
    dcode.serve(raw=server)
    running = dcode.start("raw_look")
    assert server.wait_for("tools/call")
    for _ in range(20):
        for number in SIGNALS:
            try:
                os.kill(running.pid, number)
            except ProcessLookupError:
                break
    running.finish().expect("interrupted")


def test_a_signal_that_was_blocked_interrupts(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"tools/call": _stall})
    dcode.serve(raw=server)
    blocking = "import os, signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n"
    done = subprocess.Popen(
        [sys.executable, "-c", blocking + "os.execv(sys.argv[1], sys.argv[1:])", str(DCODE),
         "tools", "call-read-only", "raw_look", "--json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dcode.env, cwd=dcode.project,
    )  # fmt: skip
    assert done.stdin is not None
    done.stdin.write(INPUT)
    done.stdin.close()
    done.stdin = None
    assert server.wait_for("tools/call", timeout=14)
    os.kill(done.pid, signal.SIGXCPU)
    out, _ = done.communicate(timeout=20)
    assert (done.returncode, out) == (130, failure_document("interrupted"))


def test_a_crash_of_any_thread(dcode: Dcode, raw: Make) -> None:
    """The constant envelope, nothing left behind, and the signal that it died by."""
    server = raw(handlers={"tools/call": _stall})
    dcode.serve(raw=server)
    tgkill = ctypes.CDLL(None).syscall
    number, threads = 0, 1
    while number < threads:
        called = server.count("tools/call")
        running = dcode.start("raw_look")
        assert server.wait_for("tools/call", called + 1)
        tasks = sorted(map(int, os.listdir(f"/proc/{running.pid}/task")))
        threads = len(tasks)
        assert threads >= 4, "main, two of the guard, the worker"
        assert tgkill(_SYS_TGKILL, running.pid, tasks[number], signal.SIGSEGV) == 0
        run = running.finish().clean()
        assert run.stdout == failure_document("runtime_failure")
        assert run.exit_code == -signal.SIGSEGV
        number += 1


def test_a_signal_that_was_ignored_stays_ignored(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"tools/call": slow_answer(1.0)})
    dcode.serve(raw=server)
    done = subprocess.Popen(
        ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", str(DCODE), "tools",
         "call-read-only", "raw_look", "--json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dcode.env, cwd=dcode.project,
    )  # fmt: skip
    assert done.stdin is not None
    done.stdin.write(INPUT)
    done.stdin.close()
    done.stdin = None
    assert server.wait_for("tools/call")
    os.kill(done.pid, signal.SIGHUP)
    out, _ = done.communicate(timeout=30)
    assert b'"ok":true' in out
    assert done.returncode == 0


def slow_answer(seconds: float) -> Callable[[Request, Wire], bytes]:
    def handler(request: Request, wire: Wire) -> bytes:
        wire.sleep(seconds)
        return wire.server.default(request, wire)

    return handler


def test_standard_output_closed(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    run = dcode.run("raw_look", redirect=">&-").clean()
    assert run.stdout == b""
    assert run.exit_code == 1
    for request in server.requests:
        assert b"schema_version" not in request.body, "a socket became descriptor 1"


def test_standard_output_full(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw())
    run = dcode.run("raw_look", redirect=">/dev/full").clean()
    assert run.exit_code == 1


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full", "2>/dev/null"])
def test_standard_error_does_not_matter(dcode: Dcode, raw: Make, redirect: str) -> None:
    dcode.serve(raw=raw())
    dcode.run("raw_look", redirect=redirect).expect_ok("raw_look")


@pytest.mark.parametrize("redirect", ["<&- >&- 2>&-", "<&- 2>&-", ">&- 2>&-"])
def test_several_closed(dcode: Dcode, raw: Make, redirect: str) -> None:
    server = raw()
    dcode.serve(raw=server)
    stdin = None if "<&-" in redirect else INPUT
    run = dcode.run("raw_look", redirect=redirect, stdin=stdin)
    assert run.exit_code == 1
    assert not run.leftovers
    assert run.stdout in (b"", failure_document("input_required"))
    for request in server.requests:
        assert b"schema_version" not in request.body


def test_the_reader_is_gone(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw())
    reader, writer = os.pipe()
    os.close(reader)
    running = dcode.start("raw_look", stdout=writer)
    os.close(writer)
    run = running.finish()
    assert run.exit_code == 1
    assert run.stderr == b""
    assert not run.leftovers


def test_the_reader_takes_one_byte(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw(result='{"content":[{"type":"text","text":"%s"}]}' % ("x" * 120_000)))
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    running = dcode.start("raw_look", stdout=writer)
    os.close(writer)
    assert os.read(reader, 1) == b"{"
    os.close(reader)
    run = running.finish()
    assert run.exit_code == 1
    assert run.stderr == b""


def test_a_full_pipe_without_a_reader(dcode: Dcode, raw: Make) -> None:
    """The envelope waits for room, but not beyond the deadline."""
    dcode.serve(raw=raw())
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"-" * size)
    running = dcode.start("raw_look", stdout=writer, deadline_ms=4000)
    os.close(writer)
    run = running.finish()
    os.close(reader)
    assert run.exit_code == 1
    assert run.seconds <= 4.0 + 3.0 + 0.75
    assert not run.leftovers


def test_a_reader_that_stops_gets_a_prefix_of_one_document(dcode: Dcode, raw: Make) -> None:
    text = "x" * 120_000
    dcode.serve(raw=raw(result='{"content":[{"type":"text","text":"%s"}]}' % text))
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    running = dcode.start("raw_look", stdout=writer, deadline_ms=4000)
    os.close(writer)
    run = running.finish()
    got = b""
    while piece := os.read(reader, 65536):
        got += piece
    os.close(reader)
    assert run.exit_code == 1
    assert run.seconds <= 4.0 + 3.0 + 0.75
    whole = (
        b'{"schema_version":1,"command":"tools call-read-only","data":{"ok":true,"status":"ok",'
        b'"tool":"raw_look","content":[{"type":"text","text":"' + text.encode() + b'"}]}}\n'
    )
    assert 0 < len(got) < len(whole)
    assert whole.startswith(got)


def test_a_slow_reader_gets_everything(dcode: Dcode, raw: Make) -> None:
    text = "x" * 120_000
    dcode.serve(raw=raw(result='{"content":[{"type":"text","text":"%s"}]}' % text))
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    running = dcode.start("raw_look", stdout=writer)
    os.close(writer)
    got = b""
    while piece := os.read(reader, 4096):
        got += piece
        time.sleep(0.02)
    os.close(reader)
    run = running.finish()
    assert run.exit_code == 0
    assert got.endswith(b'"}]}}\n')
    assert got.count(b"\n") == 1


def test_output_to_a_file_and_to_a_socket(dcode: Dcode, raw: Make, tmp_path: Path) -> None:
    dcode.serve(raw=raw())
    with (tmp_path / "out").open("wb") as out:
        assert dcode.start("raw_look", stdout=out.fileno()).finish().exit_code == 0
    ours, theirs = socket.socketpair()
    with ours, theirs:
        running = dcode.start("raw_look", stdout=theirs.fileno())
        theirs.close()
        assert running.finish().exit_code == 0
        got = b""
        while piece := ours.recv(65536):
            got += piece
    assert got == (tmp_path / "out").read_bytes()
    assert got.startswith(b'{"schema_version":1,')


def test_a_pipe_is_not_made_non_blocking(dcode: Dcode, raw: Make) -> None:
    """The flag is shared with whoever else holds the pipe."""
    dcode.serve(raw=raw())
    reader, writer = os.pipe()
    running = dcode.start("raw_look", stdout=writer)
    running.finish()
    flags = fcntl.fcntl(writer, fcntl.F_GETFL)
    os.close(reader)
    os.close(writer)
    assert not flags & os.O_NONBLOCK


NOISY = {
    "DEEPAGENTS_CODE_LOG_LEVEL": "no-such-level",
    "PYTHONWARNINGS": "always",
    "PYTHONASYNCIODEBUG": "1",
    "LANGCHAIN_VERBOSE": "true",
    "LANGCHAIN_DEBUG": "true",
    "HTTPX_LOG_LEVEL": "trace",
}


@pytest.mark.parametrize("outcome", ["ok", "runtime_failure", "tool_not_found"])
def test_nothing_else_is_printed(dcode: Dcode, raw: Make, outcome: str) -> None:
    server = raw()
    log = dcode.project / "debug.log"
    if outcome == "runtime_failure":
        server.handlers["tools/call"] = lambda request, wire: wire.reset()
    if outcome == "tool_not_found":
        server.handlers["initialize"] = lambda request, wire: wire.reset()
    dcode.serve(raw=server)
    env = {**NOISY, "DEEPAGENTS_CODE_DEBUG": "1", "DEEPAGENTS_CODE_DEBUG_FILE": str(log)}
    run = dcode.run("raw_look", env=env)
    if outcome == "ok":
        run.expect_ok("raw_look")
    else:
        run.expect(outcome)
    assert not log.exists()


def test_an_unwritable_debug_file_is_not_mentioned(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw())
    env = {"DEEPAGENTS_CODE_DEBUG": "1", "DEEPAGENTS_CODE_DEBUG_FILE": "/proc/no/such/file"}
    dcode.run("raw_look", env=env).expect_ok("raw_look")


def test_children_and_libraries_that_write_are_not_heard(
    dcode: Dcode, raw: Make, tmp_path: Path
) -> None:
    """Code that is imported with DCode writes to descriptors 1 and 2."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, subprocess, sys, threading\n"
        "def shout():\n"
        "    os.write(1, b'noise-1'); os.write(2, b'noise-2')\n"
        "    print('noise-3'); print('noise-4', file=sys.stderr)\n"
        "    subprocess.run(['/bin/sh', '-c', 'echo noise-5; echo noise-6 >&2'])\n"
        "timer = threading.Timer(0.6, shout)\n"
        "timer.start()\n"
    )
    server = raw(handlers={"tools/call": slow_answer(1.5)})
    dcode.serve(raw=server)
    run = dcode.run("raw_look", env={"PYTHONPATH": str(tmp_path)})
    run.expect_ok("raw_look")
    assert b"noise" not in run.stdout


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_signals_while_the_guard_starts(dcode: Dcode, raises: Path, number: signal.Signals) -> None:
    """Python has noted it, and descriptor 1 is the guard's already."""
    env = {"LD_PRELOAD": str(raises), "RO_RAISES": str(int(number))}
    dcode.run("raw_look", env=env).expect("interrupted")


def test_a_handler_that_does_not_raise(raises: Path) -> None:
    """It runs, and the guard stands."""
    code = """
import signal
from deepagents_ro import _mcpro
seen = []
signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
guard = _mcpro.Guard.start(timeout=b"t", interrupted=b"i", failed=b"f")
guard.finish(7, b"%d" % seen[0])
"""
    env = {"LD_PRELOAD": str(raises), "RO_RAISES": str(int(signal.SIGTERM))}
    done = subprocess.run([sys.executable, "-I", "-c", code], env=env, capture_output=True)
    assert (done.returncode, done.stdout) == (7, b"%d" % signal.SIGTERM)


def test_signals_at_any_moment(dcode: Dcode, raw: Make) -> None:
    """Before the first line of the command a signal just ends it; then, one envelope."""
    dcode.serve(raw=raw(handlers={"tools/call": slow_answer(0.2)}))
    outcomes = set()
    for step in range(12):
        running = dcode.start("raw_look")
        if step < 4:
            time.sleep(0.02 + step * 0.1)
        else:
            guarded(running)
            time.sleep((step - 4) * 0.05)
        with contextlib.suppress(ProcessLookupError):  # it was done
            os.kill(running.pid, SIGNALS[step % 3])
        run = running.finish()
        if run.stdout == b"":
            # the interpreter's own start-up: it ends, and may say why on standard error
            assert run.exit_code != 0
            assert step < 4, "the guard is up by then"
            outcomes.add("ended")
        elif run.exit_code == 0:
            run.expect_ok("raw_look")
            outcomes.add("ok")
        else:
            run.expect("interrupted")
            outcomes.add("interrupted")
    assert "interrupted" in outcomes


def test_the_answer_races_the_deadline(dcode: Dcode, raw: Make) -> None:
    """An answer within milliseconds of the deadline: one whole envelope, either one."""
    deadline = 2.5
    started: list[float] = []

    def just_then(request: Request, wire: Wire) -> bytes:
        offset = (len(started) - 3) * 0.006
        wire.sleep(max(0.0, started[-1] + deadline + offset - time.monotonic()))
        return wire.server.default(request, wire)

    server = raw(handlers={"tools/call": just_then}, sessions=True)
    dcode.serve(raw=server)
    for _ in range(5):
        running = dcode.start("raw_look", deadline_ms=int(deadline * 1000))
        started.append(running.started_at)
        run = running.finish()
        if run.exit_code == 0:
            run.expect_ok("raw_look")
        else:
            run.expect("timeout")
    assert server.count("tools/call") <= 5
