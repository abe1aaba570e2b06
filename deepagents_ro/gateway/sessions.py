"""One MCP session per event loop, shared by every call, replaced when the gateway forgets it.

A session lives in a task of its own, because the SDK's task groups have to be left by the task
that entered them. It ends with `aclose`, or when its loop is torn down.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.sessions import StreamableHttpConnection, create_session
from mcp import ClientSession, McpError
from mcp.types import CallToolResult

from .config import GatewayConfig
from .wire import ERROR_CODE, MARKER, GatewayTransport, WireError

logger = logging.getLogger(__name__)

TransportFactory = Callable[[], httpx.AsyncBaseTransport]


def wire_error(error: BaseException) -> WireError | None:
    """What our transport reported through the SDK; `None` for any other exception."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for sub in error.exceptions if (found := wire_error(sub))), None)
    if not isinstance(error, McpError) or error.error.code != ERROR_CODE:
        return None
    data = error.error.data
    if not isinstance(data, dict) or MARKER not in data:
        return None
    return WireError(data[MARKER], status=data.get("status"), detail=data.get("detail", ""))


class OpenSession:
    """A live session, its task, and what its transport saw."""

    def __init__(self, connection: StreamableHttpConnection, transport: GatewayTransport) -> None:
        loop = asyncio.get_running_loop()
        self.transport = transport
        self._users = 0
        self._retired = False
        self._ready: asyncio.Future[ClientSession] = loop.create_future()
        self._ready.add_done_callback(_look_at)
        self._stop = asyncio.Event()
        self._task = loop.create_task(
            self._live(connection), name="gateway session", context=contextvars.Context()
        )

    async def _live(self, connection: StreamableHttpConnection) -> None:
        try:
            async with create_session(connection) as session:
                await session.initialize()
                if not self._ready.done():
                    self._ready.set_result(session)
                await self._stop.wait()
        except asyncio.CancelledError:
            self._ready.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits for the session gets it
            if self._ready.done():
                logger.debug("the gateway session ended: %s", type(error).__name__)
            else:
                self._ready.set_exception(error)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to call on."""
        return self._task.done()

    @property
    def failed(self) -> bool:
        """Whether the session never came to be."""
        return self._ready.done() and (
            self._ready.cancelled() or self._ready.exception() is not None
        )

    async def session(self) -> ClientSession:
        """The initialised session; raises what kept it from being one."""
        return await asyncio.shield(self._ready)

    async def call(self, request: MCPToolCallRequest) -> CallToolResult:
        """One call on this session; raises what the SDK raises."""
        self._users += 1
        try:
            session = await self.session()
            return await session.call_tool(request.name, request.args)
        finally:
            self._users -= 1
            self._end_if_unused()

    def retire(self) -> None:
        """End the session as soon as nobody calls on it; calls under way are not disturbed."""
        self._retired = True
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._retired and self._users == 0:
            self._stop.set()

    async def close(self) -> None:
        """End the session at the gateway too, and wait for it."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task])


def _look_at(future: asyncio.Future[ClientSession]) -> None:
    """Keep asyncio from reporting a failure that every waiter has been told."""
    if not future.cancelled():
        future.exception()


class SessionPool:
    """Opens sessions when they are needed and hands them to the adapter's tools."""

    def __init__(self, config: GatewayConfig, make_transport: TransportFactory) -> None:
        self._config = config
        self._inner = make_transport()
        self._open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, OpenSession] = (
            weakref.WeakKeyDictionary()
        )

    def start(self) -> OpenSession:
        """A session of the running loop that is not shared yet."""
        transport = GatewayTransport(self._inner, self._config)

        def client(
            headers: dict[str, str] | None = None,
            timeout: httpx.Timeout | None = None,
            auth: httpx.Auth | None = None,
        ) -> httpx.AsyncClient:
            return httpx.AsyncClient(
                transport=transport,
                headers=headers,
                timeout=httpx.Timeout(self._config.timeout_s),
                auth=auth,
                trust_env=False,
            )

        connection = StreamableHttpConnection(
            transport="streamable_http",
            url=self._config.endpoint,
            headers=dict(self._config.headers),
            httpx_client_factory=client,
        )
        opened = OpenSession(connection, transport)
        self._open[asyncio.get_running_loop()] = opened
        return opened

    def current(self) -> OpenSession:
        """The session of the running loop, opened when there is none."""
        opened = self._open.get(asyncio.get_running_loop())
        return self.start() if opened is None or opened.ended else opened

    def discard(self, opened: OpenSession) -> None:
        """Forget a session that the gateway no longer knows, unless somebody was faster."""
        loop = asyncio.get_running_loop()
        if self._open.get(loop) is opened:
            del self._open[loop]
            opened.retire()

    async def intercept(
        self,
        request: MCPToolCallRequest,
        handler: Callable[[MCPToolCallRequest], Awaitable[Any]],
    ) -> CallToolResult:
        """The adapter's call, on the session that is alive now.

        A call that the gateway did not take, because it restarted or ended the session, is made
        once more on a new one. `handler` would use the session of the load; it is not called.
        """
        opened = self.current()
        try:
            return await self._call(opened, request)
        except (McpError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            if not _not_taken(error):
                raise
        self.discard(opened)
        return await self._call(self.current(), request)

    async def _call(self, opened: OpenSession, request: MCPToolCallRequest) -> CallToolResult:
        try:
            async with asyncio.timeout(self._config.timeout_s):
                return await opened.call(request)
        except Exception:
            if opened.failed:
                self.discard(opened)
            raise

    async def aclose(self) -> None:
        """End the session of the running loop and close the connections."""
        opened = self._open.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.close()
        await self._inner.aclose()


def _not_taken(error: Exception) -> bool:
    """Whether the request certainly was not carried out."""
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return True
    reported = wire_error(error)
    return reported is not None and reported.kind == "session_lost"
