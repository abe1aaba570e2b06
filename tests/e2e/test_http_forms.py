"""The many ways in which HTTP/1.1 says the same thing, and what it must not say."""

from __future__ import annotations

import gzip
import importlib.util
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import (
    READ_ONLY_TOOL,
    RawServer,
    Request,
    Wire,
    event,
    http,
    result_message,
)

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside
PHASES = ("initialize", "notifications/initialized", "tools/list", "tools/call")
REQUESTS = ("initialize", "tools/list", "tools/call")


def payload(server: RawServer, request: Request, wire: Wire) -> bytes:
    """The body of the well-behaved answer."""
    return server.default(request, wire).partition(b"\r\n\r\n")[2]


def everywhere(
    server: RawServer, shape: Callable[[bytes], bytes | list[bytes]], phases: Any = REQUESTS
) -> RawServer:
    """Answers to all of `phases` in the form that `shape` makes of their bodies."""

    def handler(request: Request, wire: Wire) -> None:
        made = shape(payload(server, request, wire))
        for part in [made] if isinstance(made, bytes) else made:
            wire.send(part)

    server.handlers.update(dict.fromkeys(phases, handler))
    return server


def chunked(*lines: bytes) -> bytes:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return head + b"".join(lines)


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


FRAMINGS: dict[str, Callable[[bytes], bytes | list[bytes]]] = {
    "chunk extensions": lambda body: chunked(
        b"%x;a=1;b\r\n%s\r\n" % (len(body), body), b'0;last="yes"\r\n\r\n'
    ),
    "trailers": lambda body: chunked(
        b"%X\r\n%s\r\n" % (len(body), body),
        b"0\r\nx-trailer: 1\r\ncontent-type: text/html\r\nmcp-session-id: late\r\n\r\n",
    ),
    "small chunks": lambda body: chunked(
        *(b"%x\r\n%s\r\n" % (len(part), part) for part in pieces(body, 7)), b"0\r\n\r\n"
    ),
    "leading zeros": lambda body: chunked(b"0000%x\r\n%s\r\n" % (len(body), body), b"000\r\n\r\n"),
    "early hints": lambda body: [
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-type: text/html\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\ncontent-length: 5\r\n\r\n",
        http(200, body),
    ],
    "no reason": lambda body: http(200, body, reason="").replace(b"200 \r", b"200\r"),
    "odd reason": lambda body: http(200, body, reason="500 Not \u00e9 OK"),
    "header case": lambda body: http(200, body).replace(b"content-length", b"CONTENT-Length"),
    "white space": lambda body: http(200, body).replace(b"length: ", b"length:\t  "),
    "no space": lambda body: http(200).replace(b"h: 0", b"h:%d" % len(body)) + body,
    "same length twice": lambda body: http(200, body, headers=[("content-length", str(len(body)))]),
    "unknown headers": lambda body: http(
        200, body, headers=[("x-" + "y" * 200, "z" * 4000), ("alt-svc", 'h3=":443"')]
    ),
    "http/1.0": lambda body: http(200, body).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "status 201": lambda body: http(201, body),
    "space around": lambda body: http(200, b" \r\n\t" + body + b"\n\n"),
    "byte by byte": lambda body: [bytes([byte]) for byte in http(200, body)],
}


@pytest.mark.parametrize("name", FRAMINGS)
def test_framings(dcode: Dcode, raw: Make, name: str) -> None:
    server = everywhere(raw(), FRAMINGS[name])
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/call") == 1
    assert all(request.header("mcp-session-id") is None for request in server.requests)


# Content codings.


def deflate(body: bytes) -> bytes:
    return zlib.compress(body)


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "odd case": ("GZip", gzip.compress),
    "deflate": ("deflate", deflate),
    "identity": ("identity", bytes),
}


