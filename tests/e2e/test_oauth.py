"""Tokens that DCode has stored: used, refreshed, rotated, and never asked for."""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from servers.dcode import Dcode
from servers.legacy import PHASES, LegacyServer

from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, answer, http

Make = Callable[..., RawServer]
ACCESS = "access-token-of-the-first-kind"
REFRESH = "refresh-token-of-the-first-kind"
NEW_ACCESS = "access-token-that-came-later"
NEW_REFRESH = "refresh-token-that-came-later"
HOUR = 3600.0


def token_file(dcode: Dcode, url: str, name: str = "raw") -> Path:
    """Where DCode keeps the tokens of a server."""
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return dcode.home / ".deepagents" / ".state" / "mcp-tokens" / f"{name}-{digest}.json"


def metadata(server: RawServer) -> dict[str, Any]:
    """What an authorization server says of itself."""
    return {
        "issuer": server.origin,
        "authorization_endpoint": server.origin + "/authorize",
        "token_endpoint": server.origin + "/token",
        "registration_endpoint": server.origin + "/register",
        "response_types_supported": ["code"],
    }


def store(
    dcode: Dcode,
    server: RawServer,
    *,
    lifetime: float | None = HOUR,
    issuer: RawServer | None = None,
    refresh: bool = True,
) -> Path:
    """Stores tokens for `server`; `issuer` is the authorization server whose metadata is known."""
    tokens = {"access_token": ACCESS, "token_type": "Bearer"}
    if refresh:
        tokens["refresh_token"] = REFRESH
    document: dict[str, Any] = {
        "version": 1,
        "tokens": tokens,
        "client_info": {
            "client_id": "client-1",
            "redirect_uris": ["http://localhost:50000/callback"],
            "token_endpoint_auth_method": "none",
        },
    }
    if lifetime is not None:
        document["expires_at"] = time.time() + lifetime
    if issuer is not None:
        document["oauth_metadata"] = metadata(issuer)
    path = token_file(dcode, server.url)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    return path


def stored(path: Path) -> dict[str, Any]:
    tokens: dict[str, Any] = json.loads(path.read_text())["tokens"]
    return tokens


def grant(request: Request, wire: Wire) -> bytes:
    """The token endpoint's answer to a refresh."""
    return http(200, json.dumps({
        "access_token": NEW_ACCESS, "refresh_token": NEW_REFRESH, "token_type": "Bearer",
        "expires_in": 3600,
    }).encode())  # fmt: skip


def bearer(request: Request) -> bytes | None:
    return request.header("authorization")


def refreshes(server: RawServer) -> list[Request]:
    return [request for request in server.requests if request.target == "/token"]


# Tokens that are good.


@pytest.mark.parametrize("auth", [True, False], ids=["asked for", "found"])
@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_valid_token_is_used(dcode: Dcode, raw: Make, auth: bool, kind: str) -> None:
    server = raw(result=json.dumps({"content": [{"type": "text", "text": f"{ACCESS} {REFRESH}"}]}))
    if kind == "sse":
        LegacyServer(server)
    path = store(dcode, server, issuer=server)
    before = path.read_bytes()
    dcode.serve(raw={"type": kind, "url": server.url} | ({"auth": "oauth"} if auth else {}))
    data = dcode.run("raw_look").expect_ok("raw_look")
    text = data["content"][0]["text"]
    assert text == "<redacted-secret> <redacted-secret>"
    for phase in PHASES:
        for request in server.of(phase):
            assert bearer(request) == b"Bearer " + ACCESS.encode(), phase
    assert not refreshes(server)
    assert path.read_bytes() == before


