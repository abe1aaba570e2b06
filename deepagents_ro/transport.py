"""`CurlTransport`: an httpx transport whose connections live in C.

    async with httpx.AsyncClient(transport=CurlTransport()) as client:
        await client.get("https://example.com/")

What differs from httpx's own transport:

- A kept connection that the server has closed is not used, as in httpx. One that ends behind a
  request, before the first byte of its answer, fails it (`httpx.RemoteProtocolError`), as in httpx,
  unless the method is idempotent (`IDEMPOTENT`): then it is sent once more, on a new connection.
  Nothing else is sent twice, so a POST never is.
- Certificates are always verified; there is no `verify=False` and no `ssl.SSLContext`, and
  `SSLKEYLOGFILE` is not written.
- Request bodies are read completely before anything is sent, up to `max_request_body` bytes.
- Proxies are HTTP or HTTPS (SOCKS is refused). An HTTPS proxy is verified by the same roots.
- Response headers are limited (256 KiB), and a silent server is noticed by whole header lines.
- All transports of a process share one worker thread; it ends with the last open transport.

Exceptions are httpx's, with constant texts: they name no URL, header or host.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

import httpx

from deepagents_ro import _mcpro
from deepagents_ro.network import normal_proxy, resolve_proxy, resolve_trust

__all__ = ["CurlTransport"]

T = TypeVar("T")

MAX_REQUEST_BODY = 16 * 1024 * 1024
"""Bytes of a request body, unless the transport is made with another figure."""
CLOSE_MS = 1000
"""Milliseconds that closing the last transport waits for the worker."""
HTTP_VERSIONS = {10: b"HTTP/1.0", 11: b"HTTP/1.1", 20: b"HTTP/2"}
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods whose requests a server may get twice (RFC 9110, 9.2.2)."""
UNSUPPORTED_EXTENSIONS = ("sni_hostname", "target")

ERRORS: Mapping[str, type[httpx.HTTPError]] = {
    "bad_url": httpx.UnsupportedProtocol,
    "bad_header": httpx.LocalProtocolError,
    "bad_proxy": httpx.UnsupportedProtocol,
    "bad_trust": httpx.ConnectError,
    "resolve": httpx.ConnectError,
    "refused": httpx.ConnectError,
    "connect": httpx.ConnectError,
    "certificate": httpx.ConnectError,
    "tls": httpx.ConnectError,
    "proxy": httpx.ProxyError,
    "send": httpx.WriteError,
    "receive": httpx.RemoteProtocolError,
    "protocol": httpx.RemoteProtocolError,
    "encoding": httpx.DecodingError,
    "headers_too_large": httpx.RemoteProtocolError,
    "replay": httpx.RemoteProtocolError,
    "connect_timeout": httpx.ConnectTimeout,
    "read_timeout": httpx.ReadTimeout,
    "write_timeout": httpx.WriteTimeout,
}


