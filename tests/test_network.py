"""Proxy and trust resolution, compared with what httpx itself decides."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Mapping
from typing import Any

import certifi
import httpx
import pytest

from deepagents_ro.network import normal_proxy, resolve_proxy, resolve_trust

HOSTS = [
    "example.com",
    "www.example.com",
    "a.www.example.com",
    "wwwexample.com",
    "EXAMPLE.com",
    "localhost",
    "127.0.0.1",
    "192.168.1.7",
    "[::1]",
    "[fe80::1]",
    "bücher.example",
    "host_name.internal",
]
PORTS = ["", ":80", ":443", ":8443"]
PROXIES = [
    "http://proxy.test:3128",
    "https://proxy.test",
    "proxy.test:8080",
    "http://user:p%40ss@proxy.test:1",
    "http://[::1]:9",
    "",
]
NO_PROXY = [
    "",
    "*",
    "example.com",
    ".example.com",
    "*.example.com",
    "www.example.com:8443",
    "example.com:443",
    "https://example.com",
    "http://*example.com:80",
    "all://localhost",
    "localhost",
    "LOCALHOST",
    "127.0.0.1",
    "127.0.0.1/8",
    "192.168.0.0/16",
    "::1",
    "com",
    "xn--bcher-kva.example",
    "host_name.internal",
    "all://",
    "http://",
    " example.com , localhost",
    "other.test,*",
]
NAMES = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]


def stock_choice(url: str, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The proxy that a stock `httpx.Client` picks, from the transports that it makes."""
    made: dict[int, str] = {}

    class Recorder(httpx.Client):
        def _init_proxy_transport(self, proxy: httpx.Proxy, **_: Any) -> Any:
            transport = httpx.MockTransport(lambda _: httpx.Response(200))
            user, password = proxy.raw_auth or (b"", b"")
            made[id(transport)] = f"{proxy.url}|{user!r}|{password!r}"
            return transport

        def _init_transport(self, **_: Any) -> Any:
            return httpx.MockTransport(lambda _: httpx.Response(200))

    with monkeypatch.context() as patch:
        for name in list(os.environ):
            if name.lower().endswith("_proxy") or name == "REQUEST_METHOD":
                patch.delenv(name)
        for name, value in environ.items():
            patch.setenv(name, value)
        with Recorder() as client:
            return made.get(id(client._transport_for_url(httpx.URL(url))), "")


def our_choice(url: str, environ: Mapping[str, str]) -> str:
    proxy = resolve_proxy(url, environ)
    if not proxy:
        return ""
    parsed = httpx.URL(proxy)
    plain = parsed.copy_with(username=None, password=None)
    user, password = parsed.username.encode(), parsed.password.encode()
    return f"{plain}|{user!r}|{password!r}"


def check(environ: dict[str, str], urls: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    refused = 0
    for url in urls:
        try:
            stock = stock_choice(url, environ, monkeypatch)
        except (httpx.InvalidURL, ValueError):
            refused += 1
            continue
        assert our_choice(url, environ) == stock, (url, environ)
    return refused


def some_urls(chance: random.Random, count: int) -> list[str]:
    return [
        f"{chance.choice(['http', 'https'])}://{chance.choice(HOSTS)}{chance.choice(PORTS)}/p?q#f"
        for _ in range(count)
    ]


@pytest.mark.parametrize("no_proxy", NO_PROXY)
def test_no_proxy_entries(no_proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"ALL_PROXY": PROXIES[0], "https_proxy": PROXIES[1], "NO_PROXY": no_proxy}
    urls = [
        f"{scheme}://{host}{port}/"
        for scheme, host, port in itertools.product(["http", "https"], HOSTS, PORTS)
    ]
    assert check(environ, urls, monkeypatch) == 0


def test_generated_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(28)
    refused = 0
    for _ in range(400):
        names = chance.sample(NAMES, chance.randint(0, 5))
        environ = {name: chance.choice(PROXIES) for name in names}
        for name in chance.sample(["NO_PROXY", "no_proxy", "No_Proxy"], chance.randint(0, 2)):
            environ[name] = ",".join(chance.sample(NO_PROXY, chance.randint(1, 4)))
        if chance.random() < 0.1:
            environ["REQUEST_METHOD"] = "GET"
        if chance.random() < 0.2:
            environ["Https_Proxy"] = chance.choice(PROXIES)
        refused += check(environ, some_urls(chance, 4), monkeypatch)
    assert refused < 100


@pytest.mark.parametrize(
    ("environ", "url", "proxy"),
    [
        ({}, "https://h/", ""),
        ({"HTTP_PROXY": "http://p:1"}, "http://h/", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, "https://h/", ""),
        ({"http_proxy": "p:1"}, "http://h/", "http://p:1"),
        ({"HTTP_PROXY": "http://a:1", "http_proxy": "http://b:2"}, "http://h/", "http://b:2"),
        ({"HTTP_PROXY": "http://a:1", "http_proxy": ""}, "http://h/", ""),
        ({"ALL_PROXY": "http://p:1/path?q"}, "https://h/", "http://p:1"),
        ({"ALL_PROXY": "http://u:a%2Fb@p:1"}, "https://h/", "http://u:a%2Fb@p:1"),
        ({"ALL_PROXY": "http://p:1", "no_proxy": "*"}, "https://h/", ""),
        ({"ALL_PROXY": "http://[::1]:1"}, "https://h/", "http://[::1]:1"),
        ({"ALL_PROXY": "http://p:80"}, "https://h/", "http://p"),
    ],
)
def test_known_choices(environ: dict[str, str], url: str, proxy: str) -> None:
    assert resolve_proxy(url, environ) == proxy


@pytest.mark.parametrize(
    "proxy", ["socks5://h:1", "socks5h://u:secret@h", "ftp://h", "http://", "h"]
)
def test_unusable_proxies_are_named_without_their_value(proxy: str) -> None:
    with pytest.raises(ValueError, match="prox") as caught:
        normal_proxy(proxy)
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="SOCKS proxies are not supported"):
        resolve_proxy("http://x/", {"ALL_PROXY": "socks5://h:1"})


def test_a_socks_proxy_for_other_urls_does_not_matter() -> None:
    environ = {"ALL_PROXY": "socks5://h:1", "NO_PROXY": "x"}
    assert resolve_proxy("http://x/", environ) == ""


def test_malformed_no_proxy() -> None:
    with pytest.raises(ValueError, match="malformed"):
        resolve_proxy("http://x/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "bücher.example"})


def test_trust() -> None:
    assert resolve_trust({}) == (certifi.where(), "")
    assert resolve_trust({"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}) == (certifi.where(), "")
    assert resolve_trust({"SSL_CERT_FILE": "/f", "SSL_CERT_DIR": "/d"}) == ("/f", "")
    assert resolve_trust({"SSL_CERT_DIR": "/d"}) == ("", "/d")
