"""`dcode tools audit-read-only`: every server's state, every tool's verdict, no call."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from servers.dcode import Dcode, Run
from servers.raw_server import READ_ONLY_TOOL, RawServer, http

AUDIT = ["tools", "audit-read-only"]
Make = Callable[..., RawServer]


def tool(name: str, annotations: str | None) -> str:
    extra = "" if annotations is None else f',"annotations":{annotations}'
    return f'{{"name":"{name}","inputSchema":{{"type":"object"}}{extra}}}'


def rows(run: Run) -> dict[str, dict[str, Any]]:
    """The servers of a JSON audit by name, after the checks that every envelope has to pass."""
    run.clean()
    assert run.exit_code == 0, run.stdout
    assert run.stdout.endswith(b"\n")
    assert run.stdout.isascii()
    line = run.stdout[:-1]
    head = b'{"schema_version":1,"command":"tools audit-read-only","data":{"ok":true,"status":"ok",'
    assert line.startswith(head)
    document = json.loads(line)
    assert line == json.dumps(document, separators=(",", ":")).encode()
    return {server["name"]: server for server in document["data"]["servers"]}


def audit(dcode: Dcode, **kwargs: Any) -> dict[str, dict[str, Any]]:
    options = kwargs.pop("options", [])
    return rows(dcode.run(argv=[*options, *AUDIT, "--json"], stdin=None, **kwargs))


def test_each_tool_down_to_the_hint(dcode: Dcode, raw: Make) -> None:
    server = raw(
        tools=[
            READ_ONLY_TOOL,
            tool("none", None),
            tool("word", '{"readOnlyHint":"yes"}'),
            tool("writes", '{"readOnlyHint":false}'),
            tool("both", '{"readOnlyHint":true,"destructiveHint":true}'),
            tool("twice", '{"readOnlyHint":false,"readOnlyHint":true}'),
            tool("world", '{"readOnlyHint":true,"openWorldHint":1}'),
            '{"name":"broken","inputSchema":5}',
            tool("left out", '{"readOnlyHint":true}'),
            tool("hidden", '{"readOnlyHint":true}'),
        ]
    )
    dcode.serve(raw={"url": server.url, "disabledTools": ["hidden"]})
    found = audit(dcode)["raw"]
    assert found["state"] == "reachable"
    assert {row["name"]: (row["callable"], row["reason"]) for row in found["tools"]} == {
        "raw_look": (True, "read_only"),
        "raw_none": (False, "annotations_missing"),
        "raw_word": (False, "read_only_not_boolean"),
        "raw_writes": (False, "read_only_not_true"),
        "raw_both": (False, "destructive"),
        "raw_twice": (False, "duplicate_key"),
        "raw_world": (False, "open_world_not_boolean"),
        "raw_broken": (False, "broken_definition"),
        "raw_left out": (False, "name_not_callable"),
        "raw_hidden": (False, "filtered"),
    }
    assert server.count("tools/call") == 0


def test_each_server_state(dcode: Dcode, raw: Make) -> None:
    servers = {
        "good": raw(),
        "login": raw(handlers={"initialize": http(401)}),
        "forbidden": raw(handlers={"tools/list": http(403)}),
        "broken": raw(handlers={"tools/list": http(200, b"{")}),
        "down": raw(handlers={"HEAD": http(503)}),
        "stuck": raw(handlers={"tools/list": lambda request, wire: wire.stall()}),
        "off": raw(),
    }
    dcode.user_toml('[mcp]\ndisabled_servers = ["off"]\n')
    dcode.serve(
        **{name: server.url for name, server in servers.items()},
        unset={"url": "https://${NOT_SET_ANYWHERE}/"},
        dead={"url": "http://127.0.0.1:1/"},
        missing={"command": "/bin/false"},
    )
    dcode.serve_project(stranger=raw().url)
    found = audit(dcode, deadline_ms=6000)
    assert {name: row["state"] for name, row in found.items()} == {
        "good": "reachable",
        "login": "needs_login",
        "forbidden": "denied",
        "broken": "malformed_list",
        "down": "unreachable",
        "stuck": "timed_out",
        "off": "disabled",
        "unset": "misconfigured",
        "dead": "unreachable",
        "missing": "unreachable",
        "stranger": "not_trusted",
    }
    assert found["good"]["tools"] == [{"name": "raw_look".replace("raw", "good"), "callable": True,
                                       "reason": "read_only"}]  # fmt: skip
    assert servers["off"].connections == []
    assert all(server.count("tools/call") == 0 for server in servers.values())


def test_one_name_twice(dcode: Dcode, raw: Make) -> None:
    read_only = '{"readOnlyHint":true}'
    dcode.serve(
        a=raw(tools=[tool("b_c", read_only)]).url,
        a_b=raw(tools=[tool("c", read_only), tool("d", read_only)]).url,
    )
    found = audit(dcode)
    reasons = {row["name"]: row["reason"] for server in found.values() for row in server["tools"]}
    assert reasons == {"a_b_c": "ambiguous", "a_b_d": "read_only"}
    dcode.run("a_b_c").expect("ambiguous_tool")


def test_forty_silent_servers_take_one_deadline(dcode: Dcode, raw: Make) -> None:
    silent = raw(handlers={"initialize": lambda request, wire: wire.stall()})
    good = raw()
    dcode.serve(good=good.url, **{f"silent{number}": silent.url for number in range(40)})
    run = dcode.run(argv=[*AUDIT, "--json"], stdin=None, deadline_ms=8000)
    found = rows(run)
    assert run.seconds < 9.5
    assert found.pop("good")["state"] == "reachable"
    assert {row["state"] for row in found.values()} <= {"timed_out", "unreachable"}
    assert len(found) == 40


def test_the_table(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw(tools=[READ_ONLY_TOOL, tool("writes", '{"readOnlyHint":false}')]).url)
    run = dcode.run(argv=AUDIT, stdin=None).clean()
    text = run.stdout.decode()
    assert run.exit_code == 0
    assert "\x1b" not in text
    assert "raw_look" in text
    assert "read_only_not_true (tool_not_read_only)" in text
    empty = Dcode(dcode.home.parent / "other", dcode.home)
    empty.env["SSL_CERT_FILE"] = dcode.env["SSL_CERT_FILE"]
    assert b"No MCP servers" in empty.run(argv=AUDIT, stdin=None).clean().stdout


@pytest.mark.parametrize("rest", [["x"], ["--json", "--json"], ["--yaml"], ["-h", "--json"]])
def test_wrong_shapes(dcode: Dcode, rest: list[str]) -> None:
    run = dcode.run(argv=[*AUDIT, *rest], stdin=None).clean()
    assert run.exit_code == 2
    assert json.loads(run.stdout)["data"]["code"] == "invalid_command"


def test_help_and_a_broken_file(dcode: Dcode) -> None:
    run = dcode.run(argv=[*AUDIT, "--help"], stdin=None).clean()
    assert run.exit_code == 0
    assert run.stdout.startswith(b"Usage: dcode")
    missing = dcode.run(argv=["--mcp-config", "missing.json", *AUDIT, "--json"], stdin=None).clean()
    assert missing.exit_code == 1
    assert json.loads(missing.stdout)["data"]["code"] == "runtime_failure"


def test_a_terminal_gets_colour_and_progress(dcode: Dcode, raw: Make) -> None:
    dcode.serve(raw=raw().url)
    script = "script -qec '{} tools audit-read-only' /dev/null"
    from servers.dcode import DCODE

    done = subprocess.run(
        ["sh", "-c", script.format(DCODE)],
        cwd=dcode.project,
        env={**dcode.env, "TERM": "xterm-256color"},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )
    assert b"\x1b[" in done.stdout
    assert b"raw_look" in done.stdout
    assert b"asking" in done.stdout