@pytest.mark.parametrize("form", ["length", "chunked", "stream"])
@pytest.mark.parametrize("name", CODINGS)
def test_codings(dcode: Dcode, raw: Make, name: str, form: str) -> None:
    coding, encode = CODINGS[name]

    def shape(body: bytes) -> bytes:
        headers = [("content-encoding", coding)]
        if form == "stream":
            return http(200, encode(event(body)), content_type="text/event-stream", headers=headers)
        if form == "length":
            return http(200, encode(body), headers=headers)
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in pieces(encode(body), 9))
        headers.append(("transfer-encoding", "chunked"))
        return http(200, headers=headers, length=None) + chunks + b"0\r\n\r\n"

    server = everywhere(raw(), shape)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    offered = server.of("tools/call")[0].header("accept-encoding")
    assert offered is not None
    assert {b"gzip", b"deflate"} <= {word.strip() for word in offered.split(b",")}


@pytest.mark.parametrize("name", ["br", "zstd"])
def test_only_what_is_offered_is_taken(dcode: Dcode, raw: Make, name: str) -> None:
    """httpx offers these two when the packages for them are there, and so does the command."""
    server = raw()
    body = b"\x8b\x05\x80{}\x03"  # no matter what: it is refused before
    server.handlers["tools/call"] = http(200, body, headers=[("content-encoding", name)])
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    offered = server.of("tools/call")[0].header("accept-encoding") or b""
    there = any(
        importlib.util.find_spec(module)
        for module in {"br": ("brotli", "brotlicffi"), "zstd": ("zstandard",)}[name]
    )
    assert (name.encode() in offered) == there
    run.expect("runtime_failure").prompt_after(server.sent_at["tools/call"])


@pytest.mark.parametrize(
    "coding", ["compress", "x-unknown", "gzip, gzip", "gzip, identity2", "aes128gcm", "gzip;q=1"]
)
@pytest.mark.parametrize("phase", ["tools/list", "tools/call"])
def test_unknown_codings(dcode: Dcode, raw: Make, phase: str, coding: str) -> None:
    server = everywhere(
        raw(),
        lambda body: http(200, gzip.compress(body), headers=[("content-encoding", coding)]),
        [phase],
    )
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect("runtime_failure" if phase == "tools/call" else "tool_not_found")
    run.prompt_after(server.sent_at[phase])
    # what ran ahead and was no success is asked for once more; the call never is
    assert server.count(phase) <= (1 if phase == "tools/call" else 3)


def test_a_coding_is_undone_once(dcode: Dcode, raw: Make) -> None:
    """What is inside is data, whatever it looks like."""
    server = everywhere(
        raw(),
        lambda body: http(
            200, gzip.compress(gzip.compress(body)), headers=[("content-encoding", "gzip")]
        ),
        ["tools/call"],
    )
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("malformed_result")


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "not gzip": lambda body: body,
    "cut": lambda body: gzip.compress(body)[:-12],
    "bad checksum": lambda body: gzip.compress(body)[:-8] + b"\0\0\0\0\1\2\3\4",
    "empty": lambda body: b"",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_codings(dcode: Dcode, raw: Make, name: str) -> None:
    server = everywhere(
        raw(),
        lambda body: http(200, BROKEN[name](body), headers=[("content-encoding", "gzip")]),
        ["tools/call"],
    )
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("runtime_failure", "malformed_result")
    run.prompt_after(server.sent_at["tools/call"])


@pytest.mark.thorough
@pytest.mark.parametrize("phase", REQUESTS)
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
def test_bombs(dcode: Dcode, raw: Make, phase: str, stream: bool) -> None:
    """256 MiB in 260 KiB: refused at the bound, in the memory of a small call."""
    piece = b": " + b" " * 1022 if stream else b" " * 1024
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(piece * 1024) for _ in range(256)) + packer.flush()
    server = raw()
    server.handlers[phase] = http(
        200,
        bomb,
        content_type="text/event-stream" if stream else "application/json",
        headers=[("content-encoding", "gzip")],
    )
    dcode.serve(raw=server)
    run = dcode.run("raw_look", measure=True)
    run.expect("result_too_large" if phase == "tools/call" else "tool_not_found")
    run.prompt_after(server.sent_at[phase])
    assert run.peak is not None
    assert run.peak < 200 * 1024


