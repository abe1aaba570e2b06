"""Where the gateway is and who asks, from the environment.

`JARVIS_GATEWAY_URL`       base URL, http or https; without it there are no gateway tools
`JARVIS_MCP_NAMESPACE`     default `global`
`JARVIS_API_KEY`           sent as `Authorization: ApiKey <key>`
`UTILS_MCP_TIMEOUT_S`      seconds for loading the tools, and for one call; default 10
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from deepagents_ro import _mcpro

DEFAULT_NAMESPACE = "global"
DEFAULT_TIMEOUT_S = 10.0


class ConfigError(ValueError):
    """The environment is set but cannot be used. The message names the variable, no value."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """One gateway, one namespace, one key."""

    url: str = field(repr=False)
    namespace: str = DEFAULT_NAMESPACE
    api_key: str = field(default="", repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S

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
            url=_checked_url(url),
            namespace=source.get("JARVIS_MCP_NAMESPACE", "").strip() or DEFAULT_NAMESPACE,
            api_key=_checked_key(source.get("JARVIS_API_KEY", "").strip()),
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
        found = self.redact_value(text)
        return found if isinstance(found, str) else ""

    def redact_value(self, value: Any) -> Any:
        """`value`, a JSON value, with the key replaced in every string and object key.

        Raises:
            ValueError: it cannot be searched (too large, too deep, no JSON), or two keys of an
                object would become equal.
        """
        if not self.api_key:
            return value
        document = json.dumps(value).encode("ascii")
        redacted = _redactor(self.api_key).redact(document, shapes=False)
        return value if redacted == document else json.loads(redacted)


@lru_cache(maxsize=8)
def _redactor(api_key: str) -> _mcpro.Redactor:
    return _mcpro.Redactor([api_key.encode()])


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        usable = usable and not (parts.query or parts.fragment) and parts.username is None
        _port = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("JARVIS_GATEWAY_URL is not a plain http or https URL")
    return url


def _checked_key(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise ConfigError("JARVIS_API_KEY has characters that a header cannot carry")
    return key


def _seconds(text: str) -> float:
    if not text:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (0 < seconds < math.inf):
        raise ConfigError("UTILS_MCP_TIMEOUT_S is not a positive number of seconds")
    return seconds
