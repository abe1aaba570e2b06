"""One gateway tool as LangChain has it, sync and async: it answers and never raises."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Literal, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.interceptors import (
    MCPToolCallRequest,
    MCPToolCallResult,
    ToolCallInterceptor,
)
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from langgraph.types import Command
from mcp import ClientSession
from mcp.types import Tool
from pydantic import PrivateAttr

from . import answers, arguments, background
from .config import GatewayConfig
from .document import Document
from .sessions import SessionPool
from .verdicts import Finding

logger = logging.getLogger("deepagents_ro.gateway")

SERVER_NAME = "gateway"
"""What the user's interceptors and callbacks see as the server's name."""

ContentAndArtifact = tuple[object, object]

_ARGUMENTS: ContextVar[Document] = ContextVar("gateway_arguments")


async def _exact_arguments(
    request: MCPToolCallRequest,
    handler: Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]],
) -> MCPToolCallResult:
    """The model's arguments, also those that are named like a parameter of the adapter's."""
    return await handler(request.override(args=_ARGUMENTS.get()))


async def _checked_arguments(
    request: MCPToolCallRequest,
    handler: Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]],
) -> MCPToolCallResult:
    """The innermost: what the user's interceptors made of the arguments is checked too."""
    arguments.check(request.args)
    return await handler(request)


class GatewayTool(BaseTool):  # type: ignore[explicit-any]  # its base's type of output
    """A curated tool under its allowed name.

    It answers `{"ok", "data", "error"}` (see `answers`); a failed call's `ToolMessage` has the
    status "error". A synchronous call runs on the background loop, so it works in any thread.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    _inner: Callable[[], Awaitable[ContentAndArtifact]] = PrivateAttr()
    _config: GatewayConfig = PrivateAttr()

    @classmethod
    def of(
        cls,
        tool: Tool,
        finding: Finding,
        pool: SessionPool,
        config: GatewayConfig,
        *,
        interceptors: Sequence[ToolCallInterceptor] = (),
        callbacks: Callbacks | None = None,
    ) -> GatewayTool:
        """The adapter's tool, wrapped."""
        session = cast("ClientSession", pool)  # the adapter asks it for `call_tool` alone
        adapted = convert_mcp_tool_to_langchain_tool(
            session,
            tool,
            callbacks=callbacks,
            tool_interceptors=[_exact_arguments, *interceptors, _checked_arguments],
            server_name=SERVER_NAME,
        )
        assert isinstance(adapted, StructuredTool)
        assert adapted.coroutine is not None
        made = cls(
            name=finding.allowed_name,
            description=config.redact(tool.description or ""),
            args_schema=config.redact_value(tool.inputSchema),
            metadata={
                **config.redact_value(adapted.metadata or {}),
                "gateway_tool": finding.name,
                "gateway_has_hints": finding.annotated,
                "gateway_output_schema": config.redact_value(tool.outputSchema),
            },
            handle_tool_error=_handled,
        )
        made._inner = adapted.coroutine
        made._config = config
        return made

    def _to_args_and_kwargs(
        self, tool_input: str | Document, tool_call_id: str | None
    ) -> tuple[tuple[str, ...], Document]:
        """The arguments as one value: as keywords some of their names would be lost."""
        return (cast("str", tool_input),), {}

    def _run(self, given: object) -> ContentAndArtifact:
        return background.run(lambda: self._call(given))

    async def _arun(self, given: object) -> ContentAndArtifact:
        return await self._call(given)

    async def _call(self, given: object) -> ContentAndArtifact:
        started = time.perf_counter()
        try:
            token = _ARGUMENTS.set(arguments.check(given))
            try:
                content, artifact = await self._inner()
            finally:
                _ARGUMENTS.reset(token)
            if isinstance(content, ToolMessage | Command):
                return content, artifact  # an interceptor of the user answered instead
            answer, artifact = answers.from_result(content, artifact, self._config)
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent continues
            latency_ms = (time.perf_counter() - started) * 1000.0
            failed = answers.from_exception(error, self._config, latency_ms)
            logger.warning(
                "gateway tool %s failed after %.1f ms: %s",
                self.name,
                latency_ms,
                failed["error"]["message"].splitlines()[0],
            )
            raise answers.GatewayToolFailed(failed) from None
        latency_ms = (time.perf_counter() - started) * 1000.0
        logger.info("gateway tool %s answered in %.1f ms", self.name, latency_ms)
        return answer, artifact


def _handled(error: Exception) -> str:
    if isinstance(error, answers.GatewayToolFailed):
        return cast("str", error.answer)  # it becomes the message's content, as a document too
    raise error


def arguments_of(tool: BaseTool) -> list[str]:
    """`name: type` of each argument, with `?` when it may be left out."""
    schema = tool.args_schema if isinstance(tool.args_schema, dict) else {}
    properties = schema.get("properties")
    required = schema.get("required") or []
    told = []
    for name, member in (properties if isinstance(properties, dict) else {}).items():
        kind = member.get("type") if isinstance(member, dict) else None
        mark = "" if name in required else "?"
        told.append(f"{name}{mark}: {kind}" if isinstance(kind, str) else f"{name}{mark}")
    return told
