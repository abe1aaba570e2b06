"""Every public call of the extension in a loop: run as a child by test_leaks.py.

Prints one JSON object: the name of each call to the bytes by which the heap in use has grown over
its rounds. Run with PYTHONMALLOC=malloc, so that Python's objects are counted too.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable

from deepagents_ro import _mcpro

ENTRY = b'{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
LIST = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + ENTRY + b'],"nextCursor":"a"}}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}'
ENVELOPE = b'{"ok":false}\n'
MANY, FEW = 200, 8


class _Heap(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


_mallinfo2 = ctypes.CDLL(None).mallinfo2
_mallinfo2.restype = _Heap


def in_use() -> int:
    gc.collect()
    heap = _mallinfo2()
    return heap.uordblks + heap.hblkhd


def refused(function: Callable[..., object], *arguments: object, **named: object) -> None:
    with contextlib.suppress(ValueError, TypeError, OSError, RuntimeError, MemoryError):
        function(*arguments, **named)


class Silent:
    """A listener that accepts and says nothing."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            peer, _ = self.socket.accept()
            peer.close()


Loops = dict[str, tuple[Callable[[], object], int]]


def loops() -> tuple[Loops, Callable[[], None]]:
    """Name to a call, with its good and its bad arguments, and its rounds; and what to call until
    the worker has nothing left to do.
    """
    silent = Silent()
    redactor = _mcpro.Redactor([b"a-secret-value", b"another-secret"])
    worker = _mcpro.Worker("s_t")
    session = worker.session("s", silent.url)
    engine = _mcpro.Engine()
    closing = _mcpro.Engine()
    guard = _mcpro.Guard.start(
        timeout=ENVELOPE, interrupted=ENVELOPE, failed=ENVELOPE, grace_ms=300_000
    )
    headers = [(b"content-type", b"application/json")]
    post = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
    child = [b"/bin/true"], [b"A=b"]

    def submit() -> None:
        session.submit(7, "POST", silent.url, headers, post)
        refused(session.submit, 7, "POST", silent.url, [1], b"")
        while not worker.poll():
            pass

    def transfer() -> _mcpro.Transfer:
        return engine.submit("GET", silent.url, [], None)

    def settled(use: Callable[[_mcpro.Transfer], object]) -> None:
        one = transfer()
        while not engine.poll():
            pass
        refused(use, one)

    def new_worker() -> None:
        other = _mcpro.Worker("s_t")
        other.session("s", silent.url, "", "", "", True, True).end()
        other.stdio("s", *child).end()
        refused(_mcpro.Worker, 5)

    def new_engine() -> None:
        _mcpro.Engine().close(1000)
        _mcpro.Engine(engine).close()

    def pair(good: Callable[[], object], bad: Callable[[], object]) -> Callable[[], object]:
        return lambda: (good(), refused(bad))

    def rest() -> None:
        while engine.poll() or engine.stats()["active"]:
            time.sleep(0.001)
        time.sleep(0.03)  # the worker's last word on what it has done

    m = _mcpro
    table: Loops = {
        "net_library": (m.net_library, MANY),
        "json_check": (pair(lambda: m.json_check(LIST), lambda: m.json_check(b"[1")), MANY),
        "json_raw": (pair(lambda: m.json_raw(LIST, "id"), lambda: m.json_raw(b"1", "id")), MANY),
        "hint_verdict": (pair(lambda: m.hint_verdict(ENTRY), lambda: m.hint_verdict(b"5")), MANY),
        "reduce_tool_list": (
            pair(
                lambda: m.reduce_tool_list(LIST, "s_", "s_t"),
                lambda: m.reduce_tool_list(b"{}", "s_", "s_t"),
            ),
            MANY,
        ),
        "rpc_failure": (
            lambda: [
                m.rpc_failure(b'{"jsonrpc":"2.0","id":1,"method":"m"}'),
                m.rpc_failure(b"no"),
            ],
            MANY,
        ),
        "hand_up": (
            pair(
                lambda: m.hand_up(ANSWER, 1, call=True, structured=True),
                lambda: m.hand_up(ANSWER, 2),
            ),
            MANY,
        ),
        "sse_events": (
            pair(
                lambda: m.sse_events(b"id: 1\ndata: x\n\n", chunk=3),
                lambda: m.sse_events(b"data: " + b"x" * 99 + b"\n\n", max_bytes=10),
            ),
            MANY,
        ),
        "envelope_error": (
            pair(lambda: m.envelope_error("timeout"), lambda: m.envelope_error("no")),
            MANY,
        ),
        "can_own": (
            pair(lambda: m.can_own("a", "a_b"), lambda: m.can_own("a", 5)),  # type: ignore[arg-type]
            MANY,
        ),
        "envelope_exit": (
            pair(lambda: m.envelope_exit("timeout"), lambda: m.envelope_exit("no")),
            MANY,
        ),
        "envelope_ok": (
            pair(lambda: m.envelope_ok("t", b"[]", b"{}"), lambda: m.envelope_ok("t", b"[", None)),
            MANY,
        ),
        "JSONError": (lambda: refused(m.json_check, b"["), MANY),
        "TransportError": (
            lambda: refused(engine.submit, "GET", "ftp://x/", [], None),
            MANY,
        ),
        "Redactor": (
            pair(lambda: m.Redactor([b"x" * 40]), lambda: m.Redactor([5])),  # type: ignore[list-item]
            MANY,
        ),
        "Redactor.redact": (
            pair(lambda: redactor.redact(b'["a-secret-value"]'), lambda: redactor.redact(b"[")),
            MANY,
        ),
        "Worker": (new_worker, FEW),
        "Worker.fileno": (worker.fileno, MANY),
        "Worker.poll": (worker.poll, MANY),
        "Worker.session": (lambda: refused(worker.session, "s", "bad\0url"), MANY),
        "Worker.stdio": (lambda: refused(worker.stdio, "s", [b"/not/there"], []), MANY),
        "Worker.await_preflight": (worker.await_preflight, MANY),
        "Worker.run_ahead": (
            lambda: refused(worker.run_ahead, "s", "u", "", "", "", "", [], b"", b"", "text"),
            MANY,
        ),
        "Worker.entries": (lambda: worker.entries("s"), MANY),
        "Worker.verdict": (lambda: worker.verdict("s"), MANY),
        "Worker.open": (lambda: (worker.open("s", b"{}"), refused(worker.open, "s", b"[")), MANY),
        "Worker.outcome": (worker.outcome, MANY),
        "Worker.structured": (worker.structured, MANY),
        "Worker.noted": (lambda: worker.noted("s"), MANY),
        "Worker.version": (lambda: worker.version("s"), MANY),
        "Worker.gate": (lambda: worker.gate, MANY),
        "Worker.exit_hook": (worker.exit_hook, MANY),
        "Session": (lambda: refused(_mcpro.Session), MANY),
        "Session.submit": (submit, MANY),
        "Session.end": (session.end, MANY),
        "Engine": (new_engine, FEW),
        "Engine.submit": (transfer, MANY),
        "Engine.fileno": (engine.fileno, MANY),
        "Engine.poll": (engine.poll, MANY),
        "Engine.stats": (engine.stats, MANY),
        "Transfer": (lambda: refused(_mcpro.Transfer), MANY),
        "Transfer.id": (lambda: transfer().id, MANY),
        "Transfer.head": (lambda: settled(lambda one: one.head()), MANY),
        "Transfer.read": (lambda: settled(lambda one: one.read()), MANY),
        "Transfer.cancel": (lambda: transfer().cancel(), MANY),
        "Engine.close": (lambda: closing.close(1000), FEW),
        "Guard": (lambda: refused(_mcpro.Guard), MANY),
        "Guard.start": (lambda: refused(_mcpro.Guard.start, ENVELOPE, ENVELOPE, ENVELOPE), MANY),
        "Guard.lower_deadline": (lambda: guard.lower_deadline("x"), MANY),
        "Guard.ms_left": (guard.ms_left, MANY),
        "Guard.cancel_fd": (lambda: guard.cancel_fd, MANY),
        "Guard.stopping": (lambda: guard.stopping, MANY),
        "Guard.degraded": (lambda: guard.degraded, MANY),
        "Guard.read_stdin": (lambda: guard.read_stdin(10), MANY),
        # keeps what it is given to the end of the process, by contract
        "Guard.set_exit_hook": (lambda: guard.set_exit_hook(worker.exit_hook()), FEW),
        "Guard.finish": (lambda: refused(guard.finish, 999, b""), MANY),
    }
    return table, rest


def main() -> None:
    """Writes the report to the descriptor that is named on the command line."""
    grown = {}
    table, rest = loops()
    for name, (function, rounds) in table.items():
        sizes = []
        for _ in range(4):
            for _ in range(rounds):
                function()
            rest()
            sizes.append(in_use())
        # a leak grows every time; a table that doubles, or a new connection's, does not
        grown[name] = [min(b - a for a, b in itertools.pairwise(sizes)), rounds]
    with open(int(sys.argv[1]), "w") as report:
        json.dump(grown, report)


if __name__ == "__main__":
    main()
