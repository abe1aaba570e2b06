"""Connections, headers, redirects, proxies, trust, and nobody else."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from closing_server import ClosingServer, Connection
from cryptography import x509
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.proxy import ConnectProxy, LatencyProxy
from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, http

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside
PHASES = ("initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE")


@pytest.mark.parametrize("sessions", [False, True])
def test_one_connection_a_session_beside_the_preflight(
    dcode: Dcode, raw: Make, sessions: bool
) -> None:
    server = raw(sessions=sessions)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert len(server.mcp_connections()) <= 2
    assert len(server.connections) <= 3
    heads = [request for request in server.requests if request.label == "HEAD"]
    assert len(heads) == 1
    assert not sessions or server.wait_for("DELETE", 2)
    wanted = ["initialize", "notifications/initialized", "tools/list"]
    wanted += ["DELETE"] if sessions else []
    wanted += ["initialize", "notifications/initialized", "tools/call"]
    wanted += ["DELETE"] if sessions else []
    seen = [label for label in server.labels() if label != "HEAD"]
    assert sorted(seen) == sorted(wanted)
    assert seen.index("tools/call") > seen.index("tools/list")
    for request in server.requests:
        assert request.head.split(b"\r\n")[0].endswith(b" HTTP/1.1")
        assert request.target == "/mcp"


def test_session_and_version_headers(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    call = server.of("tools/call")[0]
    listed = server.of("tools/list")[0]
    # of two sessions, opened at one time
    sessions = {each.header("mcp-session-id") for each in (call, listed)}
    assert sessions == {b"session-1", b"session-2"}
    version = server.of("initialize")[0].message["params"]["protocolVersion"].encode()
    assert call.header("mcp-protocol-version") == version


def test_header_bytes_are_exactly_as_configured(dcode: Dcode, raw: Make) -> None:
    server = raw()
    headers = {
        "Authorization": "Bearer openshell:resolve:env:WORKER_TOKEN",
        "X-Inner": "a  b\tc;  d",
        "x-lower_Mixed-CASE": "v",
        "X-Empty": "",
        "User-Agent": "configured/1",
    }
    dcode.serve(raw={"url": server.url, "headers": headers})
    dcode.run("raw_look").expect_ok("raw_look")
    for phase in ("initialize", "notifications/initialized", "tools/list", "tools/call"):
        for request in server.of(phase):
            sent = dict(request.headers)
            for name, value in headers.items():
                assert sent.get(name.encode()) == value.encode(), (phase, name)
    (head,) = server.of("HEAD")
    assert head.header("authorization") is None


def test_values_from_the_environment(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw={"url": "${RO_URL}", "headers": {"x-token": "t-${RO_TOKEN}-${RO_NONE:-d}"}})
    env = {"RO_URL": server.url, "RO_TOKEN": "e$x"}
    dcode.run("raw_look", env=env).expect_ok("raw_look")
    assert server.of("tools/call")[0].header("x-token") == b"t-e$x-d"


def test_an_unset_variable(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw={"url": server.url, "headers": {"x": "${RO_TEST_UNSET}"}})
    dcode.run("raw_look").expect("tool_not_found")
    assert not server.requests


# Redirects.


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("phase", ["initialize", "tools/list"])
def test_a_redirect_inside_the_origin(dcode: Dcode, raw: Make, status: int, phase: str) -> None:
    server = raw()

    def handler(request: Request, wire: Wire) -> bytes:
        if request.target == "/mcp":
            return http(status, headers=[("location", "/moved?x=1")])
        assert request.target == "/moved?x=1"
        return server.default(request, wire)

    server.handlers[phase] = handler
    dcode.serve(raw={"url": server.url, "headers": {"x-own": "1"}})
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.of(phase)[1].header("x-own") == b"1"
    assert server.of(phase)[1].method == "POST"
    assert server.of(phase)[1].body == server.of(phase)[0].body
    assert server.count("tools/call") == 1


def test_a_redirect_of_initialize_moves_the_session(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)

    def handler(request: Request, wire: Wire) -> bytes:
        if request.target == "/mcp/":
            return http(307, headers=[("location", "/mcp")])
        return server.default(request, wire)

    for phase in ("initialize", "notifications/initialized", "tools/list", "tools/call"):
        server.handlers[phase] = handler
    dcode.serve(raw={"url": server.url + "/"})
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/call") == 1
    assert Counter(request.target for request in server.of("initialize")) == {"/mcp/": 2, "/mcp": 2}
    for phase in ("notifications/initialized", "tools/list", "tools/call", "DELETE"):
        assert {request.target for request in server.of(phase)} == {"/mcp"}


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_changes_the_method(dcode: Dcode, raw: Make, status: int) -> None:
    server = raw(handlers={"initialize": http(status, headers=[("location", "/moved")])})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert {request.target for request in server.requests} == {"/mcp"}


@pytest.mark.parametrize("phase", ["HEAD", "initialize", "notifications/initialized",
                                   "tools/list", "tools/call", "GET", "DELETE"])  # fmt: skip
def test_a_redirect_to_another_origin(dcode: Dcode, raw: Make, phase: str) -> None:
    other = raw()
    redirect = http(307, headers=[("location", other.url)])
    server = raw(sessions=True, handlers={phase: redirect})
    dcode.serve(raw={"url": server.url, "headers": {"Authorization": "Bearer secret-of-the-first"}})
    run = dcode.run("raw_look")
    if phase in ("HEAD", "GET", "DELETE"):
        run.expect_ok("raw_look")
    elif phase == "tools/call":
        run.expect("runtime_failure")
        assert server.count("tools/call") == 1
    else:
        run.expect("tool_not_found")
    run.before_the_deadline()
    assert not other.connections


@pytest.mark.parametrize("target", ["scheme", "port", "host", "user", "relative to nowhere"])
def test_what_is_another_origin(dcode: Dcode, raw: Make, target: str) -> None:
    server, plain = raw(), raw(tls=False)
    location = {
        "scheme": plain.url,
        "port": raw().url,
        "host": server.url.replace("127.0.0.1", "localhost"),
        "user": server.url.replace("127.0.0.1", "127.0.0.1:443@localhost"),
        "relative to nowhere": "//localhost:1/mcp",
    }[target]
    server.handlers["initialize"] = http(307, headers=[("location", location)])
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert not plain.connections
    assert server.count("initialize") <= 2, "once a session"


def test_a_redirect_loop(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"initialize": http(307, headers=[("location", "/mcp")])})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert server.count("initialize") <= 25


def test_a_redirected_call_is_not_followed(dcode: Dcode, raw: Make) -> None:
    server = raw(handlers={"tools/call": http(307, headers=[("location", "/moved")])})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("runtime_failure").prompt_after(server.sent_at["tools/call"])
    assert server.count("tools/call") == 1


# Kept connections that the server closes; tests/test_kept_connections.py has every way.

TOOL = {
    "name": "look",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def close_behind_each_answer(connection: Connection) -> None:
    """An MCP server that says goodbye behind each answer, as with a keep-alive of 0."""
    request = connection.request()
    if not request.startswith(b"{"):
        connection.send(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
        connection.end()
        return
    message = json.loads(request)
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "closing", "version": "1"},
        },
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "seen"}]},
    }
    body = b""
    if "id" in message:
        result = results[message["method"]]
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    connection.send(
        b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (b"200 OK" if body else b"202 Accepted", len(body), body)
    )
    connection.end()


def test_connections_that_are_closed_behind_each_answer(dcode: Dcode, authority: Authority) -> None:
    with ClosingServer(close_behind_each_answer, authority.server_context()) as server:
        dcode.serve(closing={"url": server.url()})
        dcode.run("closing_look").expect_ok("closing_look")
        assert server.count("tools/call") == 1


# Proxies.


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
def test_tls_through_a_proxy(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw()
    dcode.serve(raw=server)
    with ConnectProxy() as proxy:
        dcode.run("raw_look", env={name: proxy.url}).expect_ok("raw_look")
        assert set(proxy.tunnels) == {f"127.0.0.1:{server.port}"}
        assert len(proxy.tunnels) <= 3
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_plain_http_through_a_proxy(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw(tls=False)
    dcode.serve(raw=server)
    with ConnectProxy() as proxy:
        dcode.run("raw_look", env={name: proxy.url}).expect_ok("raw_look")
        assert set(proxy.tunnels) == {f"127.0.0.1:{server.port}"}
        assert all(head.split()[1].startswith(b"http://") for head in proxy.heads)
    assert server.count("tools/call") == 1


@pytest.mark.parametrize(
    ("environment", "through"),
    [
        ({"HTTP_PROXY": "@"}, False),
        ({"HTTPS_PROXY": "@", "NO_PROXY": "127.0.0.1"}, False),
        ({"HTTPS_PROXY": "@", "no_proxy": "example.invalid,127.0.0.1"}, False),
        ({"HTTPS_PROXY": "@", "NO_PROXY": "*"}, False),
        ({"HTTPS_PROXY": "@", "NO_PROXY": "example.invalid"}, True),
        ({"HTTPS_PROXY": "@", "NO_PROXY": ""}, True),
        ({"HTTPS_PROXY": "@", "ALL_PROXY": "http://127.0.0.1:1"}, True),
        ({"HTTPS_PROXY": "", "https_proxy": "@"}, True),
    ],
    ids=str,
)
def test_which_way(dcode: Dcode, raw: Make, environment: dict[str, str], through: bool) -> None:
    """As the stock client would: both of DCode's own requests and ours."""
    server = raw()
    dcode.serve(raw=server)
    with ConnectProxy() as proxy:
        env = {name: proxy.url if value == "@" else value for name, value in environment.items()}
        dcode.run("raw_look", env=env).expect_ok("raw_look")
        assert bool(proxy.tunnels) == through
        if through:
            assert len(proxy.tunnels) == len(server.connections)


