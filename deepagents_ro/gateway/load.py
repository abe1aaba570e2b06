"""Loading the gateway's tools, once, so that an agent can start with or without them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from langchain_core.tools import BaseTool, StructuredTool
from langchain_mcp_adapters.tools import load_mcp_tools

from deepagents_ro import CurlTransport

from . import envelope
from .allocation import Allocation
from .config import ConfigError, GatewayConfig
from .sessions import SessionPool, TransportFactory, wire_error
from .verdicts import Finding, judge, missing
from .wire import MESSAGES

logger = logging.getLogger("deepagents_ro.gateway")

SERVER_NAME = "gateway"
STATES = {
    "ok": "The gateway answered.",
    "not_configured": "JARVIS_GATEWAY_URL is not set.",
    "misconfigured": "The gateway's configuration cannot be used.",
    "not_found": "The gateway has nothing at this address; is the namespace right?",
    **{kind: text for kind, text in MESSAGES.items() if kind != "session_lost"},
}


@dataclass
class GatewayTools:
    """What the gateway gave: tools by their allowed name, and a finding for each it has.

    `state` is a key of STATES; without "ok" there are no tools. Use `for_agent`, and `aclose`
    (or `async with`) when the tools are not needed any more.
    """

    state: str
    detail: str = ""
    tools: dict[str, BaseTool] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    allocation: Allocation = field(default_factory=Allocation.default)
    pool: SessionPool | None = None

    @property
    def available(self) -> bool:
        """Whether the gateway was reached and answered as an MCP server."""
        return self.state == "ok"

    def for_agent(self, agent: str) -> list[BaseTool]:
        """The tools of one agent, in the order of the table."""
        return [self.tools[name] for name in self.allocation.tools(agent) if name in self.tools]

    def read_only(self) -> dict[str, BaseTool]:
        """The loaded tools that the gateway itself calls read-only."""
        sure = {finding.allowed_name for finding in self.findings if finding.read_only}
        return {name: tool for name, tool in self.tools.items() if name in sure}

    async def aclose(self) -> None:
        """End the session of the running loop and close the connections."""
        if self.pool is not None:
            await self.pool.aclose()

    async def __aenter__(self) -> GatewayTools:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()


def curl_transport() -> httpx.AsyncBaseTransport:
    """The C transport, with the proxies and the trust that the stock client would use."""
    return CurlTransport()


async def load_gateway_tools(
    config: GatewayConfig | None = None,
    *,
    allocation: Allocation | None = None,
    require_hints: bool = False,
    environ: Mapping[str, str] | None = None,
    make_transport: TransportFactory = curl_transport,
) -> GatewayTools:
    """Load the allocated tools; never raises because of the gateway.

    Args:
        config: the gateway; by default what the environment says.
        allocation: the table; by default the package's.
        require_hints: refuse tools that come without hints.
        environ: read instead of the process's environment.
        make_transport: makes the transport that all sessions share.
    """
    table = allocation or Allocation.default()
    try:
        found = config or GatewayConfig.from_env(environ)
    except ConfigError as error:
        return _without(GatewayTools("misconfigured", str(error), allocation=table))
    if found is None:
        return _without(GatewayTools("not_configured", allocation=table))
    pool = SessionPool(found, make_transport)
    try:
        loaded = await _load(found, pool, table, require_hints)
    except BaseException:
        await pool.aclose()
        raise
    if not loaded.available:
        await pool.aclose()
        return _without(loaded)
    _report(loaded)
    return loaded


async def _load(
    config: GatewayConfig, pool: SessionPool, table: Allocation, require_hints: bool
) -> GatewayTools:
    opened = pool.start()
    try:
        async with asyncio.timeout(config.timeout_s):
            session = await opened.session()
            adapted = await load_mcp_tools(
                session, server_name=SERVER_NAME, tool_interceptors=[pool.intercept]
            )
    except TimeoutError:
        return GatewayTools("timeout", allocation=table)
    except Exception as error:  # noqa: BLE001 - the agent starts without the tools
        reported = wire_error(error)
        if reported is None:
            # The SDK did not accept what came: a wrong protocol version, a wrong result type.
            return GatewayTools("malformed", type(error).__name__, allocation=table)
        status = f"HTTP {reported.status}" if reported.status else ""
        detail = ", ".join(part for part in (status, reported.detail) if part)
        state = "not_found" if reported.kind == "session_lost" else reported.kind
        return GatewayTools(state, config.redact(detail), allocation=table)
    findings = judge(opened.transport.entries, table, require_hints=require_hints)
    by_name = {tool.name: tool for tool in adapted}
    tools = {
        finding.allowed_name: wrap(by_name[finding.name], finding, config)
        for finding in findings
        if finding.exposed
    }
    return GatewayTools(
        "ok",
        tools=tools,
        findings=findings,
        missing=missing(findings, table),
        allocation=table,
        pool=pool,
    )


def wrap(tool: BaseTool, finding: Finding, config: GatewayConfig) -> BaseTool:
    """The adapter's tool under its allowed name, answering with an envelope, never raising."""
    if not isinstance(tool, StructuredTool) or tool.coroutine is None:
        raise TypeError("the adapter's tool has no coroutine")
    inner = tool.coroutine
    name = finding.allowed_name

    async def call(**arguments: Any) -> tuple[dict[str, Any], Any]:
        started = time.perf_counter()
        artifact: Any = None
        try:
            content, artifact = await inner(**arguments)
            answer = envelope.from_result(content, artifact, config)
            latency_ms = (time.perf_counter() - started) * 1000.0
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent continues
            latency_ms = (time.perf_counter() - started) * 1000.0
            answer = envelope.from_exception(error, config, latency_ms)
        if answer["ok"]:
            logger.info("gateway tool %s answered in %.1f ms", name, latency_ms)
        else:
            logger.warning(
                "gateway tool %s failed after %.1f ms: %s",
                name,
                latency_ms,
                answer["error"]["message"].splitlines()[0],
            )
        return answer, artifact if answer["ok"] else None

    return StructuredTool(
        name=name,
        description=tool.description,
        args_schema=tool.args_schema,
        coroutine=call,
        response_format="content_and_artifact",
        metadata={
            **(tool.metadata or {}),
            "gateway_tool": finding.name,
            "gateway_has_hints": finding.annotated,
        },
    )


def _without(loaded: GatewayTools) -> GatewayTools:
    """The one log line that says why the agent starts without the tools."""
    detail = f" ({loaded.detail})" if loaded.detail else ""
    logger.warning("no gateway tools: %s%s", STATES[loaded.state], detail)
    return loaded


def _report(loaded: GatewayTools) -> None:
    """What a reader of the log has to know about tools that are not as the table says."""
    for finding in loaded.findings:
        if finding.exposed and not finding.annotated:
            logger.warning("gateway tool %s has no hints and is used all the same", finding.name)
        elif not finding.exposed and (
            finding.allowed_name or finding.reason == "broken_definition"
        ):
            detail = f" ({finding.detail})" if finding.detail else ""
            logger.warning(
                "gateway tool %s is left out: %s%s", finding.name, finding.reason, detail
            )
    if loaded.missing:
        logger.warning("the gateway lacks allowed tools: %s", ", ".join(loaded.missing))
