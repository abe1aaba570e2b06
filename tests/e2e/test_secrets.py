"""Configured secrets, reflected by the server wherever it can."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.proxy import ConnectProxy
from deepagents_ro.qualify.lab.raw_server import (
    READ_ONLY_TOOL,
    RawServer,
    Request,
    Wire,
    http,
    result_message,
)

Make = Callable[..., RawServer]
CANARY = "Canary+7/x=Zq9 tail~end"
URL_CANARY = "Canary-7.x_Zq9.tail~end"  # the same in a URL as anywhere else
MARK = "<redacted-secret>"


def forms(secret: str) -> list[str]:
    """The spellings of a secret that must not get out."""
    raw = secret.encode()
    found = [secret, quote(secret, safe=""), quote(secret)]
    for lead in range(3):
        # the part of the encoding that does not depend on what stands around it
        text = base64.b64encode(b"\0" * lead + raw).decode()
        found.append(text[(0, 2, 3)[lead] : -4])
    return found


def assert_absent(output: bytes, secret: str) -> None:
    """No spelling of the secret is in the output, before or after unescaping."""
    plain = json.dumps(json.loads(output), ensure_ascii=False)
    for form in forms(secret):
        assert form.encode() not in output, form
        assert form not in plain, form


PLACES: dict[str, Callable[[RawServer, str], Any]] = {
    "header by variable": lambda server, secret: {
        "url": server.url,
        "headers": {"x-plain": "${RO_SECRET}"},
    },
    "authorization": lambda server, secret: {
        "url": server.url,
        "headers": {"Authorization": f"Bearer {secret}"},
    },
    "cookie": lambda server, secret: {"url": server.url, "headers": {"Cookie": secret}},
    "named header": lambda server, secret: {
        "url": server.url,
        "headers": {"X-Api-Key": secret},
    },
    "query": lambda server, secret: {"url": f"{server.url}?a=1&api_token={quote(secret, safe='')}"},
    "url by variable": lambda server, secret: {"url": server.url + "?q=${RO_SECRET}"},
    "user info": lambda server, secret: {
        "url": server.url.replace("//", f"//user:{quote(secret, safe='')}@")
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_a_reflected_secret_is_redacted(dcode: Dcode, raw: Make, place: str) -> None:
    secret = URL_CANARY if place == "url by variable" else CANARY
    texts = [f"before {form} after" for form in forms(secret)[:2]]
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    blocks = [{"type": "text", "text": text} for text in texts]
    inner = base64.b64encode(f"user:{secret}.".encode()).decode()
    structured = (
        '{"kept":1.50,"%s":"key","deep":[{"t":"%s"},"%s"],"b64":"%s","list":["untouched",null]}'
        % (secret, escaped, texts[1], inner)
    )
    result = json.dumps({"content": blocks})[:-1] + f',"structuredContent":{structured}}}'
    server = raw(result=result)
    dcode.serve(raw=PLACES[place](server, secret))
    run = dcode.run("raw_look", env={"RO_SECRET": secret})
    data = run.expect_ok("raw_look")
    assert_absent(run.stdout, secret)
    assert data["content"][0]["text"] == f"before {MARK} after"
    assert data["content"][1]["text"] == f"before {MARK} after"
    content = data["structured_content"]
    assert content[MARK] == "key"
    assert content["deep"][0]["t"] == MARK
    assert content["deep"][1] == f"before {MARK} after"
    assert content["list"] == ["untouched", None]
    assert b'"kept":1.50,' in run.stdout
    assert server.count("tools/call") == 1


def reflect(where: str, secret: str) -> dict[str, Any]:
    """Handlers of a server that puts the secret in one place and fails."""

    def error(request: Request, wire: Wire) -> bytes:
        body = {
            "jsonrpc": "2.0",
            "id": request.message["id"],
            "error": {"code": -1, "message": secret, "data": {secret: [secret]}},
        }
        return http(200, json.dumps(body).encode())

    failed = json.dumps({"content": [{"type": "text", "text": secret}], "isError": True})
    bad = json.dumps({"content": [{"type": secret}]})
    return {
        "error": {"tools/call": error},
        "discovery error": {"initialize": error},
        "failed tool": {"tools/call": lambda r, w: http(200, result_message(r, failed))},
        "malformed": {"tools/call": lambda r, w: http(200, result_message(r, bad))},
        "header": {"tools/call": http(500, headers=[("x-reflected", secret)])},
        "reason": {"tools/call": http(500, reason=secret)},
        "body": {"tools/call": http(403, secret.encode(), content_type="text/plain")},
        "redirect": {"tools/call": http(307, headers=[("location", f"/{quote(secret)}")])},
        "tool name": {
            "tools/list": lambda r, w: http(
                200, result_message(r, json.dumps({"tools": [{"name": secret}, 5]}))
            )
        },
    }[where]


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("error", "tool_failed"),
        ("discovery error", "tool_not_found"),
        ("failed tool", "tool_failed"),
        ("malformed", "malformed_result"),
        ("header", "runtime_failure"),
        ("reason", "runtime_failure"),
        ("body", "runtime_failure"),
        ("redirect", "runtime_failure"),
        ("tool name", "tool_not_found"),
    ],
)
def test_no_failure_carries_anything(dcode: Dcode, raw: Make, where: str, code: str) -> None:
    """`expect` compares the whole output with the constant envelope."""
    server = raw(handlers=reflect(where, CANARY))
    dcode.serve(raw={"url": server.url, "headers": {"Authorization": f"Bearer {CANARY}"}})
    dcode.run("raw_look", stdin=json.dumps({"argument": CANARY}).encode()).expect(code)


def test_a_reflected_session_id(dcode: Dcode, raw: Make) -> None:
    server = raw()
    server.handlers["initialize"] = lambda request, wire: server.initialized(
        request, headers=[("mcp-session-id", CANARY.replace(" ", "_"))]
    )
    dcode.serve(raw={"url": server.url, "headers": {"X-Token": CANARY}})
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    assert_absent(run.stdout, CANARY)


def test_proxy_credentials(dcode: Dcode, raw: Make) -> None:
    server = raw(result=json.dumps({"content": [{"type": "text", "text": f"<{CANARY}>"}]}))
    dcode.serve(raw=server)
    with ConnectProxy(credentials=f"user:{CANARY}") as proxy:
        named = f"http://user:{quote(CANARY, safe='')}@127.0.0.1:{proxy.port}"
        run = dcode.run("raw_look", env={"HTTPS_PROXY": named})
    assert run.expect_ok("raw_look")["content"] == [{"type": "text", "text": f"<{MARK}>"}]


def test_a_projects_dotenv_sends_no_token_away(
    dcode: Dcode, raw: Make, authority: Authority, tmp_path: Path
) -> None:
    """A recording proxy and its roots, set by the working directory's `.env`."""
    server = raw()
    thief = Authority(tmp_path / "thief")
    dcode.serve(raw={"url": server.url, "headers": {"Authorization": f"Bearer {CANARY}"}})
    del dcode.env["SSL_CERT_FILE"]
    (dcode.home / ".deepagents" / ".env").write_text(f"SSL_CERT_FILE={authority.ca_file}\n")
    with ConnectProxy(terminate=(thief.server_context(), authority.client_context())) as proxy:
        steer = {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": thief.ca_file, "NO_PROXY": ""}
        (dcode.project / ".env").write_text("".join(f"{n}={v}\n" for n, v in steer.items()))
        dcode.run("raw_look").expect_ok("raw_look")
        run = dcode.run(argv=["tools", "audit-read-only", "--json"], stdin=None).clean()
        assert b'"state":"reachable"' in run.stdout
        assert proxy.accepted == 0
        dcode.run("raw_look", options=["--trust-project-mcp"]).expect_ok("raw_look")
        assert CANARY.encode() in proxy.seen
    assert server.count("tools/call") == 2


@pytest.mark.parametrize(
    ("value", "redacted"),
    [("sevenby", False), ("eightbyt", True), ("Basic eightbyt", True)],
)
def test_short_values_are_no_secrets(dcode: Dcode, raw: Make, value: str, redacted: bool) -> None:
    bare = value.rpartition(" ")[2]
    server = raw(result='{"content":[{"type":"text","text":"[%s]"}]}' % bare)
    dcode.serve(raw={"url": server.url, "headers": {"X-Secret": value}})
    text = dcode.run("raw_look").expect_ok("raw_look")["content"][0]["text"]
    assert text == (f"[{MARK}]" if redacted else f"[{bare}]")


def test_what_tells_nothing_is_no_secret(dcode: Dcode, raw: Make) -> None:
    """A header that is plain, a default of the configuration, what any process can find out."""
    texts = ["application-name-1", "production-eu", str(dcode.home), "localhost", "test_EU.UTF-8"]
    server = raw(result=json.dumps({"content": [{"type": "text", "text": " ".join(texts)}]}))
    headers = {
        "X-Application": texts[0],
        "X-Region": "${RO_REGION:-production-eu}",
        "X-Where": "${HOME}/x at ${RO_HOST:-localhost}",
        "X-Locale": "${LC_ALL}",
    }
    dcode.serve(raw={"url": server.url, "headers": headers})
    data = dcode.run("raw_look", env={"LC_ALL": texts[4]}).expect_ok("raw_look")
    assert data["content"] == [{"type": "text", "text": " ".join(texts)}]
    env = {"LC_ALL": texts[4], "RO_REGION": texts[2], "RO_HOST": texts[4]}
    server.result = json.dumps({"content": [{"type": "text", "text": f"{texts[2]} {texts[4]}"}]})
    data = dcode.run("raw_look", env=env).expect_ok("raw_look")
    assert data["content"] == [{"type": "text", "text": f"{MARK} {MARK}"}]


SHAPES = [
    "Bearer abcdefghijklmnop0123",
    "Basic dXNlcjpwYXNzd29yZC1sb25n",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_credential_shapes(dcode: Dcode, raw: Make, shape: str) -> None:
    """Redacted anywhere but in an attestation."""
    structured = {
        "note": f"use {shape} now",
        "qualification": {"output_attestation": shape, "other": shape},
    }
    result = json.dumps({"content": [], "structuredContent": structured})
    dcode.serve(raw=raw(result=result))
    content = dcode.run("raw_look").expect_ok("raw_look")["structured_content"]
    token = shape.split()[1]
    assert token not in content["note"]
    assert MARK in content["note"]
    assert content["note"].startswith("use ")
    assert content["note"].endswith(" now")
    assert token not in content["qualification"]["other"]
    assert content["qualification"]["output_attestation"] == shape


def test_a_configured_secret_in_an_attestation(dcode: Dcode, raw: Make) -> None:
    structured = {"qualification": {"output_attestation": f"v1:{CANARY}:end"}}
    server = raw(result=json.dumps({"content": [], "structuredContent": structured}))
    dcode.serve(raw={"url": server.url, "headers": {"X-Key": CANARY}})
    run = dcode.run("raw_look")
    assert run.structured() == b'{"qualification":{"output_attestation":"v1:%s:end"}}' % (
        MARK.encode()
    )


def test_two_keys_made_equal(dcode: Dcode, raw: Make) -> None:
    structured = {CANARY: 1, quote(CANARY, safe=""): 2}
    server = raw(result=json.dumps({"content": [], "structuredContent": structured}))
    dcode.serve(raw={"url": server.url, "headers": {"X-Key": CANARY}})
    dcode.run("raw_look").expect("malformed_result")


def test_the_tools_list_may_hold_anything(dcode: Dcode, raw: Make) -> None:
    listed = READ_ONLY_TOOL.replace("Looks.", CANARY)
    server = raw(tools=[listed])
    dcode.serve(raw={"url": server.url, "headers": {"X-Key": CANARY}})
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    assert_absent(run.stdout, CANARY)
