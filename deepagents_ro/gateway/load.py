"""Loading the gateway's tools, once, so that an agent can start with or without them."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.callbacks import CallbackContext, Callbacks
from langchain_mcp_adapters.interceptors import ToolCallInterceptor
from mcp.client.session import LoggingFnT

from deepagents_ro import CurlTransport

from . import background
from .allocation import Allocation
from .config import ConfigError, GatewayConfig
from .listing import Entry
from .reasons import STATES, WireError
from .sessions import SessionPool, TransportFactory
from .tool import SERVER_NAME, GatewayTool
from .verdicts import REASONS, Finding, judge, missing

logger = logging.getLogger("deepagents_ro.gateway")


@dataclass
class GatewayTools:
    """What the gateway gave: tools by their allowed name, and a finding for each it has.

    `state` is a key of STATES, `reason` its sentence or a finer one, `detail` what is known
    beside it; in any state but "ok" there are no tools. `findings` are those of the load.

    The session and its connections live as long as these tools, or an agent that has one of
    them, are referred to; then they are closed in the background. `aclose` (or `async with`),
    and `close` where there is no event loop, close them at once.
    """

    state: str
    detail: str = ""
    tools: dict[str, BaseTool] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    allocation: Allocation = field(default_factory=Allocation.default)
    pool: SessionPool | None = field(default=None, repr=False)
    reason: str = ""

    def __post_init__(self) -> None:
        self.reason = self.reason or STATES[self.state]

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

    def close(self) -> None:
        """`aclose` for a thread without an event loop; blocks for a second at most."""
        if self.pool is not None:
            background.run(self.pool.aclose)

    async def aclose(self) -> None:
        """End the session and close the connections. May run twice."""
        if self.pool is not None:
            await self.pool.aclose()

    async def __aenter__(self) -> GatewayTools:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()


class Loading(Coroutine[object, object, GatewayTools]):
    """Tools on their way: `await` it, or `async with` it, which also closes them."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._running: Coroutine[object, object, GatewayTools] | None = None
        self._loaded: GatewayTools | None = None

    def _coroutine(self) -> Coroutine[object, object, GatewayTools]:
        if self._running is None:
            self._running = self._load.run()
        return self._running

    def __await__(self) -> Generator[object, object, GatewayTools]:
        return self._coroutine().__await__()

    def send(self, value: object) -> object:
        """As of any coroutine."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> object:  # type: ignore[explicit-any]
        """As of any coroutine."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """As of any coroutine."""
        if self._running is not None:
            self._running.close()

    async def __aenter__(self) -> GatewayTools:
        self._loaded = await self
        return self._loaded

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._loaded is not None:
            await self._loaded.aclose()


def curl_transport() -> httpx.AsyncBaseTransport:
    """The C transport, with the proxies and the trust that the stock client would use."""
    return CurlTransport()


def load_gateway_tools(
    config: GatewayConfig | None = None,
    *,
    allocation: Allocation | None = None,
    require_hints: bool = False,
    environ: Mapping[str, str] | None = None,
    interceptors: Sequence[ToolCallInterceptor] = (),
    callbacks: Callbacks | None = None,
    make_transport: TransportFactory = curl_transport,
) -> Loading:
    """Load the allocated tools; never raises because of the gateway.

        async with load_gateway_tools() as gateway: ...
        gateway = await load_gateway_tools()

    Args:
        config: the gateway; by default what the environment says.
        allocation: the table; by default the package's.
        require_hints: refuse tools that come without hints.
        environ: read instead of the process's environment.
        interceptors: the adapter's tool interceptors, the first outermost. What they send is
            checked like what a model sends.
        callbacks: the adapter's callbacks for progress and log messages.
        make_transport: makes the transport that all calls share.

    Raises:
        ValueError: `callbacks` has `on_elicitation`, which a gateway is never offered.
    """
    if callbacks is not None and callbacks.on_elicitation is not None:
        raise ValueError("on_elicitation is not supported: no user can be asked")
    table = allocation or Allocation.default()
    return Loading(
        _Load(config, table, require_hints, environ, tuple(interceptors), callbacks, make_transport)
    )


@dataclass
class _Load:
    """The arguments of a load, and the load."""

    config: GatewayConfig | None
    table: Allocation
    require_hints: bool
    environ: Mapping[str, str] | None
    interceptors: tuple[ToolCallInterceptor, ...]
    callbacks: Callbacks | None
    make_transport: TransportFactory

    async def run(self) -> GatewayTools:
        try:
            config = self.config or GatewayConfig.from_env(self.environ)
        except ConfigError as error:
            return _without(GatewayTools("misconfigured", str(error), allocation=self.table))
        if config is None:
            return _without(GatewayTools("not_configured", allocation=self.table))
        judgement = _Judgement(self.table, self.require_hints)
        pool = SessionPool(
            config, self.make_transport, judgement, _logging_callback(self.callbacks)
        )
        try:
            loaded = await self._loaded(config, pool, judgement)
        except BaseException:
            await pool.aclose()
            raise
        if not loaded.available:
            await pool.aclose()
            return _without(loaded)
        _report(loaded)
        return loaded

    async def _loaded(
        self, config: GatewayConfig, pool: SessionPool, judgement: _Judgement
    ) -> GatewayTools:
        try:
            session = await pool.session()
        except WireError as error:
            return GatewayTools(error.state, error.more, allocation=self.table, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the agent starts without the tools
            # The SDK did not accept what came, say a protocol version.
            return GatewayTools("malformed", type(error).__name__, allocation=self.table)
        findings = judgement.findings
        models = {entry.name: entry for entry in session.entries}
        exposed = [finding for finding in findings if finding.exposed]
        for finding in exposed:
            seconds = self.table.settings(finding.allowed_name).timeout_s
            if seconds is not None:
                pool.limits[finding.name] = seconds
        tools: dict[str, BaseTool] = {
            finding.allowed_name: GatewayTool.of(
                models[finding.name].tool(),
                finding,
                pool,
                config,
                interceptors=self.interceptors,
                callbacks=self.callbacks,
            )
            for finding in exposed
        }
        return GatewayTools(
            "ok",
            tools=tools,
            findings=findings,
            missing=missing(findings, self.table),
            allocation=self.table,
            pool=pool,
        )


class _Judgement:
    """Judges each list that is read; says once in the log what changed since the first."""

    def __init__(self, table: Allocation, require_hints: bool) -> None:
        self._table = table
        self._require_hints = require_hints
        self._refused: dict[str, str] | None = None
        self.findings: list[Finding] = []

    def __call__(self, entries: list[Entry]) -> Mapping[str, str]:
        findings = judge(entries, self._table, require_hints=self._require_hints)
        refused = {
            finding.name: "" if finding.exposed else REASONS[finding.reason] for finding in findings
        }
        if self._refused is None:
            self.findings = findings
        else:
            self._report_changes(self._refused, refused)
        self._refused = refused
        return refused

    def _report_changes(self, before: dict[str, str], now: dict[str, str]) -> None:
        for name, why in before.items():
            reason = now.get(name, "the gateway does not list it")
            if why == "" and reason:
                logger.warning("gateway tool %s is refused from now on: %s", name, reason)


def _logging_callback(callbacks: Callbacks | None) -> LoggingFnT | None:
    if callbacks is None:
        return None
    context = CallbackContext(server_name=SERVER_NAME)
    return callbacks.to_mcp_format(context=context).logging_callback


def _without(loaded: GatewayTools) -> GatewayTools:
    """The one log line that says why the agent starts without the tools."""
    detail = f" ({loaded.detail})" if loaded.detail else ""
    logger.warning("no gateway tools: %s%s", loaded.reason, detail)
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
