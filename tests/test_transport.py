"""`CurlTransport` under `httpx.AsyncClient`, on real sockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import gzip
import os
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from wire_server import OK, Handler, Wire, WireServer, answering, closing

from deepagents_ro import CurlTransport
from deepagents_ro.qualify.lab.authority import Authority

SECRET = "s3cret-value"


def client(**options: Any) -> httpx.AsyncClient:
    options.setdefault("trust_env", False)
    timeout = options.pop("timeout", 5.0)
    return httpx.AsyncClient(transport=CurlTransport(**options), timeout=timeout)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def holdings() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threads()


async def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within five seconds."""
    for _ in range(250):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False


def rehash(directory: Path, *roots: Path) -> None:
    """What `SSL_CERT_DIR` can name."""
    directory.mkdir()
    for root in roots:
        (directory / root.name).write_bytes(root.read_bytes())
    subprocess.run(["openssl", "rehash", str(directory)], check=True)


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


# ---- what goes out ----


REQUESTS: list[dict[str, Any]] = [
    {"method": "GET", "url": "/a/../b%20c?d=e&f=%2F#fragment"},
    {"method": "GET", "url": "?only=query"},
    {"method": "POST", "url": "/", "json": {"a": [1, "ü"]}},
    {"method": "POST", "url": "/"},
    {"method": "POST", "url": "/", "content": b""},
    {"method": "PUT", "url": "/", "content": b"\x00\xff" * 40_000},
    {"method": "DELETE", "url": "/x", "headers": {"Mcp-Session-Id": "1-2"}},
    {"method": "OPTIONS", "url": "/"},
    {"method": "PROPFIND", "url": "/", "content": b"<x/>"},
    {"method": "GET", "url": "/", "headers": [("X-A", "1"), ("x-a", "2"), ("Accept", "t/x;q=0.5")]},
    {"method": "GET", "url": "/", "headers": {"Cookie": "a=b", "Authorization": "Bearer  x  y"}},
    {"method": "GET", "url": "/", "headers": {"Host": "other.test:1", "Expect": ""}},
    {"method": "GET", "url": "/", "headers": [(b"X-Raw", b"\xe4;\ta")]},
    {"method": "POST", "url": "/", "data": {"a": "b c"}},
    {"method": "GET", "url": "/", "auth": ("user", "pass word")},
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda value: value["method"] + value["url"])
async def test_requests_are_those_of_stock_httpx(request_: dict[str, Any]) -> None:
    arguments = dict(request_)
    async with WireServer(answering(OK)) as server:
        arguments["url"] = server.url("") + arguments["url"]
        async with httpx.AsyncClient(trust_env=False) as stock, client() as ours:
            await stock.request(**arguments)
            await ours.request(**arguments)
    theirs, mine = server.requests
    # An empty value is written without the space.
    assert mine == theirs.replace(b"Expect: \r\n", b"Expect:\r\n")


async def test_head_request() -> None:
    async with (
        WireServer(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")) as server,
        client() as ours,
    ):
        response = await ours.head(server.url())
        assert response.headers["content-length"] == "99"
        assert response.content == b""
        await ours.head(server.url())
    assert len(server.wires) == 1


async def test_streamed_request_body_has_a_length() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"abc"
        yield b"def"

    async with WireServer(answering(OK)) as server, client() as ours:
        await ours.post(server.url(), content=parts())
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        assert body == b"abcdef"
        assert b"Content-Length: 6" in head
        assert b"transfer-encoding" not in head.lower()


async def test_request_body_bound() -> None:
    async with WireServer(answering(OK)) as server, client(max_request_body=5) as ours:
        await ours.post(server.url(), content=b"12345")
        with pytest.raises(httpx.LocalProtocolError, match="exceeds its limit"):
            await ours.post(server.url(), content=b"123456")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"X", b"a\r\nY: " + SECRET.encode()),
        (b"X", b"a\n" + SECRET.encode()),
        (b"X", b"\0" + SECRET.encode()),
        (b"X Y", SECRET.encode()),
        (b"X", SECRET.encode() * 2000),
    ],
)
async def test_impossible_headers_reach_no_server(name: bytes, value: bytes) -> None:
    async with WireServer(answering(OK)) as server, client() as ours:
        with pytest.raises(httpx.LocalProtocolError) as caught:
            await ours.get(server.url(), headers=[(name, value)])
        assert SECRET not in str(caught.value)
    assert not server.wires


