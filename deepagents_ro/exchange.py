"""The httpx face of the C sessions: what DCode's connections get as `httpx_client_factory`.

Each request of the SDK becomes one exchange in C (`csrc/net/session.h`) and ends in one response
that the SDK can read; a JSON-RPC request never ends in an exception here.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import itertools
import os
import re
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

from deepagents_ro import _mcpro
from deepagents_ro.route import route_to

if TYPE_CHECKING:
    from collections.abc import Generator

# Redirects that one session may follow; each stays on the endpoint's origin.
MAX_REDIRECTS = 5
STDIO_URL = "http://stdio.invalid/"
BRACED_VARIABLE = re.compile(r"\$\{([^}]+)\}")


class Exchanges:
    """Tickets of the requests under way on one `Call`, on one event loop."""

    def __init__(self, call: _mcpro.Call, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.recorded = asyncio.Event()
        """Set once the wire has settled the outcome of the one call."""
        self.challenged: set[str] = set()
        """Servers whose auth flow gave up: a login is needed."""
        self.authorizations: dict[str, str | None] = {}
        """By server, what the last request behind an auth flow carried."""
        self._loop = loop
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[httpx.Response]] = {}
        self._refreshes = 0
        self._quiet = asyncio.Event()
        loop.add_reader(call.fileno(), self._drain)

    def _drain(self) -> None:
        for ticket, status, headers, body in self.call.poll():
            waiter = self._waiting.pop(ticket, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(httpx.Response(status, headers=headers, content=body))
        if self.call.outcome() is not None:
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

    def complete(self, server: str, connection: dict[str, Any]) -> None:
        """Put one resolved connection of DCode on the C transport, in place.

        Every kind becomes a Streamable HTTP connection for the SDK; what is really spoken (a
        child's standard streams, HTTP with SSE) is the C session's business. A connection that
        cannot be opened raises when the SDK asks for its client, so that this server alone fails.
        """
        original = dict(connection)
        if original["transport"] == "stdio":
            connection.clear()
            connection.update(transport="streamable_http", url=STDIO_URL)
            start = functools.partial(self._start_child, server, original)
        else:
            connection["transport"] = "streamable_http"
            legacy = original["transport"] == "sse"
            start = functools.partial(self._open_http, server, original["url"], legacy=legacy)
        connection["httpx_client_factory"] = functools.partial(self._client, server, start)

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
            headers=headers,
            timeout=timeout,
            auth=None if auth is None else StoredTokenAuth(auth, self, server),
            transport=SessionTransport(self, start(auth is not None)),
            trust_env=False,
        )

    def _open_http(self, server: str, url: str, auth: bool, *, legacy: bool) -> _mcpro.Session:
        route = route_to(url, os.environ)
        return self.call.session(
            server, route.url, route.proxy, route.cafile, route.capath, auth, legacy
        )

    def _start_child(self, server: str, connection: dict[str, Any], _auth: bool) -> _mcpro.Session:
        environment = child_environment(connection.get("env"))
        command = connection["command"]
        path = shutil.which(command, path=environment.get("PATH", os.defpath))
        if path is None:
            raise FileNotFoundError(errno.ENOENT, "the command of a stdio server is missing")
        return self.call.stdio(
            server,
            [os.fsencode(word) for word in (path, *connection["args"])],
            [os.fsencode(f"{name}={value}") for name, value in environment.items()],
        )

    def refresh_started(self) -> None:
        self._refreshes += 1
        self._quiet.clear()

    def refresh_ended(self) -> None:
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
        environment[name] = BRACED_VARIABLE.sub(
            lambda match: os.environ.get(match.group(1), match.group(0)), value
        )
    return environment


class SessionTransport(httpx.AsyncBaseTransport):
    """One MCP session's requests, answered by C."""

    def __init__(self, exchanges: Exchanges, session: _mcpro.Session) -> None:
        self._exchanges = exchanges
        self._session = session

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._exchanges.send(self._session, request)
        response.request = request
        return response

    async def aclose(self) -> None:
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

    async def async_auth_flow(self, request: httpx.Request) -> Any:  # noqa: ANN401
        held = self._exchanges.authorizations
        if self._exchanges.call.gate != "closed":
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

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, Any, None]:
        raise RuntimeError("the sessions are asynchronous")


class SessionClient(httpx.AsyncClient):
    """An `AsyncClient` whose JSON-RPC requests never raise and never end in a bare status.

    Redirects that the SDK follows itself (same origin, same method) pass; every other one, a
    challenge that the auth flow could not settle, and whatever that flow raises, is answered here.
    """

    def __init__(self, exchanges: Exchanges, server: str, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(**kwargs)
        self._exchanges = exchanges
        self._server = server
        self._redirects = 0
        self._broken = False

    async def send(self, request: httpx.Request, **kwargs: Any) -> httpx.Response:  # noqa: ANN401
        if self._broken:
            return self._refuse(request)
        try:
            response = await super().send(request, **kwargs)
        except Exception:  # noqa: BLE001 - an auth flow may raise anything; the SDK must not see it
            if self.auth is not None:
                self._exchanges.challenged.add(self._server)
            return self._refuse(request)
        if response.status_code < 300 or request.method != "POST":
            return response
        if response.has_redirect_location and self._follows(response):
            return response
        if response.status_code in (401, 403):
            self._exchanges.challenged.add(self._server)
        return self._refuse(request)

    def _follows(self, response: httpx.Response) -> bool:
        from mcp.shared._httpx_utils import next_request_within_origin

        self._redirects += 1
        return self._redirects <= MAX_REDIRECTS and next_request_within_origin(response) is not None

    def _refuse(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request that failed above the wire."""
        try:
            identity = _mcpro.json_raw(request.content, "id", max_bytes=len(request.content))
        except _mcpro.JSONError:
            identity = None
        if identity is None:
            self._broken = True
            return httpx.Response(202, request=request)
        return httpx.Response(
            200,
            headers={"content-type": "application/json"},
            content=b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32603,"message":'
            b'"The request failed."}}' % identity,
            request=request,
        )
