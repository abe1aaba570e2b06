"""Which texts of a configuration are secrets."""

from __future__ import annotations

import base64
import string
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepagents_ro.secrets import OPEN_VARIABLES, configured_secrets, is_secret_name

CANARY = "canary-0123456789"


def secrets_of(
    connection: dict[str, Any] | None = None,
    raw: dict[str, Any] | None = None,
    environ: dict[str, Any] | None = None,
    tokens: Any = (),
) -> set[str]:
    found = configured_secrets(
        {} if connection is None else {"s": connection},
        {} if raw is None else {"s": raw},
        environ or {},
        tokens,
    )
    return {secret.decode("utf-8", "surrogateescape") for secret in found}


def header(name: str, value: Any) -> dict[str, Any]:
    return {
        "transport": "streamable_http",
        "url": "https://h.invalid/mcp",
        "headers": {name: value},
    }


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("Authorization", True),
        ("proxy-authorization", True),
        ("COOKIE", True),
        ("X-Api-Key", True),
        ("apikey", True),
        ("X-Auth-Token ", True),
        ("CLIENT_SECRET", True),
        ("db.password", True),
        ("Credential", True),
        ("credentials", False),
        ("X-Key-Id", False),
        ("Accept", False),
        ("Set-Cookie", False),
        ("", False),
    ],
)
def test_secret_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_nothing_is_configured() -> None:
    assert secrets_of() == set()
    assert (
        secrets_of(header("Accept", "application/json"), {"url": "https://h.invalid/mcp"}) == set()
    )


@pytest.mark.parametrize("name", ["Authorization", "Proxy-Authorization"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "ApiKey", "Token", "Custom-Scheme"])
def test_authorization_with_and_without_its_scheme(name: str, scheme: str) -> None:
    assert secrets_of(header(name, f"{scheme}  {CANARY}")) == {f"{scheme}  {CANARY}", CANARY}


def test_authorization_that_is_no_scheme_and_token() -> None:
    assert secrets_of(header("authorization", CANARY)) == {CANARY}
    placeholder = "openshell:resolve:env:NAME"
    assert placeholder in secrets_of(header("Authorization", f"Bearer {placeholder}"))


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_basic_is_decoded(encode: Any) -> None:
    pair = "some-user:p\u00e4ss>word?"
    encoded = encode(pair.encode()).decode()
    expected = {f"Basic {encoded}", encoded, pair, pair.partition(":")[2]}
    assert secrets_of(header("Authorization", f"Basic {encoded}")) == expected
    bare = encoded.rstrip("=")
    assert expected - {f"Basic {encoded}", encoded} < secrets_of(
        header("Authorization", f"basic {bare}")
    )


def test_basic_that_is_not_base64() -> None:
    value = "Basic not/base64!"
    assert secrets_of(header("Authorization", value)) == {value, "not/base64!"}


def test_parameters_of_a_scheme() -> None:
    found = secrets_of(
        header(
            "Authorization",
            f'AWS4-HMAC-SHA256 Credential={CANARY}/x, SignedHeaders=host, Signature="abcdef0123"',
        )
    )
    assert {f"{CANARY}/x", "abcdef0123"} < found
    assert "SignedHeaders" not in found


def test_cookie_values() -> None:
    found = secrets_of(header("Cookie", f'a=short; session={CANARY}; q="quoted%20value"; flag'))
    assert {CANARY, "quoted%20value", "quoted value"} < found
    assert "flag" not in found


@pytest.mark.parametrize("place", ["headers", "env"])
def test_named_values(place: str) -> None:
    found = secrets_of({place: {"MY_API_KEY": CANARY, "OTHER": "not-a-secret", "A_TOKEN": "short"}})
    assert found == {CANARY}


def test_a_value_under_eight_bytes_is_none() -> None:
    assert secrets_of(header("X-Key", "1234567")) == set()
    assert secrets_of(header("X-Key", "12345678")) == {"12345678"}
    # seven characters, eight bytes
    assert secrets_of(header("X-Key", "123456\u00e9")) == {"123456\u00e9"}
    assert secrets_of(header("X-Key", " 1234567 ")) == set()


