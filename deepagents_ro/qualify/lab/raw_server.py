"""A server in which whoever uses it scripts every byte.

`RawServer` runs in the process that makes it, a thread for each connection
(`listener.py`), over plain sockets and `ssl`. Without any script it is a
minimal, well-behaved MCP server over Streamable HTTP; `handlers` replaces its
answer for one kind of request, `on_accept` whatever happens before TLS.

A kind ("label") is the JSON-RPC method of a POST ("initialize",
"notifications/initialized", "tools/list", "tools/call", ...), "response" for
a client's answer to a request of the server, or the HTTP method of anything
else ("HEAD", "GET", "DELETE").

A handler is the bytes to send, or a callable `(request, wire)` that returns
those bytes or writes to `wire` itself and returns None; a list of handlers is
used one a request, the last one for all that follow. Connections stay open
after an answer unless the handler closed them. Times are `time.monotonic()`
seconds, which child processes on the same machine share.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .listener import Listener

HEAD_LIMIT = 1 << 20
BODY_LIMIT = 64 << 20
LINGER_RESET = struct.pack("ii", 1, 0)

READ_ONLY_TOOL = (
    '{"name":"look","description":"Looks.","inputSchema":{"type":"object"},'
    '"annotations":{"readOnlyHint":true,"destructiveHint":false}}'
)
RESULT = '{"content":[{"type":"text","text":"seen"}],"structuredContent":{"seen":true}}'


def _short_int(text: str) -> int | str:
    """Numbers that Python refuses to convert stay text."""
    return int(text) if len(text) < 4000 else text


class Gone(OSError):
    """The peer or the server's user closed the connection under a handler."""


@dataclass(frozen=True)
class Request:
    """One HTTP request as it arrived; `head` ends with the blank line."""

    connection: int
    at: float
    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    head: bytes
    body: bytes
    message: Any
    label: str

    def header(self, name: str) -> bytes | None:
        """The first header value of that name, whatever its case."""
        wanted = name.lower().encode()
        for key, value in self.headers:
            if key.lower() == wanted:
                return value
        return None

    @property
    def id_text(self) -> str:
        """The JSON text of the request's id."""
        return json.dumps(self.message.get("id"))


Handler = Any  # bytes | Callable[[Request, Wire], bytes | None] | list of both


@dataclass
class Connection:
    """What is known of one accepted connection."""

    index: int
    accepted_at: float
    tls_version: str | None = None
    tls_error: str | None = None
    requests: int = 0


def http(
    status: int,
    body: bytes = b"",
    *,
    content_type: str | None = "application/json",
    headers: Iterable[tuple[str, str] | bytes] = (),
    reason: str = "Scripted",
    length: int | bool | None = True,
) -> bytes:
    """One HTTP/1.1 response; `length` True counts, None leaves it out."""
    lines = [f"HTTP/1.1 {status} {reason}".encode()]
    if content_type is not None:
        lines.append(b"content-type: " + content_type.encode())
    if length is True:
        lines.append(b"content-length: %d" % len(body))
    elif length is not None and length is not False:
        lines.append(b"content-length: %d" % length)
    for item in headers:
        lines.append(item if isinstance(item, bytes) else f"{item[0]}: {item[1]}".encode("latin-1"))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def result_message(request: Request, result: str | bytes) -> bytes:
    """The JSON-RPC success that answers `request` with the text `result`."""
    raw = result.encode() if isinstance(result, str) else result
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (request.id_text.encode(), raw)


def error_message(request: Request, code: int = -32000, message: str = "no") -> bytes:
    """The JSON-RPC error that answers `request`."""
    text = json.dumps({"code": code, "message": message})
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (request.id_text.encode(), text.encode())


def answer(result: str | bytes, **kwargs: Any) -> Callable[[Request, Wire], bytes]:
    """A handler that answers with the JSON text `result`; see `http`."""
    return lambda request, wire: http(200, result_message(request, result), **kwargs)


