"""Where the gateway is and who asks, from the environment.

`JARVIS_GATEWAY_URL`       base URL, http or https; without it there are no gateway tools
`JARVIS_MCP_NAMESPACE`     default `global`
`JARVIS_API_KEY`           sent as `Authorization: ApiKey <key>`
`UTILS_MCP_TIMEOUT_S`      seconds for loading the tools, and for one call; default 10
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar, cast
from urllib.parse import quote, urlsplit

import httpx

from deepagents_ro import _mcpro

from .time_limit import is_limit

T = TypeVar("T")

DEFAULT_NAMESPACE = "global"
DEFAULT_TIMEOUT_S = 10.0
MIN_SECRET = 8
"""Characters from which on a secret is searched for in raw documents."""
REDACTED = "<redacted-secret>"


class ConfigError(ValueError):
    """The environment is set but cannot be used. The message names the variable, no value."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """One gateway, one namespace, one key.

    Args:
        url: base URL, http or https, without user, query or fragment.
        namespace: the part of the gateway that is used.
        api_key: sent as `Authorization: ApiKey <key>`; empty for none.
        timeout_s: seconds for loading the tools, and for one call.

    Raises:
        ConfigError: a value cannot be used.
    """

    url: str = field(repr=False)
    namespace: str = DEFAULT_NAMESPACE
    api_key: str = field(default="", repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S

    def __post_init__(self) -> None:
        _check_url(self.url)
        _check_key(self.api_key)
        if not isinstance(self.namespace, str) or not self.namespace.strip():
            raise ConfigError("JARVIS_MCP_NAMESPACE is empty")
        if not is_limit(self.timeout_s):
            raise ConfigError("UTILS_MCP_TIMEOUT_S is not a positive number of seconds")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> GatewayConfig | None:
        """The configured gateway; `None` when there is no URL.

        Raises:
            ConfigError: a variable is set to something that cannot be used.
        """
        source = os.environ if environ is None else environ
        url = source.get("JARVIS_GATEWAY_URL", "").strip()
        if not url:
            return None
        return cls(
            url=url,
            namespace=source.get("JARVIS_MCP_NAMESPACE", "").strip() or DEFAULT_NAMESPACE,
            api_key=source.get("JARVIS_API_KEY", "").strip(),
            timeout_s=_seconds(source.get("UTILS_MCP_TIMEOUT_S", "").strip()),
        )

    @property
    def endpoint(self) -> str:
        """The streamable HTTP endpoint, with its final slash."""
        return f"{self.url.rstrip('/')}/mcp/{quote(self.namespace, safe='')}/"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"ApiKey {self.api_key}"} if self.api_key else {}

    def redact(self, text: str) -> str:
        """`text` with the key, plain or encoded, replaced by `<redacted-secret>`."""
        return self.redact_value(text)

    def redact_value(self, value: T) -> T:
        """`value`, a JSON value, with the key replaced in every string and object key.

        Raises:
            ValueError: it cannot be searched (too large, too deep, no JSON), or two keys of an
                object would become equal.
        """
        if not self.api_key:
            return value
        document = json.dumps(value).encode("ascii")
        redacted = self.redact_json(document)
        found: object = value if redacted == document else json.loads(redacted)
        if self._short:
            found = _without(found, _forms(self.api_key))
        return cast("T", found)  # the same JSON type

    def redact_answer(self, value: T) -> T:
        """`redact_value` for what came through `redact_json`, which has found a longer key."""
        return self.redact_value(value) if self._short else value

    def redact_json(self, document: bytes) -> bytes:
        """One strict JSON document of at most 8 MiB, with the key replaced in its strings.

        A key of fewer than 8 bytes is found here only behind its scheme: alone it could be part
        of what a protocol's message is made of. `redact_value` finds it in the values.

        Raises:
            ValueError: it is no such document, or two keys of an object would become equal.
        """
        return _redactor(self.api_key).redact(document, shapes=False)

    @property
    def _short(self) -> bool:
        return 0 < len(self.api_key) < MIN_SECRET


@lru_cache(maxsize=8)
def _redactor(api_key: str) -> _mcpro.Redactor:
    if not api_key:
        return _mcpro.Redactor([])
    long = api_key if len(api_key) >= MIN_SECRET else f"ApiKey {api_key}"
    return _mcpro.Redactor([long.encode()])


@lru_cache(maxsize=8)
def _forms(api_key: str) -> tuple[str, ...]:
    """The key as it may stand in a text, the longest form first."""
    forms = {api_key, quote(api_key, safe="")}
    forms |= {base64.b64encode(text.encode()).decode() for text in (api_key, f"ApiKey {api_key}")}
    return tuple(sorted(forms, key=len, reverse=True))


def _without(value: object, forms: tuple[str, ...]) -> object:
    if isinstance(value, str):
        for part in value.split(REDACTED):
            if any(form in part for form in forms):
                return REDACTED.join(_replaced(part, forms) for part in value.split(REDACTED))
        return value
    if isinstance(value, list):
        return [_without(item, forms) for item in value]
    if isinstance(value, dict):
        return {_without(key, forms): _without(item, forms) for key, item in value.items()}
    return value


def _replaced(text: str, forms: tuple[str, ...]) -> str:
    pattern = "|".join(re.escape(form) for form in forms)
    return re.sub(pattern, REDACTED, text)


def _check_url(url: object) -> None:
    try:
        text = url if isinstance(url, str) else ""
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        usable = usable and not (parts.query or parts.fragment) and parts.username is None
        _port = parts.port
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise ConfigError("JARVIS_GATEWAY_URL is not a plain http or https URL")


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not key.isascii() or not key.isprintable():
        raise ConfigError("JARVIS_API_KEY has characters that a header cannot carry")


def _seconds(text: str) -> float:
    if not text:
        return DEFAULT_TIMEOUT_S
    try:
        return float(text)
    except ValueError:
        return math.nan  # which no check passes