# Content types.


@pytest.mark.parametrize(
    "lines",
    [
        [b"content-type: application/json; charset=utf-8"],
        [b"Content-Type: APPLICATION/Json"],
        [b"content-type:application/json"],
        [b'content-type: application/json; profile="a;b"'],
        [b"content-type: application/json, application/json"],
        [b"content-type: application/json", b"content-type: application/json"],
    ],
)
def test_types_of_json(dcode: Dcode, raw: Make, lines: list[bytes]) -> None:
    server = everywhere(raw(), lambda body: http(200, body, content_type=None, headers=lines))
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize(
    "lines",
    [
        [b"content-type: text/event-stream;charset=utf-8"],
        [b"content-type: TEXT/Event-Stream"],
        [b"content-type: text/event-stream", b"content-type: text/event-stream"],
    ],
)
def test_types_of_streams(dcode: Dcode, raw: Make, lines: list[bytes]) -> None:
    server = everywhere(
        raw(), lambda body: http(200, event(body), content_type=None, headers=lines)
    )
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize("kind", ["text/html", "application/problem+json", "json", "", None])
@pytest.mark.parametrize("phase", ["initialize", "tools/list"])
def test_other_types_in_discovery(dcode: Dcode, raw: Make, phase: str, kind: str | None) -> None:
    server = everywhere(raw(), lambda body: http(200, body, content_type=kind), [phase])
    dcode.serve(raw=server)
    run = dcode.run("raw_look").expect("tool_not_found")
    run.prompt_after(server.sent_at[phase])


# Notifications.


@pytest.mark.parametrize(
    "reply",
    [
        http(200, content_type=None),
        http(200, b"{}"),
        http(200, b"<html>fine</html>", content_type="text/html"),
        http(202, content_type=None),
        http(202, b"Accepted", content_type="text/plain"),
        http(204, content_type=None, length=None),
        http(200, b": nothing\n\n", content_type="text/event-stream"),
        http(202, content_type=None, headers=[("connection", "close")]),
    ],
    ids=["200", "200 json", "200 html", "202", "202 text", "204", "200 stream", "202 close"],
)
def test_answers_to_notifications(dcode: Dcode, raw: Make, reply: bytes) -> None:
    server = raw(handlers={"notifications/initialized": reply}, sessions=True)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/call") == 1


def test_an_open_stream_in_answer_to_a_notification(dcode: Dcode, raw: Make) -> None:
    def opened(request: Request, wire: Wire) -> None:
        wire.chunked_head()
        wire.stall(20)

    server = raw(handlers={"notifications/initialized": opened})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize("phase", ["initialize", "tools/list"])