@pytest.mark.parametrize("url", ["ftp://localhost/", "file:///etc/passwd", "ws://localhost/"])
async def test_other_schemes(url: str) -> None:
    async with client() as ours:
        with pytest.raises(httpx.UnsupportedProtocol):
            await ours.get(url)


@pytest.mark.parametrize("name", ["sni_hostname", "target"])
async def test_extensions_that_would_change_the_destination(name: str) -> None:
    async with WireServer(answering(OK)) as server, client() as ours:
        with pytest.raises(httpx.LocalProtocolError, match=name):
            await ours.get(server.url(), extensions={name: b"/x"})
    assert not server.wires


async def test_ipv6_and_localhost() -> None:
    async with WireServer(answering(OK), host="::1") as server, client() as ours:
        assert (await ours.get(server.url())).text == "ok"
        # localhost has both families; only one listens
        assert (await ours.get(server.url(host="localhost"))).text == "ok"


# ---- what comes in ----


async def test_response_head() -> None:
    head = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: early\r\n\r\n"
        b"HTTP/1.0 418 I'm a teapot\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Raw: \xe4 b \r\n\r\n"
        b"body"
    )
    async with WireServer(closing(head)) as server, client() as ours:
        response = await ours.get(server.url())
    assert response.status_code == 418
    assert response.http_version == "HTTP/1.0"
    assert response.reason_phrase == "I'm a teapot"
    assert response.headers.raw == [
        (b"Set-Cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"X-Raw", b"\xe4 b"),
    ]
    assert response.text == "body"


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "identity": bytes,
    "unknown": bytes,
}


@pytest.mark.parametrize("coding", CODINGS)
async def test_content_is_decoded_once(coding: str) -> None:
    plain = b"text " * 10_000
    coded = CODINGS[coding](plain)
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        coding.encode(),
        len(coded),
        coded,
    )
    async with WireServer(answering(answer)) as server, client() as ours:
        assert (await ours.get(server.url())).content == plain
        async with ours.stream("GET", server.url()) as response:
            assert b"".join([part async for part in response.aiter_raw()]) == coded
    assert len(server.wires) == 1


async def test_broken_coding() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"
    async with WireServer(answering(answer)) as server, client() as ours:
        with pytest.raises(httpx.DecodingError):
            await ours.get(server.url())


