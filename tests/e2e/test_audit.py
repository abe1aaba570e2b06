"""`dcode tools audit-read-only`: every server's state, every tool's verdict, no call."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from servers.dcode import Dcode, Run

from deepagents_ro.qualify.lab.raw_server import READ_ONLY_TOOL, RawServer, http

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
            '{"name":"long","inputSchema":{"maximum":%s}}' % ("7" * 4301),
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
        "raw_long": (False, "out_of_bounds"),
        "raw_left out": (False, "name_not_callable"),
        "raw_hidden": (False, "filtered"),
    }
    assert server.count("tools/call") == 0


def test_each_server_state(dcode: Dcode, raw: Make) -> None:
    """One server a cause, all asked at once; each cause alone is in tests/test_audit_causes.py."""
    servers = {
        "good": raw(),
        "login": raw(handlers={"initialize": http(401)}),
        "wrong": raw(handlers={"initialize": http(401)}),
        "lost": raw(handlers={"initialize": http(404)}),
        "forbidden": raw(handlers={"tools/list": http(403)}),
        "broken": raw(handlers={"tools/list": http(200, b"{")}),
        "down": raw(handlers={"HEAD": http(501)}),
        "stuck": raw(handlers={"tools/list": lambda request, wire: wire.stall()}),
        "off": raw(),
    }
    dcode.user_toml('[mcp]\ndisabled_servers = ["off"]\n')
    dcode.serve(
        **{name: server.url for name, server in servers.items() if name != "wrong"},
        wrong={"url": servers["wrong"].url, "headers": {"X-Api-Key": "0123456789"}},
        unset={"url": "https://${NOT_SET_ANYWHERE}/"},
        dead={"url": "http://127.0.0.1:1/"},
        missing={"command": "/bin/false"},
        nowhere={"command": "no-such-command-anywhere"},
    )
    dcode.serve_project(stranger=raw().url)
    found = audit(dcode)
    assert {n: (row["state"], row["detail"], row["subject"]) for n, row in found.items()} == {
        "good": ("reachable", "", ""),
        "login": ("needs_login", "http_401", ""),
        "wrong": ("denied", "credentials", "X-Api-Key"),
        "lost": ("http_error", "http_404", ""),
        "forbidden": ("denied", "http_403", ""),
        "broken": ("malformed_list", "not_json", ""),
        "down": ("http_error", "head_5xx", "HTTP 501"),
        "stuck": ("timed_out", "silent", ""),
        "off": ("disabled", "disabled", ""),
        "unset": ("misconfigured", "unset_variable", "NOT_SET_ANYWHERE"),
        "dead": ("unreachable", "refused_port", ""),
        "missing": ("unreachable", "exited", ""),
        "nowhere": ("unreachable", "command_not_found", ""),
        "stranger": ("not_trusted", "not_trusted", ""),
    }
    assert all(bool(row["explanation"]) == bool(row["detail"]) for row in found.values())
    assert "dcode mcp login login," in found["login"]["explanation"]
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
    run = dcode.run(argv=[*AUDIT, "--json"], stdin=None)
    found = rows(run)
    assert run.seconds < 16.5
    assert found.pop("good")["state"] == "reachable"
    assert {row["state"] for row in found.values()} == {"timed_out"}
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


@pytest.mark.parametrize(
    "rest", [["x", "y"], [""], ["--json", "--json"], ["--yaml"], ["-h", "--json"]]
)
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
    data = json.loads(missing.stdout)["data"]
    assert (data["code"], data["reason"]) == ("runtime_failure", "loader_missing")
    assert data["subject"] == "missing.json"
    for_people = dcode.run(argv=["--mcp-config", "missing.json", *AUDIT], stdin=None).clean()
    assert for_people.exit_code == 1
    assert b"loader_missing (missing.json): DCode finds no configuration file" in for_people.stdout


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
