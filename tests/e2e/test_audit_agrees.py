"""The audit and the call agree over a matrix of servers: one process, every tool really called."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import (
    READ_ONLY_TOOL,
    RawServer,
    Request,
    Wire,
    event,
    http,
)
from deepagents_ro.reasons import Reason, ToolReason

Make = Callable[..., RawServer]
BOTH = Path(__file__).parent.parent / "audit_and_call.py"
READ_ONLY = '{"readOnlyHint":true}'
LOOK = f'{{"name":"look","inputSchema":{{"type":"object"}},"annotations":{READ_ONLY}}}'


def named(name: str, annotations: str = READ_ONLY) -> str:
    return f'{{"name":"{name}","inputSchema":{{"type":"object"}},"annotations":{annotations}}}'


def redirecting(server: RawServer, methods: tuple[str, ...], to: str = "") -> RawServer:
    """Answers these methods at `/mcp/` with 307 to `/mcp`, or to another origin's `to`."""

    def handler(method: str) -> Callable[[Request, Wire], bytes]:
        def answer(request: Request, wire: Wire) -> bytes:
            if request.target.endswith("/mcp/"):
                where = [("location", to or "/mcp")]
                return http(307, content_type=None, headers=where)
            return server.default(request, wire)

        return answer

    server.handlers.update({method: handler(method) for method in methods})
    return server


def resulting(result: str) -> Callable[[Request, Wire], bytes]:
    def handler(request: Request, wire: Wire) -> bytes:
        message = f'{{"jsonrpc":"2.0","id":{request.id_text},"result":{result}}}'
        return http(200, message.encode())

    return handler


def junk(request: Request, wire: Wire) -> bytes:
    return http(200, event('{"type":"heartbeat"}') * 65, content_type="text/event-stream")


def hang_up(request: Request, wire: Wire) -> None:
    wire.reset()


EVERY = ("initialize", "notifications/initialized", "tools/list", "tools/call")
OLD = '{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}'
PAGE = f'{{"tools":[{LOOK}],"nextCursor":"2"}}'


def pages(request: Request, wire: Wire) -> bytes:
    """A good first page and a broken second."""
    if "cursor" in (request.message.get("params") or {}):
        return http(500)
    return resulting(PAGE)(request, wire)


