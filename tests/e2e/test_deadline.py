"""One deadline, whoever stalls and wherever."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.dcode import DEADLINE, Dcode
from servers.warm import CHECK_VARIABLE

from deepagents_ro.qualify.lab.raw_server import (
    RawServer,
    Request,
    Wire,
    event,
    http,
    result_message,
)

Make = Callable[..., RawServer]
# A fresh process has to reach the call by then, on a busy machine too.
LOWERED = 6000 if CHECK_VARIABLE in os.environ else 3000
EARLIEST = LOWERED / 1000
COOPERATIVE = EARLIEST + 2.9  # the cancelled work gives way: before the hard stop
# The half second behind each of the two is proven on a clock that the test moves
# (tests/c/test_guard_deadline.c); a busy machine takes longer to start and to end a process.


def _stall(request: Request, wire: Wire) -> None:
    wire.stall()


def _head_then_stall(request: Request, wire: Wire) -> None:
    wire.send(http(200, length=1000))
    wire.stall()


def _byte_a_second(request: Request, wire: Wire) -> None:
    wire.send(http(200, length=1000))
    wire.drip(b'{"jsonrpc":"2.0"' + b" " * 900, 0.9)


def _header_bytes(request: Request, wire: Wire) -> None:
    wire.drip(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-a: " + b"y" * 500, 0.2)


def _header_a_moment(request: Request, wire: Wire) -> None:
    wire.send(b"HTTP/1.1 200 OK\r\n")
    wire.endless(b"x-header: y\r\n", interval=0.1)


def _interim(request: Request, wire: Wire) -> None:
    wire.endless(b"HTTP/1.1 102 Processing\r\n\r\n", interval=0.1)


def _comments(request: Request, wire: Wire) -> None:
    wire.chunked_head()
    wire.endless(b"e\r\n: keep-alive\n\n\r\n", interval=0.1)


def _comment_flood(request: Request, wire: Wire) -> None:
    wire.chunked_head()
    wire.endless(b"3\r\n:\n\n\r\n", interval=0.001)


def _progress(request: Request, wire: Wire) -> None:
    wire.chunked_head()
    note = event('{"jsonrpc":"2.0","method":"notifications/progress",'
                 '"params":{"progressToken":1,"progress":1}}')  # fmt: skip
    wire.endless(b"%x\r\n%s\r\n" % (len(note), note), interval=0.1)


def _pings(request: Request, wire: Wire) -> None:
    wire.chunked_head()
    for number in range(1000):
        wire.chunk(event(f'{{"jsonrpc":"2.0","id":"p{number}","method":"ping"}}'))
        wire.sleep(0.1)


STALLS = [_stall, _head_then_stall, _byte_a_second, _header_bytes, _header_a_moment, _interim,
          _comments, _comment_flood, _progress, _pings]  # fmt: skip


@pytest.mark.parametrize("handler", STALLS, ids=lambda handler: handler.__name__)
def test_stalls_at_the_call(dcode: Dcode, raw: Make, handler: Callable[..., None]) -> None:
    server = raw(handlers={"tools/call": handler}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look", deadline_ms=LOWERED).expect("timeout")
    run.ended_between(EARLIEST - 0.05, COOPERATIVE)
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("phase", ["initialize", "notifications/initialized", "tools/list"])
@pytest.mark.parametrize("handler", [_stall, _header_a_moment], ids=lambda h: h.__name__)
def test_stalls_in_discovery(
    dcode: Dcode, raw: Make, phase: str, handler: Callable[..., None]
) -> None:
    server = raw(handlers={phase: handler})
    dcode.serve(raw=server)
    run = dcode.run("raw_look", deadline_ms=LOWERED).expect("timeout")
    run.ended_between(EARLIEST - 0.05, COOPERATIVE)
    assert server.count("tools/call") == 0


def test_a_stall_in_the_call_sessions_initialize(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)
    server.handlers["initialize"] = [server.default, _stall]
    dcode.serve(raw=server)
    run = dcode.run("raw_look", deadline_ms=LOWERED).expect("timeout")
    run.ended_between(EARLIEST - 0.05, COOPERATIVE)
    assert server.count("tools/call") == 0


def test_a_stall_in_dcodes_preflight_is_its_own(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"HEAD": _stall})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").ended_between(2.0, DEADLINE)
    assert server.count("tools/call") == 0


@pytest.mark.parametrize("after", ["accept", "hello"])
def test_stalls_before_and_in_tls(dcode: Dcode, raw: Make, after: str) -> None:
    server = raw()

    def stall(index: int, wire: Wire) -> None:
        if after == "hello":
            wire.sock.recv(5)
            wire.sock.sendall(b"\x16\x03\x03\x00\x7a")
        wire.stall()

    server.on_accept = stall
    dcode.serve(raw=server)
    run = dcode.run("raw_look", deadline_ms=LOWERED).expect("tool_not_found", "timeout")
    run.ended_between(2.0, COOPERATIVE)


def test_tls_that_stalls_only_after_dcodes_preflight(dcode: Dcode, raw: Make) -> None:
    """Connections after the one that carried the HEAD are accepted and left alone."""
    server = raw()
    head_seen: list[int] = []

    def head(request: Request, wire: Wire) -> bytes:
        head_seen.append(request.connection)
        return http(405, content_type=None)

    def stall(index: int, wire: Wire) -> None:
        if head_seen:
            wire.stall()

    server.handlers["HEAD"] = head
    server.handlers["initialize"] = _stall
    server.on_accept = stall
    dcode.serve(raw=server)
    run = dcode.run("raw_look", deadline_ms=LOWERED).expect("timeout")
    run.ended_between(EARLIEST - 0.05, COOPERATIVE)


def test_stdin_that_never_closes(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    running = dcode.start("raw_look", stdin=subprocess.PIPE, deadline_ms=1500)
    running.finish().expect("timeout").ended_between(1.45, 1.5 + 2.9)
    assert not server.connections


def test_stdin_that_trickles(dcode: Dcode) -> None:
    running = dcode.start("raw_look", stdin=subprocess.PIPE, deadline_ms=1500)
    stopped = threading.Event()

    def trickle() -> None:
        assert running.process.stdin is not None
        try:
            running.process.stdin.write(b'{"a":"')
            while not stopped.wait(0.1):
                running.process.stdin.write(b"x")
        except (OSError, ValueError):
            return  # the reader is gone, as it should be, or `finish` has closed the pipe

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        running.finish().expect("timeout").ended_between(1.45, 1.5 + 2.9)
    finally:
        stopped.set()
        thread.join()


def test_the_smallest_deadline(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw())
    dcode.run("raw_look", deadline_ms=100).expect("timeout").ended_between(0.05, 0.1 + 2.9)


# The other spellings are in the table of tests/c/test_guard_deadline.c.
@pytest.mark.parametrize("value", ["99", "15001", "x"])
def test_other_values_are_ignored(dcode: Dcode, raw: Make, value: str) -> None:
    def slow(request: Request, wire: Wire) -> bytes:
        wire.sleep(1.0)
        return http(200, result_message(request, '{"content":[]}'))

    dcode.serve(raw=raw(handlers={"tools/call": slow}))
    env = {"DEEPAGENTS_RO_DEADLINE_MS": value}
    dcode.run("raw_look", env=env).expect_ok("raw_look")


def test_the_full_fifteen_seconds(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"tools/call": _comments})
    dcode.serve(raw=server)
    dcode.run("raw_look", limit=25).expect("timeout").ended_between(14.95, 15 + 2.9)
    assert server.count("tools/call") == 1


def test_code_that_holds_the_gil(dcode: Dcode, raw: Make, tmp_path: Path) -> None:
    """A native call that keeps the GIL: the hard stop, three seconds later."""
    (tmp_path / "sitecustomize.py").write_text(
        "import ctypes, threading\n"
        "def hold():\n"
        "    ctypes.PyDLL(None).sleep(60)\n"
        "timer = threading.Timer(0.9, hold)\n"
        "timer.daemon = True\n"
        "timer.start()\n"
    )
    dcode.serve(raw=raw(handlers={"tools/call": _stall}))
    run = dcode.run("raw_look", deadline_ms=1500, env={"PYTHONPATH": str(tmp_path)})
    run.expect("timeout").ended_between(4.4, 1.5 + 3 + 2.0)


def test_a_name_server_that_never_answers(dcode: Dcode, raw: Make, witness: Path) -> None:
    server = raw()
    dcode.serve(raw=f"https://unanswered.invalid:{server.port}/mcp")
    env = {"LD_PRELOAD": str(witness), "RO_WITNESS_STALL": "unanswered.invalid"}
    run = dcode.run("raw_look", deadline_ms=4000, env=env).expect("tool_not_found", "timeout")
    run.ended_between(1.5, 4.0 + 3.75)


def test_a_stalled_delete_does_not_spoil_a_result(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"DELETE": _stall}, sessions=True)
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    run.prompt_after(server.sent_at["tools/call"])
