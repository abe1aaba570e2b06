"""Loading: allocation, exclusion, degradation, against a real gateway."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from deepagents_ro.gateway import Allocation, GatewayConfig, GatewayTools, load_gateway_tools

from .conftest import Gateway
from .reverse_proxy import API_KEY

MAIN = ["datetime_parse_relative_expression", "text_normalize", "trino_validate_spatial_expression"]
RESOLVER = [
    "datetime_parse_relative_expression",
    "text_normalize",
    "geo_create_buffer",
    "geo_validate_geometry",
]


def names(tools: GatewayTools, agent: str) -> list[str]:
    return [tool.name for tool in tools.for_agent(agent)]


def reasons(tools: GatewayTools) -> dict[str, str]:
    return {finding.name: finding.reason for finding in tools.findings}


def entry(name: str, **members: Any) -> str:
    return json.dumps(
        {
            "name": name,
            "description": "d",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
            **members,
        }
    )


async def test_each_agent_gets_its_allocation(gateway: Gateway) -> None:
    async with await load_gateway_tools(gateway.config()) as tools:
        assert names(tools, "main") == MAIN
        assert names(tools, "value-resolver") == RESOLVER
        assert names(tools, "schema-scout") == []
        assert names(tools, "result-verifier") == []
        assert names(tools, "somebody-else") == []
        assert reasons(tools)["utils__trino_run_query"] == "sql"
        assert reasons(tools)["utils__registry_put"] == "write"
        assert reasons(tools)["utils__weather_now"] == "not_listed"
        assert tools.missing == []
        shared = tools.for_agent("main")[0]
        assert shared is tools.for_agent("value-resolver")[0]


async def test_the_environment_configures_it(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in gateway.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JARVIS_MCP_NAMESPACE", "geo")
    async with await load_gateway_tools() as tools:
        assert names(tools, "main") == MAIN
        assert "geo.registry/text_normalize" in reasons(tools)


async def test_a_table_of_the_user(gateway: Gateway) -> None:
    table = Allocation.parse(
        '[agents.main]\ntools = ["weather_now", "trino_run_query", '
        '"registry_put", "registry_delete"]'
    )
    async with await load_gateway_tools(gateway.config(), allocation=table) as tools:
        assert names(tools, "main") == ["weather_now"]
        found = reasons(tools)
        assert found["utils__trino_run_query"] == "sql"
        assert found["utils__registry_put"] == "write"
        assert found["utils__registry_delete"] == "write"
        assert found["utils__text_normalize"] == "not_listed"


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({"readOnlyHint": "yes"}, "malformed_hints"),
        ({"readOnlyHint": 1}, "malformed_hints"),
        ({"readOnlyHint": True, "destructiveHint": None}, "malformed_hints"),
        ({"readOnlyHint": True, "openWorldHint": 1}, "malformed_hints"),
        ({"readOnlyHint": True, "destructiveHint": True}, "contradictory_hints"),
        ({"readOnlyHint": False}, "write"),
        ({"destructiveHint": False}, "write"),
        ({"readOnlyHint": "maybe"}, "broken_definition"),
        ({"readOnlyHint": True}, "exposed"),
        ({"title": "Just a title"}, "exposed"),
        ({}, "exposed"),
        (None, "exposed"),
    ],
)
async def test_hints_decide(gateway: Gateway, annotations: Any, reason: str) -> None:
    gateway.mode(annotations={"text_normalize": annotations})
    async with await load_gateway_tools(gateway.config()) as tools:
        assert reasons(tools)["utils__text_normalize"] == reason
        assert ("text_normalize" in names(tools, "main")) == (reason == "exposed")


async def test_duplicate_keys_in_an_entry_are_malformed_hints(gateway: Gateway) -> None:
    doubled = entry("utils__text_normalize").replace(
        '"readOnlyHint": true', '"readOnlyHint": false, "readOnlyHint": true'
    )
    gateway.mode(lack=["text_normalize"], raw_entries=[doubled])
    async with await load_gateway_tools(gateway.config()) as tools:
        assert reasons(tools)["utils__text_normalize"] == "malformed_hints"
        assert "text_normalize" not in names(tools, "main")
        assert "geo_create_buffer" in names(tools, "value-resolver")


async def test_a_tool_without_hints_is_loaded_and_logged_once(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.mode(annotations={"text_normalize": None})
    with caplog.at_level(logging.WARNING, "deepagents_ro.gateway"):
        async with await load_gateway_tools(gateway.config()) as tools:
            assert "text_normalize" in names(tools, "main")
            assert "text_normalize" not in tools.read_only()
    lines = [line for line in caplog.messages if "no hints" in line]
    assert len(lines) == 1
    async with await load_gateway_tools(gateway.config(), require_hints=True) as tools:
        assert "text_normalize" not in names(tools, "main")
        assert reasons(tools)["utils__text_normalize"] == "no_hints"


async def test_two_that_match_are_refused(gateway: Gateway) -> None:
    gateway.mode(raw_entries=[entry("other.Text-Normalize")])
    async with await load_gateway_tools(gateway.config()) as tools:
        assert "text_normalize" not in names(tools, "main")
        assert reasons(tools)["utils__text_normalize"] == "ambiguous_name"
        assert reasons(tools)["other.Text-Normalize"] == "ambiguous_name"
        assert tools.missing == []


async def test_one_tool_listed_twice_is_refused(gateway: Gateway) -> None:
    gateway.mode(raw_entries=[entry("utils__text_normalize")])
    async with await load_gateway_tools(gateway.config()) as tools:
        assert "text_normalize" not in names(tools, "main")


@pytest.mark.parametrize(
    "broken",
    [
        entry("utils__broken", title=5),
        entry("utils__broken", inputSchema="none"),
        entry("utils__broken", annotations={"readOnlyHint": "maybe"}),
        '{"description":"no name"}',
    ],
)
async def test_a_broken_definition_hides_nothing(
    gateway: Gateway, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.mode(raw_entries=[broken])
    with caplog.at_level(logging.WARNING, "deepagents_ro.gateway"):
        async with await load_gateway_tools(gateway.config()) as tools:
            assert names(tools, "main") == MAIN
            assert [f.reason for f in tools.findings].count("broken_definition") == 1
    assert [line for line in caplog.messages if "broken_definition" in line]


async def test_missing_tools_are_logged_by_name(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.mode(lack=["geo_create_buffer", "text_normalize"])
    with caplog.at_level(logging.WARNING, "deepagents_ro.gateway"):
        async with await load_gateway_tools(gateway.config()) as tools:
            assert tools.missing == ["text_normalize", "geo_create_buffer"]
    assert [line for line in caplog.messages if "text_normalize, geo_create_buffer" in line]


async def test_300_tools(gateway: Gateway) -> None:
    gateway.mode(extra=300)
    async with await load_gateway_tools(gateway.config()) as tools:
        assert names(tools, "main") == MAIN
        assert len(tools.findings) == 309


async def test_event_streams(gateway: Gateway) -> None:
    gateway.mode(streams=True)
    async with await load_gateway_tools(gateway.config()) as tools:
        answer = await tools.tools["text_normalize"].ainvoke({"text": " a  b "})
        assert answer["data"] == {"normalized": "a b", "changed": True}


@pytest.mark.parametrize(
    ("mode", "changes", "state"),
    [
        ({"status": 401}, {}, "unauthorized"),
        ({}, {"api_key": "not-the-key-of-the-gateway"}, "unauthorized"),
        ({}, {"api_key": ""}, "unauthorized"),
        ({"status": 403}, {}, "forbidden"),
        ({"status": 500}, {}, "server_error"),
        ({"status": 503}, {}, "server_error"),
        ({"status": 429}, {}, "refused"),
        ({}, {"namespace": "nowhere"}, "not_found"),
        ({"body": "<html>"}, {}, "malformed"),
        ({"body": "{}"}, {}, "malformed"),
        ({"body": '{"jsonrpc":"2.0","id":77,"result":{}}'}, {}, "malformed"),
        ({"raw_entries": ["{,}"]}, {}, "malformed"),
        ({"hang_s": 60}, {"timeout_s": 0.5}, "timeout"),
    ],
)
async def test_degradation(
    gateway: Gateway,
    mode: dict[str, Any],
    changes: dict[str, Any],
    state: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway.mode(**mode)
    started = time.monotonic()
    with caplog.at_level(logging.INFO, "deepagents_ro.gateway"):
        tools = await load_gateway_tools(gateway.config(**changes))
    assert time.monotonic() - started < 20
    assert tools.state == state
    assert not tools.available
    assert tools.tools == {}
    assert len([line for line in caplog.messages if "no gateway tools" in line]) == 1
    assert API_KEY not in caplog.text
    assert str(changes.get("api_key") or API_KEY) not in caplog.text


async def test_nobody_listens(gateway: Gateway) -> None:
    tools = await load_gateway_tools(gateway.config(url="https://127.0.0.1:9"))
    assert tools.state == "unreachable"


async def test_an_untrusted_certificate(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    tools = await load_gateway_tools(gateway.config())
    assert tools.state == "unreachable"


async def test_no_url(caplog: pytest.LogCaptureFixture) -> None:
    tools = await load_gateway_tools(environ={})
    assert tools.state == "not_configured"
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"UTILS_MCP_TIMEOUT_S": "soon"},
        {"UTILS_MCP_TIMEOUT_S": "-1"},
        {"UTILS_MCP_TIMEOUT_S": "nan"},
        {"UTILS_MCP_TIMEOUT_S": "inf"},
        {"JARVIS_GATEWAY_URL": "gateway.example"},
        {"JARVIS_GATEWAY_URL": "https://user:pw@gateway.example"},
        {"JARVIS_API_KEY": "two\nlines"},
    ],
)
async def test_a_configuration_that_cannot_be_used(changes: dict[str, str]) -> None:
    environ = {"JARVIS_GATEWAY_URL": "https://localhost:9", **changes}
    tools = await load_gateway_tools(environ=environ)
    assert tools.state == "misconfigured"
    assert not any(value in tools.detail for value in changes.values())


def test_defaults() -> None:
    config = GatewayConfig.from_env({"JARVIS_GATEWAY_URL": "https://gateway.example/base/"})
    assert config is not None
    assert config.endpoint == "https://gateway.example/base/mcp/global/"
    assert config.timeout_s == 10
    assert config.headers == {}
    assert "gateway.example" not in repr(config)


async def test_cancelled_while_loading(gateway: Gateway) -> None:
    gateway.mode(hang_s=2)
    task = asyncio.create_task(load_gateway_tools(gateway.config()))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