class CurlTransport(httpx.AsyncBaseTransport):
    """Sends the requests of an `httpx.AsyncClient` with libcurl.

    Args:
        verify: True, or the path of a file or directory of trusted roots.
        cafile: the same, said outright; overrides `verify` and the environment.
        capath: the same for a directory made by `openssl rehash`.
        proxy: for all requests; None leaves it to the environment.
        trust_env: read `SSL_CERT_FILE`, `SSL_CERT_DIR` and the proxy variables, once, as httpx
            does.
        http2: offer HTTP/2 by ALPN. HTTP/1.1 otherwise.
        limits: `max_connections` bounds the requests under way; waiting for one obeys the pool
            timeout. The other two figures are not used: an idle connection is kept for 3 seconds.
        max_request_body: bytes; a longer body is an `httpx.LocalProtocolError`.

    One transport may serve several event loops, also in several threads. RuntimeError when it is
    used after `aclose()` or in a forked child.

    Raises:
        ValueError: `verify=False`, or a proxy that is not supported.
        TypeError: an `ssl.SSLContext`.
    """

    def __init__(
        self,
        *,
        verify: bool | str | os.PathLike[str] = True,
        cafile: str | os.PathLike[str] | None = None,
        capath: str | os.PathLike[str] | None = None,
        proxy: str | httpx.URL | httpx.Proxy | None = None,
        trust_env: bool = True,
        http2: bool = False,
        limits: httpx.Limits | None = None,
        max_request_body: int = MAX_REQUEST_BODY,
    ) -> None:
        self._environ = dict(os.environ) if trust_env else {}
        self._cafile, self._capath = _trust(verify, cafile, capath, self._environ)
        self._proxy = None if proxy is None else _proxy_text(proxy)
        self._proxies: dict[tuple[str, str, int | None], str] = {}
        self._http2 = http2
        self._max_requests = (limits or httpx.Limits(max_connections=100)).max_connections
        self._max_request_body = max_request_body
        self._lock = threading.Lock()
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopRequests] = (
            weakref.WeakKeyDictionary()
        )
        self._pid = os.getpid()
        self._closed = False
        self._shared = _SharedEngine.acquire()
        self._release = weakref.finalize(self, _SharedEngine.release, self._shared)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; the response's body is read from the network as it is consumed.

        Raises:
            httpx.TransportError: see `ERRORS`; httpx.PoolTimeout.
            RuntimeError: closed, before or meanwhile, or another process's.
        """
        for extension in UNSUPPORTED_EXTENSIONS:
            if extension in request.extensions:
                raise httpx.LocalProtocolError(f"the extension {extension!r} is not supported")
        requests = self._requests()
        body = await self._read_body(request)
        timeout = request.extensions.get("timeout", {})
        await requests.enter(timeout.get("pool"))
        try:
            transfer = requests.engine().submit(
                request.method,
                _url_text(request.url),
                [pair for pair in request.headers.raw if pair[0].lower() != b"transfer-encoding"],
                body,
                proxy=self._proxy_for(request.url),
                cafile=self._cafile,
                capath=self._capath,
                connect_ms=_milliseconds(timeout.get("connect")),
                read_ms=_milliseconds(timeout.get("read")),
                write_ms=_milliseconds(timeout.get("write")),
                http2=self._http2,
                raw=True,  # httpx.Response undoes Content-Encoding itself
                again=request.method in IDEMPOTENT,
            )
        except _mcpro.TransportError as error:
            requests.leave()
            raise _translate(error) from None
        except BaseException:
            requests.leave()
            raise
        stream = _Body(requests, transfer)
        try:
            status, version, reason, headers = await requests.wait(transfer, transfer.head)
        except BaseException:
            stream.end()
            raise
        return httpx.Response(
            status,
            headers=headers,
            stream=stream,
            extensions={"http_version": HTTP_VERSIONS[version], "reason_phrase": reason},
        )

    async def aclose(self) -> None:
        """End every transfer and release the worker. May run twice."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            all_requests = list(self._by_loop.items())
            self._by_loop.clear()
        for loop, requests in all_requests:
            if loop is asyncio.get_running_loop():
                requests.close()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(requests.close)
        self._release()

    def stats(self) -> dict[str, int]:
        """Counters of the shared worker: transfers, connections, bytes_in, active."""
        engine = self._shared.engine
        if engine is None:
            raise RuntimeError("the transport is closed")
        return engine.stats()

    def _requests(self) -> _LoopRequests:
        if os.getpid() != self._pid:
            raise RuntimeError("the transport was made by another process")
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                raise RuntimeError("the transport is closed")
            requests = self._by_loop.get(loop)
            if requests is None:
                engine = self._shared.engine
                if engine is None:  # the interpreter is exiting
                    raise RuntimeError("the transport is closed")
                requests = _LoopRequests(engine, self._max_requests)
                self._by_loop[loop] = requests
            return requests

    async def _read_body(self, request: httpx.Request) -> bytes | None:
        """None when the request has no body at all, not even an empty one."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        parts: list[bytes] = []
        size = 0
        async for part in request.stream:
            size += len(part)
            if size > self._max_request_body:
                raise httpx.LocalProtocolError("the request body exceeds its limit")
            parts.append(part)
        framed = "content-length" in request.headers or "transfer-encoding" in request.headers
        return b"".join(parts) if size or framed else None

    def _proxy_for(self, url: httpx.URL) -> str:
        if self._proxy is not None:
            return self._proxy
        place = (url.scheme, url.host, url.port)
        if place not in self._proxies:
            try:
                self._proxies[place] = resolve_proxy(url, self._environ)
            except ValueError as error:
                raise httpx.UnsupportedProtocol(str(error)) from None
        return self._proxies[place]


class _SharedEngine:
    """The process's one engine while a transport is open."""

    current: _SharedEngine | None = None
    lock = threading.Lock()

    def __init__(self) -> None:
        self.engine: _mcpro.Engine | None = _mcpro.Engine()
        self.users = 0

    @classmethod
    def acquire(cls) -> _SharedEngine:
        with cls.lock:
            if cls.current is None:
                cls.current = cls()
            cls.current.users += 1
            return cls.current

    def release(self) -> None:
        with type(self).lock:
            self.users -= 1
            if self.users > 0:
                return
        self.end()

    def end(self) -> None:
        with type(self).lock:
            engine, self.engine = self.engine, None
            if type(self).current is self:
                type(self).current = None
        if engine is not None:
            engine.close(CLOSE_MS)

    @classmethod
    def at_exit(cls) -> None:
        """OpenSSL's own clean-up at exit must find the worker ended."""
        if cls.current is not None:
            cls.current.end()

    @classmethod
    def after_fork(cls) -> None:
        cls.lock = threading.Lock()
        cls.current = None