@pytest.mark.parametrize("status", [202, 204])
def test_no_answer_to_a_request(dcode: Dcode, raw: Make, phase: str, status: int) -> None:
    length = None if status == 204 else True
    server = raw(handlers={phase: http(status, content_type=None, length=length)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").prompt_after(server.sent_at[phase])


# Connections.


def closing(server: RawServer, how: str) -> Callable[[Request, Wire], None]:
    """Answers, and ends the connection afterwards in one of several ways."""

    def handler(request: Request, wire: Wire) -> None:
        reply = server.default(request, wire)
        if how == "said":
            wire.send(reply.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n", 1))
            wire.finish()
            return
        if how == "1.0":
            wire.send(reply.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            wire.finish()
            return
        wire.send(reply)
        if how == "half":
            # nothing more comes from this side, which goes on reading
            if server.context is None:
                wire.sock.shutdown(socket.SHUT_WR)
            wire.sleep(0.05)
        elif how == "unsaid":
            wire.finish()

    return handler


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("how", ["said", "1.0", "kept"])
def test_ways_to_keep_or_close(dcode: Dcode, raw: Make, how: str, tls: bool) -> None:
    server = raw(tls=tls)
    server.handlers.update(dict.fromkeys(PHASES, closing(server, how)))
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    for phase in REQUESTS[1:]:
        assert server.count(phase) == 1
    # one a session, or one for both when nothing runs ahead; else one a request
    assert len(server.mcp_connections()) in ((1, 2) if how == "kept" else (6,))


@pytest.mark.parametrize("how", ["half", "unsaid"])
def test_ways_to_close_unsaid(dcode: Dcode, raw: Make, how: str) -> None:
    """A request that meets a dying connection is not sent again: no second call, ever."""
    server = raw(tls=False)
    server.handlers.update(dict.fromkeys(PHASES, closing(server, how)))
    dcode.serve(raw=server)
    run = dcode.run("raw_look").clean()
    if run.exit_code == 0:
        run.expect_ok("raw_look")
    else:
        run.expect("runtime_failure", "tool_not_found").before_the_deadline()
    assert server.count("tools/call") <= 1


def test_an_answer_before_the_request_is_read(dcode: Dcode, raw: Make) -> None:
    """A refusal may come while the body is still on its way."""
    server = raw()

    def hasty(request: Request, wire: Wire) -> bytes:
        return http(413, b"{}", headers=[("connection", "close")])

    server.handlers["tools/call"] = hasty
    dcode.serve(raw=server)
    stdin = json.dumps({"x": "a" * 131_000}).encode()
    run = dcode.run("raw_look", stdin=stdin).expect("runtime_failure")
    run.prompt_after(server.sent_at["tools/call"])


def test_nothing_waits_for_permission(dcode: Dcode, raw: Make) -> None:
    """A large body goes at once, without Expect."""
    server = raw()
    dcode.serve(raw=server)
    stdin = json.dumps({"x": "a" * 131_000}).encode()
    dcode.run("raw_look", stdin=stdin).expect_ok("raw_look")
    for request in server.requests:
        assert request.header("expect") is None
        assert request.header("transfer-encoding") is None


# Hosts, ports and paths.


@pytest.mark.needs("ipv6")
def test_ipv6(dcode: Dcode, raw: Make) -> None:
    server = raw(tls=False, host="::1")
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.of("tools/call")[0].header("host") == f"[::1]:{server.port}".encode()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.needs("ipv6 localhost"))]
)
def test_localhost_with_one_family(dcode: Dcode, raw: Make, host: str) -> None:
    """The name has two addresses; whichever answers is used."""
    server = raw(tls=False, host=host)
    dcode.serve(raw=f"http://localhost:{server.port}/mcp")
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.of("tools/call")[0].header("host") == f"localhost:{server.port}".encode()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", "/"),
        ("/", "/"),
        ("/a/b/", "/a/b/"),
        ("/mcp?", "/mcp?"),
        ("/mcp?a=1&a=2&b", "/mcp?a=1&a=2&b"),
        ("?a=1", "/?a=1"),
        ("/a%2Fb/%20/%e2%82%ac?q=%26%3D%2B+", "/a%2Fb/%20/%e2%82%ac?q=%26%3D%2B+"),
        ("/\u20ac?q=\u20ac", "/%E2%82%AC?q=%E2%82%AC"),
        ("/a b", "/a%20b"),
        ("/~x/;p=1/@:!$'()*,", "/~x/;p=1/@:!$'()*,"),
        ("//double//slash", "//double//slash"),
        ("/mcp?u=https://other.invalid/x?y#no", "/mcp?u=https://other.invalid/x?y"),
    ],
)
def test_paths(dcode: Dcode, raw: Make, path: str, target: str) -> None:
    server = raw()
    dcode.serve(raw=server.origin + path)
    dcode.run("raw_look").expect_ok("raw_look")
    assert {request.target for phase in PHASES for request in server.of(phase)} == {target}


@pytest.mark.parametrize("path", ["/a/../b", "/a/./b", "/a/%2e%2e/b"])
def test_dots_in_a_path(dcode: Dcode, raw: Make, path: str) -> None:
    """Whatever httpx makes of dots: all requests say the same, and it is its own wish."""
    import httpx

    server = raw()
    dcode.serve(raw=server.origin + path)
    dcode.run("raw_look").expect_ok("raw_look")
    expected = httpx.URL(server.origin + path).raw_path.decode()
    assert {request.target for phase in PHASES for request in server.of(phase)} == {expected}


