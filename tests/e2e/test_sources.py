"""The call sees the servers that `dcode tools list` sees: both commands over one matrix."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from servers.dcode import DCODE, Dcode

from deepagents_ro.qualify.lab.raw_server import RawServer

MARKET = {
    "name": "shelf",
    "owner": {"name": "tests"},
    "plugins": [{"name": "bundle", "source": "./bundle", "version": "1.0.0"}],
}


def install_plugin(dcode: Dcode, server: dict[str, Any]) -> None:
    """Install a plugin that brings one MCP server, with DCode's own commands."""
    market = dcode.home / "market"
    bundle = market / "bundle"
    for path, document in (
        (market / ".agents" / "plugins" / "marketplace.json", MARKET),
        (bundle / "plugin.json", {"name": "bundle", "version": "1.0.0"}),
        (bundle / ".mcp.json", {"mcpServers": {"brought": server}}),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    for words in (["marketplace", "add", str(market)], ["install", "bundle@shelf"]):
        done = subprocess.run(
            [str(DCODE), "plugin", *words],
            cwd=dcode.project,
            env={**dcode.env, "TMPDIR": str(dcode.home)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def listed(dcode: Dcode, options: list[str]) -> tuple[set[str], set[str]]:
    """Names of the MCP tools, and of the unavailable servers, in `dcode tools list`."""
    done = subprocess.run(
        [str(DCODE), *options, "tools", "list", "--json"],
        cwd=dcode.project,
        env={**dcode.env, "TMPDIR": str(dcode.home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(done.stdout)["data"]
    tools = {tool["name"] for tool in data["tools"] if tool["source"] == "mcp"}
    return tools, {server["name"] for server in data["unavailable"]}


def make_world(dcode: Dcode, server: RawServer) -> list[str]:
    """Servers of every kind of source; returns the options of both commands."""
    url = server.url
    plain = {"type": "http", "url": url}
    (dcode.project / ".git").mkdir()
    (dcode.project / ".env").write_text(f"FROM_PROJECT_ENV={url}\nSHADOWED=http://127.0.0.1:1/\n")
    (dcode.home / ".deepagents" / ".env").write_text(f"FROM_USER_ENV={url}\n")
    dcode.env["SHADOWED"] = url
    dcode.user_toml('[mcp]\ndisabled_servers = ["off"]\ndisabled_project_servers = ["rejected"]\n')
    dcode.serve(
        user=plain,
        off=plain,
        both={"type": "http", "url": "http://127.0.0.1:1/"},
        dotproject={"type": "http", "url": "${FROM_PROJECT_ENV}"},
        dotuser={"type": "http", "url": "${FROM_USER_ENV}"},
        shell={"type": "http", "url": "${SHADOWED}"},
        unset={"type": "http", "url": "${NOT_SET_ANYWHERE}"},
        fallback={"type": "http", "url": "${NOT_SET_ANYWHERE:-" + url + "}"},
        left={**plain, "allowedTools": ["look"]},
        filtered={**plain, "disabledTools": ["filtered_*"]},
        inferred={"url": url},
        alias={"transport": "streamable-http", "url": url},
        dead={"type": "http", "url": "http://127.0.0.1:1/"},
    )
    dcode.serve_project(project=plain, rejected=plain)
    dcode.write(dcode.project / ".deepagents" / ".mcp.json", {"nested": plain})
    install_plugin(dcode, plain)
    return ["--mcp-config", dcode.explicit(explicit=plain, both=plain)]


@pytest.mark.thorough
def test_both_commands_see_the_same(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    server = raw()
    options = make_world(dcode, server)
    names = ["user", "off", "both", "dotproject", "dotuser", "shell", "unset", "fallback", "left"]
    names += ["filtered", "inferred", "alias", "dead", "project", "rejected", "nested", "explicit"]
    trusted, unavailable = listed(dcode, [*options, "--trust-project-mcp"])
    plugin = next(name for name in trusted if "brought" in name).removesuffix("_look")
    assert {"off", "unset", "dead"} <= unavailable
    assert {"user_look", "both_look", "dotproject_look", "dotuser_look", "shell_look",
            "fallback_look", "left_look", "inferred_look", "alias_look", "project_look",
            "nested_look", "explicit_look", f"{plugin}_look"} == trusted  # fmt: skip
    untrusted, _ = listed(dcode, options)
    assert trusted - untrusted == {"project_look", "nested_look"}
    for given, visible in (([*options, "--trust-project-mcp"], trusted), (options, untrusted)):
        for name in [*names, plugin]:
            if visible is untrusted and name not in ("project", "nested", "user", plugin):
                continue
            run = dcode.run(f"{name}_look", options=given)
            if f"{name}_look" in visible:
                run.expect_ok(f"{name}_look")
            else:
                run.expect("tool_not_found")
    nothing, _ = listed(dcode, ["--no-mcp"])
    assert nothing == set()
    dcode.run("user_look", options=["--no-mcp"]).expect("tool_not_found")


def test_an_explicit_file_that_cannot_be_read(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    dcode.serve(raw=raw().url)
    broken = dcode.project / "broken.json"
    broken.write_text("{")
    empty = dcode.project / "empty.json"
    empty.write_text('{"mcpServers":{}}')
    for path in (broken, empty, dcode.project / "missing.json", dcode.project):
        run = dcode.run("raw_look", options=["--mcp-config", str(path)])
        run.expect("runtime_failure")
    # what DCode itself passes over does not matter here either
    (dcode.project / ".mcp.json").write_text("{")
    dcode.run("raw_look").expect_ok("raw_look")


def test_other_servers_are_left_alone(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    server, other = raw(), raw()
    marker = dcode.home / "started"
    dcode.serve(
        raw=server.url,
        other=other.url,
        child={"command": "/bin/sh", "args": ["-c", f"touch {marker}"]},
    )
    dcode.run("raw_look").expect_ok("raw_look")
    assert other.connections == []
    assert not marker.exists()
