"""`dcode tools audit-read-only TOOL`: one tool, its owners, the verdict, the next step."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers.dcode import BIN, Dcode

from deepagents_ro.qualify.lab.raw_server import READ_ONLY_TOOL, RawServer

AUDIT = ["tools", "audit-read-only"]
Make = Callable[..., RawServer]
WRITES = (
    '{"name":"writes","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"x":1}}'
)


def ask(dcode: Dcode, tool: str, status: int) -> dict[str, Any]:
    run = dcode.run(argv=[*AUDIT, tool, "--json"], stdin=None).clean()
    assert run.exit_code == status, run.stdout
    data: dict[str, Any] = json.loads(run.stdout)["data"]
    assert (data["ok"], data["tool"], data["callable"]) == (True, tool, status == 0)
    return data


def test_only_owners_are_asked(dcode: Dcode, raw: Make) -> None:
    good, other = raw(tools=[READ_ONLY_TOOL, WRITES]), raw()
    dcode.serve(raw=good, other=other)
    data = ask(dcode, "raw_look", 0)
    assert (data["code"], data["reason"]) == ("ok", "read_only")
    (server,) = data["servers"]
    assert (server["name"], server["state"], server["listed"]) == ("raw", "reachable", 2)
    (tool,) = server["tools"]
    assert {"hint": "readOnlyHint", "value": "true"} in tool["sent"]
    refused = ask(dcode, "raw_writes", 1)
    assert (refused["code"], refused["reason"]) == ("tool_not_read_only", "read_only_not_true")
    assert refused["servers"][0]["tools"][0]["sent"] == [{"hint": "readOnlyHint", "value": "false"}]
    assert ask(dcode, "raw_other", 1)["reason"] == "not_listed"
    assert ask(dcode, "nobody_x", 1)["reason"] == "no_owner"
    assert ask(dcode, "ls", 1)["code"] == "not_mcp_tool"
    assert ask(dcode, "no name", 1)["code"] == "invalid_tool_name"
    assert other.connections == []
    assert good.count("tools/call") == 0


def test_a_server_that_is_down_and_a_file_that_is_broken(dcode: Dcode) -> None:
    dcode.serve(dead="http://127.0.0.1:1/")
    data = ask(dcode, "dead_x", 1)
    assert data["reason"] == "server_not_loaded"
    assert "nothing listens on that port" in data["next_step"]
    path = dcode.project / ".mcp.json"
    path.write_text("{\n  nonsense")
    assert f"{path}:2:3" in ask(dcode, "other_x", 1)["next_step"]


@pytest.mark.parametrize(
    "words",
    [
        [sys.executable, "-I", "-m", "deepagents_ro", "audit", "raw_look"],
        [str(BIN / "deepagents-ro"), "audit", "raw_look"],
        [str(BIN / "dcode"), *AUDIT, "raw_look"],
    ],
)
def test_for_people(dcode: Dcode, raw: Make, words: list[str]) -> None:
    configuration = Path(dcode.explicit(raw=raw()))
    at = next(i for i, word in enumerate(words) if word in ("audit", "tools"))
    at += words[at] == "audit"  # which says what to do
    words = [*words[:at], "--mcp-config", str(configuration), *words[at:]]
    done = subprocess.run(words, env=dcode.env, cwd=dcode.project, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.split(maxsplit=1) for line in done.stdout.decode().splitlines()]
    assert [line[0] for line in lines] == ["tool", "asked", "came", "verdict", "because", "next"]
    assert dict(lines)["verdict"] == "can be called"
    assert dict(lines)["next"].endswith("dcode tools call-read-only raw_look --json")