# Request headers.


@pytest.mark.parametrize("value", ["a\r\nx-injected: 1", "a\nb", "a\rb", "a\0b", "\na", "a\r\n"])
@pytest.mark.parametrize("kind", ["http", "sse"])
def test_values_that_would_break_a_header(dcode: Dcode, raw: Make, value: str, kind: str) -> None:
    """Refused before any connection of the command's own (DCode's preflight sends no header)."""
    server = raw()
    dcode.serve(raw={"type": kind, "url": server.url, "headers": {"x-value": value}})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert set(server.labels()) <= {"HEAD"}


@pytest.mark.parametrize("name", ["x\r\ny", "x y", "x:y", "", "x\0", "\u00e9"])
def test_names_that_are_none(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw()
    dcode.serve(raw={"url": server.url, "headers": {name: "value"}})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert set(server.labels()) <= {"HEAD"}


# Cookies.


def test_cookies_live_as_long_as_a_session(dcode: Dcode, raw: Make) -> None:
    """As httpx keeps them: from answer to request, never from one session to the next."""
    server = raw(sessions=True)
    numbers = iter(range(1, 10))

    def baked(request: Request, wire: Wire) -> bytes:
        cookies = [
            ("set-cookie", f"route=r{next(numbers)}; Path=/; Secure; HttpOnly"),
            ("set-cookie", "elsewhere=x; Domain=other.invalid"),
            ("set-cookie", "deep=x; Path=/not/here"),
        ]
        return server.initialized(request, headers=cookies)

    server.handlers["initialize"] = baked
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert [request.header("cookie") for request in server.of("initialize")] == [None, None]
    later = [request for request in server.requests if request.header("mcp-session-id")]
    cookies = {(each.header("mcp-session-id"), each.header("cookie")) for each in later}
    assert len(cookies) == 2
    assert {cookie for _session, cookie in cookies} == {b"route=r1", b"route=r2"}
    assert len(later) == 6  # initialized, the list or the call, DELETE


def test_a_configured_cookie(dcode: Dcode, raw: Make) -> None:
    server = raw()
    server.handlers["initialize"] = lambda request, wire: server.initialized(
        request, headers=[("set-cookie", "route=r1; Path=/")]
    )
    dcode.serve(raw={"url": server.url, "headers": {"Cookie": "own=configured-cookie"}})
    dcode.run("raw_look").expect_ok("raw_look")
    for phase in PHASES:
        for request in server.of(phase):
            assert b"own=configured-cookie" in (request.header("cookie") or b""), phase


# Time.


def test_slow_but_steady(dcode: Dcode, raw: Make) -> None:
    """An answer that comes in small pieces over two seconds is an answer."""
    server = raw()

    def steady(request: Request, wire: Wire) -> None:
        reply = http(200, result_message(request, '{"content":[]}'))
        started = time.monotonic()
        for index, part in enumerate(pieces(reply, max(1, len(reply) // 20))):
            wire.sleep(max(0.0, started + index * 0.1 - time.monotonic()))
            wire.send(part)

    server.handlers["tools/call"] = steady
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize(
    "answer",
    [http(401), http(404), http(200, b"<html></html>", content_type="text/html")],
    ids=["401", "404", "HTML"],
)
def test_what_a_server_says_to_head_does_not_matter(dcode: Dcode, raw: Make, answer: bytes) -> None:
    """DCode's preflight asks with HEAD, which MCP does not know."""
    server = raw(handlers={"HEAD": answer})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/call") == 1


def test_a_failure_with_structured_content_of_another_shape(dcode: Dcode, raw: Make) -> None:
    """The output schema binds a success alone."""
    schema = '"outputSchema":{"type":"object","required":["n"]}'
    server = raw(
        tools=[READ_ONLY_TOOL.replace('"name"', f'{schema},"name"', 1)],
        result='{"content":[],"isError":true,"structuredContent":{"reason":"none"}}',
    )
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_failed")
