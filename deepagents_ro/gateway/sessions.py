"""The one MCP session of a set of gateway tools, shared by every call of every event loop.

A session is data (an id, a protocol version, a judged tool list), not a stream or a task: each
request is an HTTP exchange of its own (`wire`). So a call that fails, is cancelled or reaches its
time limit ends its own exchange and nothing else.

Whoever needs a session first opens it, in a task that belongs to no caller; everybody else waits
for that task's outcome, also from other loops and threads. When the gateway no longer knows a
session, the calls that it refused for that are made once on the next one. A call that the gateway
may have seen is never repeated.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextvars import Context
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar, cast

import httpx
from mcp import ClientSession
from mcp.client.session import LoggingFnT
from mcp.shared.session import ProgressFnT
from mcp.types import (
    CallToolResult,
    ClientNotification,
    ClientRequest,
    InitializeResult,
    JSONRPCNotification,
    JSONRPCRequest,
    ListToolsRequest,
    PaginatedRequestParams,
    ServerNotification,
)
from pydantic import BaseModel
from pydantic import ValidationError as ModelError

from deepagents_ro import _mcpro

from . import background
from .config import GatewayConfig
from .document import Document
from .listing import Entry, judge_entry, page
from .reasons import WireError
from .schemas import Checker
from .time_limit import time_limit
from .wire import MAX_ANSWER, Message, Wire

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import MessageMetadata, SessionMessage
    from mcp.types import RequestId

logger = logging.getLogger(__name__)

TransportFactory = Callable[[], httpx.AsyncBaseTransport]
Judge = Callable[[list[Entry]], Mapping[str, str]]
"""From a list's entries to the names that may be called, each with "" or why it may not."""
Result = TypeVar("Result", bound=BaseModel)

LIST_FRESH_S = 300.0
"""Seconds after which the list is read, and judged, again before the next call."""
MAX_PAGES = 64
"""Answers of one list."""
MAX_LIST = 4 * MAX_ANSWER
"""Bytes of one list, all pages."""
CLOSE_TIMEOUT_S = 1.0
"""Seconds that ending a session may take."""
MAX_SESSIONS = 3
"""Sessions that one call is made on; the gateway refused it on all but the last."""
ENTRIES_A_TURN = 200
"""Entries that are judged before the event loop gets its turn."""

_NO_READER = cast("MemoryObjectReceiveStream[SessionMessage | Exception]", None)
_NO_WRITER = cast("MemoryObjectSendStream[SessionMessage]", None)


