"""What a server sees of the command, next to what it sees of DCode's stock client.

The stock client runs here, in the test's process: the adapter's own session over httpx, as DCode
opens one. Both talk to the same scripted server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_mcp_adapters.sessions import create_session
from servers.dcode import INPUT, Dcode
from servers.legacy import PHASES, LegacyServer

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, http

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside


async def stock(server: RawServer, entry: dict[str, Any], authority: Authority) -> list[Request]:
    """A discovery and a call by the stock client; the requests that they made."""
    connection = {**entry, "transport": "sse" if entry.get("type") == "sse" else "streamable_http"}
    connection.pop("type", None)
    seen = len(server.requests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority.ca_file))
        async with create_session(connection) as session:  # type: ignore[arg-type]
            await session.initialize()
            await session.list_tools()
        async with create_session(connection) as session:  # type: ignore[arg-type]
            await session.initialize()
            await session.call_tool("look", json.loads(INPUT))
    return server.requests[seen:]


def ours(server: RawServer, entry: dict[str, Any], dcode: Dcode) -> list[Request]:
    """The same by the command, without DCode's preflight."""
    seen = len(server.requests)
    dcode.serve(raw={"type": "http", **entry})
    dcode.run("raw_look").expect_ok("raw_look")
    if any(request.header("mcp-session-id") for request in server.requests[seen:]):
        assert server.wait_for("DELETE", server.count("initialize"))  # the last may be on its way
    return [request for request in server.requests[seen:] if request.label != "HEAD"]


def heads(requests: list[Request]) -> dict[str, list[list[bytes]]]:
    """Each kind's heads: the request line, then the header lines in order."""
    found: dict[str, list[list[bytes]]] = {}
    for request in requests:
        lines = request.head.rstrip(b"\r\n").split(b"\r\n")
        found.setdefault(request.label, []).append(lines)
    return found


def without(lines: list[bytes], *names: bytes) -> list[bytes]:
    """Header lines but those of some names."""
    return [line for line in lines if line.split(b":")[0].lower() not in names]


ENTRIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "headers": {
        "headers": {
            "Authorization": "Bearer openshell:resolve:env:TOKEN",
            "X-Zeta": "z",
            "x-alpha": "a  b",
            "X-MIXED-case": "v\tw",
        }
    },
    "own identity": {
        "headers": {"User-Agent": "own/1.0", "Accept-Encoding": "gzip", "Accept-Language": "de"}
    },
    "overridden": {"headers": {"Accept": "text/plain", "Content-Type": "text/plain"}},
    "framing": {"headers": {"Connection": "close"}},
    "cookie": {"headers": {"Cookie": "a=1; b=2"}},
}


@pytest.mark.parametrize("sessions", [False, True], ids=["no session", "sessions"])
@pytest.mark.parametrize("name", ENTRIES)
async def test_heads(
    dcode: Dcode, raw: Make, authority: Authority, name: str, sessions: bool
) -> None:
    """Byte for byte, in order, but for the session's number and who keeps the connection."""
    server = raw(sessions=sessions)
    entry = {"url": server.url, **ENTRIES[name]}
    theirs = heads(await stock(server, entry, authority))
    mine = heads(ours(server, entry, dcode))
    volatile = (b"mcp-session-id", b"content-length")
    for phase in PHASES:
        # the list that the SDK wants after a call is not asked for again
        assert len(mine[phase]) == (1 if phase == "tools/list" else len(theirs[phase])), phase
        for got, wanted in zip(mine[phase], theirs[phase], strict=False):
            assert without(got, *volatile) == without(wanted, *volatile), phase
            assert {line.split(b":")[0] for line in got} == {
                line.split(b":")[0] for line in wanted
            }, phase
    if sessions:
        assert len(mine["DELETE"]) == len(theirs["DELETE"]) == 2
        for got, wanted in zip(mine["DELETE"], theirs["DELETE"], strict=True):
            assert set(without(got, *volatile)) == set(without(wanted, *volatile))


@pytest.mark.parametrize("target", ["/mcp", "/mcp?api_key=k%20v&x", "/a%2Fb/", "/\u20ac b"])
async def test_targets(dcode: Dcode, raw: Make, authority: Authority, target: str) -> None:
    server = raw()
    entry = {"url": server.origin + target}
    theirs = await stock(server, entry, authority)
    mine = ours(server, entry, dcode)
    assert {request.target for request in mine} == {request.target for request in theirs}
    assert len({request.target for request in mine}) == 1


