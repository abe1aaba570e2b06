"""Which proxy and which trusted roots a request uses: the choice of httpx 0.28, as plain values.

httpx makes this choice for its own transports only, and libcurl's own rules differ (it ignores
`HTTP_PROXY` in upper case, say), so it is made here and libcurl is told the result. The variables
mean what httpx makes of them, oddities included; `tests/test_network.py` compares both over
generated environments.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

import httpx

PROXY_SCHEMES = ("http", "https")


def resolve_trust(environ: Mapping[str, str]) -> tuple[str, str]:
    """`(cafile, capath)`: where the trusted roots are; exactly one of the two is not empty."""
    if environ.get("SSL_CERT_FILE"):
        return environ["SSL_CERT_FILE"], ""
    if environ.get("SSL_CERT_DIR"):
        return "", environ["SSL_CERT_DIR"]
    import certifi

    return certifi.where(), ""


def resolve_proxy(url: str | httpx.URL, environ: Mapping[str, str]) -> str:
    """The proxy for `url`: `http[s]://[user[:password]@]host[:port]`, or '' for none.

    Raises:
        ValueError: the chosen proxy is SOCKS or malformed, or an entry of `NO_PROXY` is malformed.
            The text names no value.
    """
    target = httpx.URL(url)
    try:
        rules = sorted((_Rule.parse(*pair) for pair in _mounts(environ).items()), key=_Rule.rank)
    except httpx.InvalidURL:
        raise ValueError("a proxy variable is malformed") from None
    for rule in rules:
        if rule.matches(target):
            return "" if rule.proxy is None else normal_proxy(rule.proxy)
    return ""


def normal_proxy(proxy: str | httpx.URL) -> str:
    """One proxy URL in the form that the C transport takes.

    Raises:
        ValueError: not an http or https URL with a host. The text names no value.
    """
    try:
        url = httpx.URL(proxy)
    except httpx.InvalidURL:
        raise ValueError("the proxy URL is malformed") from None
    if url.scheme.startswith("socks"):
        raise ValueError("SOCKS proxies are not supported")
    if url.scheme not in PROXY_SCHEMES or not url.host:
        raise ValueError("the proxy URL is malformed")
    userinfo = url.userinfo.decode("ascii")
    at = "@" if userinfo else ""
    return f"{url.scheme}://{userinfo}{at}{url.netloc.decode('ascii')}"


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The `*_proxy` variables by lower-case scheme, as `urllib.request.getproxies` reads them."""
    found = [
        (name, name[:-6].lower(), value)
        for name, value in environ.items()
        if len(name) > 5 and name[-6] == "_" and name[-5:].lower() == "proxy"
    ]
    proxies = {scheme: value for _, scheme, value in found if value}
    if "REQUEST_METHOD" in environ:
        # A CGI program's HTTP_PROXY may be a request's "Proxy:" header.
        proxies.pop("http", None)
    for name, scheme, value in found:
        if name.endswith("_proxy"):
            if value:
                proxies[scheme] = value
            else:
                proxies.pop(scheme, None)
    return proxies


def _mounts(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Patterns, each with the proxy that it stands for; None is no proxy."""
    variables = _variables(environ)
    mounts: dict[str, str | None] = {}
    for scheme in ("http", "https", "all"):
        proxy = variables.get(scheme)
        if proxy:
            mounts[f"{scheme}://"] = proxy if "://" in proxy else f"http://{proxy}"
    for entry in variables.get("no", "").split(","):
        name = entry.strip()
        if name == "*":
            return {}
        if name:
            mounts[_no_proxy_pattern(name)] = None
    return mounts


def _no_proxy_pattern(name: str) -> str:
    if "://" in name:
        return name
    address = name.split("/")[0]
    if _is_address(ipaddress.IPv4Address, address) or name.lower() == "localhost":
        return f"all://{name}"
    if _is_address(ipaddress.IPv6Address, address):
        return f"all://[{name}]"
    return f"all://*{name}"


def _is_address(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


class _Rule(NamedTuple):
    """One pattern: any part that is empty or None fits everything."""

    scheme: str
    host: str
    port: int | None
    proxy: str | None

    @classmethod
    def parse(cls, pattern: str, proxy: str | None) -> _Rule:
        url = httpx.URL(pattern)
        scheme = "" if url.scheme == "all" else url.scheme
        return cls(scheme, "" if url.host == "*" else url.host, url.port, proxy)

    def rank(self) -> tuple[int, int, int]:
        """The most telling pattern first: with a port, then by length of host and scheme."""
        return (0 if self.port is not None else 1, -len(self.host), -len(self.scheme))

    def matches(self, url: httpx.URL) -> bool:
        return (
            (not self.scheme or self.scheme == url.scheme)
            and (not self.host or self._is_host(url.host))
            and (self.port is None or self.port == url.port)
        )

    def _is_host(self, host: str) -> bool:
        """`*.x` is anything below x, `*x` is x and anything below it, `x` is x alone."""
        if self.host.startswith("*."):
            return len(host) >= len(self.host) and host.endswith(self.host[1:])
        if self.host.startswith("*"):
            return host == self.host[1:] or host.endswith("." + self.host[1:])
        return host == self.host