def test_a_proxy_that_asks_who(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    with ConnectProxy(credentials="user:pass word") as proxy:
        named = f"http://user:pass%20word@127.0.0.1:{proxy.port}"
        dcode.run("raw_look", env={"HTTPS_PROXY": named}).expect_ok("raw_look")
        assert server.count("tools/call") == 1
        calls = server.count("tools/call")
        dcode.run("raw_look", env={"HTTPS_PROXY": proxy.url}).expect("tool_not_found")
        assert server.count("tools/call") == calls
    for request in server.requests:
        assert request.header("proxy-authorization") is None


def test_a_proxy_that_is_down(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    env = {"HTTPS_PROXY": "http://127.0.0.1:1"}
    dcode.run("raw_look", env=env).expect("tool_not_found").before_the_deadline()
    assert not server.connections


def test_a_proxy_reached_by_tls(dcode: Dcode, raw: Make, authority: Authority) -> None:
    server = raw()
    dcode.serve(raw=server)
    with ConnectProxy(listen_tls=authority.server_context()) as proxy:
        dcode.run("raw_look", env={"HTTPS_PROXY": proxy.url}).expect_ok("raw_look")
        assert proxy.tunnels


def test_a_terminating_proxy_replaces_a_placeholder(
    dcode: Dcode, raw: Make, authority: Authority
) -> None:
    server = raw()
    placeholder = b"openshell:resolve:env:WORKER_TOKEN"
    dcode.serve(
        raw={"url": server.url, "headers": {"Authorization": f"Bearer {placeholder.decode()}"}}
    )
    with ConnectProxy(
        terminate=(authority.server_context(), authority.client_context()),
        rewrite=lambda data: data.replace(placeholder, b"the-real-one"),
    ) as proxy:
        dcode.run("raw_look", env={"HTTPS_PROXY": proxy.url}).expect_ok("raw_look")
        assert b"Bearer " + placeholder in proxy.seen
    assert server.of("tools/call")[0].header("authorization") == b"Bearer the-real-one"


def test_a_long_way_round(dcode: Dcode, raw: Make) -> None:
    server = raw(sessions=True)
    with LatencyProxy("127.0.0.1", server.port, 0.05) as proxy:
        dcode.serve(raw=server.url.replace(str(server.port), str(proxy.port)))
        dcode.run("raw_look").expect_ok("raw_look")
        assert proxy.accepted <= 3


# Trust.


def test_an_authority_that_is_not_trusted(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    dcode.run("raw_look", env={"SSL_CERT_FILE": None}).expect("tool_not_found")
    assert not server.requests


def test_a_missing_trust_file(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server)
    env = {"SSL_CERT_FILE": str(dcode.project / "missing.pem")}
    dcode.run("raw_look", env=env).expect("tool_not_found")
    assert not server.requests


def test_a_certificate_for_another_name(dcode: Dcode, raw: Make, authority: Authority) -> None:
    server = raw(context=authority.other_name_context("elsewhere.invalid"))
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found")
    assert not server.requests


def _hashed_name(ca_file: Path) -> str:
    """The file name under which OpenSSL finds a CA in a directory."""
    subject = x509.load_pem_x509_certificate(ca_file.read_bytes()).subject

    def der(tag: int, payload: bytes) -> bytes:
        assert len(payload) < 128
        return bytes([tag, len(payload)]) + payload

    canonical = b""
    for attribute in subject:
        parts = [int(part) for part in attribute.oid.dotted_string.split(".")]
        assert all(part < 128 for part in parts)
        oid = der(6, bytes([parts[0] * 40 + parts[1], *parts[2:]]))
        text = " ".join(str(attribute.value).lower().split())
        canonical += der(0x31, der(0x30, oid + der(0x0C, text.encode())))
    digest = hashlib.sha1(canonical, usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}.0"


def test_a_trust_directory(dcode: Dcode, raw: Make, authority: Authority) -> None:
    server = raw()
    dcode.serve(raw=server)
    directory = dcode.project / "trusted"
    directory.mkdir()
    env = {"SSL_CERT_FILE": None, "SSL_CERT_DIR": str(directory)}
    dcode.run("raw_look", env=env).expect("tool_not_found")
    (directory / _hashed_name(authority.ca_file)).write_bytes(authority.ca_file.read_bytes())
    dcode.run("raw_look", env=env).expect_ok("raw_look")
    assert server.count("tools/call") == 1


def test_an_old_protocol(dcode: Dcode, raw: Make, authority: Authority) -> None:
    context = authority.server_context(
        minimum=ssl.TLSVersion.MINIMUM_SUPPORTED, maximum=ssl.TLSVersion.TLSv1_1
    )
    server = raw(context=context)
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found")
    assert not server.requests


def test_tls_1_2(dcode: Dcode, raw: Make, authority: Authority) -> None:
    server = raw(context=authority.server_context(maximum=ssl.TLSVersion.TLSv1_2))
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert {seen.tls_version for seen in server.connections} == {"TLSv1.2"}


def test_a_host_by_name(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server.url.replace("127.0.0.1", "localhost"))
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.of("tools/call")[0].header("host") == f"localhost:{server.port}".encode()


def test_no_key_log(dcode: Dcode, raw: Make) -> None:
    log = dcode.project / "keys.log"
    dcode.serve(raw=raw())
    dcode.run("raw_look", env={"SSLKEYLOGFILE": str(log)}).expect_ok("raw_look")
    assert not log.exists()


# Nobody else.

TRACED = {
    "LANGSMITH_TRACING": "true",
    "LANGCHAIN_TRACING_V2": "true",
    "LANGSMITH_API_KEY": "lsv2_pt_0123456789abcdef0123456789abcdef_0123456789",
    "LANGSMITH_ENDPOINT": "https://127.0.0.1:2/trace",
    "LANGSMITH_PROJECT": "p",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:3",
    "OTEL_TRACES_EXPORTER": "otlp",
    "LANGSMITH_OTEL_ENABLED": "true",
}


@pytest.mark.parametrize("outcome", ["ok", "denied", "401"])
def test_no_other_host_is_contacted(dcode: Dcode, raw: Make, witness: Path, outcome: str) -> None:
    server = raw(sessions=True)
    elsewhere = raw(tls=False)
    if outcome == "denied":
        server.tools = ['{"name":"look","inputSchema":{"type":"object"}}']
    if outcome == "401":
        meta = f"{elsewhere.origin}/.well-known/oauth-protected-resource"
        server.handlers["initialize"] = http(
            401, headers=[("www-authenticate", f'Bearer resource_metadata="{meta}"')]
        )
    dcode.serve(raw=server)
    log = dcode.project / "contacts"
    env = {**TRACED, "LD_PRELOAD": str(witness), "RO_WITNESS_LOG": str(log)}
    run = dcode.run("raw_look", env=env)
    if outcome == "ok":
        run.expect_ok("raw_look")
    else:
        run.expect("tool_not_read_only" if outcome == "denied" else "tool_not_found")
    run.before_the_deadline()
    lines = set(log.read_text().splitlines())
    allowed = {f"connect 127.0.0.1 {server.port}", "name 127.0.0.1"}
    assert lines <= allowed, lines - allowed
    assert not elsewhere.connections


@pytest.mark.parametrize("phase", ["initialize", "tools/list", "tools/call"])
def test_401_is_final(dcode: Dcode, raw: Make, phase: str) -> None:
    elsewhere = raw()
    meta = f'Bearer resource_metadata="{elsewhere.origin}/meta", error="invalid_token"'
    server = raw(handlers={phase: http(401, headers=[("www-authenticate", meta)])})
    dcode.serve(raw={"url": server.url, "headers": {"Authorization": "Bearer static-token-0001"}})
    code = "runtime_failure" if phase == "tools/call" else "tool_not_found"
    dcode.run("raw_look").expect(code).prompt_after(server.sent_at[phase])
    assert server.count(phase) <= (2 if phase == "initialize" else 1), "once a session"
    assert not elsewhere.connections
    assert {request.target for request in server.requests} == {"/mcp"}


def test_an_untrusted_project_gets_no_early_connection(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve_project(raw=server)
    dcode.run("raw_look").expect("tool_not_found")
    assert not server.connections


@pytest.mark.parametrize("scheme", ["file", "ftp", "gopher", "dict", "telnet", "smb"])
def test_other_schemes_are_not_spoken(dcode: Dcode, raw: Make, scheme: str) -> None:
    server = raw(tls=False)
    secret = dcode.project / "file"
    secret.write_text("{}")
    url = secret.as_uri() if scheme == "file" else server.url.replace("http:", f"{scheme}:")
    dcode.serve(raw=url)
    dcode.run("raw_look").expect("tool_not_found")
    assert not server.connections


@pytest.mark.parametrize("value", ["a\r\nx-injected: 1", "a\nb", "a\0b", "\u00e9"])
def test_header_values_inject_nothing(dcode: Dcode, raw: Make, value: str) -> None:
    server = raw()
    dcode.serve(raw={"url": server.url, "headers": {"x-value": value}})
    run = dcode.run("raw_look").clean()
    if run.exit_code:
        run.expect("tool_not_found")
    for request in server.requests:
        assert request.header("x-injected") is None
        assert all(b"\n" not in got and b"\0" not in got for _, got in request.headers)


def test_a_fragment_is_not_sent(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server.url + "?q=1#part")
    dcode.run("raw_look").expect_ok("raw_look")
    assert {request.target for request in server.requests} == {"/mcp?q=1"}
