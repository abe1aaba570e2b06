"""`Worker` and `Session` from Python, and `Exchanges` above them, on real sockets and children."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from wire_server import Wire, WireServer

from deepagents_ro import _mcpro
from deepagents_ro.exchange import Exchanges, SessionTransport

TOOL = "srv_read"
ENTRY = {"name": "read", "inputSchema": {}, "annotations": {"readOnlyHint": True}}
# Nothing that is waited for here would end by itself before.
PROMPT_S = 5.0
HEADERS = [(b"Accept", b"application/json"), (b"Content-Type", b"application/json")]
ANSWERS: dict[str, dict[str, Any]] = {
    "initialize": {"capabilities": {}},
    "tools/list": {"tools": [ENTRY]},
    "tools/call": {"content": [], "structuredContent": {"n": 1}},
}


def request_of(method: str, identity: int = 1, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
    return json.dumps(message).encode()


async def answer(wire: Wire) -> None:
    """A good server."""
    while request := await wire.request():
        body = request.partition(b"\r\n\r\n")[2]
        if not body:
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            continue
        asked = json.loads(body)
        result = ANSWERS[asked["method"]]
        said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        await wire.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(said), said)
        )


async def stall(wire: Wire) -> None:
    await wire.request()
    await wire.gone()


def holdings() -> tuple[int, int, int]:
    """Descriptors, threads and children of this process."""
    gc.collect()
    children = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            children += len(file.read().split())
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), children


@contextmanager
def nothing_held() -> Iterator[None]:
    before = holdings()
    yield
    assert holdings() == before


def reply_to(worker: _mcpro.Worker, seconds: float = 5.0) -> tuple[Any, ...]:
    """The next reply; there must be exactly one."""
    readable, _, _ = select.select([worker.fileno()], [], [], seconds)
    assert readable, "no reply came"
    (reply,) = worker.poll()
    assert worker.poll() == []
    return reply


# ---- arguments ----


@pytest.fixture
def worker() -> _mcpro.Worker:
    return _mcpro.Worker(TOOL)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), TypeError),
        ((1, "POST", "http://h/", [], b"", 0), TypeError),
        (("1", "POST", "http://h/", [], b""), TypeError),
        ((1, b"POST", "http://h/", [], b""), TypeError),
        ((1, "PO\0ST", "http://h/", [], b""), ValueError),
        ((1, "POST", "http://h/\0", [], b""), ValueError),
        ((1, "POST", "http://h/", 5, b""), TypeError),
        ((1, "POST", "http://h/", [b"a"], b""), TypeError),
        ((1, "POST", "http://h/", [(b"a",)], b""), TypeError),
        ((1, "POST", "http://h/", [(b"a", b"b", b"c")], b""), TypeError),
        ((1, "POST", "http://h/", [(b"a", "b")], b""), TypeError),
        ((1, "POST", "http://h/", [["a", "b"]], b""), TypeError),
        ((1, "POST", "http://h/", [], "text"), TypeError),
        ((1, "POST", "http://h/", [], bytearray(b"")), TypeError),
    ],
)
def test_a_submit_of_wrong_types_is_refused(
    worker: _mcpro.Worker, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    session = worker.session("srv", "http://127.0.0.1:1/mcp")
    with pytest.raises(error):
        session.submit(*arguments)
    assert worker.poll() == []


def test_only_a_call_makes_sessions() -> None:
    with pytest.raises(TypeError):
        type(_mcpro.Worker(TOOL).session("srv", "http://h/"))()
    with pytest.raises(TypeError):
        _mcpro.Worker()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        _mcpro.Worker(5)  # type: ignore[arg-type]


NOT_STARTED: list[tuple[Any, Any, type[Exception]]] = [
    ([], [], ValueError),
    (["text"], [], TypeError),
    ([b"/bin/true\0"], [], ValueError),
    ((b"/bin/true",), [], TypeError),
    ([b"/bin/true"], None, TypeError),
    ([b"/bin/true"], ["text"], TypeError),
    ([b"/nowhere/at/all"], [], FileNotFoundError),
    ([b"/dev/null"], [], PermissionError),
]


def test_a_child_that_cannot_be_started(worker: _mcpro.Worker) -> None:
    with nothing_held():
        for argv, env, error in NOT_STARTED:
            with pytest.raises(error):
                worker.stdio("srv", argv, env)


def test_the_gate_needs_a_strict_object(worker: _mcpro.Worker) -> None:
    for arguments in (b"", b"[]", b"1", b"{", b'{"a":1,"a":1}', b"\xef\xbb\xbf{}", b"{}x"):
        with pytest.raises(_mcpro.JSONError):
            worker.open("srv", arguments)
    assert worker.open("srv", b"{}") is False
    assert worker.gate == "closed"


# ---- a whole call ----


async def test_a_call_by_hand() -> None:
    async with WireServer(answer) as server:
        worker = _mcpro.Worker(TOOL)
        session = worker.session("srv", server.url("/mcp"))
        exchanges = Exchanges(worker, asyncio.get_running_loop())
        url = server.url("/mcp")

        async def ask(method: str, **params: Any) -> Any:
            request = httpx.Request("POST", url, content=request_of(method, **params))
            request.headers["Content-Type"] = "application/json"
            return json.loads((await exchanges.send(session, request)).content)

        assert "result" in await ask("initialize")
        assert len((await ask("tools/list"))["result"]["tools"]) == 1
        assert worker.verdict("srv") == (True, "read_only")
        assert [json.loads(entry) for entry in worker.entries("srv")] == [ENTRY]
        assert not exchanges.recorded.is_set()
        assert worker.open("srv", b'{"a": 1.10}')
        assert worker.gate == "open"
        assert "result" in await ask("tools/call", name="read", arguments={})
        assert worker.gate == "used"
        assert exchanges.recorded.is_set()
        assert worker.outcome() == "ok"
        assert worker.structured() == b'{"n":1}'
        assert "error" in await ask("tools/call", name="read", arguments={})
        called = [line for line in server.requests if b"tools/call" in line]
        assert len(called) == 1
        assert b'"arguments": {"a":1.10}' in called[0]


def test_replies_in_a_thread_of_their_own_wait_for_poll(worker: _mcpro.Worker) -> None:
    session = worker.session("srv", "http://127.0.0.1:1/mcp")
    for ticket in (7, 2**64 - 1):
        session.submit(ticket, "POST", "http://127.0.0.1:1/mcp", HEADERS, request_of("x"))
        assert reply_to(worker)[0] == ticket


# ---- cancellation ----


async def test_a_cancelled_request_leaves_nothing_waiting() -> None:
    async with WireServer(stall) as server:
        worker = _mcpro.Worker(TOOL)
        exchanges = Exchanges(worker, asyncio.get_running_loop())
        transport = SessionTransport(exchanges, worker.session("srv", server.url("/mcp")))
        request = httpx.Request("POST", server.url("/mcp"), content=request_of("initialize"))
        task = asyncio.ensure_future(transport.handle_async_request(request))
        await server.arrived(requests=1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert exchanges._waiting == {}
    # The server is gone: the reply comes, and the next one's is behind it.
    again = await exchanges.send(worker.session("srv", server.url("/mcp")), request)
    assert b"error" in again.content
    assert exchanges._waiting == {}
    assert worker.poll() == []
    asyncio.get_running_loop().remove_reader(worker.fileno())


def test_a_loop_that_is_closed_meanwhile() -> None:
    worker = _mcpro.Worker(TOOL)
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        async with WireServer(stall) as server:
            exchanges = Exchanges(worker, asyncio.get_running_loop())
            session = worker.session("srv", server.url("/mcp"))
            request = httpx.Request("POST", server.url("/mcp"), content=request_of("initialize"))
            task = asyncio.ensure_future(exchanges.send(session, request))
            await server.arrived(requests=1)
            task.cancel()
            # the loop lives on until the server has ended, whose end is the reply's beginning
            loop.remove_reader(worker.fileno())

    loop.run_until_complete(leave())
    loop.close()
    ticket, status, _headers, body = reply_to(worker)
    assert (ticket, status) == (1, 200)
    assert b"error" in body


# ---- the end of a Worker ----


async def test_a_call_that_is_collected_with_requests_under_way() -> None:
    async with WireServer(stall) as server:
        await asyncio.sleep(0)
        loop_only = holdings()
        worker = _mcpro.Worker(TOOL)
        session = worker.session("srv", server.url("/mcp"))
        for ticket in range(5):
            session.submit(ticket, "POST", server.url("/mcp"), HEADERS, request_of("initialize"))
        await server.arrived(requests=5)
        begin = time.monotonic()
        del worker, session
        assert time.monotonic() - begin < PROMPT_S
        for wire in server.wires:
            await asyncio.wait_for(wire.ended.wait(), 5)
        for _ in range(500):  # the server's side closes its sockets in later turns of the loop
            if holdings() == loop_only:
                break
            await asyncio.sleep(0.01)
        assert holdings() == loop_only


def test_a_session_keeps_its_call() -> None:
    worker = _mcpro.Worker(TOOL)
    session = worker.session("srv", "http://127.0.0.1:1/mcp")
    descriptor = worker.fileno()
    del worker
    gc.collect()
    session.submit(1, "POST", "http://127.0.0.1:1/mcp", HEADERS, request_of("initialize"))
    readable, _, _ = select.select([descriptor], [], [], 5)
    assert readable == [descriptor]
    session.end()


def test_a_capsule_keeps_its_call() -> None:
    with nothing_held():
        worker = _mcpro.Worker(TOOL)
        before = sys.getrefcount(worker)
        capsule = worker.exit_hook()
        assert sys.getrefcount(worker) == before + 1
        del capsule
        assert sys.getrefcount(worker) == before
        del worker


@pytest.mark.parametrize(
    "script",
    [
        "cat",
        "trap '' TERM; while :; do sleep 1; done",
        "exec sleep 60",
        "exit 0",
        "sleep 60 & wait",
    ],
)
def test_a_child_ends_with_its_call(script: str) -> None:
    with nothing_held():
        worker = _mcpro.Worker(TOOL)
        session = worker.stdio("srv", [b"/bin/sh", b"-c", script.encode()], [b"PATH=/usr/bin:/bin"])
        session.submit(1, "POST", "http://stdio.invalid/", HEADERS, request_of("initialize"))
        begin = time.monotonic()
        del worker, session
        assert time.monotonic() - begin < PROMPT_S


def test_calls_do_not_leak() -> None:
    types = (_mcpro.Worker, type(_mcpro.Worker(TOOL).session("srv", "http://h/")))

    def live(rounds: int) -> None:
        for number in range(rounds):
            worker = _mcpro.Worker(TOOL)
            session = worker.session("srv", "http://127.0.0.1:1/mcp")
            session.submit(
                number, "POST", "http://127.0.0.1:1/mcp", HEADERS, request_of("initialize")
            )
            reply_to(worker)
            worker.noted("srv")
            worker.verdict("srv")
            worker.entries("srv")
            worker.outcome()
            worker.structured()
            worker.exit_hook()
            session.end()
            with pytest.raises(_mcpro.JSONError):
                worker.open("srv", b"[]")
            with pytest.raises(FileNotFoundError):
                worker.stdio("srv", [b"/nowhere"], [])

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with nothing_held():
        live(50)
        gc.collect()
        counts = [sys.getrefcount(kind) for kind in types]
        before = resident()
        live(150)
        gc.collect()
        assert resident() - before < 2_000_000
        assert [sys.getrefcount(kind) for kind in types] == counts


# ---- forks and interpreters ----


def run_apart(script: str) -> str:
    """The script in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_forked_child_refuses() -> None:
    assert (
        run_apart("""
        import os, select
        from deepagents_ro import _mcpro

        call = _mcpro.Worker("srv_read")
        session = call.session("srv", "http://127.0.0.1:1/mcp")
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
        session.submit(1, "POST", "http://127.0.0.1:1/mcp", [], body)
        select.select([call.fileno()], [], [], 5)
        child = os.fork()
        if child == 0:
            code = 0
            try:
                session.submit(2, "POST", "http://127.0.0.1:1/mcp", [], body)
                code = 1
            except RuntimeError:
                pass
            for make in (
                lambda: call.session("srv", "http://127.0.0.1:1/mcp"),
                lambda: call.stdio("srv", [b"/bin/true"], []),
            ):
                try:
                    make()
                    code = 2
                except PermissionError:
                    pass
            if call.poll():
                code = 3
            session.end()
            del session, call
            os._exit(code)
        print(os.waitpid(child, 0)[1])
        print(bool(select.select([call.fileno()], [], [], 0)[0]), len(call.poll()))
        """)
        == "0\nTrue 1"
    )


