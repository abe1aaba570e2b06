"""Calling: the answer, failures, sessions, load."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deepagents_ro import CurlTransport
from deepagents_ro.gateway import GatewayTools, load_gateway_tools

from .conftest import Gateway
from .reverse_proxy import API_KEY, gateway_error


@pytest_asyncio.fixture
async def tools(gateway: Gateway) -> AsyncIterator[GatewayTools]:
    async with await load_gateway_tools(gateway.config(timeout_s=2.0)) as loaded:
        gateway.mode()
        yield loaded


def failed(answer: dict[str, Any]) -> dict[str, Any]:
    """The error of a failed answer, checked for its form."""
    assert answer.keys() == {"ok", "data", "error"}
    assert answer["ok"] is False
    assert answer["data"] is None
    error = answer["error"]
    assert error.keys() == {"code", "message", "hint", "latency_ms"}
    assert error["code"] == "EXTERNAL_TOOL_ERROR"
    assert error["hint"] == "continue without it"
    assert error["latency_ms"] > 0
    assert API_KEY not in json.dumps(answer)
    return error


async def test_structured_content_survives(gateway: Gateway, tools: GatewayTools) -> None:
    tool = tools.tools["text_normalize"]
    answer = await tool.ainvoke({"text": "  שָׁלוֹם   עולם "})
    data = {"normalized": "שלום עולם", "changed": True}
    assert answer == {"ok": True, "data": data, "error": None}
    message = await tool.ainvoke(
        {"type": "tool_call", "id": "1", "name": tool.name, "args": {"text": "x"}}
    )
    assert json.loads(message.content)["data"] == {"normalized": "x", "changed": False}
    assert message.artifact == {"structured_content": {"normalized": "x", "changed": False}}
    assert gateway.calls() == ["utils__text_normalize"] * 2


async def test_one_session_for_all_calls(gateway: Gateway, tools: GatewayTools) -> None:
    for _ in range(5):
        await tools.tools["text_normalize"].ainvoke({"text": "x"})
    assert gateway.requests() == {"POST": 5}


async def test_a_tool_that_reports_an_error(tools: GatewayTools) -> None:
    answer = await tools.tools["geo_create_buffer"].ainvoke(
        {"longitude": 35.2, "latitude": 31.8, "distance_m": -1}
    )
    assert "distance_m must be between" in failed(answer)["message"]


async def test_wrong_arguments(tools: GatewayTools) -> None:
    answer = await tools.tools["geo_create_buffer"].ainvoke({"longitude": "east"})
    failed(answer)


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": json.dumps(gateway_error(502, "bad gateway"))}]},
        {
            "content": [{"type": "text", "text": json.dumps(gateway_error(502, "bad gateway"))}],
            "isError": True,
        },
        {"content": [], "structuredContent": gateway_error(502, "bad gateway")},
        {"content": [], "structuredContent": {"result": gateway_error(502, "bad gateway")}},
    ],
)
async def test_a_gateway_error_body_in_a_result(
    gateway: Gateway, tools: GatewayTools, result: dict[str, Any]
) -> None:
    gateway.mode(call_error={"result": result})
    answer = await tools.tools["text_normalize"].ainvoke({"text": "x"})
    assert "502" in failed(answer)["message"]


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 502, 503])
async def test_an_http_status(gateway: Gateway, tools: GatewayTools, status: int) -> None:
    gateway.mode(call_status=status)
    answer = await tools.tools["text_normalize"].ainvoke({"text": "x"})
    assert str(status) in failed(answer)["message"]
    assert gateway.calls() == ["utils__text_normalize"]
    gateway.mode()
    assert (await tools.tools["text_normalize"].ainvoke({"text": "x"}))["ok"]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(gateway_error(502, "bad gateway")),
        "<html>",
        "[]",
        "{}",
        '{"jsonrpc":"2.0","id":-5,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"result":{"content":NaN}}',
    ],
)
async def test_a_body_that_is_no_answer(gateway: Gateway, tools: GatewayTools, body: str) -> None:
    gateway.mode(body=body)
    failed(await tools.tools["text_normalize"].ainvoke({"text": "x"}))


async def test_an_mcp_error(gateway: Gateway, tools: GatewayTools) -> None:
    gateway.mode(call_error={"error": {"code": -32000, "message": f"no: ApiKey {API_KEY}"}})
    answer = await tools.tools["text_normalize"].ainvoke({"text": "x"})
    assert failed(answer)["message"] == (
        'The gateway answered with an MCP error. (the gateway says: "no: ApiKey <redacted-secret>")'
    )


async def test_the_key_in_a_result_is_redacted(gateway: Gateway, tools: GatewayTools) -> None:
    content = {"normalized": f"key={API_KEY}!", "changed": True}
    gateway.mode(call_error={"result": {"content": [], "structuredContent": content}})
    answer = await tools.tools["text_normalize"].ainvoke({"text": "x"})
    assert answer["data"] == {"normalized": "key=<redacted-secret>!", "changed": True}


async def test_a_call_that_hangs(gateway: Gateway) -> None:
    async with await load_gateway_tools(gateway.config(timeout_s=0.5)) as tools:
        gateway.mode(hang_calls_s=5)
        answer = await tools.tools["text_normalize"].ainvoke({"text": "x"})
        assert "in time" in failed(answer)["message"]
        gateway.mode()
        assert (await tools.tools["text_normalize"].ainvoke({"text": "x"}))["ok"]


async def test_the_gateway_dies_and_comes_back(gateway: Gateway, tools: GatewayTools) -> None:
    tool = tools.tools["text_normalize"]
    assert (await tool.ainvoke({"text": "x"}))["ok"]
    gateway.die()
    assert "reached" in failed(await tool.ainvoke({"text": "x"}))["message"]
    gateway.revive()
    answers = await asyncio.gather(*(tool.ainvoke({"text": "x"}) for _ in range(5)))
    assert all(answer["ok"] for answer in answers)
    assert len(gateway.executed()) == 6


def test_tools_work_in_another_event_loop(gateway: Gateway) -> None:
    tools = asyncio.run(load_gateway_tools(gateway.config()))
    for _ in range(2):
        answer = asyncio.run(tools.tools["text_normalize"].ainvoke({"text": "x"}))
        assert answer["ok"], answer


async def test_latency_is_logged(tools: GatewayTools, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "deepagents_ro.gateway"):
        await tools.tools["text_normalize"].ainvoke({"text": "secret question"})
    lines = [line for line in caplog.messages if "text_normalize answered in" in line]
    assert len(lines) == 1
    assert "secret question" not in caplog.text


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    """Open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    """Threads of this process, native ones too."""
    return len(os.listdir("/proc/self/task"))


@pytest.mark.thorough
async def test_1000_calls_100_in_flight(gateway: Gateway) -> None:
    before = threads(), descriptors()
    transport = CurlTransport()
    tools = await load_gateway_tools(
        gateway.config(timeout_s=30.0), make_transport=lambda: transport
    )
    async with tools:
        tool = tools.tools["text_normalize"]
        free = asyncio.Semaphore(100)

        async def one(number: int) -> bool:
            async with free:
                answer = await tool.ainvoke({"text": f"n {number}"})
                return bool(answer["ok"]) and answer["data"]["normalized"] == f"n {number}"

        async def load(calls: int) -> tuple[int, int]:
            assert all(await asyncio.gather(*(one(number) for number in range(calls))))
            gc.collect()
            return resident_bytes(), transport.stats()["connections"]

        memory, _connections = await load(300)
        gateway.mode()
        used, connections = await load(1000)
        assert gateway.requests() == {"POST": 1000}
        assert used - memory < 8 * 2**20
        assert connections <= 200
        assert transport.stats()["active"] == 0
        assert descriptors() <= before[1] + 110
        assert threads() <= before[0] + 1
    assert descriptors() <= before[1] + 1
    assert threads() <= before[0]