class GatewaySession(ClientSession):
    """The SDK's session whose requests are exchanges of their own, with no stream beneath.

    It is never entered as a context manager: there is no task group that could end.
    """

    def __init__(
        self, wire: Wire, redact: Callable[[bytes], bytes], logging_callback: LoggingFnT | None
    ) -> None:
        super().__init__(_NO_READER, _NO_WRITER, logging_callback=logging_callback)
        self._wire = wire
        self._redact = redact
        self._numbers = itertools.count()
        self._headers: dict[str, str] = {}
        self._ended = False
        self._checkers: dict[str, Checker] = {}
        self.entries: list[Entry] = []
        self.refused: Mapping[str, str] = {}
        self.listed_at = -LIST_FRESH_S

    @property
    def fresh(self) -> bool:
        """Whether the list may be trusted without reading it again."""
        return time.monotonic() - self.listed_at < LIST_FRESH_S

    async def open(self, judge: Judge) -> None:
        """Initialise, and read and judge the tool list."""
        await self.initialize()
        await self.read_list(judge)

    async def send_request(
        self,
        request: ClientRequest,
        result_type: type[Result],
        request_read_timeout_seconds: timedelta | None = None,
        metadata: MessageMetadata = None,
        progress_callback: ProgressFnT | None = None,
    ) -> Result:
        """One exchange; the caller's time limit is the only one.

        Raises:
            WireError: it did not end in a result of that type.
        """
        number = next(self._numbers)
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        if progress_callback is not None:
            data.setdefault("params", {}).setdefault("_meta", {})["progressToken"] = number
        body = _encoded(JSONRPCRequest(jsonrpc="2.0", id=number, **data))

        async def listener(message: Message) -> None:
            await self._heard(message, progress_callback)

        raw, session_id = await self._wire.exchange(body, self._headers, listener)
        answer = await self._wire.answer(raw, number)
        try:
            result = result_type.model_validate(answer["result"])
        except ModelError as error:
            raise WireError("malformed", detail=f"no {result_type.__name__}") from error
        if isinstance(result, InitializeResult):
            self._headers["mcp-protocol-version"] = str(result.protocolVersion)
            if session_id:
                self._headers["mcp-session-id"] = session_id
        return result

    async def send_notification(
        self, notification: ClientNotification, related_request_id: RequestId | None = None
    ) -> None:
        """One exchange without an answer."""
        data = notification.model_dump(by_alias=True, mode="json", exclude_none=True)
        body = _encoded(JSONRPCNotification(jsonrpc="2.0", **data))
        await self._wire.notify(body, self._headers)

    async def read_list(self, judge: Judge) -> None:
        """Read every page, judge every entry; what was known before stays until that is done."""
        entries: list[Entry] = []
        cursor: str | None = None
        seen: set[str] = set()
        size = 0
        while len(seen) < MAX_PAGES:
            raw = await self._list_page(cursor)
            size += len(raw)
            if size > MAX_LIST:
                raise WireError("too_large", detail="tool list")
            try:
                raw_entries, cursor = page(raw)
            except ValueError as error:
                raise WireError("malformed", detail="tool list") from error
            for position, entry in enumerate(raw_entries):
                entries.append(self._judged(entry))
                if position % ENTRIES_A_TURN == ENTRIES_A_TURN - 1:
                    await asyncio.sleep(0)
            if not cursor:
                break
            if cursor in seen:
                raise WireError("malformed", detail="the tool list repeats a cursor")
            seen.add(cursor)
        else:
            raise WireError("too_large", detail=f"more than {MAX_PAGES} pages of tools")
        self.refused = judge(entries)
        self._checkers = _checkers(entries, self.refused)
        self.entries = entries
        self.listed_at = time.monotonic()

    async def _list_page(self, cursor: str | None) -> bytes:
        number = next(self._numbers)
        params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        data = ListToolsRequest(params=params).model_dump(
            by_alias=True, mode="json", exclude_none=True
        )
        body = _encoded(JSONRPCRequest(jsonrpc="2.0", id=number, **data))
        raw, _session_id = await self._wire.exchange(body, self._headers)
        # A list may hold what a strict answer may not (an entry with a key twice).
        if not _is_list(raw, number):
            await self._wire.answer(raw, number)  # says what it is instead
            raise WireError("malformed", detail="tool list")
        return raw

    def _judged(self, raw: bytes) -> Entry:
        """The verdict is on what was sent; what is kept of it does not have the API key."""
        verdict = judge_entry(raw)
        try:
            redacted = self._redact(raw)
        except ValueError:  # a key twice, too deep; two keys that become equal
            if verdict.annotated and not verdict.allowed:
                return verdict  # refused for its hints in any case
            return Entry(verdict.name, False, verdict.reason, True, "it is not strict JSON")
        if redacted == raw:
            return verdict
        clean = judge_entry(redacted)
        return Entry(
            clean.name, verdict.allowed, verdict.reason, verdict.annotated, clean.broken, redacted
        )

    async def _validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """By the schemas of the judged list; the SDK would compile one for every call."""
        checker = self._checkers.get(name)
        if checker is not None and not (
            result.structuredContent is not None and checker.fits(result.structuredContent)
        ):
            raise WireError("bad_output")

    async def _heard(self, message: Message, progress: ProgressFnT | None) -> None:
        """What the gateway said before its answer; none of it can change the answer."""
        method = message.get("method")
        if method == "notifications/tools/list_changed":
            self.listed_at = -LIST_FRESH_S
            return
        try:
            if method == "notifications/progress" and progress is not None:
                params = message["params"]
                await progress(params["progress"], params.get("total"), params.get("message"))
            elif method == "notifications/message":
                heard = ServerNotification.model_validate(
                    {"method": method, "params": message.get("params")}
                )
                await self._received_notification(heard)
        except Exception as error:  # noqa: BLE001 - a callback of the user, or a broken message
            logger.warning("a notification of the gateway: %s", type(error).__name__)

    async def end(self, seconds: float = CLOSE_TIMEOUT_S) -> None:
        """End the session at the gateway too, if it has one; once."""
        if "mcp-session-id" in self._headers and not self._ended:
            self._ended = True
            try:
                async with time_limit(seconds):
                    await self._wire.end_session(self._headers)
            except TimeoutError:
                logger.debug("the gateway's session was not ended in time")