@pytest.mark.parametrize("lifetime", [-HOUR, 5.0, None], ids=["expired", "margin", "unknown"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same server", "issuer"])
def test_an_expired_token_is_refreshed_once(
    dcode: Dcode, raw: Make, lifetime: float | None, elsewhere: bool
) -> None:
    told = f"{ACCESS} {REFRESH} {NEW_ACCESS} {NEW_REFRESH}"
    server = raw(result=json.dumps({"content": [{"type": "text", "text": told}]}))
    issuer = raw() if elsewhere else server
    issuer.handlers["POST"] = grant
    path = store(dcode, server, lifetime=lifetime, issuer=issuer)
    headers = {"x-api-key": "configured-secret", "user-agent": "configured/1", "cookie": "a=b"}
    dcode.serve(raw={"url": server.url, "auth": "oauth", "headers": headers})
    data = dcode.run("raw_look").expect_ok("raw_look")
    for phase in PHASES:
        for request in server.of(phase):
            assert bearer(request) == b"Bearer " + NEW_ACCESS.encode(), phase
            assert request.header("x-api-key") == b"configured-secret"
    assert stored(path)["access_token"] == NEW_ACCESS
    assert stored(path)["refresh_token"] == NEW_REFRESH
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["expires_at"] > time.time() + HOUR - 60
    (refresh,) = refreshes(issuer)
    form = parse_qs(refresh.body.decode())
    assert form["grant_type"] == ["refresh_token"]
    assert form["refresh_token"] == [REFRESH]
    assert form["client_id"] == ["client-1"]
    for name in ("authorization", "x-api-key", "cookie"):
        assert refresh.header(name) is None, name
    assert refresh.header("user-agent") != b"configured/1"
    assert b"configured-secret" not in refresh.head
    text = data["content"][0]["text"]
    assert NEW_ACCESS not in text
    assert NEW_REFRESH not in text


def test_metadata_is_found_by_dcodes_own_rules(dcode: Dcode, raw: Make) -> None:
    """A token file without metadata: the server names its issuer, the issuer its endpoint."""
    issuer = raw()
    server = raw()

    def resource(request: Request, wire: Wire) -> bytes:
        if not request.target.startswith("/.well-known/oauth-protected-resource"):
            return http(404, content_type=None)
        named = {"resource": server.url, "authorization_servers": [issuer.origin]}
        return http(200, json.dumps(named).encode())

    def itself(request: Request, wire: Wire) -> bytes:
        assert request.target.startswith("/.well-known/")
        return http(200, json.dumps(metadata(issuer)).encode())

    server.handlers["GET"] = resource
    issuer.handlers.update(GET=itself, POST=grant)
    path = store(dcode, server, lifetime=-HOUR)
    headers = {"x-api-key": "configured-secret"}
    dcode.serve(raw={"url": server.url, "auth": "oauth", "headers": headers})
    dcode.run("raw_look").expect_ok("raw_look")
    assert len(refreshes(issuer)) == 1
    assert stored(path)["access_token"] == NEW_ACCESS
    assert all(b"configured-secret" not in request.head for request in issuer.requests)
    assert all(b"configured-secret" not in request.head for request in server.of("GET"))


def test_a_static_authorization_wins(dcode: Dcode, raw: Make) -> None:
    server = raw()
    path = store(dcode, server, lifetime=-HOUR, issuer=server)
    before = path.read_bytes()
    dcode.serve(raw={"url": server.url, "headers": {"authorization": "Bearer static-token"}})
    dcode.run("raw_look").expect_ok("raw_look")
    for phase in PHASES:
        for request in server.of(phase):
            assert bearer(request) == b"Bearer static-token"
    assert not refreshes(server)
    assert path.read_bytes() == before


# The deadline and a refresh under way.


def test_a_rotated_token_is_stored_though_time_is_up(dcode: Dcode, raw: Make) -> None:
    started: list[float] = []

    def late(request: Request, wire: Wire) -> bytes:
        wire.sleep(started[0] + 5.0 - time.monotonic())
        return grant(request, wire)

    server = raw(handlers={"POST": late})
    path = store(dcode, server, lifetime=-HOUR, issuer=server)
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    running = dcode.start("raw_look", deadline_ms=4000)
    started.append(running.started_at)
    running.finish().expect("timeout").ended_between(4.9, 6.9)
    assert stored(path)["refresh_token"] == NEW_REFRESH
    assert stored(path)["access_token"] == NEW_ACCESS
    assert server.count("tools/call") == 0


def test_the_last_stop_waits_for_no_refresh(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"POST": lambda request, wire: wire.stall(20)})
    path = store(dcode, server, lifetime=-HOUR, issuer=server)
    before = path.read_bytes()
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    dcode.run("raw_look", deadline_ms=4000).expect("timeout").ended_between(6.9, 7 + 2.0)
    assert len(refreshes(server)) == 1
    assert path.read_bytes() == before


def test_time_is_up_while_metadata_is_looked_for(dcode: Dcode, raw: Make) -> None:
    """Nothing is lost before the token endpoint is asked, so nothing is waited for."""
    server = raw(handlers={"GET": lambda request, wire: wire.stall(20)})
    store(dcode, server, lifetime=-HOUR)
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    dcode.run("raw_look", deadline_ms=4000).expect("timeout").ended_between(3.9, 4 + 2.9)
    assert server.count("GET") == 1


def test_another_process_that_refreshes_for_ever(dcode: Dcode, raw: Make) -> None:
    server = raw()
    path = store(dcode, server, lifetime=-HOUR, issuer=server)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        dcode.serve(raw={"url": server.url, "auth": "oauth"})
        dcode.run("raw_look", deadline_ms=3000).expect("timeout").ended_between(2.9, 6.5)
    assert not refreshes(server)


# No token, or none that is taken.


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_no_token_where_one_is_asked_for(dcode: Dcode, raw: Make, kind: str) -> None:
    server = raw()
    dcode.serve(raw={"type": kind, "url": server.url, "auth": "oauth"})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert set(server.labels()) <= {"HEAD"}


@pytest.mark.parametrize("broken", ["{", '{"version":2}', '{"version":1,"tokens":{"a":1}}'])
def test_a_broken_token_file(dcode: Dcode, raw: Make, broken: str) -> None:
    server = raw()
    path = store(dcode, server)
    path.write_text(broken)
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert set(server.labels()) <= {"HEAD"}
    assert path.read_text() == broken


FAILURES: dict[str, Any] = {
    "400": http(400, b'{"error":"invalid_grant"}'),
    "401": http(401, b'{"error":"invalid_client"}'),
    "500": http(500),
    "503": http(503, headers=[("retry-after", "60")]),
    "not json": http(200, b"hello"),
    "no token": http(200, b'{"token_type":"Bearer"}'),
    "html": http(200, b"<html>", content_type="text/html"),
    "reset": lambda request, wire: wire.reset(),
    "too large": http(200, b'{"access_token":"' + b"a" * (2 << 20) + b'","token_type":"Bearer"}'),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", FAILURES)
def test_a_refresh_that_fails(dcode: Dcode, raw: Make, name: str) -> None:
    def guarded(request: Request, wire: Wire) -> bytes:
        if bearer(request) == b"Bearer " + NEW_ACCESS.encode():
            return server.default(request, wire)
        return http(401, headers=[("www-authenticate", "Bearer")])

    server = raw(handlers={"POST": FAILURES[name], **dict.fromkeys(PHASES, guarded)})
    path = store(dcode, server, lifetime=-HOUR, issuer=server)
    before = path.read_bytes()
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert len(refreshes(server)) == 1
    assert server.count("tools/list") == 0
    assert {request.target for request in server.requests} <= {"/mcp", "/token"}
    assert path.read_bytes() == before


def test_a_redirected_refresh_is_not_followed(dcode: Dcode, raw: Make) -> None:
    other = raw(handlers={"POST": grant})
    redirect = http(307, headers=[("location", other.origin + "/token")])
    server = raw(handlers={"POST": redirect, "initialize": http(401)})
    store(dcode, server, lifetime=-HOUR, issuer=server)
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert not other.connections


@pytest.mark.sample(8)
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("tokens", ["none", "good", "no refresh"])
def test_a_challenge_is_final(
    dcode: Dcode, raw: Make, phase: str, status: int, tokens: str
) -> None:
    """No browser, no prompt, no look at what the challenge names, no second try."""
    other = raw()
    challenge = (
        f'Bearer error="insufficient_scope", scope="more", '
        f'resource_metadata="{other.origin}/.well-known/oauth-protected-resource"'
    )
    server = raw(handlers={phase: http(status, headers=[("www-authenticate", challenge)])})
    before = b""
    if tokens != "none":
        path = store(dcode, server, issuer=server, refresh=tokens == "good")
        before = path.read_bytes()
    dcode.serve(raw=server)
    run = dcode.run("raw_look")
    run.expect("runtime_failure" if phase == "tools/call" else "tool_not_found")
    run.before_the_deadline()
    handshake = phase in ("initialize", "notifications/initialized")
    once_a_session = 2 if handshake and tokens == "none" else 1
    assert server.count(phase) <= once_a_session
    assert not other.connections
    assert {request.target for request in server.requests} == {"/mcp"}
    if before:
        assert path.read_bytes() == before


@pytest.mark.parametrize("status", [401, 403])
def test_a_challenge_to_the_legacy_stream_is_final(dcode: Dcode, raw: Make, status: int) -> None:
    other = raw()
    challenge = f'Bearer resource_metadata="{other.origin}/.well-known/oauth-protected-resource"'
    server = raw(handlers={"GET": http(status, headers=[("www-authenticate", challenge)])})
    store(dcode, server, issuer=server)
    dcode.serve(raw={"type": "sse", "url": server.url})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert not other.connections
    assert {request.target for request in server.requests} == {"/mcp"}
    assert server.count("GET") == 1


# After the gate has opened.


def test_no_refresh_once_the_gate_is_open(dcode: Dcode, raw: Make) -> None:
    """A token that DCode would renew by then is good enough for the call that is under way."""
    server = raw(handlers={"POST": grant})

    def slow_list(request: Request, wire: Wire) -> bytes:
        wire.sleep(2.5)
        return server.default(request, wire)

    server.handlers["tools/list"] = slow_list
    path = store(dcode, server, lifetime=32.0, issuer=server)  # DCode renews 30 s before the end
    before = path.read_bytes()
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    run = dcode.run("raw_look")
    if refreshes(server):
        # a slow start: it was renewed before discovery began, which is as good
        assert len(refreshes(server)) == 1
        assert server.labels().index("POST") < server.labels().index("initialize")
    else:
        assert path.read_bytes() == before
        assert bearer(server.of("tools/call")[0]) == b"Bearer " + ACCESS.encode()
    run.expect_ok("raw_look")
    assert bearer(server.of("tools/call")[0]) == bearer(server.of("initialize")[-1])


def test_an_issuer_of_short_lives(dcode: Dcode, raw: Make) -> None:
    """Each request of discovery may renew; the call's do not."""
    granted: list[str] = []

    def short(request: Request, wire: Wire) -> bytes:
        granted.append(f"short-lived-token-{len(granted)}")
        return http(200, json.dumps({
            "access_token": granted[-1], "refresh_token": f"refresh-token-{len(granted)}",
            "token_type": "Bearer", "expires_in": 2,
        }).encode())  # fmt: skip

    def slow_list(request: Request, wire: Wire) -> bytes:
        wire.sleep(2.5)
        return server.default(request, wire)

    server = raw(handlers={"POST": short, "tools/list": slow_list})
    path = store(dcode, server, lifetime=-HOUR, issuer=server)
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    dcode.run("raw_look").expect_ok("raw_look")
    labels = server.labels()
    assert labels.index("POST") < labels.index("initialize")
    assert "POST" not in labels[labels.index("tools/list") :]
    assert bearer(server.of("tools/call")[0]) == f"Bearer {granted[-1]}".encode()
    assert stored(path)["access_token"] == granted[-1]


def test_an_answer_that_reflects_the_rotated_token(dcode: Dcode, raw: Make) -> None:
    def reflect(request: Request, wire: Wire) -> bytes:
        text = {"content": [{"type": "text", "text": f"got {bearer(request)!r}"}],
                "structuredContent": {"token": NEW_ACCESS, "next": NEW_REFRESH}}  # fmt: skip
        return answer(json.dumps(text))(request, wire)

    server = raw(handlers={"POST": grant, "tools/call": reflect})
    store(dcode, server, lifetime=-HOUR, issuer=server)
    dcode.serve(raw={"url": server.url, "auth": "oauth"})
    run = dcode.run("raw_look")
    data = run.expect_ok("raw_look")
    assert data["structured_content"] == {"token": "<redacted-secret>",
                                          "next": "<redacted-secret>"}  # fmt: skip
    assert NEW_ACCESS.encode() not in run.stdout
