"""How an endpoint is reached: its clean URL, proxy and trust, as httpx would choose them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import httpx

from deepagents_ro import network


class Route(NamedTuple):
    """What the C transport needs to know to open a connection."""

    url: str
    """Absolute, normalised by httpx, without user info and fragment."""
    proxy: str
    """Proxy URL with its user info, or ''."""
    cafile: str
    capath: str
    """One of the two names the trusted roots of an https URL; the other is ''."""


def route_to(url: str, environ: Mapping[str, str]) -> Route:
    """The route to `url` in this environment.

    Raises:
        ValueError: not an http or https URL, or a proxy that is not supported (SOCKS).
    """
    try:
        parsed = httpx.URL(url)
        clean = str(parsed.copy_with(userinfo=b"", fragment=None))
    except (httpx.InvalidURL, TypeError) as error:
        raise ValueError("the URL is malformed") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError("the URL is not http or https")
    cafile, capath = network.resolve_trust(environ)
    return Route(clean, network.resolve_proxy(clean, environ), cafile, capath)