def test_white_space_around_a_value_is_no_part_of_it() -> None:
    assert secrets_of(header("X-Key", f" {CANARY}\n")) == {CANARY}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"https://user:{CANARY}@h.invalid/", {f"user:{CANARY}", CANARY}),
        (f"https://{CANARY}@h.invalid/", {CANARY}),
        (f"https://{CANARY}:x@h.invalid?a=b", {CANARY, f"{CANARY}:x"}),
        ("https://u:p%40ss%3Aword@h.invalid/", {"p%40ss%3Aword", "p@ss:word", "u:p@ss:word",
                                                "u:p%40ss%3Aword"}),
        (f"https://h.invalid/?api_key={CANARY}&page=long-enough", {CANARY}),
        (f"https://h.invalid/?x=1;token={CANARY}#token=not-in-query", {CANARY}),
        ("https://h.invalid/?Access%5FToken=a%2Fb+c%20defg", {"a%2Fb+c%20defg", "a/b c defg",
                                                              "a/b+c defg"}),
        (f"https://h.invalid/?key=Bearer+{CANARY}",
         {CANARY, f"Bearer {CANARY}", f"Bearer+{CANARY}"}),
        ("https://registry.invalid:8080/@scope/package?mail=someone@example.invalid", set()),
        ("https://h.invalid/mcp", set()),
        ("", set()),
    ],
)  # fmt: skip
def test_urls(url: str, expected: set[str]) -> None:
    assert secrets_of({"url": url}) == expected
    assert secrets_of(None, {"url": url}) == expected
    assert secrets_of({"env": {"SERVICE_URL": url}}) == expected
    assert secrets_of({"args": ["--endpoint", url]}) == expected


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("scheme", ["http://", "socks5h://", ""])
def test_proxies(variable: str, lower: bool, scheme: str) -> None:
    name = variable.lower() if lower else variable
    found = secrets_of(environ={name: f"{scheme}user:{CANARY}%2F@proxy.invalid:3128"})
    assert found == {
        f"user:{CANARY}%2F", f"user:{CANARY}/", f"{CANARY}%2F", f"{CANARY}/"
    }  # fmt: skip
    assert secrets_of(environ={name: f"{scheme}proxy.invalid:3128"}) == set()
    assert secrets_of(environ={"NO_PROXY": "user:password@h.invalid"}) == set()


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "https://h.invalid/${NAME}/mcp"},
        {"url": "https://h.invalid/mcp", "headers": {"X-Anything": "a ${NAME} b"}},
        {"command": "c", "env": {"ANYTHING": "${NAME}"}},
        {"command": "c", "args": ["--x", "--y=${NAME:-default}"]},
        {"command": "c", "args": ["${NAME}${UNSET:-}"]},
    ],
)
def test_variables(entry: dict[str, Any]) -> None:
    assert CANARY in secrets_of(None, entry, {"NAME": CANARY})
    assert CANARY not in secrets_of(None, entry, {"OTHER": CANARY})


def test_variables_elsewhere() -> None:
    environ = {"NAME": CANARY}
    assert secrets_of(None, {"command": "${NAME}"}, environ) == set()
    assert (
        secrets_of(None, {"description": "${NAME}", "headers": {"${NAME}": "x"}}, environ) == set()
    )
    assert secrets_of(None, {"args": ["$NAME", "${NAME-default}", "${NAME"]}, environ) == set()


DEFAULT = "default-value"


@pytest.mark.parametrize(
    ("reference", "environ", "expected"),
    [
        ("${REGION:-default-value}", {}, set()),
        ("${REGION:-default-value}", {"REGION": ""}, set()),
        ("${REGION:-default-value}", {"REGION": "default-value"}, set()),
        ("${REGION:-default-value}", {"REGION": CANARY}, {CANARY}),
        ("${REGION:-default-value}", {"REGION": "default-value2"}, {"default-value2"}),
        ("${REGION}", {}, set()),
        ("${REGION}", {"REGION": "default-value"}, {"default-value"}),
        ("${REGION:-default-value} ${REGION}", {"REGION": "default-value"}, {"default-value"}),
        ("${A:-default-value}/${B}", {"B": CANARY}, {CANARY}),
        ("${A:-default-value}${B:-other-default}", {}, set()),
        ("${API_TOKEN:-default-value}", {}, set()),
        ("${API_TOKEN:-default-value}", {"API_TOKEN": "default-value"}, {"default-value"}),
        ("${REGION:-}", {"REGION": CANARY}, {CANARY}),
    ],
)
@pytest.mark.parametrize("place", ["header", "env", "argument", "url"])
def test_a_default_is_no_secret(
    reference: str, environ: dict[str, str], expected: set[str], place: str
) -> None:
    """It stands in the configuration; what a variable brings in its place is one."""
    entry: dict[str, Any] = {
        "header": {"headers": {"X-Any": f"in {reference} it"}},
        "env": {"env": {"ANY": reference}},
        "argument": {"args": [f"--any={reference}"]},
        "url": {"url": f"https://{reference}.invalid/mcp"},
    }[place]
    assert secrets_of(None, entry, environ) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"headers": {"Authorization": "Bearer ${T:-default-value}"}},
         {"Bearer default-value", DEFAULT}),
        ({"headers": {"X-Api-Key": "${T:-default-value}"}}, {DEFAULT}),
        ({"headers": {"Cookie": "id=${T:-default-value}"}}, {"id=default-value", DEFAULT}),
        ({"env": {"A_TOKEN": "${T:-default-value}"}}, {DEFAULT}),
        ({"args": ["--token", "${T:-default-value}"]}, {DEFAULT}),
        ({"url": "https://h.invalid/?key=${T:-default-value}"}, {DEFAULT}),
        ({"url": "https://u:${T:-default-value}@h.invalid/"}, {"u:default-value", DEFAULT}),
        ({"headers": {"X-Any": "${U:-https://u:default-value@h.invalid/}"}},
         {"u:default-value", DEFAULT}),
    ],
)  # fmt: skip
def test_a_place_makes_a_default_a_secret(entry: dict[str, Any], expected: set[str]) -> None:
    assert secrets_of(None, entry) == expected


