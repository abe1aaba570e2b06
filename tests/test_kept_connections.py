"""Kept connections that their server has closed, as `CurlTransport` uses them, over TLS.

`tests/c/test_kept.c` has the same over plain TCP, for every way of sending.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import uvicorn
from closing_server import ClosingServer, Connection

from deepagents_ro import CurlTransport
from deepagents_ro.qualify.lab.authority import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client(authority: Authority, **options: object) -> httpx.AsyncClient:
    transport = CurlTransport(cafile=authority.ca_file, trust_env=False, **options)
    return httpx.AsyncClient(transport=transport, timeout=5.0)


@pytest.fixture(params=VERSIONS)
def context(authority: Authority, request: pytest.FixtureRequest) -> ssl.SSLContext:
    version = VERSIONS[request.param]
    return authority.server_context(minimum=version, maximum=version)


def answer_once_then(end: Callable[[Connection], None]) -> Callable[[Connection], None]:
    """The first connection ends behind its answer, later ones stay."""

    def handle(connection: Connection) -> None:
        while True:
            connection.request()
            connection.send(OK)
            if connection.number == 0:
                end(connection)
                return

    return handle


IDLE_ENDS: dict[str, Callable[[Connection], None]] = {
    "close_notify and FIN": lambda connection: connection.end(),
    "FIN": lambda connection: connection.end(notify=False),
    "RST": lambda connection: connection.end(notify=False, reset=True),
    "close_notify and RST": lambda connection: connection.end(reset=True),
}


@pytest.mark.parametrize("end", IDLE_ENDS)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_closed_connection_is_not_used(
    authority: Authority, context: ssl.SSLContext, method: str, end: str
) -> None:
    with ClosingServer(answer_once_then(IDLE_ENDS[end]), context) as server:
        async with client(authority) as ours:
            for sent in range(3):
                assert (await ours.request(method, server.url())).text == "ok"
                assert sent > 0 or server.await_ends(1)
        assert len(server.requests) == 3
        assert server.accepted == 2


async def test_a_goodbye_alone_is_enough(authority: Authority, context: ssl.SSLContext) -> None:
    """close_notify without FIN: libcurl 7.88 takes the bytes for life."""
    said = threading.Event()

    def goodbye(connection: Connection) -> None:
        connection.say_goodbye()
        said.set()
        connection.wait()

    with ClosingServer(answer_once_then(goodbye), context) as server:
        async with client(authority) as ours:
            assert (await ours.post(server.url())).text == "ok"
            assert said.wait(5)
            assert (await ours.post(server.url())).text == "ok"
        assert len(server.requests) == server.accepted == 2


async def test_through_a_tunnel(authority: Authority, context: ssl.SSLContext) -> None:
    handler = answer_once_then(lambda connection: connection.end())
    with ClosingServer(handler, context, is_proxy=True) as server:
        async with client(authority, proxy=f"http://127.0.0.1:{server.port}") as ours:
            for sent in range(3):
                assert (await ours.post("https://localhost:9/mcp", content=b"x")).text == "ok"
                assert sent > 0 or server.await_ends(1)
        assert len(server.requests) == 3
        assert server.accepted == 2


async def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within ten seconds."""
    for _ in range(500):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False


async def hello(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_behind_a_real_server_with_a_short_keep_alive(authority: Authority) -> None:
    config = uvicorn.Config(
        hello,
        port=0,
        timeout_keep_alive=1,
        lifespan="off",
        log_level="critical",
        ssl_certfile=authority.cert_file,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    assert await eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    state = server.server_state
    async with client(authority) as ours:
        for _ in range(2):
            assert (await ours.post(f"https://localhost:{port}/", content=b"x")).text == "ok"
            # close_notify is out; asyncio sends FIN when the client has answered it
            assert await eventually(
                lambda: all(each.transport.is_closing() for each in state.connections)
            )
    server.should_exit = True
    await serving
    assert state.total_requests == 2


# Of the second request's answer, before the connection ends; how; whether nothing of it came.
UNDER_REQUEST: dict[str, tuple[bytes, bool, bool, bool]] = {
    "close_notify and FIN": (b"", True, False, True),
    "FIN": (b"", False, False, True),
    "RST": (b"", False, True, True),
    "one byte, close_notify and FIN": (b"H", True, False, False),
    "one byte and FIN": (b"H", False, False, False),
    "one byte and RST": (b"H", False, True, False),
    "a head": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", True, False, False),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", True, False, False),
}


def die_under_second(partial: bytes, notify: bool, reset: bool) -> Callable[[Connection], None]:
    def handle(connection: Connection) -> None:
        while True:
            connection.request()
            if connection.number == 0 and connection.asked == 2:
                if partial:
                    connection.send(partial)
                connection.end(notify=notify, reset=reset)
                return
            connection.send(OK)

    return handle


@pytest.mark.parametrize("death", UNDER_REQUEST)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_connection_that_dies_under_a_request(
    authority: Authority, context: ssl.SSLContext, method: str, death: str
) -> None:
    partial, notify, reset, nothing_came = UNDER_REQUEST[death]
    again = nothing_came and method == "GET"
    with ClosingServer(die_under_second(partial, notify, reset), context) as server:
        async with client(authority) as ours:
            assert (await ours.request(method, server.url())).text == "ok"
            if again:
                assert (await ours.request(method, server.url())).text == "ok"
            else:
                with pytest.raises(httpx.RemoteProtocolError):
                    await ours.request(method, server.url())
            assert len(server.requests) == (3 if again else 2)
            assert (await ours.request(method, server.url())).text == "ok"
        assert len(server.requests) == (4 if again else 3)
        assert server.accepted == 2