def _encoded(message: BaseModel) -> bytes:
    data = message.model_dump(by_alias=True, mode="json", exclude_none=True)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def _is_list(raw: bytes, number: int) -> bool:
    try:
        rest = json.loads(_mcpro.reduce_tool_list(raw, "", "\n")[0])
    except ValueError:
        return False
    return type(rest.get("id")) is int and rest["id"] == number


def _checkers(entries: Iterable[Entry], refused: Mapping[str, str]) -> dict[str, Checker]:
    """For the tools that may be called and declare an output schema."""
    found = {}
    for entry in entries:
        if refused.get(entry.name) == "":
            schema = entry.tool().outputSchema
            if schema is not None:
                found[entry.name] = Checker(schema)
    return found


class _Abandoned(Exception):
    """The loop on which a session was being opened has ended."""


class _Opening:
    """A session that is open or is being opened, or one whose list is being read again."""

    def __init__(self, shared: SharedSession, known: GatewaySession | None) -> None:
        self.outcome: Future[GatewaySession] = Future()
        self.outcome.set_running_or_notify_cancel()  # no waiter can cancel it
        self.begun = time.monotonic()
        self.known = known is not None
        self.session = known or shared.new_session()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(
            self._run(shared), name="gateway session", context=Context()
        )

    async def _run(self, shared: SharedSession) -> None:
        try:
            async with time_limit(shared.config.timeout_s):
                if self.known:
                    await self.session.read_list(shared.judge)
                else:
                    await self.session.open(shared.judge)
        except asyncio.CancelledError:
            self._failed(shared, _Abandoned())
            if not self.known and not shared.closed:
                background.submit(self.session.end)
            raise
        except TimeoutError:
            await self._over(shared, WireError("timeout"))
        except Exception as error:  # noqa: BLE001 - whoever waits for the session gets it
            await self._over(shared, error)
        else:
            self.outcome.set_result(self.session)
            if not shared.holds(self.session):
                await self.session.end()

    def _failed(self, shared: SharedSession, error: Exception) -> None:
        """A known session is kept: other calls are under way on it, and its list is stale."""
        if not self.known or (isinstance(error, WireError) and error.kind == "session_lost"):
            shared.discard(self.session)
        self.outcome.set_exception(error)

    async def _over(self, shared: SharedSession, error: Exception) -> None:
        self._failed(shared, error)
        if not self.known:
            await self.session.end()

    @property
    def stuck(self) -> bool:
        """Whether it waits for a loop that nobody runs."""
        return not self.outcome.done() and (self._loop.is_closed() or not self._loop.is_running())

    async def wait(self) -> GatewaySession:
        """The session; raises what kept it from being one."""
        try:
            if self.outcome.done():
                return self.outcome.result()
            return await asyncio.wrap_future(self.outcome)
        except WireError as error:
            raise error.again() from None

    async def cancel(self) -> None:
        """Stop opening; returns when that is done, or at once when another loop has to do it."""
        if self._loop is asyncio.get_running_loop():
            self._task.cancel()
            await asyncio.wait([self._task])
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)