def both(dcode: Dcode, *tools: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-I", str(BOTH), *tools],
        cwd=dcode.project,
        env=dcode.env,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    return {row["name"]: row for row in found["servers"]}, found["calls"]


def agree(rows: dict[str, dict[str, Any]], calls: dict[str, str]) -> None:
    """What the audit says of each tool is what the call of it ended with."""
    codes = {cause.word: cause.code for cause in ToolReason}
    for row in rows.values():
        for tool in row["tools"]:
            said = codes.get(tool["reason"], "tool_not_read_only")
            assert tool["callable"] == (said == "ok")
            if said != "invalid_tool_name":  # the command line's, before any server
                assert calls[tool["name"]] == said, (row["name"], tool)


@pytest.fixture
def matrix(raw: Make) -> dict[str, Any]:
    """By name, one server of each kind. Full names share no prefix but where they are to."""
    ready = raw()
    elsewhere = raw()
    return {
        "good": raw(tools=[READ_ONLY_TOOL, named("writes", '{"readOnlyHint":false}')]),
        "spoilt": raw(tools=[LOOK, '{"name":"bad","inputSchema":5}']),
        "twice": raw(tools=[LOOK, LOOK]),
        "filtered": {"url": raw(tools=[LOOK, named("other")]).url, "disabledTools": ["look"]},
        "moved": {"url": redirecting(raw(), EVERY).url + "/"},
        "movedlist": {"url": redirecting(raw(), EVERY[1:]).url + "/"},
        "away": {"url": redirecting(raw(), EVERY, elsewhere.url).url + "/"},
        "locked": raw(handlers={"initialize": http(401)}),
        "halfway": raw(handlers={"tools/list": pages}),
        "noisy": raw(handlers={"tools/list": junk}),
        "rude": raw(handlers={"tools/list": hang_up}),
        "old": raw(handlers={"initialize": resulting(OLD)}),
        "odd": raw(handlers={"initialize": resulting("{}")}),
        "page": raw(handlers={"initialize": http(200, b"<html>", content_type="text/html")}),
        "down": raw(handlers={"HEAD": http(501)}),
        "a": raw(tools=[named("b_look"), named("c_look"), named("d_look"), named("e_look")]),
        "a_b": ready,
        "a_c": raw(handlers={"tools/list": http(500)}),
        "a_d": {"url": "https://${NOT_SET_ANYWHERE}/"},
        "a_e": raw(),
        "g": raw(tools=[named("h_x"), named("i_x")]),
        "g_h": raw(tools=[named("other")]),
        "g_i": raw(tools=[named("x")]),
    }


def test_audit_and_call_agree(dcode: Dcode, matrix: dict[str, Any]) -> None:
    dcode.user_toml('[mcp]\ndisabled_servers = ["a_e"]\n')
    dcode.serve(**matrix)
    rows, calls = both(dcode, *(f"{name}_look" for name in matrix))
    agree(rows, calls)
    details = {name: row["detail"] for name, row in rows.items() if row["detail"]}
    assert details == {
        "away": Reason.REDIRECT_TO_OTHER_ORIGIN.word,
        "locked": Reason.HTTP_401.word,
        "halfway": Reason.HTTP_5XX.word,
        "noisy": Reason.JUNK.word,
        "rude": Reason.CLOSED_BY_SERVER.word,
        "old": Reason.PROTOCOL_VERSION.word,
        "odd": Reason.BAD_HANDSHAKE.word,
        "page": Reason.NOT_MCP.word,
        "down": Reason.HEAD_5XX.word,
        "a_c": Reason.HTTP_5XX.word,
        "a_d": Reason.UNSET_VARIABLE.word,
        "a_e": Reason.DISABLED.word,
    }
    reasons = {tool["name"]: tool["reason"] for row in rows.values() for tool in row["tools"]}
    for name, row in rows.items():  # a server that is not usable has no tool that can be called
        if row["detail"] and f"{name}_look" not in reasons:
            assert calls[f"{name}_look"] != "ok", name
    assert {name: reasons[name] for name in ("a_b_look", "a_c_look", "a_d_look", "a_e_look")} == {
        "a_b_look": ToolReason.AMBIGUOUS.word,
        "a_c_look": ToolReason.RIVAL_NOT_LOADED.word,
        "a_d_look": ToolReason.RIVAL_NOT_LOADED.word,
        "a_e_look": ToolReason.READ_ONLY.word,
    }
    assert reasons["g_h_x"] == ToolReason.READ_ONLY.word
    assert reasons["movedlist_look"] == ToolReason.MOVED.word
    assert reasons["spoilt_look"] == ToolReason.READ_ONLY.word
    assert sum(code == "ok" for code in calls.values()) >= 4


def test_a_broken_file_is_named(dcode: Dcode, raw: Make) -> None:
    """The user's file is left out with its position; a project's entry is refused by itself."""
    secret = "sk-not-to-be-shown-0123456789"
    dcode.serve(raw=raw().url)
    path = dcode.home / ".deepagents" / ".mcp.json"
    broken = '  "a": {"url": "https://x", "headers": {"K": "%s"}},,' % secret
    path.write_text('{"mcpServers": {\n' + broken + "\n}}")
    dcode.serve_project(raw=raw().url, worse={"type": "carrier pigeon"})
    rows, calls = both(dcode, "raw_look", "worse_look")
    agree(rows, calls)
    file = rows.pop("<config:.mcp.json>")
    assert (file["state"], file["detail"]) == ("misconfigured", "broken_file")
    assert file["subject"] == f"{path}:2:{len(broken)}"
    assert secret not in json.dumps([file, rows])
    assert {name: row["detail"] for name, row in rows.items()} == {
        "raw": "not_trusted",
        "worse": "bad_entry",
    }
    assert set(calls.values()) == {"tool_not_found"}