def test_a_sub_interpreter_works_or_says_why_not() -> None:
    said = run_apart("""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters

        from deepagents_ro import _mcpro

        script = '''
        import select
        try:
            from deepagents_ro import _mcpro
        except ImportError as error:
            assert "does not support" in str(error), error
        else:
            assert _mcpro.json_raw(b'{"a":1}', "a") == b"1"
            call = _mcpro.Worker("srv_read")
            session = call.session("srv", "http://127.0.0.1:1/mcp")
            body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
            session.submit(1, "POST", "http://127.0.0.1:1/mcp", [], body)
            select.select([call.fileno()], [], [], 5)
            assert len(call.poll()) == 1
            try:
                call.open("srv", b"[]")
            except _mcpro.JSONError as error:
                assert error.code == "not_object"
        '''
        import textwrap

        for _ in range(3):
            one = interpreters.create()
            failed = interpreters.run_string(one, textwrap.dedent(script))
            assert failed is None, failed
            interpreters.destroy(one)
        call = _mcpro.Worker("srv_read")
        try:
            call.open("srv", b"[]")
        except _mcpro.JSONError:
            print("ok")
        """)
    assert said == "ok"


def test_the_interpreter_can_end_with_a_call_alive() -> None:
    assert (
        run_apart("""
        import socket, sys, threading
        from deepagents_ro import _mcpro

        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        call = _mcpro.Worker("srv_read")
        session = call.session("srv", url)
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
        session.submit(1, "POST", url, [], body)
        listener.accept()
        child = call.stdio("srv", [b"/bin/cat"], [])
        sys.kept = (call, session, child)
        print("end")
        """)
        == "end"
    )