OPEN_NAMES = [name for name in OPEN_VARIABLES if "*" not in name] + ["LC_ALL", "LC_CTYPE"]


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_what_any_process_knows_is_no_secret(name: str) -> None:
    environ = {name: CANARY, "OTHER": CANARY}
    assert secrets_of(None, {"headers": {"X-Any": "${%s}/x" % name}}, environ) == set()
    assert secrets_of(None, {"args": ["${%s:-other-text}" % name]}, environ) == set()
    # its name makes a place a secret, and another variable has secrets of its own
    assert CANARY in secrets_of(None, {"headers": {"X-Key": "${%s}" % name}}, environ)
    assert secrets_of(None, {"args": ["${%s}${OTHER}" % name]}, environ) == {CANARY}


@pytest.mark.parametrize(
    "name", ["home", "HOME2", "MY_HOME", "USERNAME", "HOST", "LC", "LANG_KEY", "USER_TOKEN", "TZ_"]
)
def test_a_variable_beside_the_table_is_a_secret(name: str) -> None:
    environ = {name: CANARY, "HOME": CANARY, "USER": CANARY}
    assert secrets_of(None, {"args": ["${%s}" % name]}, environ) == {CANARY}


def test_the_table_gives_reasons() -> None:
    assert all(len(reason.split()) > 2 for reason in OPEN_VARIABLES.values())
    assert list(OPEN_VARIABLES) == sorted(OPEN_VARIABLES)


@pytest.mark.parametrize(
    ("value", "environ", "secret"),
    [
        ("x${INNER}y", {"INNER": CANARY}, CANARY),
        ("x${not-a-name}", {"not-a-name": CANARY}, CANARY),
        ("https://u:${INNER}@h.invalid", {"INNER": "short-1"}, "u:short-1"),
        ("${HOME}", {"HOME": CANARY}, None),
        ("$INNER", {"INNER": CANARY}, None),
        ("${INNER}", {"OTHER": CANARY}, None),
    ],
)
def test_the_adapter_resolves_a_childs_environment_once_more(
    value: str, environ: dict[str, str], secret: str | None
) -> None:
    found = secrets_of({"command": "c", "env": {"ANY": value}}, None, environ)
    assert found >= {secret} if secret else found == set()
    assert secrets_of({"command": "c", "args": [f"--any={value}"]}, None, environ).isdisjoint(
        {CANARY, "u:short-1"}
    )


def test_a_variable_that_holds_a_credential() -> None:
    entry = {"headers": {"X-Any": "${NAME}"}, "url": "${URL}"}
    url = f"https://user:{CANARY}-2@h.invalid/?token={CANARY}-3"
    found = secrets_of(None, entry, {"NAME": f"Bearer {CANARY}", "URL": url})
    assert {f"Bearer {CANARY}", CANARY, url, f"{CANARY}-2", f"{CANARY}-3"} <= found


def test_a_variable_in_a_basic_header() -> None:
    encoded = base64.b64encode(f"user:{CANARY}".encode()).decode()
    entry = {"headers": {"Authorization": "Basic ${BASIC}"}}
    assert secrets_of(None, entry, {"BASIC": encoded}) == {
        f"Basic {encoded}", encoded, f"user:{CANARY}", CANARY
    }  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [
        ["--api-key", CANARY],
        [f"--api-key={CANARY}"],
        [f"API_KEY={CANARY}"],
        ["-H", f"Authorization: Bearer {CANARY}"],
        ["--header", f"Authorization:Bearer {CANARY}"],
        [f"--header=X-Token: {CANARY}"],
        [f"https://u:{CANARY}@h.invalid/"],
    ],
)
def test_arguments(args: list[str]) -> None:
    assert CANARY in secrets_of({"command": "c", "args": args})
    assert CANARY in secrets_of(None, {"command": "c", "args": tuple(args)})


