"""The httpx face of the C sessions: what DCode's connections get as `httpx_client_factory`.

Each request of the SDK becomes one exchange in C (`csrc/mcp/session.h`) and ends in one response
that the SDK can read; a JSON-RPC request never ends in an exception here.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import itertools
import os
import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import httpx

from deepagents_ro import _mcpro, references
from deepagents_ro.route import route_to

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from httpx._client import UseClientDefault
    from httpx._types import AuthTypes
    from langchain_mcp_adapters.sessions import (
        Connection,
        StdioConnection,
        StreamableHttpConnection,
    )

STDIO_URL = "http://stdio.invalid/"


class Exchanges:
    """Tickets of the requests under way on one `Worker`, on one event loop."""

    def __init__(self, worker: _mcpro.Worker, loop: asyncio.AbstractEventLoop) -> None:
        self.worker = worker
        self.recorded = asyncio.Event()
        """Set once the wire has settled the outcome of the one call."""
        self.challenged: set[str] = set()
        """Servers whose auth flow gave up: a login is needed."""
        self.asked: dict[str, float] = {}
        """By server with a request under way, the monotonic second when it was sent."""
        self.unstarted: dict[str, int] = {}
        """By stdio server whose command could not be started, the error's number."""
        self.off_origin: dict[str, bool] = {}
        """Servers with a redirect that was not followed: whether it left the origin."""
        self.moved: set[str] = set()
        """Servers that redirect what follows the handshake, as they would the call."""
        self.authorizations: dict[str, str | None] = {}
        """By server, what the last request behind an auth flow carried."""
        self._loop = loop
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[httpx.Response]] = {}
        self._refreshes = 0
        self._quiet = asyncio.Event()
        loop.add_reader(worker.fileno(), self._drain)

    def _drain(self) -> None:
        for ticket, status, headers, body in self.worker.poll():
            waiter = self._waiting.pop(ticket, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(httpx.Response(status, headers=headers, content=body))
        if self.worker.outcome() is not None:
            self.recorded.set()

    async def send(self, session: _mcpro.Session, request: httpx.Request) -> httpx.Response:
        """Hand one request to C and wait for its one reply."""
        body = await request.aread()
        ticket = next(self._tickets)
        waiter: asyncio.Future[httpx.Response] = self._loop.create_future()
        self._waiting[ticket] = waiter
        url = str(request.url.copy_with(userinfo=b"", fragment=None))
        try:
            session.submit(ticket, request.method, url, request.headers.raw, body or None)
            return await waiter
        finally:
            self._waiting.pop(ticket, None)

    def complete(self, server: str, connection: Connection) -> Connection:
        """One resolved connection of DCode, put on the C transport.

        Every kind becomes a Streamable HTTP connection for the SDK; what is really spoken (a
        child's standard streams, HTTP with SSE) is the C session's business. A connection that
        cannot be opened raises when the SDK asks for its client, so that this server alone fails.
        """
        start: Callable[[bool], _mcpro.Session]
        completed: StreamableHttpConnection
        if connection["transport"] == "stdio":
            start = functools.partial(self._start_child, server, connection)
            completed = {"transport": "streamable_http", "url": STDIO_URL}
        else:
            legacy = connection["transport"] == "sse"
            start = functools.partial(self._open_http, server, connection["url"], legacy=legacy)
            # The two kinds have the same members.
            completed = cast("StreamableHttpConnection", dict(connection))
            completed["transport"] = "streamable_http"
        completed["httpx_client_factory"] = functools.partial(self._client, server, start)
        return completed

    def _client(
        self,
        server: str,
        start: Callable[[bool], _mcpro.Session],
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        """What an adapter calls for each session: a client over one C session."""
        return SessionClient(
            self,
            server,
            SessionTransport(self, start(auth is not None)),
            headers=headers,
            timeout=timeout,
            auth=None if auth is None else StoredTokenAuth(auth, self, server),
        )

    def _open_http(self, server: str, url: str, auth: bool, *, legacy: bool) -> _mcpro.Session:
        route = route_to(url, os.environ)
        return self.worker.session(
            server, route.url, route.proxy, route.cafile, route.capath, auth, legacy
        )

    def _start_child(self, server: str, connection: StdioConnection, _auth: bool) -> _mcpro.Session:
        environment = child_environment(connection.get("env"))
        command = connection["command"]
        path = shutil.which(command, path=environment.get("PATH", os.defpath))
        try:
            if path is None:
                raise FileNotFoundError(errno.ENOENT, "the command of a stdio server is missing")
            return self.worker.stdio(
                server,
                [os.fsencode(word) for word in (path, *connection["args"])],
                [os.fsencode(f"{name}={value}") for name, value in environment.items()],
            )
        except OSError as error:
            self.unstarted[server] = error.errno or 0
            raise

    def refresh_started(self) -> None:
        """Count a request to a token endpoint."""
        self._refreshes += 1
        self._quiet.clear()

    def refresh_ended(self) -> None:
        """Its tokens are stored, or it failed."""
        self._refreshes -= 1
        if self._refreshes == 0:
            self._quiet.set()

    async def settle_auth(self) -> None:
        """Wait until no token refresh is under way (the guard's end does not wait)."""
        if self._refreshes:
            await self._quiet.wait()


def child_environment(configured: dict[str, str] | None) -> dict[str, str]:
    """A child's environment as the adapter and the SDK would make it.

    The SDK's subset of this process's environment, and over it the configured values, in which
    the adapter expands `${VAR}` once more and leaves what is not set as it stands.
    """
    from mcp.client.stdio import get_default_environment

    environment = dict(get_default_environment())
    for name, value in (configured or {}).items():
        environment[name] = references.adapted(value, os.environ)
    return environment


class SessionTransport(httpx.AsyncBaseTransport):
    """One MCP session's requests, answered by C."""

    def __init__(self, exchanges: Exchanges, session: _mcpro.Session) -> None:
        self._exchanges = exchanges
        self._session = session

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request by the session's C side; never raises for what the wire says."""
        response = await self._exchanges.send(self._session, request)
        response.request = request
        return response

    async def aclose(self) -> None:
        """End the session."""
        self._session.end()


class StoredTokenAuth(httpx.Auth):
    """DCode's own provider, held to what one call may do with it.

    The first answer to the session's own request is final: what the provider would do about a
    challenge (look around on other hosts, register, ask for a login) needs a user. A request to
    the token endpoint is counted until its tokens are stored. Once the gate is open nothing is
    renewed, and requests carry what the last one before carried: DCode renews a token 30 s before
    its end, so one that was good then outlives the deadline.
    """

    requires_response_body = True

    def __init__(self, auth: httpx.Auth, exchanges: Exchanges, server: str) -> None:
        self._auth = auth
        self._exchanges = exchanges
        self._server = server

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """The provider's flow up to the request itself; see the class."""
        held = self._exchanges.authorizations
        if self._exchanges.worker.gate != "closed":
            authorization = held.get(self._server)
            if authorization is not None:
                request.headers["authorization"] = authorization
            yield request
            return
        flow = self._auth.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while outgoing is not request:
                grant = outgoing.method == "POST"
                if grant:
                    self._exchanges.refresh_started()
                try:
                    response = yield outgoing
                    await response.aread()
                    outgoing = await flow.asend(response)
                finally:
                    if grant:
                        self._exchanges.refresh_ended()
        finally:
            await flow.aclose()
        held[self._server] = request.headers.get("authorization")
        yield request

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Never used."""
        raise RuntimeError("the sessions are asynchronous")


def origin_of(url: httpx.URL) -> tuple[str, str, int | None]:
    """Scheme, host and port."""
    return url.scheme, url.host, url.port


class SessionClient(httpx.AsyncClient):
    """An `AsyncClient` whose JSON-RPC requests never raise and never end in a bare status.

    Redirects that the SDK follows itself (same origin, same method) pass; every other one, a
    challenge that the auth flow could not settle, and whatever that flow raises, is answered here.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        server: str,
        transport: httpx.AsyncBaseTransport,
        *,
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> None:
        super().__init__(
            transport=transport, headers=headers, timeout=timeout, auth=auth, trust_env=False
        )
        self._exchanges = exchanges
        self._server = server
        self._redirects = 0
        self._answered = False
        self._broken = False

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: AuthTypes | UseClientDefault | None = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: bool | UseClientDefault = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send a request of the SDK; what cannot be answered is answered with a JSON-RPC error."""
        if self._broken:
            return self._refuse(request)
        try:
            self._exchanges.asked[self._server] = time.monotonic()
            response = await super().send(
                request, stream=stream, auth=auth, follow_redirects=follow_redirects
            )
        except Exception:  # noqa: BLE001 - an auth flow may raise anything; the SDK must not see it
            if self.auth is not None:
                self._exchanges.challenged.add(self._server)
            return self._refuse(request)
        finally:
            self._exchanges.asked.pop(self._server, None)
        if response.status_code < 300 or request.method != "POST":
            self._answered = self._answered or request.method == "POST"
            return response
        if response.has_redirect_location and self._follows(response):
            return response
        if response.status_code in (401, 403):
            self._exchanges.challenged.add(self._server)
        return self._refuse(request)

    def _follows(self, response: httpx.Response) -> bool:
        try:
            from mcp.shared._httpx_utils import next_request_within_origin
        except ImportError:
            self._exchanges.off_origin.setdefault(self._server, False)
            return False  # an older SDK leaves redirects to the client, and this one follows none
        self._redirects += 1
        if (
            self._redirects <= _mcpro.MAX_REDIRECTS
            and next_request_within_origin(response) is not None
        ):
            if self._answered:
                self._exchanges.moved.add(self._server)
            return True
        following = response.next_request
        leaves = following is not None and origin_of(following.url) != origin_of(
            response.request.url
        )
        self._exchanges.off_origin.setdefault(self._server, leaves)
        return False

    def _refuse(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request that failed above the wire."""
        answer = _mcpro.rpc_failure(request.content)
        if answer is None:
            self._broken = True
            return httpx.Response(202, request=request)
        return httpx.Response(
            200,
            headers={"content-type": "application/json"},
            content=answer,
            request=request,
        )
