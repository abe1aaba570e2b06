"""The gateway's transport: what `httpx` hands to the MCP SDK is decided here.

It sits on another transport (the C one) and turns each JSON-RPC request into exactly one JSON
answer. Nothing is raised into the SDK, where an exception would cancel every other call of the
session: whatever goes wrong is answered with a JSON-RPC error that carries the request's id and,
in `error.data`, what went wrong. Tool lists are judged on the bytes that the gateway sent, before
a typed model sees them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
from mcp.types import Tool
from pydantic import ValidationError

from deepagents_ro import _mcpro

from .config import GatewayConfig

logger = logging.getLogger(__name__)

MAX_ANSWER = 8 * 1024 * 1024
"""Bytes of one answer, after content decoding."""
MAX_DEPTH = 67
"""Levels of one answer: 64 for a tool entry, and the message, result and array around it."""
CLOSE_TIMEOUT_S = 1.0
"""Seconds that ending a session may take."""
MAX_DETAIL = 300
"""Characters of the gateway's own words in a message."""

ERROR_CODE = -32098
"""JSON-RPC code of the answers that are made here."""
MARKER = "deepagents_ro_gateway"

MESSAGES = {
    "unreachable": "The gateway cannot be reached.",
    "timeout": "The gateway did not answer in time.",
    "unauthorized": "The gateway refused the API key.",
    "forbidden": "The gateway refused access.",
    "session_lost": "The gateway no longer knows the session.",
    "server_error": "The gateway answered with a server error.",
    "refused": "The gateway refused the request.",
    "malformed": "The gateway's answer is not an MCP answer.",
    "too_large": "The gateway's answer is too large.",
}


