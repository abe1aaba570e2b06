"""A user's program, for type checkers alone: mypy (test_api.py) and pyright (tests/interop)."""

from __future__ import annotations

import httpx
from langchain_core.tools import BaseTool

from deepagents_ro import CurlTransport
from deepagents_ro.gateway import (
    AgentEntry,
    Allocation,
    Audit,
    Finding,
    GatewayConfig,
    GatewayTools,
    ToolSettings,
    acreate_deep_agent,
    audit,
    create_deep_agent,
    load_gateway_tools,
    measure,
)


async def main() -> None:
    """Everything that a user calls, with the types that it takes and gives."""
    table = Allocation.of(
        [AgentEntry("main", ("text_normalize",))],
        tools=[ToolSettings("text_normalize", timeout_s=3, sample={"text": "x"})],
    )
    other = Allocation.of({"main": ["text_normalize"]})
    config = GatewayConfig(url="https://gateway.example", api_key="k", timeout_s=5)
    async with load_gateway_tools(config, allocation=table) as gateway:
        tools: dict[str, BaseTool] = gateway.tools
        agent = create_deep_agent(
            "provider:model",
            gateway=gateway,
            allocation=other,
            subagents=[{"name": "a", "description": "An agent.", "system_prompt": "Help."}],
            debug=True,
        )
        await agent.ainvoke({"messages": []})
        report = await measure(gateway, calls=3)
        print(report.as_json()["tools"][0]["p50_ms"], tools, gateway.for_agent("main"))
    loaded: GatewayTools = await load_gateway_tools(config)
    findings: list[Finding] = loaded.findings
    found: Audit = await audit(config)
    print(found.exit_status, loaded.state, findings, found.as_json()["gateway"]["state"])
    await acreate_deep_agent("provider:model", config=config)


async def fetch() -> None:
    """The transport alone."""
    async with httpx.AsyncClient(transport=CurlTransport(http2=True)) as client:
        print((await client.get("https://example.com/")).status_code)