async def test_chunks_are_passed_on_as_they_come() -> None:
    go_on = asyncio.Event()

    async def handle(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (b"one", b"two"):
            await wire.send(chunked(part))
            await go_on.wait()
            go_on.clear()
        await wire.send(b"0\r\nTrailer: x\r\n\r\n")

    async with WireServer(handle) as server, client() as ours:
        async with ours.stream("GET", server.url()) as response:
            seen = []
            async for part in response.aiter_raw():
                seen.append(part)
                go_on.set()
        assert seen == [b"one", b"two"]
        assert "trailer" not in response.headers


async def test_back_pressure() -> None:
    sent = 0

    async def handle(wire: Wire) -> None:
        nonlocal sent
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while not wire.writer.is_closing():
            await wire.send(b"x" * 65536)
            sent += 65536
            await asyncio.sleep(0)

    async with (
        WireServer(handle) as server,
        client() as ours,
        ours.stream("GET", server.url()) as response,
    ):
        parts = response.aiter_raw()
        assert len(await anext(parts)) <= 65536
        before = -1
        while before < sent < 64 << 20:  # until the kernel's buffers are full, ours hold 64 KiB
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 64 << 20
        received = 0
        while received < before + 1_000_000:
            received += len(await anext(parts))


async def test_redirects_are_the_clients_business() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n"
    async with WireServer(answering(moved, OK)) as server, client() as ours:
        assert (await ours.get(server.url("/x"))).status_code == 302
        assert (await ours.get(server.url("/x"), follow_redirects=True)).text == "ok"


# ---- connections ----


async def test_connections_are_kept_and_given_up(authority: Authority) -> None:
    tls = authority.server_context()
    async with WireServer(answering(OK), tls) as server:
        async with client(cafile=authority.ca_file) as ours:
            for _ in range(5):
                assert (await ours.get(server.url())).text == "ok"
            assert len(server.wires) == 1
            await ours.get(server.url(), headers={"Connection": "close"})
        await asyncio.wait_for(server.wires[0].ended.wait(), 5)


async def test_many_requests_share_one_thread(authority: Authority) -> None:
    gate = asyncio.Event()
    running = 0
    most = 0

    async def handle(wire: Wire) -> None:
        nonlocal running, most
        while await wire.request():
            running += 1
            most = max(most, running)
            await gate.wait()
            running -= 1
            await wire.send(OK)

    before = threads()
    async with (
        WireServer(handle, authority.server_context()) as server,
        client(cafile=authority.ca_file, timeout=30.0) as ours,
    ):
        pending = [asyncio.ensure_future(ours.get(server.url())) for _ in range(100)]
        assert await eventually(lambda: running == 100)
        assert await eventually(lambda: threads() == before + 1)  # resolvers end
        gate.set()
        assert [response.text for response in await asyncio.gather(*pending)] == ["ok"] * 100
    assert most == 100
    assert threads() == before


async def test_pool_timeout() -> None:
    async def handle(wire: Wire) -> None:
        await wire.request()
        await wire.gone()

    limits = httpx.Limits(max_connections=2)
    timeout = httpx.Timeout(5, pool=0.1)
    async with WireServer(handle) as server, client(limits=limits, timeout=timeout) as ours:
        pending = [asyncio.ensure_future(ours.get(server.url())) for _ in range(2)]
        assert await eventually(lambda: len(server.requests) == 2)
        with pytest.raises(httpx.PoolTimeout):
            await ours.get(server.url())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        with pytest.raises(httpx.ReadTimeout):  # a place was given back
            await ours.get(server.url(), timeout=httpx.Timeout(5, read=0.05))


# ---- failures ----


FAILURES: list[tuple[bytes, type[Exception]]] = [
    (b"", httpx.RemoteProtocolError),
    (b"SSH-2.0-x\r\n", httpx.RemoteProtocolError),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", httpx.RemoteProtocolError),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        httpx.RemoteProtocolError,
    ),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nq\r\n", httpx.RemoteProtocolError),
    (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", httpx.RemoteProtocolError),
    (b"HTTP/1.1 200 OK\r\n" + b"X: aaaaaaaaaaaaaaaaaaaaaa\r\n" * 20_000, httpx.RemoteProtocolError),
]


@pytest.mark.parametrize(("answer", "kind"), FAILURES)
async def test_broken_answers(answer: bytes, kind: type[Exception]) -> None:
    async with WireServer(closing(answer)) as server, client() as ours:
        with pytest.raises(kind) as caught:
            await ours.get(server.url(), headers={"Authorization": SECRET})
        assert SECRET not in str(caught.value)
        assert str(server.port) not in str(caught.value)
        async with httpx.AsyncClient(trust_env=False) as stock:
            with pytest.raises(httpx.TransportError):
                await stock.get(server.url())


async def test_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with client() as ours:
        with pytest.raises(httpx.ConnectError):
            await ours.get(f"http://127.0.0.1:{port}/")
        with pytest.raises(httpx.ConnectError):
            await ours.get("http://name.invalid/")


@contextlib.contextmanager
def deaf_address() -> Any:
    """An address that takes part in no handshake: its backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def silent(wire: Wire) -> None:
    await wire.gone()


async def test_timeouts(authority: Authority) -> None:
    short = httpx.Timeout(5, connect=0.15, read=0.15, write=0.15)
    async with WireServer(silent) as server, client(timeout=short) as ours:
        with deaf_address() as address, pytest.raises(httpx.ConnectTimeout):
            await ours.get(f"http://{address}/")
        with pytest.raises(httpx.ConnectTimeout):  # TLS that stalls
            await ours.get(f"https://127.0.0.1:{server.port}/")
        with pytest.raises(httpx.ReadTimeout):
            await ours.get(server.url())

    async def unread(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()  # until the server's end

    async with WireServer(unread) as server, client(timeout=short) as ours:
        with pytest.raises(httpx.WriteTimeout):
            await ours.post(server.url(), content=b"x" * 16_000_000)


async def test_slow_answers_are_no_silence() -> None:
    async def handle(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(6):
            await asyncio.sleep(0.3)
            await wire.send(b"x")

    async with WireServer(handle) as server, client(timeout=1.5) as ours:
        assert (await ours.get(server.url())).text == "xxxxxx"


# ---- trust ----


async def test_only_the_given_roots_are_trusted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    async with WireServer(answering(OK), authority.server_context()) as server:
        async with client(cafile=authority.ca_file) as ours:
            assert (await ours.get(server.url())).text == "ok"
        async with client(verify=str(authority.ca_file)) as ours:
            assert (await ours.get(server.url())).text == "ok"
        for options in ({"cafile": other.ca_file}, {}, {"capath": tmp_path}):
            async with client(**options) as ours:
                with pytest.raises(httpx.ConnectError):
                    await ours.get(server.url())
        async with client(cafile=tmp_path / "missing.pem") as ours:
            with pytest.raises(httpx.ConnectError, match="trusted certificates"):
                await ours.get(server.url())
    assert len(server.requests) == 2


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
async def test_wrong_host_and_old_tls(authority: Authority) -> None:
    old = authority.server_context(minimum=ssl.TLSVersion.TLSv1_1, maximum=ssl.TLSVersion.TLSv1_1)
    cases = ((authority.other_name_context("other.test"), "certificate"), (old, "TLS"))
    for context, word in cases:
        async with (
            WireServer(answering(OK), context) as server,
            client(cafile=authority.ca_file) as ours,
        ):
            with pytest.raises(httpx.ConnectError, match=word):
                await ours.get(server.url())
        assert not server.requests


async def test_trust_from_the_environment(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rehashed = tmp_path / "roots"
    rehash(rehashed, authority.ca_file)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    async with WireServer(answering(OK), authority.server_context()) as server:
        for name, value in (("SSL_CERT_FILE", authority.ca_file), ("SSL_CERT_DIR", rehashed)):
            with monkeypatch.context() as patch:
                patch.setenv(name, str(value))
                async with client(trust_env=True) as ours:
                    assert (await ours.get(server.url())).text == "ok"
                async with client(trust_env=False) as ours:
                    with pytest.raises(httpx.ConnectError):
                        await ours.get(server.url())


def test_verification_cannot_be_switched_off() -> None:
    with pytest.raises(ValueError, match="always verified"):
        CurlTransport(verify=False)
    with pytest.raises(TypeError, match="SSLContext"):
        CurlTransport(verify=ssl.create_default_context())  # type: ignore[arg-type]


def run_python(code: str, *arguments: str, before: tuple[str, ...] = (), **environ: str) -> str:
    """Standard output of a child that has this test's modules."""
    script = textwrap.dedent(code)
    here = str(Path(__file__).parent)
    path = os.pathsep.join([here, *(entry for entry in sys.path if entry)])
    done = subprocess.run(
        [*before, sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FETCH = """
    import asyncio, os, sys, httpx
    from deepagents_ro import CurlTransport

    async def main():
        async with httpx.AsyncClient(transport=CurlTransport(cafile=sys.argv[2])) as client:
            try:
                print((await client.get(sys.argv[1])).text)
            except httpx.ConnectError:
                print("refused")
        print(os.popen("printenv SSLKEYLOGFILE").read().strip())

    asyncio.run(main())
"""


async def test_no_key_log(authority: Authority, tmp_path: Path) -> None:
    log = tmp_path / "keys.log"
    async with WireServer(answering(OK), authority.server_context()) as server:
        output = await asyncio.to_thread(
            run_python, FETCH, server.url(), str(authority.ca_file), SSLKEYLOGFILE=str(log)
        )
    assert output.split() == ["ok", str(log)]  # the variable is what it was
    assert not log.exists()


def as_system_roots(directory: Path) -> tuple[str, ...]:
    """The start of a command that sees `directory` where libcurl looks by default."""
    mount = 'mount --bind "$0" /etc/ssl/certs && exec "$@"'
    return ("unshare", "--mount", "--map-root-user", "sh", "-c", mount, str(directory))


@pytest.mark.needs("mount namespaces")
async def test_the_systems_roots_are_not_used(authority: Authority, tmp_path: Path) -> None:
    """The test's CA is the system's only one, and another one is given."""
    system = tmp_path / "etc"
    rehash(system, authority.ca_file)
    before = as_system_roots(system)
    other = Authority(tmp_path / "other")
    async with WireServer(answering(OK), authority.server_context()) as server:
        output = await asyncio.to_thread(
            run_python, FETCH, server.url(), str(other.ca_file), before=before
        )
    assert output.split() == ["refused"]
    assert not server.requests


# ---- proxies ----


class Proxy:
    """A forward and CONNECT proxy; `seen` are the heads that it was sent."""

    def __init__(self, connect: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        self.seen: list[bytes] = []
        self._connect = connect

    async def __call__(self, wire: Wire) -> None:
        request = await wire.request()
        self.seen.append(request)
        if not request.startswith(b"CONNECT "):
            await wire.send(OK)
            return
        await wire.send(self._connect)
        if b" 200 " not in self._connect:
            return
        host, _, port = request.split()[1].decode().rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        try:
            await asyncio.gather(self._pump(wire.reader, writer), self._pump(reader, wire.writer))
        finally:
            writer.close()

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.close()


def proxy_url(server: WireServer, userinfo: str = "") -> str:
    return f"http://{userinfo}127.0.0.1:{server.port}"


async def test_forward_proxy() -> None:
    proxy = Proxy()
    async with (
        WireServer(proxy) as front,
        client(proxy=proxy_url(front, "us%40er:p%3Aw@")) as ours,
    ):
        response = await ours.get("http://name.invalid:81/x?y")
        assert response.text == "ok"
    lines = proxy.seen[0].split(b"\r\n")
    assert lines[0] == b"GET http://name.invalid:81/x?y HTTP/1.1"
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"us@er:p:w") in lines
    assert not any(line.startswith(b"Proxy-Connection") for line in lines)


async def test_connect_proxy(authority: Authority) -> None:
    proxy = Proxy()
    async with (
        WireServer(answering(OK), authority.server_context()) as server,
        WireServer(proxy) as front,
    ):
        auth = httpx.Proxy(proxy_url(front), auth=("u", "p/w"))
        async with client(proxy=auth, cafile=authority.ca_file) as ours:
            headers = {"Authorization": SECRET}
            assert (await ours.get(server.url(), headers=headers)).text == "ok"
            assert (await ours.get(server.url(), headers=headers)).text == "ok"
        assert len(proxy.seen) == 1
        assert proxy.seen[0].startswith(b"CONNECT localhost:")
        assert SECRET.encode() not in proxy.seen[0]
        assert base64.b64encode(b"u:p/w") in proxy.seen[0]
        assert b"proxy-authorization" not in server.requests[0].lower()


async def test_https_proxy_is_verified(authority: Authority, tmp_path: Path) -> None:
    proxy = Proxy()
    async with WireServer(proxy, authority.server_context()) as front:
        async with client(proxy=front.url(), cafile=authority.ca_file) as ours:
            assert (await ours.get("http://name.invalid/")).text == "ok"
        async with client(proxy=front.url(), cafile=Authority(tmp_path).ca_file) as ours:
            with pytest.raises(httpx.ConnectError):
                await ours.get("http://name.invalid/")
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("status", [b"407 Auth", b"403 No", b"502 Bad"])
async def test_proxy_that_refuses(authority: Authority, status: bytes) -> None:
    proxy = Proxy(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
    async with WireServer(proxy) as front, client(proxy=proxy_url(front)) as ours:
        with pytest.raises(httpx.ProxyError):
            await ours.get("https://name.invalid/")
    assert len(proxy.seen) == 1


async def test_proxies_of_the_environment(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    proxy = Proxy()
    async with WireServer(proxy) as front, WireServer(answering(OK)) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy_url(front))
        async with client(trust_env=True) as ours, client() as blind:
            await ours.get(server.url())
            assert len(proxy.seen) == 1
            await blind.get(server.url())
            assert len(proxy.seen) == 1
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        async with client(trust_env=True) as ours:
            await ours.get(server.url())
            assert len(proxy.seen) == 1
        monkeypatch.setenv("ALL_PROXY", f"socks5://{SECRET}@h")
        async with client(trust_env=True) as ours:
            with pytest.raises(httpx.UnsupportedProtocol, match="SOCKS") as caught:
                await ours.get("https://example.invalid/")
            assert SECRET not in str(caught.value)


def test_proxies_that_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="SOCKS"):
        CurlTransport(proxy="socks5://h:1")
    with pytest.raises(ValueError, match="not supported"):
        CurlTransport(proxy=httpx.Proxy("http://h:1", headers={"X": "y"}))


# ---- cancellation ----


async def after_head(wire: Wire) -> None:
    await wire.request()
    await wire.send(b"HTTP/1.1 200 OK\r\nX: y\r\n")
    await wire.gone()


async def mid_body(wire: Wire) -> None:
    await wire.request()
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
    await wire.gone()


async def mid_chunk(wire: Wire) -> None:
    await wire.request()
    await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nabc")
    await wire.gone()


async def cancel_many(ours: httpx.AsyncClient, url: str, times: int) -> None:
    for i in range(times):
        pair = [asyncio.ensure_future(ours.post(url, content=b"x")) for _ in range(1 + i % 2)]
        await asyncio.sleep((0, 0, 0.001, 0.003, 0.01)[i % 5])
        for task in pair:
            task.cancel()
        for result in await asyncio.gather(*pair, return_exceptions=True):
            assert isinstance(result, (asyncio.CancelledError, httpx.ConnectError)), result


async def settle(before: tuple[int, int]) -> tuple[int, int]:
    await eventually(lambda: holdings() == before)
    return holdings()


@pytest.mark.sample(3)
@pytest.mark.parametrize("handler", [silent, after_head, mid_body, mid_chunk])
@pytest.mark.parametrize("tls", [False, True])
async def test_cancellation_after_connecting(
    authority: Authority, handler: Handler, tls: bool
) -> None:
    before = holdings()
    context = authority.server_context() if tls else None
    async with WireServer(handler, context) as server, client(cafile=authority.ca_file) as ours:
        await cancel_many(ours, server.url(), 100)
        transport = ours._transport
        assert isinstance(transport, CurlTransport)
        assert await eventually(lambda: transport.stats()["active"] == 0)
    assert await settle(before) == before


async def test_cancellation_before_the_connection_stands(authority: Authority) -> None:
    before = holdings()
    async with WireServer(silent) as server, client() as ours:
        with deaf_address() as address:
            await cancel_many(ours, f"http://{address}/", 100)
        await cancel_many(ours, f"https://127.0.0.1:{server.port}/", 100)  # in TLS
        await cancel_many(ours, "http://name.invalid/", 20)  # in the resolver
    assert await settle(before) == before


async def test_abandoned_answers_are_cut_off() -> None:
    async with WireServer(mid_body) as server, client() as ours:
        async with ours.stream("GET", server.url()) as response:
            assert response.status_code == 200
        response = await ours.send(ours.build_request("GET", server.url()), stream=True)
        del response
        gc.collect()
        for wire in server.wires:
            await asyncio.wait_for(wire.ended.wait(), 2)


# ---- ends ----


async def test_closed_twice_and_used_after_closing() -> None:
    async with WireServer(answering(OK)) as server:
        transport = CurlTransport(trust_env=False)
        ours = httpx.AsyncClient(transport=transport)
        await ours.get(server.url())
        await transport.aclose()
        await transport.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await transport.handle_async_request(httpx.Request("GET", server.url()))
        await ours.aclose()


async def test_closed_during_transfers() -> None:
    before = holdings()
    async with WireServer(mid_body) as server, WireServer(silent) as quiet:
        transport = CurlTransport(trust_env=False)
        ours = httpx.AsyncClient(transport=transport)
        waiting = asyncio.ensure_future(ours.get(quiet.url()))
        reading = asyncio.ensure_future(ours.get(server.url()))
        await server.arrived(requests=1)
        await quiet.arrived(connections=1)
        await transport.aclose()
        for task in (waiting, reading):
            with pytest.raises(RuntimeError, match="closed during a transfer"):
                await task
        await ours.aclose()
    del task, waiting, reading  # their tracebacks hold the transfers
    assert await settle(before) == before


async def test_two_transports_one_worker() -> None:
    before = threads()
    async with WireServer(answering(OK)) as server:
        first, second = CurlTransport(trust_env=False), CurlTransport(trust_env=False)
        assert threads() == before + 1
        await first.aclose()
        async with httpx.AsyncClient(transport=second) as ours:
            assert (await ours.get(server.url())).text == "ok"
    assert threads() == before


def test_several_loops_and_threads() -> None:
    before = holdings()
    transport = CurlTransport(trust_env=False)

    async def use() -> None:
        async with WireServer(answering(OK)) as server:
            for _ in range(10):
                response = await transport.handle_async_request(httpx.Request("GET", server.url()))
                assert await response.aread() == b"ok"

    asyncio.run(use())
    asyncio.run(use())  # the first loop is gone
    workers = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    asyncio.run(transport.aclose())
    gc.collect()
    assert holdings() == before


def test_loop_that_ends_during_a_transfer() -> None:
    before = holdings()

    async def leave(transport: CurlTransport) -> None:
        async with WireServer(silent) as server:
            task = asyncio.ensure_future(
                transport.handle_async_request(httpx.Request("GET", server.url()))
            )
            await server.arrived(connections=1)
            assert not task.done()  # asyncio.run cancels it

    transport = CurlTransport(trust_env=False)
    asyncio.run(leave(transport))
    del transport
    gc.collect()
    assert holdings() == before


async def test_forked_child(authority: Authority) -> None:
    output = await asyncio.to_thread(
        run_python,
        """
        import asyncio, os, httpx
        from deepagents_ro import CurlTransport
        from wire_server import OK, WireServer, answering

        async def ask(transport, url):
            response = await transport.handle_async_request(httpx.Request("GET", url))
            return (await response.aread()).decode()

        async def fetch(transport):
            async with WireServer(answering(OK)) as server:
                return await ask(transport, server.url())

        transport = CurlTransport(trust_env=False)
        print("parent", asyncio.run(fetch(transport)), flush=True)
        if os.fork() == 0:
            try:
                asyncio.run(fetch(transport))
            except RuntimeError as error:
                print(error, flush=True)
            print("child", asyncio.run(fetch(CurlTransport(trust_env=False))), flush=True)
            asyncio.run(transport.aclose())
            os._exit(0)
        os.wait()
        print("parent", asyncio.run(fetch(transport)))
        """,
    )
    assert output.splitlines() == [
        "parent ok",
        "the transport was made by another process",
        "child ok",
        "parent ok",
    ]


def test_exit_without_closing() -> None:
    output = run_python(
        """
        import asyncio, httpx
        from deepagents_ro import CurlTransport
        from wire_server import WireServer

        async def silent(wire):
            await wire.gone()

        async def main():
            async with WireServer(silent) as server:
                client = httpx.AsyncClient(transport=CurlTransport(trust_env=False))
                task = asyncio.ensure_future(client.get(server.url()))
                await server.arrived(connections=1)
                globals()["kept"] = client, task
                print("left")

        asyncio.run(main())
        """
    )
    assert output == "left\n"


def sockets_to(address: tuple[str, int]) -> list[int]:
    """Descriptors of this process that are connected to `address`."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as copy:
                    if copy.getpeername() == address:
                        found.append(int(name))
    return found


async def test_sockets_are_not_inherited() -> None:
    async with (
        WireServer(mid_body) as server,
        client() as ours,
        ours.stream("GET", server.url()),
    ):
        (descriptor,) = sockets_to(("127.0.0.1", server.port))
        assert not os.get_inheritable(descriptor)


# ---- HTTP/2 ----

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
REFUSED_STREAM = (7).to_bytes(4, "big")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def goaway(last_stream: int) -> bytes:
    return frame(GOAWAY, 0, 0, last_stream.to_bytes(4, "big") + bytes(4))


async def answer_stream(wire: Wire, stream: int) -> bool:
    """200 and the stream's number; True: the connection goes on."""
    await wire.send(frame(HEADERS, 4, stream, b"\x88"))
    await wire.send(frame(DATA, 1, stream, b"%d" % stream))
    return True


async def refuse_stream(wire: Wire, stream: int) -> bool:
    await wire.send(frame(RESET, 0, stream, REFUSED_STREAM))
    return True


async def speak_http2(
    wire: Wire, heads: list[bytes], answer: Callable[[Wire, int], Awaitable[bool]] = answer_stream
) -> None:
    """Hands every request to `answer`; ends the connection when that returns False."""
    await wire.reader.readexactly(24)
    await wire.send(frame(SETTINGS, 0, 0))
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            start = await wire.reader.readexactly(9)
            await wire.reader.readexactly(length := int.from_bytes(start[:3], "big"))
            kind, flags, stream = start[3], start[4], int.from_bytes(start[5:], "big")
            if kind == SETTINGS and not flags & 1:
                await wire.send(frame(SETTINGS, 1, 0))
            elif kind == HEADERS:
                heads.append(start + bytes(length))
            if kind in (DATA, HEADERS) and flags & 1 and not await answer(wire, stream):
                return


def http2_context(authority: Authority) -> ssl.SSLContext:
    context = authority.server_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def test_http2(authority: Authority) -> None:
    heads: list[bytes] = []

    async def handle(wire: Wire) -> None:
        await speak_http2(wire, heads)

    async with WireServer(handle, http2_context(authority)) as server:
        async with client(cafile=authority.ca_file, http2=True) as ours:
            response = await ours.post(server.url(), content=b"body")
            assert (response.http_version, response.text) == ("HTTP/2", "1")
            answers = await asyncio.gather(*(ours.get(server.url()) for _ in range(10)))
            assert sorted(int(answer.text) for answer in answers) == list(range(3, 23, 2))
        assert len(server.wires) == 1


async def test_http2_refused_streams_are_not_sent_again(authority: Authority) -> None:
    heads: list[bytes] = []

    async def handle(wire: Wire) -> None:
        await speak_http2(wire, heads, refuse_stream)

    async with (
        WireServer(handle, http2_context(authority)) as server,
        client(cafile=authority.ca_file, http2=True) as ours,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await ours.post(server.url(), content=b"body")
        await ours.aclose()
        await asyncio.wait_for(server.wires[0].ended.wait(), 5)  # it has read all that was sent
    assert len(heads) == len(server.wires) == 1


# Behind the first answer: frames, whether the connection ends, connections for three requests.
HTTP2_IDLE: dict[str, tuple[bytes, bool, int]] = {
    "GOAWAY and the end": (goaway(1), True, 2),
    "GOAWAY": (goaway(1), False, 2),
    "the end": (b"", True, 2),
    "PING": (frame(PING, 0, 0, bytes(8)), False, 1),
}


@pytest.mark.parametrize("idle", HTTP2_IDLE)
async def test_http2_connection_that_is_given_up(authority: Authority, idle: str) -> None:
    frames, ends, connections = HTTP2_IDLE[idle]
    heads: list[bytes] = []
    told = asyncio.Event()

    async def answer(wire: Wire, stream: int) -> bool:
        await answer_stream(wire, stream)
        if wire.number > 0 or stream > 1:
            return True
        await wire.send(frames)
        told.set()
        return not ends

    async def handle(wire: Wire) -> None:
        await speak_http2(wire, heads, answer)

    async with WireServer(handle, http2_context(authority)) as server:
        async with client(cafile=authority.ca_file, http2=True) as ours:
            for sent in range(3):
                assert (await ours.post(server.url(), content=b"body")).status_code == 200
                await asyncio.wait_for(told.wait(), 5)
                if ends and sent == 0:
                    await asyncio.wait_for(server.wires[0].ended.wait(), 5)
        assert len(heads) == 3
        assert len(server.wires) == connections


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("frames", [goaway(1), b""], ids=["GOAWAY", "nothing"])
async def test_http2_connection_that_ends_under_a_request(
    authority: Authority, method: str, frames: bytes
) -> None:
    heads: list[bytes] = []

    async def answer(wire: Wire, stream: int) -> bool:
        if wire.number > 0 or stream == 1:
            return await answer_stream(wire, stream)
        await wire.send(frames)
        return False

    async def handle(wire: Wire) -> None:
        await speak_http2(wire, heads, answer)

    async with WireServer(handle, http2_context(authority)) as server:
        async with client(cafile=authority.ca_file, http2=True) as ours:
            assert (await ours.request(method, server.url())).status_code == 200
            if method == "GET":
                assert (await ours.request(method, server.url())).status_code == 200
            else:
                with pytest.raises(httpx.TransportError):
                    await ours.request(method, server.url())
        assert len(heads) == (3 if method == "GET" else 2)


async def test_http1_is_spoken_without_the_option(authority: Authority) -> None:
    async with WireServer(answering(OK), http2_context(authority)) as server:
        async with client(cafile=authority.ca_file) as ours:
            assert (await ours.get(server.url())).http_version == "HTTP/1.1"
        async with client(cafile=authority.ca_file, http2=True) as ours:
            plain = answering(OK)
            async with WireServer(plain, authority.server_context()) as old:
                assert (await ours.get(old.url())).http_version == "HTTP/1.1"