class WireError(Exception):
    """An exchange that did not end in an MCP answer. `kind` is a key of MESSAGES."""

    def __init__(self, kind: str, *, status: int | None = None, detail: str = "") -> None:
        super().__init__(MESSAGES[kind])
        self.kind = kind
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool as the gateway listed it.

    `allowed` and `reason` are the verdict on its hints; `broken` says what the SDK's model does
    not accept, and such an entry is not handed on.
    """

    name: str
    allowed: bool
    reason: str
    annotated: bool
    broken: str = ""


class GatewayTransport(httpx.AsyncBaseTransport):
    """One per HTTP client; `inner` is shared between them and not closed here.

    `entries` holds the tools of every `tools/list` answer that passed, in order.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, config: GatewayConfig) -> None:
        self._inner = inner
        self._config = config
        self.entries: list[Entry] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request of the SDK; never raises but for cancellation."""
        if request.method == "GET":
            return httpx.Response(405, request=request)  # no stream: nothing is pushed to us
        if request.method == "DELETE":
            return await self._end_session(request)
        message = _mcpro.json_loads(await request.aread(), max_bytes=MAX_ANSWER)
        if "id" not in message:
            return await self._notify(request)
        try:
            async with asyncio.timeout(self._config.timeout_s):
                body, headers = await self._exchange(request)
            if message.get("method") == "tools/list":
                body = self._judged(body, message["id"])
            else:
                self._look_for_gateway_error(self._checked(body, message["id"]))
        except TimeoutError:
            return self._refusal(request, message["id"], WireError("timeout"))
        except WireError as error:
            return self._refusal(request, message["id"], error)
        return httpx.Response(200, headers=headers, content=body, request=request)

    async def aclose(self) -> None:
        """Nothing to do: the inner transport belongs to whoever made it."""

    async def _end_session(self, request: httpx.Request) -> httpx.Response:
        try:
            async with asyncio.timeout(min(CLOSE_TIMEOUT_S, self._config.timeout_s)):
                response = await self._send(request)
                await response.aclose()
        except (TimeoutError, WireError):
            logger.debug("the gateway's session was not ended")
        return httpx.Response(200, request=request)

    async def _notify(self, request: httpx.Request) -> httpx.Response:
        """A failed notification shows when the next request fails; it is not worth an error."""
        try:
            async with asyncio.timeout(self._config.timeout_s):
                response = await self._send(request)
                await response.aclose()
        except (TimeoutError, WireError):
            logger.debug("a notification did not reach the gateway")
        return httpx.Response(202, request=request)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx.HTTPError, OSError) as error:
            raise WireError("unreachable", detail=type(error).__name__) from error
        response.request = request
        return response

    async def _exchange(self, request: httpx.Request) -> tuple[bytes, dict[str, str]]:
        """The raw answer, not looked at yet, and the headers that the SDK needs."""
        response = await self._send(request)
        try:
            if response.status_code != 200:
                raise await self._status_error(response)
            kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
            if kind == "application/json":
                body = await _read(response)
            elif kind == "text/event-stream":
                body = await _read_event(response)
            else:
                raise WireError("malformed", status=200, detail="content type")
        except (httpx.HTTPError, OSError) as error:
            raise WireError("unreachable", detail=type(error).__name__) from error
        finally:
            await response.aclose()
        headers = {"content-type": "application/json"}
        session = response.headers.get("mcp-session-id")
        if session is not None:
            headers["mcp-session-id"] = session
        return body, headers

    async def _status_error(self, response: httpx.Response) -> WireError:
        status = response.status_code
        kinds = {401: "unauthorized", 403: "forbidden", 404: "session_lost"}
        kind = kinds.get(status, "server_error" if status >= 500 else "refused")
        body = await _read(response)
        try:
            document = _mcpro.json_loads(body, max_bytes=MAX_ANSWER)
        except _mcpro.JSONError:
            document = None  # a proxy's own page: the status says enough
        return WireError(kind, status=status, detail=self._gateway_words(document))

    def _gateway_words(self, document: Any) -> str:
        """What a gateway error body says, redacted and short; empty for any other body."""
        if not is_gateway_error(document):
            return ""
        words = f"{document['error']} (status {document['status_code']}): "
        return self._config.redact(words + str(document["response_text"]))[:MAX_DETAIL]

    def _look_for_gateway_error(self, answer: dict[str, Any]) -> None:
        """Raise when the result is the gateway's error body in place of the tool's answer.

        Here, and not after the SDK: it would only say that the output schema is not met.
        """
        result = answer.get("result")
        if not isinstance(result, dict):
            return
        body = gateway_error_in(result)
        if body is not None:
            raise WireError("server_error", status=200, detail=self._gateway_words(body))

    def _checked(self, body: bytes, identity: int | str) -> dict[str, Any]:
        """One strict JSON-RPC answer with our id, parsed."""
        try:
            answer: dict[str, Any] = _mcpro.json_loads(
                body, max_bytes=MAX_ANSWER, max_depth=MAX_DEPTH
            )
        except _mcpro.JSONError as error:
            raise WireError("malformed", status=200, detail="JSON") from error
        if not _answers(answer, identity):
            words = self._gateway_words(answer)
            raise WireError("server_error" if words else "malformed", status=200, detail=words)
        return answer

    def _judged(self, body: bytes, identity: int | str) -> bytes:
        """The list without the entries that the SDK would refuse; all are noted."""
        try:
            reduced, raw_entries = _mcpro.reduce_tool_list(body, "", "")
        except ValueError as error:
            if "error" in self._checked(body, identity):
                return body
            raise WireError("malformed", status=200, detail="tool list") from error
        answer = json.loads(reduced)
        if not _answers(answer, identity):
            raise WireError("malformed", status=200, detail="id")
        kept = []
        for raw in raw_entries:
            entry = judge_entry(raw)
            self.entries.append(entry)
            if not entry.broken:
                kept.append(raw)
        cursor = answer["result"].get("nextCursor")
        tail = b""
        if isinstance(cursor, str):
            tail = b',"nextCursor":' + json.dumps(cursor).encode()
        return b'{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]%s}}' % (
            json.dumps(identity).encode(),
            b",".join(kept),
            tail,
        )

    def _refusal(
        self, request: httpx.Request, identity: int | str, error: WireError
    ) -> httpx.Response:
        data = {MARKER: error.kind, "status": error.status, "detail": error.detail}
        message = {
            "jsonrpc": "2.0",
            "id": identity,
            "error": {"code": ERROR_CODE, "message": MESSAGES[error.kind], "data": data},
        }
        return httpx.Response(200, json=message, request=request)


def is_gateway_error(document: Any) -> bool:
    """Whether `document` is the gateway's own error body, not an MCP answer or a tool's result."""
    return isinstance(document, dict) and (
        {"error", "status_code", "response_text"} <= document.keys()
        and document["error"] not in (None, "", False)
    )


def gateway_error_in(result: dict[str, Any]) -> dict[str, Any] | None:
    """The gateway's error body in a tool's result: structured, in FastMCP's `result`, or text."""
    candidates = [result.get("structuredContent")]
    content = result.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        candidates.append(_parsed(content[0].get("text")))
    for candidate in candidates:
        if isinstance(candidate, dict) and candidate.keys() == {"result"}:
            candidate = candidate["result"]
            candidate = _parsed(candidate) if isinstance(candidate, str) else candidate
        if is_gateway_error(candidate):
            return candidate
    return None


