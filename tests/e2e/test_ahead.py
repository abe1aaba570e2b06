"""A conversation that runs ahead of the SDK changes what is waited for, and nothing else.

Every call is made twice, with and without it: the same envelope and exit status, the same number of
calls, and nobody asked who would not have been.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from servers.dcode import Dcode, Run

from deepagents_ro.ahead import PLAIN_VARIABLE
from deepagents_ro.qualify.lab.proxy import ConnectProxy
from deepagents_ro.qualify.lab.raw_server import (
    RawServer,
    Request,
    Wire,
    answer,
    error_message,
    event,
    http,
)

Make = Callable[..., RawServer]
LOOK = '{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
# What one call says when nothing runs ahead.
ORDINARY = Counter(
    {"HEAD": 1, "initialize": 2, "notifications/initialized": 2, "tools/list": 1, "tools/call": 1}
)


def in_a_stream(request: Request, wire: Wire) -> None:
    """What the server would say, as an event stream, with a notification in front."""
    message = wire.server.default(request, wire).partition(b"\r\n\r\n")[2]
    headers = [("mcp-session-id", "s")] if request.label == "initialize" else []
    wire.chunked_head(headers=headers)
    wire.chunk(event('{"jsonrpc":"2.0","method":"notifications/message","params":{}}', id="1"))
    wire.chunk(event(message, id="2"))
    wire.end()


def asks_first(request: Request, wire: Wire) -> None:
    """A stream in which the server waits for an answer of its own before it goes on."""
    before = wire.server.count("response")
    message = wire.server.default(request, wire).partition(b"\r\n\r\n")[2]
    wire.chunked_head()
    wire.chunk(event('{"jsonrpc":"2.0","id":"p","method":"ping"}'))
    assert wire.server.wait_for("response", before + 1)
    wire.chunk(event(message))
    wire.end()


def speaks(version: str) -> Callable[[Request, Wire], bytes]:
    result = {"protocolVersion": version, "capabilities": {}}
    return answer(json.dumps({**result, "serverInfo": {"name": "s", "version": "1"}}))


def with_a_cookie(request: Request, wire: Wire) -> bytes:
    return wire.server.initialized(request, headers=[("set-cookie", "a=b")])


def rotating(request: Request, wire: Wire) -> bytes:
    """Another session id with every answer; the one of `initialize` counts."""
    number = len(wire.server.requests)
    reply = wire.server.default(request, wire)
    return reply.replace(b"\r\n\r\n", b"\r\nmcp-session-id: rotating-%d\r\n\r\n" % number, 1)


def pages(request: Request, wire: Wire) -> bytes:
    if "params" in request.message:
        return answer(f'{{"tools":[{LOOK}]}}')(request, wire)
    return answer('{"tools":[],"nextCursor":"2"}')(request, wire)


def moved(request: Request, wire: Wire) -> bytes:
    if request.target == "/mcp":
        return http(307, headers=[("location", "/moved")])
    return wire.server.default(request, wire)


def silent(_request: Request, wire: Wire) -> None:
    wire.stall(20)


def slow(request: Request, wire: Wire) -> bytes:
    wire.sleep(0.7)
    return wire.server.default(request, wire)


def reset(_request: Request, wire: Wire) -> None:
    wire.reset()


def fails(request: Request, _wire: Wire) -> bytes:
    return http(200, error_message(request))


@dataclass(frozen=True)
class Case:
    """One owner: what it answers, what comes of it, and whether what ran ahead is of use."""

    code: str = "ok"
    handlers: dict[str, Any] = field(default_factory=dict)
    entry: dict[str, Any] = field(default_factory=dict)
    used: bool = True
    sessions: bool = False
    deadline_ms: int | None = None


CASES = {
    "plain": Case(),
    "sessions": Case(sessions=True),
    "streams": Case(handlers={"initialize": in_a_stream, "tools/list": in_a_stream}),
    "refuses HEAD": Case(handlers={"HEAD": http(405)}),
    "a placeholder": Case(entry={"headers": {"Authorization": "Bearer openshell:resolve:env:N"}}),
    "401": Case("tool_not_found", {"initialize": http(401)}),
    "an error": Case("tool_not_found", {"initialize": fails}, used=False),
    "a redirect": Case(handlers={"initialize": moved}),
    "rotating ids": Case(handlers={"initialize": rotating, "tools/list": rotating}),
    "in pages": Case(handlers={"tools/list": pages}),
    "HEAD 503": Case("tool_not_found", {"HEAD": http(503)}, used=False),
    "another version": Case("tool_not_found", {"initialize": speaks("2023-01-01")}, used=False),
    "an older version": Case(handlers={"initialize": speaks("2024-11-05")}),
    "a cookie": Case(handlers={"initialize": with_a_cookie}),
    "filtered": Case("tool_not_found", entry={"disabledTools": ["look"]}),
    "not read-only": Case(
        "tool_not_read_only",
        {"tools/list": answer('{"tools":[{"name":"look","inputSchema":{}}]}')},
        used=False,
    ),
}
MORE = {
    **{
        str(status): Case("tool_not_found", {"initialize": http(status)}, used=False)
        for status in (400, 404, 405, 429, 500, 503)
    },
    "403": Case("tool_not_found", {"initialize": http(403)}),
    "reset": Case("tool_not_found", {"initialize": reset}, used=False),
    "not JSON": Case("tool_not_found", {"initialize": http(200, b"<html>")}, used=False),
    "text": Case(
        "tool_not_found", {"initialize": http(200, b"a", content_type="text/plain")}, used=False
    ),
    "silent": Case("timeout", {"initialize": silent}, used=False, deadline_ms=8000),
    "slow": Case(handlers={"initialize": slow, "tools/list": slow}),
    "a ping first": Case(handlers={"initialize": asks_first, "tools/list": asks_first}),
    "list 404": Case("tool_not_found", {"tools/list": http(404)}, used=False),
    "list fails": Case("tool_not_found", {"tools/list": fails}, used=False),
    "initialized 400": Case("tool_not_found", {"notifications/initialized": http(400)}, used=False),
    "list moved": Case(handlers={"tools/list": moved}, used=False),
    "call 500": Case("runtime_failure", {"tools/call": http(500)}),
    "call refused": Case("tool_failed", {"tools/call": fails}),
    "HEAD moved": Case(handlers={"HEAD": http(307, headers=[("location", "/x")])}),
    "call reset": Case("runtime_failure", {"tools/call": reset}),
}


def both(dcode: Dcode, server: RawServer, **options: Any) -> tuple[Run, Counter[str], Counter[str]]:
    """The run with it, and what the server saw of the run with it and of the one without."""
    seen: list[Counter[str]] = []
    runs: list[Run] = []
    for plain in (None, "1"):
        before = len(server.labels())
        runs.append(dcode.run("raw_look", env={PLAIN_VARIABLE: plain}, **options))
        seen.append(Counter(server.labels()[before:]))
    assert (runs[0].stdout, runs[0].exit_code) == (runs[1].stdout, runs[1].exit_code)
    assert seen[0]["tools/call"] == seen[1]["tools/call"] <= 1
    return runs[0], *seen


def check(case: Case, dcode: Dcode, server: RawServer) -> None:
    dcode.serve(raw={"type": "http", "url": server.url, **case.entry})
    run, ahead, plain = both(dcode, server, deadline_ms=case.deadline_ms)
    assert run.document()["data"].get("code", "ok") == case.code
    if case.used:
        for each in (ahead, plain):
            del each["DELETE"], each["response"]  # a DELETE is best effort, and may come late
        assert ahead == plain
        return
    # Beside what the ordinary way says: at most two sessions more, and their end; one request more
    # where discovery's session is refused, since the call's is not asked for before.
    more = ahead - plain
    assert not plain - ahead - Counter({"DELETE": 2})
    assert more["initialize"] <= (1 if "initialize" in case.handlers else 2)
    assert more["notifications/initialized"] <= 2
    assert more["tools/list"] <= 1
    kinds = {"initialize", "notifications/initialized", "tools/list", "DELETE"}
    assert set(more) <= kinds


@pytest.mark.parametrize("name", CASES)
def test_owners(dcode: Dcode, raw: Make, name: str) -> None:
    case = CASES[name]
    check(case, dcode, raw(handlers=dict(case.handlers), sessions=case.sessions))


@pytest.mark.thorough
@pytest.mark.parametrize("name", MORE)
def test_more_owners(dcode: Dcode, raw: Make, name: str) -> None:
    case = MORE[name]
    check(case, dcode, raw(handlers=dict(case.handlers), sessions=case.sessions))


class Rooms:
    """A server with room for so many sessions at a time; a DELETE makes room."""

    def __init__(
        self, count: int, refusal: int = 400, newest: bool = False, wait: float = 0
    ) -> None:
        self.count = count
        self.refusal = refusal
        self.newest = newest
        """The oldest session ends instead of a refusal."""
        self.wait = wait
        """Seconds before the first answer."""
        self.open: list[bytes] = []
        self.lock = threading.Lock()
        others = ("notifications/initialized", "tools/list", "tools/call", "DELETE")
        self.handlers = {"initialize": self.enter, **dict.fromkeys(others, self.within)}

    def enter(self, request: Request, wire: Wire) -> bytes:
        number = wire.server.count("initialize")
        if number == 1:
            wire.sleep(self.wait)
        with self.lock:
            if len(self.open) == self.count:
                if not self.newest:
                    return http(self.refusal)
                del self.open[0]
            self.open.append(b"%d" % number)
            line = b"\r\nmcp-session-id: %s\r\n\r\n" % self.open[-1]
        return wire.server.default(request, wire).replace(b"\r\n\r\n", line, 1)

    def within(self, request: Request, wire: Wire) -> bytes:
        session = request.header("mcp-session-id") or b""
        with self.lock:
            if session not in self.open:
                return http(404)
            if request.label == "DELETE":
                self.open.remove(session)
        return wire.server.default(request, wire)


@pytest.mark.parametrize(
    ("rooms", "code"),
    [
        ({"count": 1}, "runtime_failure"),
        pytest.param({"count": 1, "refusal": 503}, "runtime_failure", marks=pytest.mark.thorough),
        pytest.param({"count": 1, "wait": 0.7}, "runtime_failure", marks=pytest.mark.thorough),
        pytest.param({"count": 2}, "ok", marks=pytest.mark.thorough),
        ({"count": 1, "newest": True}, "ok"),
    ],
    ids=["one", "one, 503", "one, slow", "two", "the newest"],
)
def test_room_for_few_sessions(dcode: Dcode, raw: Make, rooms: dict[str, Any], code: str) -> None:
    """Discovery's session comes first, whichever connection is the faster one."""
    runs: list[Run] = []
    asked: list[int] = []
    for plain in (None, "1"):
        server = raw(handlers=Rooms(**rooms).handlers)
        dcode.serve(raw=server)
        runs.append(dcode.run("raw_look", env={PLAIN_VARIABLE: plain}))
        asked.append(server.count("initialize"))
    assert runs[0].document()["data"].get("code", "ok") == code
    assert (runs[0].stdout, runs[0].exit_code) == (runs[1].stdout, runs[1].exit_code)
    if code != "ok":  # the call's is asked for ahead, and once more when its turn has come
        assert asked[1] == 2
        assert asked[0] <= 3


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("closes", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_one_connection_at_a_time(dcode: Dcode, raw: Make, tls: bool, closes: bool) -> None:
    """What ran ahead is not in the way of DCode's preflight, which has two seconds."""

    def last(request: Request, wire: Wire) -> None:
        wire.send(wire.server.default(request, wire))
        wire.finish()

    server = raw(tls=tls, handlers=dict.fromkeys(ORDINARY, last) if closes else {})
    serve, turn = server.serve, threading.Lock()

    def one_by_one(sock: socket.socket, number: int) -> None:
        with turn:
            serve(sock, number)

    server.serve = one_by_one  # type: ignore[method-assign]
    dcode.serve(raw=server)
    for plain in (None, "1"):
        dcode.run("raw_look", env={PLAIN_VARIABLE: plain}).expect_ok("raw_look")
    assert server.count("tools/call") == 2


def test_an_answer_that_comes_while_the_preflight_waits(dcode: Dcode, raw: Make) -> None:
    """The connection that it came on is not in the preflight's way either."""
    server = raw(sessions=True)
    serve, ended = server.serve, threading.Semaphore(0)

    def counted(sock: socket.socket, number: int) -> None:
        serve(sock, number)
        ended.release()

    def tools(request: Request, wire: Wire) -> bytes:
        assert ended.acquire(timeout=5)  # the other one, which was idle
        return wire.server.default(request, wire)

    def head(_request: Request, _wire: Wire) -> bytes:
        assert ended.acquire(timeout=5)  # the list's
        server.handlers.pop("tools/list")
        return http(405)

    server.serve = counted  # type: ignore[method-assign]
    server.handlers.update({"HEAD": head, "tools/list": tools})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/list") == server.count("tools/call") == 1


def test_the_order(dcode: Dcode, raw: Make) -> None:
    """The handshake and the list are there before DCode's preflight is, on two connections."""
    server = raw(sessions=True)
    seen: list[int] = []

    def head(_request: Request, wire: Wire) -> bytes:
        assert wire.server.wait_for("tools/list")
        assert wire.server.wait_for("notifications/initialized", 2)
        seen.append(wire.server.count("tools/call"))
        return http(405)

    def initialized(request: Request, wire: Wire) -> bytes:
        """Discovery's connection is busy until the call's sequence has begun."""
        assert wire.server.wait_for("initialize", 2)
        return wire.server.default(request, wire)

    server.handlers.update({"HEAD": head, "notifications/initialized": initialized})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert seen == [0]
    assert server.wait_for("DELETE", 2)  # the last may still be on its way
    labels = Counter(server.labels())
    assert labels == ORDINARY + Counter({"DELETE": 2})
    assert len(server.mcp_connections()) == 2
    assert len(server.connections) == 3
    sessions = {request.header("mcp-session-id") for request in server.of("DELETE")}
    assert sessions == {b"session-1", b"session-2"}
    (call,) = server.of("tools/call")
    (listed,) = server.of("tools/list")
    assert {call.header("mcp-session-id"), listed.header("mcp-session-id")} == sessions


def test_discovery_ends_while_the_call_is_under_way(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)

    def call(request: Request, wire: Wire) -> bytes:
        assert wire.server.wait_for("DELETE")
        return wire.server.default(request, wire)

    server.handlers["tools/call"] = call
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.wait_for("DELETE", 2)


# ---- who must not be asked early ----


def nothing_early(dcode: Dcode, *servers: RawServer, **options: Any) -> Run:
    """A run in which each server saw what it sees without, in the same order."""
    before = [len(server.labels()) for server in servers]
    tool = options.pop("tool", "raw_look")
    plain = dcode.run(tool, env={PLAIN_VARIABLE: "1"}, **options)
    middle = [len(server.labels()) for server in servers]
    run = dcode.run(tool, **options)
    for server, start, end in zip(servers, before, middle, strict=True):
        labels = server.labels()
        assert labels[end:] == labels[start:end]
    assert (run.stdout, run.exit_code) == (plain.stdout, plain.exit_code)
    return run


def test_a_project_file(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve_project(raw=server)
    nothing_early(dcode, server).expect("tool_not_found")
    assert not server.labels()
    nothing_early(dcode, server, options=["--trust-project-mcp"]).expect_ok()
    assert server.labels()[0] == "HEAD"


def test_a_project_file_over_the_users(dcode: Dcode, raw: Make) -> None:
    users, projects = raw(), raw()
    dcode.serve(raw=users).serve_project(raw=projects)
    nothing_early(dcode, users, projects)
    assert not projects.labels()


def test_a_disabled_server(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    dcode.user_toml('[mcp]\ndisabled_servers = ["raw"]\n')
    nothing_early(dcode, server)


def test_two_owners(dcode: Dcode, raw: Make) -> None:
    one, other = raw(tools=[LOOK.replace("look", "x_look")]), raw(tools=[])
    dcode.serve(raw=one, raw_x=other)
    nothing_early(dcode, one, other, tool="raw_x_look").expect_ok()
    assert one.labels()[0] == other.labels()[0] == "HEAD"


def test_tokens_in_store(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    place = dcode.home / ".deepagents" / ".state" / "mcp-tokens"
    place.mkdir(parents=True)
    (place / "raw.json").write_text("{}")
    nothing_early(dcode, server).expect_ok()
    assert server.labels()[0] == "HEAD"


def test_an_explicit_file(dcode: Dcode, raw: Make) -> None:
    server = raw()
    options = ["--mcp-config", dcode.explicit(raw=server)]
    dcode.run("raw_look", options=options).expect_ok()
    assert server.labels()[0] == "initialize"


def test_through_a_proxy(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    with ConnectProxy() as proxy:
        dcode.run("raw_look", env={"HTTPS_PROXY": proxy.url}).expect_ok()
        assert Counter(server.labels()) == ORDINARY
        assert len(proxy.tunnels) == len(server.connections) == 3