atexit.register(_SharedEngine.at_exit)
os.register_at_fork(after_in_child=_SharedEngine.after_fork)


class _LoopRequests:
    """One transport's requests on one event loop. Used on that loop's thread only."""

    def __init__(self, base: _mcpro.Engine, max_requests: int | None) -> None:
        self._engine: _mcpro.Engine | None = _mcpro.Engine(base)
        self._slots = None if max_requests is None else asyncio.Semaphore(max_requests)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._bodies: weakref.WeakSet[_Body] = weakref.WeakSet()
        # Nothing here refers to the loop: it is the weak key that this object is found by.
        asyncio.get_running_loop().add_reader(
            self._engine.fileno(), _drain, self._engine, self._waiting
        )

    async def enter(self, timeout: float | None) -> None:
        """Take one of the slots for requests under way; `leave` gives it back."""
        if self._slots is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("no connection was free in time") from None

    def leave(self) -> None:
        if self._slots is not None:
            self._slots.release()

    def engine(self) -> _mcpro.Engine:
        """What starts a transfer; RuntimeError when the transport is closed."""
        if self._engine is None:
            raise RuntimeError("the transport is closed")
        return self._engine

    def track(self, body: _Body) -> None:
        """Weakly: an answer that nobody holds any more is cut off."""
        self._bodies.add(body)

    async def wait(self, transfer: _mcpro.Transfer, step: Callable[[], T | None]) -> T:
        """What `step` returns as soon as that is not None."""
        while True:
            if self._engine is None:
                raise RuntimeError("the transport was closed during a transfer")
            try:
                result = step()
            except _mcpro.TransportError as error:
                raise _translate(error) from None
            if result is not None:
                return result
            future = asyncio.get_running_loop().create_future()
            self._waiting[transfer.id] = future
            try:
                await future
            finally:
                self._waiting.pop(transfer.id, None)

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is None:
            return
        asyncio.get_running_loop().remove_reader(engine.fileno())
        for body in self._bodies:
            body.cut()
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)
        engine.close()


def _drain(engine: _mcpro.Engine, waiting: dict[int, asyncio.Future[None]]) -> None:
    for transfer_id in engine.poll():
        future = waiting.get(transfer_id)
        if future is not None and not future.done():
            future.set_result(None)


class _Body(httpx.AsyncByteStream):
    """One response's bytes, content-coded as they came."""

    def __init__(self, requests: _LoopRequests, transfer: _mcpro.Transfer) -> None:
        self._requests = requests
        self._transfer = transfer
        self._open = True
        requests.track(self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._requests.wait(self._transfer, self._transfer.read):
                yield chunk
        finally:
            self.end()

    async def aclose(self) -> None:
        self.end()

    def end(self) -> None:
        """Give the slot back; an answer that was not read to its end is cut off."""
        if self._open:
            self._open = False
            self.cut()
            self._requests.leave()

    def cut(self) -> None:
        self._transfer.cancel()


def _translate(error: _mcpro.TransportError) -> Exception:
    kind = ERRORS.get(error.code)
    return RuntimeError(str(error)) if kind is None else kind(str(error))


def _milliseconds(seconds: float | None) -> int:
    """For C, where 0 is no limit."""
    return 0 if seconds is None else max(1, math.ceil(seconds * 1000))


def _url_text(url: httpx.URL) -> str:
    """Without user info, which httpx has made a header of, and without fragment."""
    origin = f"{url.raw_scheme.decode('ascii')}://{url.netloc.decode('ascii')}"
    return origin + url.raw_path.decode("ascii")


def _proxy_text(proxy: str | httpx.URL | httpx.Proxy) -> str:
    if not isinstance(proxy, httpx.Proxy):
        return normal_proxy(proxy)
    if proxy.headers or proxy.ssl_context is not None:
        raise ValueError("headers and ssl_context of a proxy are not supported")
    if proxy.raw_auth is None:
        return normal_proxy(proxy.url)
    user, password = (quote(part, safe="") for part in proxy.raw_auth)
    return normal_proxy(proxy.url.copy_with(userinfo=f"{user}:{password}".encode("ascii")))


def _trust(
    verify: bool | str | os.PathLike[str],
    cafile: str | os.PathLike[str] | None,
    capath: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> tuple[str, str]:
    if cafile is not None or capath is not None:
        return os.fspath(cafile or ""), os.fspath(capath or "")
    if verify is True:
        return resolve_trust(environ)
    if verify is False:
        raise ValueError("certificates are always verified")
    if not isinstance(verify, (str, os.PathLike)):
        raise TypeError("verify must be True or a path; an SSLContext cannot be used")
    path = os.fspath(verify)
    return ("", path) if os.path.isdir(path) else (path, "")
