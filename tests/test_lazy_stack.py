"""The adapter is imported while DCode's preflight waits, and is what it always is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from isolated import python
from servers.dcode import Dcode

from deepagents_ro import host, lazy_stack, startup
from deepagents_ro.plan import Plan
from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, http

Make = Callable[..., RawServer]

PREFLIGHT_SECONDS = 1.8  # DCode's own limit is 2

TAKE = """
import asyncio, importlib, sys, threading
from deepagents_ro import host, lazy_stack, startup
host.prepare_package()
from deepagents_code import mcp_tools
names, verified = set(), startup.prepare(())
def import_stack():
    host.import_stack(verified)
def take():
    importlib.import_module("deepagents_code.mcp_auth")
    from langchain_mcp_adapters import sessions, tools
    from langchain_mcp_adapters.sessions import (
        SSEConnection, StdioConnection, StreamableHttpConnection, create_session,
    )
    from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
    behind = ("langchain_mcp", "mcp", "pydantic")
    names.update(name for name in sys.modules if name.startswith(behind))
    return StreamableHttpConnection
"""


def with_names(code: str, *arguments: str) -> str:
    """Run `code` behind `TAKE`."""
    return python(TAKE + code, *arguments)


def test_names_are_those_that_the_loader_takes() -> None:
    """And nothing is imported for them, until one is called."""
    code = """
threads = []
def load():
    threads.append(threading.current_thread())
    import_stack()
stack = lazy_stack.LazyStack(load)
assert stack.install()
interval = sys.getswitchinterval()
async def main():
    make = take()
    assert names == {"langchain_mcp_adapters", *lazy_stack.PUT_OFF} - {"deepagents_code.mcp_auth"}
    return make(transport="streamable_http", url="https://host/")
made = asyncio.run(main())
assert made == {"transport": "streamable_http", "url": "https://host/"}, made
assert threads == [threading.main_thread()]
assert stack not in sys.meta_path and sys.getswitchinterval() == interval
for module, name in lazy_stack.NAMES:
    real = importlib.import_module(module)
    assert real.__file__ and callable(getattr(real, name)), module
from deepagents_code import mcp_auth
assert mcp_auth.FileTokenStorage
"""
    with_names(code)


def test_the_loop_goes_on_while_the_thread_imports() -> None:
    code = """
begun, turn = threading.Event(), threading.Event()
def load():
    begun.set()
    assert turn.wait(60)
    import_stack()
async def main():
    make = take()
    while not begun.is_set():
        await asyncio.sleep(0.001)
    assert threading.main_thread() is threading.current_thread()
    turn.set()
    return make(transport="streamable_http", url="https://host/")
stack = lazy_stack.LazyStack(load)
assert stack.install()
assert asyncio.run(main()) == {"transport": "streamable_http", "url": "https://host/"}
"""
    with_names(code)


def test_another_name_is_imported_for() -> None:
    code = """
assert lazy_stack.LazyStack(import_stack).install()
from langchain_mcp_adapters import sessions
assert sessions.WebsocketConnection.__module__ == "langchain_mcp_adapters.sessions"
assert sys.modules["langchain_mcp_adapters.sessions"] is not sessions
"""
    with_names(code)


@pytest.mark.parametrize("on_thread", [True, False])
def test_what_an_import_raises_is_raised_where_a_name_is_called(on_thread: bool) -> None:
    code = """
loads, ended = [], threading.Event()
def load():
    loads.append(1)
    ended.set()
    raise ImportError("gone")
async def main():
    make = take()
    while sys.argv[1] == "True" and not ended.is_set():
        await asyncio.sleep(0.001)
    for _ in range(2):
        try:
            make()
        except ImportError as error:
            assert str(error) == "gone"
        else:
            raise AssertionError
    await asyncio.sleep(2 * lazy_stack.START_SECONDS)
stack = lazy_stack.LazyStack(load)
assert stack.install()
asyncio.run(main())
assert loads == [1]
"""
    with_names(code, str(on_thread))


def test_not_where_the_modules_are_there() -> None:
    code = """
import_stack()
stack = lazy_stack.LazyStack(import_stack)
assert not stack.install() and stack not in sys.meta_path
"""
    with_names(code)


HTTP, SSE, STDIO = {"type": "http", "url": "u"}, {"type": "sse", "url": "u"}, {"command": "c"}


@pytest.mark.parametrize(
    ("entries", "verified", "put_off"),
    [
        ({"a": [HTTP]}, True, True),
        ({"a": [SSE, HTTP]}, True, True),
        ({"a": [HTTP]}, False, False),
        ({"a": [STDIO]}, True, False),
        ({"a": [STDIO, HTTP]}, True, False),
        ({"a": [HTTP], "a_b": [HTTP]}, True, False),
    ],
)
def test_for_one_remote_owner_and_a_verified_stack(
    monkeypatch: pytest.MonkeyPatch,
    entries: dict[str, list[object]],
    verified: bool,
    put_off: bool,
) -> None:
    done: list[str] = []
    monkeypatch.setattr(host, "import_stack", lambda _stack: done.append("imported"))

    def install(_self: lazy_stack.LazyStack) -> bool:
        done.append("put off")
        return True

    monkeypatch.setattr(lazy_stack.LazyStack, "install", install)
    monkeypatch.delenv(startup.PLAIN_VARIABLE, raising=False)
    plan = Plan("a_b_c", frozenset(entries), raw=entries)
    host.load_stack(plan, {"mcp": "1.30.0"} if verified else None)
    assert done == (["put off"] if put_off else ["imported"])


SCRIPT = """
import pathlib, sys, threading
log = []
def note(event, arguments):
    if event == "import":
        log.append([threading.current_thread().name, arguments[0]])
sys.addaudithook(note)
from deepagents_ro import command, host
load, imported = host.import_stack, pathlib.Path(sys.argv[1])
def import_stack(stack):
    load(stack)
    imported.write_text("")
host.import_stack = import_stack
run = command.run
class Guard:
    def __init__(self, guard):
        self.guard = guard
    def __getattr__(self, name):
        return getattr(self.guard, name)
    def finish(self, status, document):
        import json
        pathlib.Path(sys.argv[2]).write_text(json.dumps(log))
        self.guard.finish(status, document)
command.run = lambda argv, guard: run(argv, Guard(guard))
sys.argv[0] = "dcode"
command.main(sys.argv[3:])
"""


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("tls", [True, False])
def test_a_call(dcode: Dcode, raw: Make, tmp_path: Path, name: str, tls: bool) -> None:
    """The preflight is answered behind the imports, and its thread imports nothing meanwhile."""
    imported, log = tmp_path / "imported", tmp_path / "log"
    seen: list[bool] = []

    def head(_request: Request, _wire: Wire) -> bytes:
        end = time.monotonic() + PREFLIGHT_SECONDS
        while not imported.exists() and time.monotonic() < end:
            time.sleep(0.005)
        seen.append(imported.exists())
        return http(405)

    server = raw(tls=tls, handlers={"HEAD": head})
    dcode.serve(raw=server.url.replace("127.0.0.1", name))
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, str(imported), str(log), "raw_look", "--json"],
        input=b"{}",
        capture_output=True,
        env=dcode.env,
        cwd=dcode.project,
        check=False,
    )
    assert json.loads(done.stdout)["data"]["status"] == "ok", done.stderr
    assert seen == [True]
    threads = [thread for thread, _module in json.loads(log.read_text())]
    first = threads.index("imports")
    behind = len(threads) - threads[::-1].index("imports")
    assert set(threads[first:behind]) == {"imports"}
    assert behind - first > 100