def event(
    data: bytes | str | None,
    *,
    name: str | None = None,
    id: str | None = None,
    retry: int | None = None,
) -> bytes:
    """One server-sent event."""
    out = b""
    if name is not None:
        out += b"event: " + name.encode() + b"\n"
    if id is not None:
        out += b"id: " + id.encode() + b"\n"
    if retry is not None:
        out += b"retry: %d\n" % retry
    if data is not None:
        raw = data.encode() if isinstance(data, str) else data
        for line in raw.split(b"\n"):
            out += b"data: " + line + b"\n"
    return out + b"\n"


class Wire:
    """The server's end of one connection, as a handler sees it."""

    def __init__(self, server: RawServer, sock: socket.socket, connection: Connection) -> None:
        self.server = server
        self.sock = sock
        self.connection = connection
        self.pending = b""
        self.open = True
        self.label = ""

    def send(self, data: bytes) -> None:
        """Sends all of `data` and notes the time under the request's label."""
        self._note_time()
        try:
            self.sock.sendall(data)
        except OSError as error:
            self.open = False
            raise Gone from error
        self._note_time()

    def _note_time(self) -> None:
        """Before an act too: who has seen its effect may be ahead of this thread."""
        self.server.sent_at[self.label] = time.monotonic()

    def chunked_head(
        self,
        *,
        content_type: str = "text/event-stream",
        headers: Iterable[tuple[str, str] | bytes] = (),
        status: int = 200,
    ) -> None:
        """Starts a chunked response."""
        self.send(
            http(
                status,
                content_type=content_type,
                headers=[("transfer-encoding", "chunked"), *headers],
                length=None,
            )
        )

    def chunk(self, data: bytes) -> None:
        """Sends one chunk; empty data is not sent."""
        if data:
            self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """Ends a chunked response."""
        self.send(b"0\r\n\r\n")

    def drip(self, data: bytes, interval: float, size: int = 1) -> None:
        """Sends `data` in pieces of `size` bytes, `interval` seconds apart."""
        for start in range(0, len(data), size):
            self.send(data[start : start + size])
            self.sleep(interval)

    def endless(self, piece: bytes, *, interval: float = 0.0, limit: int = 1 << 31) -> int:
        """Sends `piece` again and again until the peer goes; returns the bytes sent."""
        sent = 0
        while sent < limit:
            try:
                self.send(piece)
            except Gone:
                break
            sent += len(piece)
            if interval:
                self.sleep(interval)
        return sent

    def peer_gone(self) -> bool:
        """Whether the peer has closed; bytes that came instead are kept."""
        try:
            ready, _, _ = select.select([self.sock], [], [], 0)
        except (OSError, ValueError):
            return True  # another handler closed it
        if not ready:
            return False
        self.sock.settimeout(1.0)
        try:
            data = self.sock.recv(65536)
        except (TimeoutError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                self.sock.settimeout(self.server.timeout)
        self.pending += data
        return not data

    def sleep(self, seconds: float) -> None:
        """Waits, but not beyond the server's end."""
        if self.server.stopping.wait(seconds):
            raise Gone

    def stall(self, seconds: float = 60.0) -> None:
        """Says nothing until the peer goes, the server stops or `seconds` pass."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.peer_gone():
                self.open = False
                raise Gone
            self.sleep(0.02)

    def reset(self) -> None:
        """Ends the connection with a TCP reset."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.close()

    def finish(self) -> None:
        """Ends the connection in order: close_notify, then FIN."""
        self._note_time()
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.settimeout(0.2)
            with contextlib.suppress(OSError, ValueError):
                self.sock.unwrap()
        self.close()

    def close(self) -> None:
        """Ends the connection with a FIN and without TLS's close_notify."""
        self._note_time()
        self.open = False
        with contextlib.suppress(OSError):
            self.sock.close()
        self._note_time()


@dataclass
class _Sessions:
    issued: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class RawServer(Listener):
    """The scripted server; use it as a context manager.

    `tools` are the raw JSON texts of one `tools/list` page; `result` is the
    raw JSON text of the call's result; `sessions` says whether `initialize`
    issues a session id (`session-1`, `session-2`, ...).
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        *,
        tools: Sequence[str] = (READ_ONLY_TOOL,),
        result: str | bytes = RESULT,
        handlers: dict[str, Handler] | None = None,
        sessions: bool = False,
        host: str = "127.0.0.1",
        timeout: float = 30.0,
    ) -> None:
        super().__init__(host)
        self.context = context
        self.tools = list(tools)
        self.result = result
        self.handlers: dict[str, Handler] = dict(handlers or {})
        self.sessions = sessions
        self.timeout = timeout
        self.on_accept: Callable[[int, Wire], None] | None = None
        self.requests: list[Request] = []
        self.connections: list[Connection] = []
        self.sent_at: dict[str, float] = {}
        """By label, when the last bytes were sent, or the connection was ended."""
        self.errors: list[BaseException] = []
        self._sessions = _Sessions()
        self._arrived = threading.Condition(self._lock)

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{'https' if self.context else 'http'}://{self.address}"

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return self.origin + "/mcp"

    # What the server saw.

    def of(self, label: str) -> list[Request]:
        """The requests of one kind, in order of arrival."""
        with self._lock:
            return [request for request in self.requests if request.label == label]

    def count(self, label: str) -> int:
        """How many requests of one kind arrived."""
        return len(self.of(label))

    def labels(self) -> list[str]:
        """The kinds of all requests, in order of arrival."""
        with self._lock:
            return [request.label for request in self.requests]

    def mcp_connections(self) -> set[int]:
        """The connections that carried anything but DCode's HEAD preflight."""
        with self._lock:
            return {request.connection for request in self.requests if request.label != "HEAD"}

    def wait_for(self, label: str, count: int = 1, timeout: float = 10.0) -> bool:
        """Waits until `count` requests of a kind have arrived."""
        end = time.monotonic() + timeout
        with self._arrived:
            while sum(request.label == label for request in self.requests) < count:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._arrived.wait(left)
        return True

    # Serving.

    def arrived(self, number: int) -> None:
        """Noted before its thread can answer."""
        with self._lock:
            self.connections.append(Connection(number, time.monotonic()))

    def note(self, request: Request) -> int:
        """A request has arrived; how many of its kind came before it."""
        with self._arrived:
            before = sum(seen.label == request.label for seen in self.requests)
            self.requests.append(request)
            self._arrived.notify_all()
        return before

    def serve(self, sock: socket.socket, number: int) -> None:
        """Answer requests until either side ends the connection."""
        sock.settimeout(self.timeout)
        wire = Wire(self, sock, self.connections[number])
        try:
            if self.on_accept is not None:
                self.on_accept(number, wire)
            if wire.open and self._shake_hands(wire):
                self._converse(wire)
        except OSError:
            raise
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            self.release(wire.sock)

    def _shake_hands(self, wire: Wire) -> bool:
        if self.context is None:
            return True
        try:
            tls = self.context.wrap_socket(wire.sock, server_side=True)
        except OSError as error:
            wire.connection.tls_error = str(error)
            return False
        wire.sock = self.hold(tls)
        wire.connection.tls_version = tls.version()
        return True

    def _converse(self, wire: Wire) -> None:
        while wire.open and not self.stopping.is_set():
            request = self._read(wire)
            if request is None:
                return
            wire.connection.requests += 1
            before = self.note(request)
            wire.label = request.label
            self._answer(request, wire, before)

    def _recv(self, wire: Wire) -> bytes:
        try:
            return wire.sock.recv(65536)
        except OSError:
            return b""

    def _read(self, wire: Wire) -> Request | None:
        data, wire.pending = wire.pending, b""
        while b"\r\n\r\n" not in data:
            more = self._recv(wire)
            if not more or len(data) > HEAD_LIMIT:
                return None
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        at = time.monotonic()
        first, *lines = head.split(b"\r\n")
        method, target, _ = ([*first.decode("latin-1").split(" ", 2), "", ""])[:3]
        headers = []
        for line in lines:
            name, _, value = line.partition(b":")
            headers.append((name, value.strip(b" \t")))
        fields = {name.lower(): value for name, value in headers}
        if fields.get(b"expect", b"").lower() == b"100-continue":
            wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            body, rest = self._read_chunked(wire, rest)
        else:
            length = int(fields.get(b"content-length", b"0"))
            while len(rest) < length:
                more = self._recv(wire)
                if not more:
                    return None
                rest += more
            body, rest = rest[:length], rest[length:]
        wire.pending = rest
        message: Any = None
        label = method
        if method == "POST":
            with contextlib.suppress(ValueError):
                message = json.loads(body, parse_int=_short_int)
            if isinstance(message, dict) and isinstance(message.get("method"), str):
                label = message["method"]
            elif isinstance(message, dict) and ("result" in message or "error" in message):
                label = "response"
        return Request(
            wire.connection.index, at, method, target, tuple(headers), head + b"\r\n\r\n",
            body, message, label,
        )  # fmt: skip

    def _read_chunked(self, wire: Wire, rest: bytes) -> tuple[bytes, bytes]:
        body = b""

        def need(mark: bytes) -> None:
            nonlocal rest
            while mark not in rest:
                more = self._recv(wire)
                if not more or len(rest) > BODY_LIMIT:
                    raise Gone
                rest += more

        while True:
            need(b"\r\n")
            size_line, _, rest = rest.partition(b"\r\n")
            size = int(size_line.split(b";")[0], 16)
            while len(rest) < size + 2:
                more = self._recv(wire)
                if not more:
                    raise Gone
                rest += more
            body += rest[:size]
            rest = rest[size + 2 :]
            if size == 0:
                return body, rest

    def _answer(self, request: Request, wire: Wire, nth: int) -> None:
        handler = self.handlers.get(request.label, self.default)
        if isinstance(handler, list):
            handler = handler[min(nth, len(handler) - 1)]
        reply = handler(request, wire) if callable(handler) else handler
        if reply is not None:
            wire.send(reply)

    def default(self, request: Request, wire: Wire) -> bytes:
        """The well-behaved answer to any request."""
        if request.label == "initialize":
            return self.initialized(request)
        if request.label == "tools/list":
            return http(200, result_message(request, '{"tools":[%s]}' % ",".join(self.tools)))
        if request.label == "tools/call":
            return http(200, result_message(request, self.result))
        if request.label == "ping":
            return http(200, result_message(request, "{}"))
        if request.label == "response" or request.label.startswith("notifications/"):
            return http(202, content_type=None)
        if request.label == "DELETE":
            return http(200, content_type=None)
        if request.label == "HEAD":
            return http(405, content_type=None, headers=[("allow", "GET, POST, DELETE")])
        if request.label == "GET":
            return http(405, content_type=None, headers=[("allow", "POST, DELETE")])
        if isinstance(request.message, dict) and "id" in request.message:
            return http(200, error_message(request, -32601, "Method not found"))
        return http(400, b"{}")

    def initialized(self, request: Request, **kwargs: Any) -> bytes:
        """The answer to `initialize`, with a new session id when there are sessions."""
        version = request.message["params"]["protocolVersion"]
        result = json.dumps(
            {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
        )
        headers = list(kwargs.pop("headers", ()))
        if self.sessions:
            with self._sessions.lock:
                self._sessions.issued += 1
                headers.append(("mcp-session-id", f"session-{self._sessions.issued}"))
        return http(200, result_message(request, result), headers=headers, **kwargs)