class SharedSession:
    """The transport and the current session. Any thread, any loop; a fork starts anew."""

    def __init__(
        self,
        config: GatewayConfig,
        make_transport: TransportFactory,
        judge: Judge,
        logging_callback: LoggingFnT | None,
    ) -> None:
        self.config = config
        self.judge = judge
        self.closed = False
        self._make_transport = make_transport
        self._logging_callback = logging_callback
        self._begin()

    def _begin(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._current: _Opening | None = None
        self._transport = self._make_transport()
        _SHARED.add(self)

    def new_session(self) -> GatewaySession:
        """A session that is not open yet."""
        wire = Wire(self._transport, self.config)
        return GatewaySession(wire, self.config.redact_json, self._logging_callback)

    async def session(self) -> GatewaySession:
        """The open session with a fresh list; opened, or its list read, when there is none.

        An opening that had begun before this was called may have failed of what was over by
        then; only one that began later speaks for the gateway as it is now.
        """
        called = time.monotonic()
        while True:
            opening = self._opening()
            try:
                return await opening.wait()
            except _Abandoned:
                continue
            except Exception:
                if opening.begun >= called:
                    raise

    def _opening(self) -> _Opening:
        if os.getpid() != self.pid:
            with _FORK_LOCK:
                if os.getpid() != self.pid:
                    self._begin()
        with self._lock:
            if self.closed:
                raise WireError("closed")
            found = self._current
            if found is None:
                self._current = _Opening(self, None)
            elif found.stuck:
                self._current = _Opening(self, found.session if found.known else None)
            elif found.outcome.done() and not found.session.fresh:
                self._current = _Opening(self, found.session)
            assert self._current is not None
            return self._current

    def holds(self, session: GatewaySession) -> bool:
        """Whether calls are made on this session."""
        with self._lock:
            return self._current is not None and self._current.session is session

    def discard(self, session: GatewaySession) -> None:
        """Nobody can call on this session; somebody may have noticed earlier."""
        with self._lock:
            if self._current is not None and self._current.session is session:
                self._current = None

    async def aclose(self, seconds: float = CLOSE_TIMEOUT_S) -> None:
        """End the session, in so many seconds, and close the connections. May run twice."""
        with self._lock:
            first, self.closed = not self.closed, True
            opening, self._current = self._current, None
        if not first or os.getpid() != self.pid:
            return
        if opening is not None:
            if not opening.outcome.done():
                await opening.cancel()
            await opening.session.end(seconds)
        await self._transport.aclose()

    def abandon(self) -> None:
        """Close in the background: nobody refers to the tools any more."""
        if not self.closed and os.getpid() == self.pid:
            background.submit(lambda: self.aclose(self.config.timeout_s))


_SHARED: weakref.WeakSet[SharedSession] = weakref.WeakSet()
_FORK_LOCK = threading.Lock()


def _after_fork() -> None:
    global _FORK_LOCK
    _FORK_LOCK = threading.Lock()


def _at_exit() -> None:
    """End what is still open; a gateway that does not answer costs a second."""
    still_open = [shared for shared in _SHARED if not shared.closed and shared.pid == os.getpid()]
    if not still_open:
        return

    async def close() -> None:
        await asyncio.wait(
            [asyncio.ensure_future(shared.aclose()) for shared in still_open],
            timeout=CLOSE_TIMEOUT_S,
        )

    asyncio.run(close())


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


class SessionPool:
    """What the adapter takes for a session: calls go to the one that is open then.

    It is closed when nobody refers to the pool any more.
    """

    def __init__(
        self,
        config: GatewayConfig,
        make_transport: TransportFactory,
        judge: Judge,
        logging_callback: LoggingFnT | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        self._shared = SharedSession(config, make_transport, judge, logging_callback)
        self.limits = dict(limits or {})
        self._finalizer = weakref.finalize(self, self._shared.abandon)
        self._finalizer.atexit = False

    async def session(self) -> GatewaySession:
        """The open session."""
        return await self._shared.session()

    async def call_tool(
        self,
        name: str,
        arguments: Document | None = None,
        read_timeout_seconds: timedelta | None = None,
        progress_callback: ProgressFnT | None = None,
    ) -> CallToolResult:
        """One call within its time limit; it reaches the gateway at most once.

        Args:
            name: the gateway's name of the tool.

        Raises:
            WireError: there is no result.
            RefusedError: the tool may not be called any more.
            TimeoutError: the limit (seconds: the tool's own, else the configuration's) was reached.
        """
        async with time_limit(self.limits.get(name, self._shared.config.timeout_s)):
            for _refused in range(MAX_SESSIONS - 1):
                try:
                    return await self._once(name, arguments, progress_callback)
                except WireError as error:
                    if error.kind != "session_lost":
                        raise
            return await self._once(name, arguments, progress_callback)

    async def _once(
        self, name: str, arguments: Document | None, progress_callback: ProgressFnT | None
    ) -> CallToolResult:
        session = await self._shared.session()
        why = session.refused.get(name, "the gateway does not list it")
        if why:
            raise RefusedError(why)
        try:
            return await session.call_tool(name, arguments, progress_callback=progress_callback)
        except WireError as error:
            if error.kind == "session_lost":
                self._shared.discard(session)
            raise

    async def aclose(self) -> None:
        """End the session and close the connections. May run twice."""
        await self._shared.aclose()


class RefusedError(Exception):
    """The tool was offered once, but the list that was read last does not allow it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The tool is refused now: {why}.")