def _parsed(text: Any) -> Any:
    """The JSON object in `text`; `None` when it holds none."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return None
    try:
        return _mcpro.json_loads(text.encode("utf-8", "replace"), max_bytes=MAX_ANSWER)
    except _mcpro.JSONError:
        return None


def _answers(message: Any, identity: int | str) -> bool:
    """Whether `message` is the one JSON-RPC answer to the request `identity`."""
    return (
        isinstance(message, dict)
        and type(message.get("id")) is type(identity)
        and message["id"] == identity
        and ("result" in message) != ("error" in message)
    )


def judge_entry(raw: bytes) -> Entry:
    """The verdict on one raw entry of a tool list."""
    allowed, reason = _mcpro.hint_verdict(raw)
    broken = ""
    try:
        name = Tool.model_validate_json(raw).name
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "entry"
        broken = f"{place}: {first['msg']}"
        name = _name_of(raw)
    return Entry(name, allowed, reason, _says_anything(raw, reason), broken)


_STANDARD_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_SILENT = ("annotations_missing", "read_only_missing")


def _says_anything(raw: bytes, reason: str) -> bool:
    """Whether the entry carries any hint; a bare title, or no annotations, carries none."""
    if reason not in _SILENT:
        return True
    annotations = json.loads(raw).get("annotations")
    return isinstance(annotations, dict) and any(hint in annotations for hint in _STANDARD_HINTS)


def _name_of(raw: bytes) -> str:
    """The name of a broken entry for the report; empty when it has no usable one."""
    name = json.loads(raw).get("name")
    return name if isinstance(name, str) else ""


async def _read(response: httpx.Response) -> bytes:
    """The whole body, bounded."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise WireError("too_large", status=response.status_code)
    return bytes(body)


async def _read_event(response: httpx.Response) -> bytes:
    """The first JSON-RPC answer of an event stream; what comes before it is passed over."""
    async for event in _events(response):
        try:
            message = json.loads(event)
        except ValueError as error:
            raise WireError("malformed", status=200, detail="event") from error
        if isinstance(message, dict) and ("result" in message or "error" in message):
            return event
    raise WireError("malformed", status=200, detail="stream ended without an answer")


async def _events(response: httpx.Response) -> AsyncIterator[bytes]:
    """The data of each event as soon as its blank line is there."""
    waiting, received = b"", 0
    async for chunk in response.aiter_bytes():
        received += len(chunk)
        if received > MAX_ANSWER:
            raise WireError("too_large", status=response.status_code)
        waiting += chunk
        end = max(waiting.rfind(blank) + len(blank) for blank in BLANK_LINES)
        if end < min(len(blank) for blank in BLANK_LINES):
            continue
        whole, waiting = waiting[:end], waiting[end:]
        for kind, data, _id, _retry in _mcpro.sse_events(whole, max_bytes=MAX_ANSWER):
            if kind in ("", "message") and data:
                yield data


BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