def test_arguments_that_are_none() -> None:
    args = ["--use-token", "--verbose", "positional", "--name", "ordinary-value", "-y", "pkg@1.2.3"]
    assert secrets_of({"args": args}) == set()


@pytest.mark.parametrize(
    "token",
    [
        CANARY,
        CANARY.encode(),
        f"Bearer {CANARY}",
        {"access_token": CANARY, "token_type": "Bearer"},
        {"refresh_token": CANARY},
        {"tokens": {"access_token": CANARY}, "client_info": {"client_id": "the-client-id"}},
        {"client_info": {"client_secret": CANARY}},
        SimpleNamespace(access_token=CANARY, refresh_token=None),
        SimpleNamespace(access_token=None, refresh_token=CANARY),
        {"tokens": SimpleNamespace(access_token="x", refresh_token=CANARY)},
        SimpleNamespace(
            access_token=SimpleNamespace(get_secret_value=lambda: CANARY), refresh_token=None
        ),
    ],
)
def test_tokens(token: Any) -> None:
    found = secrets_of(tokens=[token])
    assert CANARY in found
    assert "the-client-id" not in found


class Unusual:
    """A value whose text is a secret."""

    def __str__(self) -> str:
        return CANARY


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Key": CANARY.encode()},
        {b"X-Key": bytearray(CANARY.encode())},
        {"X-Key": [CANARY, "other"]},
        {"X-Key": Unusual()},
        [("X-Key", CANARY)],
        [["x-key", CANARY]],
        ((b"x-key", CANARY),),
    ],
)
def test_odd_types_of_headers(headers: Any) -> None:
    assert secrets_of({"headers": headers}) == {CANARY}


@pytest.mark.parametrize("junk", [None, 5, 5.5, True, [], {}, [None], [1, (2,)], object(), "text"])
def test_odd_types_raise_nothing(junk: Any) -> None:
    entry = {"url": junk, "headers": junk, "env": junk, "args": junk}
    secrets_of(entry, entry, {}, [junk])
    assert configured_secrets({"s": junk}, {"s": junk}, {"HTTP_PROXY": ""}, [junk]) >= set()
    assert secrets_of({"env": {"A_KEY": 1234567890}}) == {"1234567890"}


def test_bytes_that_are_not_utf8_come_back_as_bytes() -> None:
    value = b"\xff\xfe0123456789".decode("utf-8", "surrogateescape")
    found = configured_secrets({}, {"s": {"args": ["${NAME}"]}}, {"NAME": value})
    assert found == {b"\xff\xfe0123456789"}
    assert secrets_of(None, {"args": ["${NAME}"]}, {"NAME": "\ud800 0123456789"})


def test_every_server_counts() -> None:
    found = configured_secrets(
        {"a": header("X-Key", "first-secret"), "b": header("X-Key", "second-secret")},
        {"c": header("X-Key", "third-secret"), "a": header("X-Key", "${NAME}")},
        {"NAME": "fourth-secret"},
        ["fifth-secret"],
    )
    assert found == {b"first-secret", b"second-secret", b"third-secret", b"fourth-secret",
                     b"fifth-secret"}  # fmt: skip


@pytest.mark.parametrize("part", ["a", "a=", "a ", "://", "://a@", "%4", "=,", '"', ";"])
def test_long_values_take_no_long_time(part: str) -> None:
    value = "Digest " + part * (65536 // len(part))
    start = time.process_time()
    secrets_of(
        {**header("Authorization", value), "args": [value], "env": {"A": value}, "url": value},
        {"args": ["${V}"]},
        {"V": value, "HTTP_PROXY": value},
    )
    assert time.process_time() - start < 5


TEXT = st.text(string.ascii_letters + string.digits + "+/=_-~.", min_size=8, max_size=40)


@given(secret=TEXT, place=st.sampled_from(range(9)))
def test_no_place_loses_a_secret(secret: str, place: int) -> None:
    quoted = secret.replace("/", "%2F").replace("+", "%2B")
    found = [
        lambda: secrets_of(header("Authorization", f"Bearer {secret}")),
        lambda: secrets_of(header("Cookie", f"id={secret}")),
        lambda: secrets_of({"env": {"X_PASSWORD": secret}}),
        lambda: secrets_of({"url": f"https://u:{quoted}@h.invalid/"}),
        lambda: secrets_of({"url": f"https://h.invalid/?token={quoted}"}),
        lambda: secrets_of(environ={"https_proxy": f"http://u:{quoted}@h.invalid:1"}),
        lambda: secrets_of(None, {"args": ["x${V}y"]}, {"V": secret}),
        lambda: secrets_of(None, {"headers": {"A-Key": "${U:-" + secret + "}"}}),
        lambda: secrets_of(tokens=[{"refresh_token": secret}]),
    ][place]()
    assert secret in found