async def test_user_info(dcode: Dcode, raw: Make, authority: Authority) -> None:
    server = raw()
    entry = {"url": server.url.replace("://", "://us%20er:pass%3Aword@")}
    theirs = heads(await stock(server, entry, authority))
    mine = heads(ours(server, entry, dcode))
    for phase in PHASES:
        wanted = without(theirs[phase][0], b"content-length")
        assert any(line.startswith(b"Authorization: Basic ") for line in wanted)
        assert without(mine[phase][0], b"content-length") == wanted


async def test_bodies(dcode: Dcode, raw: Make, authority: Authority) -> None:
    """The same JSON, but for the numbers and the progress that one of them may ask for."""

    def shown(request: Request) -> Any:
        message = dict(request.message)
        message.pop("id", None)
        params = dict(message.get("params") or {})
        params.pop("_meta", None)
        message["params"] = params
        return request.label, message

    server = raw()
    theirs = dict(map(shown, await posts(server, authority)))
    mine = ours(server, {"url": server.url}, dcode)
    for request in mine:
        if request.method == "POST":
            label, message = shown(request)
            assert message == theirs[label]


async def posts(server: RawServer, authority: Authority) -> list[Request]:
    requests = await stock(server, {"url": server.url}, authority)
    return [request for request in requests if request.method == "POST"]


async def test_legacy_heads(dcode: Dcode, raw: Make, authority: Authority) -> None:
    server = raw()
    legacy = LegacyServer(server)
    entry = {**legacy.entry, "headers": {"X-Own": "v", "Authorization": "Bearer static-token"}}
    theirs = heads(await stock(server, entry, authority))
    mine = heads(ours(server, entry, dcode))
    for phase in ("GET", *PHASES):
        for got, wanted in zip(mine[phase], theirs[phase], strict=False):
            assert got[0] == wanted[0]
            assert spelled(got[1:]) == spelled(wanted[1:]), phase


def spelled(lines: list[bytes]) -> set[tuple[bytes, bytes]]:
    """Header lines whatever the case of their names, but for the length."""
    pairs = (line.partition(b":") for line in without(lines, b"content-length"))
    return {(name.lower(), value.strip()) for name, _, value in pairs}


# Servers that refuse what is odd.


def lone(request: Request, name: str) -> bytes | None:
    """The value of a header that must come once."""
    values = [value for key, value in request.headers if key.lower() == name.encode()]
    return values[0] if len(values) == 1 else None


STRICT: dict[str, tuple[int, Callable[[Request], bool]]] = {
    "content type": (415, lambda r: lone(r, "content-type") == b"application/json"),
    "accept": (406, lambda r: lone(r, "accept") == b"application/json, text/event-stream"),
    "length": (411, lambda r: lone(r, "content-length") == str(len(r.body)).encode()),
    "no framing tricks": (
        400,
        lambda r: not {b"transfer-encoding", b"expect", b"te", b"upgrade", b"http2-settings"}
        & {key.lower() for key, _ in r.headers},
    ),
    "no header twice": (
        400,
        lambda r: len({key.lower() for key, _ in r.headers}) == len(r.headers),
    ),
    "host first": (400, lambda r: r.headers[0][0].lower() == b"host"),
    "no empty value": (400, lambda r: all(value for _, value in r.headers)),
    "no odd bytes": (400, lambda r: all(0x20 <= byte < 0x7F for _, v in r.headers for byte in v)),
    "small head": (431, lambda r: len(r.head) < 1024),
    "compact body": (400, lambda r: r.body == json_bytes(r.message)),
    "version": (
        400,
        lambda r: r.label == "initialize"
        or lone(r, "mcp-protocol-version") in (b"2025-11-25", b"2025-06-18"),
    ),
    "session": (
        404,
        lambda r: (lone(r, "mcp-session-id") is None) == (r.label == "initialize"),
    ),
    "protocol": (505, lambda r: r.head.split(b"\r\n")[0] == b"POST /mcp HTTP/1.1"),
    "origin": (403, lambda r: lone(r, "origin") is None and lone(r, "referer") is None),
    "params of a call": (
        400,
        lambda r: r.label != "tools/call" or set(r.message["params"]) <= {"name", "arguments",
                                                                         "_meta"},
    ),
}  # fmt: skip


def json_bytes(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("rule", STRICT)
async def test_strict_servers(dcode: Dcode, raw: Make, authority: Authority, rule: str) -> None:
    """Each rule is one that the stock client keeps."""
    status, kept = STRICT[rule]
    server = raw(sessions=True)

    def strict(request: Request, wire: Wire) -> bytes:
        if request.method == "POST" and not kept(request):
            return http(status, b"{}", headers=[("connection", "close")])
        return server.default(request, wire)

    server.handlers.update(dict.fromkeys(PHASES, strict))
    await stock(server, {"url": server.url}, authority)
    ours(server, {"url": server.url}, dcode)
