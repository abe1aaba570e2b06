"""What runs ahead is what the SDK says, as the SDK itself says it."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

import httpx
import pytest
from langchain_mcp_adapters.sessions import create_session
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

from deepagents_ro import ahead, host, startup
from deepagents_ro.ahead import MESSAGES, initialize_headers
from deepagents_ro.command_line import Command
from deepagents_ro.versions import QUALIFIED

URL = "https://user.example:8443/a/../mcp?x=1"
HEADERS: list[dict[str, str] | None] = [
    None,
    {"Authorization": "Bearer openshell:resolve:env:NAME", "X-B": "", "x-lower_Mixed": "a  b"},
    {"User-Agent": "own", "accept-encoding": "identity", "Connection": "close", "Host": "other"},
    {"Accept": "text/html", "CONTENT-TYPE": "text/plain", "Mcp-Session-Id": "mine"},
]


async def conversation(headers: dict[str, str] | None, session: str | None) -> list[httpx.Request]:
    """The POSTs of one discovery, made by the adapter and the SDK on top of httpx."""
    posts: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method != "POST":
            return httpx.Response(405)
        posts.append(request)
        message = json.loads(request.content)
        if "id" not in message:
            return httpx.Response(202)
        result: dict[str, Any] = {"tools": []}
        own = {}
        if message["method"] == "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"},
            }
            own = {} if session is None else {"mcp-session-id": session}
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return httpx.Response(200, headers=own, json=reply)

    def client(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(answer), trust_env=False, **options)

    connection: Any = {"transport": "streamable_http", "url": URL, "httpx_client_factory": client}
    if headers is not None:
        connection["headers"] = headers
    async with create_session(connection) as opened:
        await opened.initialize()
        await opened.list_tools()
    return posts


def without_length(request: httpx.Request) -> list[tuple[bytes, bytes]]:
    return [pair for pair in request.headers.raw if pair[0].lower() != b"content-length"]


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("session", [None, "id-1"])
async def test_the_sdk_says_the_same(headers: dict[str, str] | None, session: str | None) -> None:
    messages = MESSAGES[importlib.metadata.version("mcp")]
    posts = await conversation(headers, session)
    bodies = [request.content for request in posts]
    assert bodies == [messages.initialize, messages.initialized, messages.tools_list]
    first = initialize_headers(str(httpx.URL(URL)), headers, messages.initialize)
    assert without_length(posts[0]) == first
    added = [] if session is None else [(b"mcp-session-id", b"id-1")]
    added.append((b"mcp-protocol-version", b"2025-06-18"))
    for request in posts[1:]:
        sent = without_length(request)
        if headers is not None and "Mcp-Session-Id" in headers:
            # the SDK replaces a configured one, so that nothing of it is the same
            assert (sent == first + added) is (session is None)
        else:
            assert sent == first + added


def test_the_versions_that_the_sdk_speaks() -> None:
    messages = MESSAGES[importlib.metadata.version("mcp")]
    assert messages.versions.split() == SUPPORTED_PROTOCOL_VERSIONS


def test_every_qualified_stack_has_its_messages() -> None:
    assert {row["mcp"] for row in QUALIFIED} == set(MESSAGES)


class Started(Exception):
    """The conversation would run ahead."""


class Watched:
    def run_ahead(self, *_arguments: object) -> bool:
        raise Started


GOOD: dict[str, Any] = {"type": "http", "url": "https://h.example/mcp", "headers": {"a": "b"}}


@pytest.mark.parametrize(
    ("entry", "starts"),
    [
        (GOOD, True),
        ({"url": "https://h.example/mcp"}, True),
        ({**GOOD, "allowedTools": ["look"]}, True),
        ({**GOOD, "disabledTools": ["other"]}, True),
        ({**GOOD, "headers": {"a": "${RO_TEST_SET}"}}, True),
        ({**GOOD, "allowedTools": ["other"]}, False),
        ({**GOOD, "disabledTools": ["look"]}, False),
        ({**GOOD, "headers": {"a": "${RO_TEST_UNSET}"}}, False),
        ({**GOOD, "headers": {"a": "\u20ac"}}, False),
        ({**GOOD, "auth": "oauth"}, False),
        ({**GOOD, "type": "sse"}, False),
        ({**GOOD, "url": "https://u:p@h.example/mcp"}, False),
        ({**GOOD, "url": "ftp://h.example/mcp"}, False),
        ({**GOOD, "url": "https://"}, False),
        ({"command": "sh"}, False),
    ],
)
def test_which_entry_may_run_ahead(
    monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], starts: bool
) -> None:
    monkeypatch.setenv("RO_TEST_SET", "v")
    monkeypatch.setattr(host, "may_have_tokens", lambda _name: False)
    assert run(entry) is starts


def run(entry: dict[str, Any], mcp: str | None = "1.30.0") -> bool:
    sources = host.Sources(user=[{"raw": entry}])
    plan = host.plan_for(sources, frozenset({"raw"}), Command("raw_look"))
    call: Any = Watched()
    try:
        return ahead.start(plan, call, None if mcp is None else {"mcp": mcp})
    except Started:
        return True


@pytest.mark.parametrize(("mcp", "starts"), [("1.30.0", True), ("1.30.1", False), (None, False)])
def test_another_stack_runs_nothing_ahead(
    monkeypatch: pytest.MonkeyPatch, mcp: str | None, starts: bool
) -> None:
    monkeypatch.setattr(host, "may_have_tokens", lambda _name: False)
    assert run(GOOD, mcp) is starts
    monkeypatch.setenv(ahead.PLAIN_VARIABLE, "1")
    assert run(GOOD, mcp) is False


def test_the_stack_that_is_installed_is_verified() -> None:
    assert startup.verified() is not None


@pytest.mark.parametrize(
    ("files", "may"),
    [
        ([], False),
        (["other.json", "raw-more-0123456789abcdef.json", "raw.json.lock", "xraw.json"], False),
        (["raw.json"], True),
        (["raw-0123456789abcdef.json"], True),
    ],
)
def test_stored_tokens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, files: list[str], may: bool
) -> None:
    from deepagents_code import model_config

    monkeypatch.setattr(model_config, "DEFAULT_STATE_DIR", tmp_path)
    assert host.may_have_tokens("raw") is False
    (tmp_path / "mcp-tokens").mkdir()
    for name in files:
        (tmp_path / "mcp-tokens" / name).touch()
    assert host.may_have_tokens("raw") is may
    monkeypatch.setattr(model_config, "DEFAULT_STATE_DIR", tmp_path / "mcp-tokens" / "raw.json")
    if may and files == ["raw.json"]:
        assert host.may_have_tokens("raw") is True  # what cannot be looked at
