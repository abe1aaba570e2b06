"""The command line: shapes, names, help, and what is judged before what."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import RawServer

CALL = ["tools", "call-read-only"]


@pytest.mark.parametrize(
    "argv",
    [
        [*CALL],
        [*CALL, "raw_look"],
        [*CALL, "--json"],
        [*CALL, "raw_look", "--json", "extra"],
        [*CALL, "raw_look", "other", "--json"],
        [*CALL, "raw_look", "--json", "--json"],
        [*CALL, "raw_look", "--js"],
        [*CALL, "raw_look", "--json=1"],
        [*CALL, "--", "raw_look", "--json"],
        [*CALL, "raw_look", "-h"],
        [*CALL, "-h", "--json"],
        [*CALL, "--help", "-h"],
        [*CALL, "raw_look", "--json", "--mcp-config", "x"],
        [*CALL, "raw_look", "--json", "--no-mcp"],
        ["--mcp-config", *CALL, "raw_look", "--json"],
        ["--mcp-conf", "x", *CALL, "raw_look", "--json"],
        ["--no-mc", *CALL, "raw_look", "--json"],
        ["--trust-project-mcp=1", *CALL, "raw_look", "--json"],
        ["--model", "x", *CALL, "raw_look", "--json"],
        ["-q", *CALL, "raw_look", "--json"],
        ["--sandbox", "none", *CALL, "raw_look", "--json"],
        ["tools", *CALL, "raw_look", "--json"],
        [*CALL, *CALL, "raw_look", "--json"],
        ["--", *CALL, "raw_look", "--json"],
        # the shape comes before the name
        [*CALL, "!"],
        [*CALL, "!", "--json", "extra"],
    ],
    ids=lambda argv: " ".join(argv),
)
def test_any_other_shape_is_invalid_command(dcode: Dcode, argv: list[str]) -> None:
    running = dcode.start(argv=argv, stdin=subprocess.PIPE)
    running.finish().expect("invalid_command")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_x",
        "a.b",
        "a b",
        "a/b",
        "raw_look\n",
        "\nraw_look",
        "\u00e9",
        "a\u0660",
        b"\xff\xfe",
        "a" * 129,
        "a" * 100_000,
    ],
    ids=lambda name: repr(name)[:20],
)
def test_invalid_names_are_judged_before_stdin_is_touched(
    dcode: Dcode, raw: Callable[..., RawServer], name: str | bytes
) -> None:
    server = raw()
    dcode.serve(raw=server)
    running = dcode.start(argv=[*CALL, name, "--json"], stdin=subprocess.PIPE)
    running.finish().expect("invalid_tool_name")
    assert not server.connections


def test_the_longest_name(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    short = "t" * (128 - len("raw_"))
    tool = '{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
    dcode.serve(raw=raw(tools=[tool % short]))
    dcode.run(f"raw_{short}").expect_ok(f"raw_{short}")
    dcode.run("9" + "Z" * 127).expect("tool_not_found")


def test_json_may_come_first(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    dcode.serve(raw=raw())
    dcode.run(argv=[*CALL, "--json", "raw_look"]).expect_ok("raw_look")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_text_and_exit_0(dcode: Dcode, flag: str) -> None:
    run = dcode.start(argv=[*CALL, flag], stdin=subprocess.PIPE).finish(10).clean()
    assert run.exit_code == 0
    assert b"call-read-only" in run.stdout
    assert b"--json" in run.stdout
    assert b"schema_version" not in run.stdout


def test_the_help_of_tools_lists_the_command(dcode: Dcode) -> None:
    run = dcode.run(argv=["tools", "--help"], stdin=None)
    assert run.exit_code == 0
    assert b"call-read-only" in run.stdout
    assert b"list" in run.stdout


def test_not_ours_unless_consecutive(dcode: Dcode) -> None:
    run = dcode.run(argv=["tools", "--json", "call-read-only", "raw_look"], stdin=None)
    assert run.exit_code == 2
    assert b"schema_version" not in run.stdout


@pytest.mark.parametrize("form", ["two", "equals"])
def test_explicit_configuration(dcode: Dcode, raw: Callable[..., RawServer], form: str) -> None:
    path = dcode.explicit(raw=raw())
    options = ["--mcp-config", path] if form == "two" else [f"--mcp-config={path}"]
    dcode.run("raw_look", options=options).expect_ok("raw_look")


def test_a_relative_explicit_path(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    dcode.explicit("relative.json", raw=raw())
    dcode.run("raw_look", options=["--mcp-config", "relative.json"]).expect_ok("raw_look")


def test_project_servers_need_trust(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    server = raw()
    dcode.serve_project(raw=server)
    dcode.run("raw_look").expect("tool_not_found")
    assert not server.connections, "an untrusted project's server is never contacted"
    dcode.run("raw_look", options=["--trust-project-mcp"]).expect_ok("raw_look")


def test_no_mcp(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    server = raw()
    dcode.serve(raw=server)
    dcode.run("raw_look", options=["--no-mcp"]).expect("tool_not_found")
    assert not server.connections


@pytest.mark.parametrize("broken", ["missing", "not json", "no servers", "bad server", "bad name"])
def test_an_unreadable_explicit_file(
    dcode: Dcode, raw: Callable[..., RawServer], broken: str
) -> None:
    server = raw()
    dcode.serve(raw=server)
    path = dcode.project / "explicit.json"
    text = {
        "not json": "{",
        "no servers": '{"servers":{}}',
        "bad server": '{"mcpServers":{"other":{"type":"carrier-pigeon"}}}',
        "bad name": '{"mcpServers":{"o.ther":{"url":"https://127.0.0.1:9/"}}}',
    }.get(broken)
    if text is not None:
        path.write_text(text)
    good, bad = dcode.run_all(
        [
            {"tool": "raw_look", "options": ["--mcp-config", str(path)]},
            {"tool": "raw_look", "options": ["--mcp-config", str(path)], "stdin": b"[]"},
        ]
    )
    good.expect("runtime_failure")
    bad.expect("invalid_input")
    assert server.count("tools/call") == 0


def test_a_broken_user_file_leaves_no_tool(dcode: Dcode) -> None:
    (dcode.home / ".deepagents" / ".mcp.json").write_text("{")
    dcode.run("raw_look").expect("tool_not_found")


@pytest.mark.parametrize("argv", [["raw_look"], ["raw_look", "--json", "x"], []])
def test_the_module_has_the_same_shape(dcode: Dcode, argv: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "deepagents_ro", *argv],
        input=b"{}",
        capture_output=True,
        env=dcode.env,
        cwd=dcode.project,
        timeout=20,
    )
    assert done.returncode == 2
    assert done.stdout.startswith(b'{"schema_version":1,')
    assert b'"code":"invalid_command"' in done.stdout
    assert done.stderr == b""


def test_a_refused_command_line_is_fast(dcode: Dcode) -> None:
    began = time.monotonic()
    dcode.run(argv=[*CALL, "!", "--json"]).expect("invalid_tool_name")
    assert time.monotonic() - began < 1.5
