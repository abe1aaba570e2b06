"""One JSON-RPC message to the gateway, and its one answer, over a shared transport.

Every message is an HTTP exchange of its own: no stream, task or lock is shared with another, so
nothing that happens to one can be seen by another. A request is sent at most once. Whatever goes
wrong is a `WireError`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeGuard

import httpx

from deepagents_ro import _mcpro

from .config import GatewayConfig
from .document import Document
from .reasons import WireError, quotable

logger = logging.getLogger(__name__)

MAX_ANSWER = 8 * 1024 * 1024
"""Bytes of one answer, after content decoding."""
MAX_ERROR_BODY = 64 * 1024
"""Bytes that are read of a body whose status is an error."""
LARGE_ANSWER = 256 * 1024
"""Bytes from which on an answer is scanned outside the event loop's thread."""

Message = Document
Listener = Callable[[Message], Awaitable[None]]

HEADERS = {
    "accept": "application/json, text/event-stream",
    "accept-encoding": "identity",
    "content-type": "application/json",
}
STATUSES = {401: "unauthorized", 403: "forbidden", 404: "not_found"}
TRANSPORT_CODES = {
    "resolve": "unresolved",
    "refused": "connection_refused",
    "connect": "unreachable",
    "connect_timeout": "unreachable",
    "certificate": "untrusted",
    "tls": "tls",
    "proxy": "proxy",
    "receive": "connection_lost",
    "replay": "connection_lost",
    "send": "connection_lost",
}
"""The C transport's codes as kinds; any other is `unreachable`."""
LACKS_SCOPE = -32001
"""JSON-RPC code of a gateway's answer to a key without the scope that a request needs."""
NO_SESSION = "no valid session id"
"""What servers of the TypeScript SDK answer, with status 400, to a session that is gone."""


