"""Servers of other makers: the library transport next to the stock one, and the command."""

from __future__ import annotations

import json
from typing import Any

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.authority import Authority

from .clients import KINDS, talk
from .conftest import Tools

# The read-only tools of server-everything, with arguments.
EVERYTHING: dict[str, dict[str, Any]] = {
    "echo": {"message": "h\u00e9llo \U0001f642 \u2028"},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-env": {},
    "get-resource-links": {"count": 3},
    "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
    "get-structured-content": {"location": "Chicago"},
    "get-sum": {"a": 1.5, "b": 2},
    "get-tiny-image": {},
    "trigger-long-running-operation": {"duration": 2, "steps": 4},
}
OWN: dict[str, dict[str, Any]] = {
    "echo": {"text": "h\u00e9llo \U0001f642 \u2028"},
    "sum": {"a": 1.5, "b": 2},
    "slow": {},
}
CHANGING = ("get-resource-reference",)  # tells the time


async def same_for_every_transport(
    type: str, url: str, authority: Authority, calls: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """What the stock client gets, after the check that the others get it too."""
    ca_file = str(authority.ca_file)
    stock, *others = [await talk(kind, type, url, ca_file, calls) for kind in KINDS]
    for other in others:
        assert other["tools"] == stock["tools"]
        for name in calls:
            if name not in CHANGING:
                assert other["results"][name] == stock["results"][name], name
            assert not other["results"][name]["isError"], name
    return stock


def same_for_the_command(
    dcode: Dcode, entry: Any, calls: dict[str, dict[str, Any]], stock: dict[str, Any] | None
) -> None:
    """Each call by the command; its texts and structure are the stock client's."""
    dcode.serve(other=entry)
    runs = dcode.run_all(
        [
            {"tool": f"other_{name}", "stdin": json.dumps(arguments).encode()}
            for name, arguments in calls.items()
        ]
    )
    for name, run in zip(calls, runs, strict=True):
        data = run.expect_ok(f"other_{name}")
        assert data["content"], name
        if stock is None or name in CHANGING or name == "get-env":
            continue
        result = stock["results"][name]
        texts = [block["text"] for block in result["content"] if block["type"] == "text"]
        got = [block["text"] for block in data["content"] if block["type"] == "text"]
        assert got[: len(texts)] == texts, name
        assert data.get("structured_content") == result["structuredContent"], name


@pytest.mark.parametrize("type", ["http", "sse"])
async def test_everything_by_the_library(
    everything: dict[str, str], authority: Authority, type: str
) -> None:
    stock = await same_for_every_transport(type, everything[type], authority, EVERYTHING)
    hints = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in stock["tools"]["tools"]}
    assert {name for name, hint in hints.items() if hint} - {"get-roots-list"} == set(EVERYTHING)


@pytest.mark.parametrize("type", ["http", "sse"])
async def test_everything_by_the_command(
    dcode: Dcode, everything: dict[str, str], authority: Authority, type: str
) -> None:
    entry = {"type": type, "url": everything[type]}
    stock = await talk("stock", type, entry["url"], str(authority.ca_file), EVERYTHING)
    same_for_the_command(dcode, entry, EVERYTHING, stock)
    dcode.run("other_toggle-simulated-logging", stdin=b"{}").expect("tool_not_read_only")


def test_everything_by_stdio(dcode: Dcode, tools: Tools) -> None:
    entry = {"command": str(tools.node), "args": [str(tools.everything), "stdio"]}
    calls = {name: EVERYTHING[name] for name in ("echo", "get-sum", "get-tiny-image")}
    same_for_the_command(dcode, entry, calls, None)
    dcode.run("other_gzip-file-as-resource", stdin=b"{}").expect("tool_not_read_only")


@pytest.mark.parametrize("path", ["/http/mcp", "/json/mcp", "/stateless/mcp", "/legacy/sse"])
async def test_fastmcp(dcode: Dcode, other_fastmcp: str, authority: Authority, path: str) -> None:
    entry = {"type": "sse" if path.endswith("sse") else "http", "url": other_fastmcp + path}
    stock = await same_for_every_transport(entry["type"], entry["url"], authority, OWN)
    same_for_the_command(dcode, entry, OWN, stock)
    dcode.run("other_write", stdin=b'{"text":"x"}').expect("tool_not_read_only")


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_go(dcode: Dcode, go_server: str, authority: Authority, path: str) -> None:
    entry = {"type": path[1:].replace("mcp", "http"), "url": go_server + path}
    stock = await same_for_every_transport(entry["type"], entry["url"], authority, OWN)
    same_for_the_command(dcode, entry, OWN, stock)
    dcode.run("other_write", stdin=b'{"text":"x"}').expect("tool_not_read_only")