class Wire:
    """The endpoint of one gateway. Keeps nothing between exchanges."""

    def __init__(self, transport: httpx.AsyncBaseTransport, config: GatewayConfig) -> None:
        self._transport = transport
        self._config = config
        self._url = httpx.URL(config.endpoint)
        self._headers = {**HEADERS, **config.headers}

    async def exchange(
        self, body: bytes, headers: Mapping[str, str], listener: Listener | None = None
    ) -> tuple[bytes, str]:
        """The raw answer, not looked at yet, and the session id beside it.

        Messages that stand before the answer in an event stream go to `listener`.

        Raises:
            WireError: there is no such answer.
        """
        response = await self._send("POST", body, headers)
        try:
            if response.status_code != 200:
                raise await self._status_error(response, "mcp-session-id" in headers)
            kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
            if kind == "application/json":
                raw = await _read(response, MAX_ANSWER)
            elif kind == "text/event-stream":
                raw = await _read_event(response, listener)
            else:
                page = kind in ("text/html", "application/xhtml+xml")
                raise WireError("web_page" if page else "malformed", detail="content type")
        except (httpx.HTTPError, OSError) as error:
            raise lost(error) from error
        finally:
            await response.aclose()
        return raw, response.headers.get("mcp-session-id", "")

    async def answer(self, raw: bytes, identity: int) -> Message:
        """The one JSON-RPC answer to the request `identity`, parsed; the API key is not in it."""
        message = await self._parsed(raw)
        if not answers(message, identity):
            words = self._words(message)
            raise WireError("server_error" if words else "malformed", words=words)
        error = message.get("error")
        if isinstance(error, dict):
            raise self._mcp_error(error)
        body = gateway_error_in(message["result"])
        if body is not None:
            raise WireError("server_error", words=self._words(body))
        return message

    async def notify(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Send what needs no answer. A failure shows when the next request fails."""
        try:
            response = await self._send("POST", body, headers)
            await response.aclose()
        except WireError as error:
            logger.debug("a notification did not reach the gateway: %s", error)

    async def end_session(self, headers: Mapping[str, str]) -> None:
        """Tell the gateway that the session in `headers` is not used any more."""
        try:
            response = await self._send("DELETE", None, headers)
            await response.aclose()
        except WireError as error:
            logger.debug("the gateway's session was not ended: %s", error)

    async def _send(
        self, method: str, body: bytes | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        request = httpx.Request(
            method, self._url, headers={**self._headers, **headers}, content=body
        )
        try:
            return await self._transport.handle_async_request(request)
        except (httpx.HTTPError, OSError) as error:
            raise lost(error) from error
        except RuntimeError as error:  # closed, before or meanwhile
            raise WireError("closed") from error

    async def _parsed(self, raw: bytes) -> Message:
        """A strict JSON object; the scanner also takes out the key."""
        redact = self._config.redact_json
        try:
            if len(raw) > LARGE_ANSWER:
                raw = await asyncio.get_running_loop().run_in_executor(None, redact, raw)
            else:
                raw = redact(raw)
            message = json.loads(raw)
        except ValueError as error:  # JSONError, keys that collide, a number of 4,301 digits
            page = raw.lstrip()[:1] == b"<"
            raise WireError("web_page" if page else "malformed", detail="JSON") from error
        if not isinstance(message, dict):
            raise WireError("malformed", detail="no object")
        return message

    async def _status_error(self, response: httpx.Response, in_session: bool) -> WireError:
        status = response.status_code
        if 300 <= status < 400:
            return WireError("redirect", status=status)
        try:
            body = await _read(response, MAX_ERROR_BODY)
            document = json.loads(self._config.redact_json(body))
        except (ValueError, WireError):
            document = None  # a proxy's own page: the status says enough
        error = document.get("error") if isinstance(document, dict) else None
        said = error.get("message") if isinstance(error, dict) else None
        words = quotable(said) if isinstance(said, str) else self._words(document)
        kind = STATUSES.get(status, "server_error" if status >= 500 else "refused")
        if in_session and (status == 404 or (status == 400 and NO_SESSION in words.lower())):
            kind = "session_lost"
        elif lacks_scope(error):
            kind = "scope"
        return WireError(kind, status=status, words=words)

    def _mcp_error(self, error: Message) -> WireError:
        said = error.get("message")
        words = quotable(said) if isinstance(said, str) else ""
        return WireError("scope" if lacks_scope(error) else "mcp_error", words=words)

    def _words(self, document: object) -> str:
        """What a gateway error body says; empty for any other document."""
        if not is_gateway_error(document):
            return ""
        words = f"{document['error']} (status {document['status_code']})"
        text = quotable(str(document["response_text"]))
        return quotable(f"{words}: {text}" if text else words)


def lost(error: Exception) -> WireError:
    """What a transport's exception means. The C transport's own code is its context."""
    code = getattr(error.__context__, "code", "")
    if isinstance(error, httpx.TimeoutException) and code != "connect_timeout":
        return WireError("timeout")
    return WireError(TRANSPORT_CODES.get(code, "unreachable"), detail=_name(error, code))


def _name(error: Exception, code: str) -> str:
    return "" if code in TRANSPORT_CODES else type(error).__name__


def lacks_scope(error: object) -> bool:
    """Whether a JSON-RPC error says that the key has not the scope that was needed."""
    return (
        isinstance(error, dict)
        and error.get("code") == LACKS_SCOPE
        and "scope" in str(error.get("message", "")).lower()
    )


def answers(message: Message, identity: int) -> bool:
    """Whether `message` is the one JSON-RPC answer to the request `identity`."""
    if ("result" in message) == ("error" in message):
        return False
    found = message.get("id")
    if "error" in message:  # without an id when the gateway could not read ours
        return isinstance(message["error"], dict) and (found is None or found == identity)
    return type(found) is int and found == identity and isinstance(message["result"], dict)


def is_gateway_error(document: object) -> TypeGuard[Message]:
    """Whether `document` is the gateway's own error body, not an MCP answer or a tool's result."""
    return isinstance(document, dict) and (
        {"error", "status_code", "response_text"} <= document.keys()
        and document["error"] not in (None, "", False)
    )


def gateway_error_in(result: Message) -> Message | None:
    """The gateway's error body in a tool's result: structured, in FastMCP's `result`, or text.

    Looked for before the models, which would only say that the output schema is not met.
    """
    candidates = [result.get("structuredContent")]
    content = result.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        candidates.append(_object_in(content[0].get("text")))
    for candidate in candidates:
        if isinstance(candidate, dict) and candidate.keys() == {"result"}:
            candidate = candidate["result"]
            candidate = _object_in(candidate) if isinstance(candidate, str) else candidate
        if is_gateway_error(candidate):
            return candidate
    return None


def _object_in(text: object) -> object:
    """The JSON value in `text` if it may be a gateway's error body; else None."""
    if not isinstance(text, str) or len(text) > MAX_ERROR_BODY or '"status_code"' not in text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


async def _read(response: httpx.Response, limit: int) -> bytes:
    """The whole body, bounded."""
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise WireError("too_large")
    return b"".join(chunks)


async def _read_event(response: httpx.Response, listener: Listener | None) -> bytes:
    """The first JSON-RPC answer of an event stream."""
    async for event in _events(response):
        try:
            message = json.loads(event)
        except ValueError as error:
            raise WireError("malformed", detail="event") from error
        if isinstance(message, dict):
            if "result" in message or "error" in message:
                return event
            if listener is not None:
                await listener(message)
    raise WireError("connection_lost", detail="the stream ended without an answer")


async def _events(response: httpx.Response) -> AsyncIterator[bytes]:
    """The data of each event as soon as its blank line is there; linear in the stream."""
    waiting: list[bytes] = []
    tail, received = b"", 0
    async for chunk in response.aiter_bytes():
        received += len(chunk)
        if received > MAX_ANSWER:
            raise WireError("too_large")
        # A blank line that was not there before ends in what is new.
        seam = tail + chunk
        ends = [seam.rfind(blank) + len(blank) for blank in BLANK_LINES if blank in seam]
        end = max(ends, default=0)
        if end == 0:
            waiting.append(chunk)
            tail = seam[-3:]
            continue
        cut = end - len(tail)
        waiting.append(chunk[:cut])
        whole = b"".join(waiting)
        waiting, tail = [chunk[cut:]], chunk[cut:][-3:]
        for data in _whole_events(whole):
            yield data
    for data in _whole_events(b"".join(waiting)):
        yield data


def _whole_events(text: bytes) -> list[bytes]:
    """The data of the events in `text`; one that is cut off is none."""
    events = _mcpro.sse_events(text, max_bytes=MAX_ANSWER)
    return [data for kind, data, _id, _retry in events if kind in ("", "message") and data]


BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
