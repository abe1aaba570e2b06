"""What can go wrong between an agent and the gateway, in words that can be acted on.

Each kind has one static sentence, the same at load, in the audit and in a call's answer, and
the state that a load ends in. The gateway's own words are added only when they are short, plain
and redacted, and always as a quotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_QUOTE = 300
"""Characters of the gateway's own words in a message."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One kind of failure: the state of a load that ends in it, and its sentence."""

    state: str
    text: str


KINDS: Mapping[str, Reason] = {
    "unreachable": Reason("unreachable", "The gateway cannot be reached."),
    "unresolved": Reason(
        "unreachable",
        "The gateway cannot be reached: its host name does not resolve. Check JARVIS_GATEWAY_URL.",
    ),
    "connection_refused": Reason(
        "unreachable",
        "The gateway cannot be reached: nothing accepts the connection at its address and port.",
    ),
    "untrusted": Reason(
        "unreachable",
        "The gateway cannot be reached: its certificate is not trusted. SSL_CERT_FILE names the"
        " trusted roots.",
    ),
    "tls": Reason(
        "unreachable",
        "The gateway cannot be reached: TLS could not be set up. Is its port an https port?",
    ),
    "proxy": Reason(
        "unreachable",
        "The gateway cannot be reached: the proxy refused. Check HTTPS_PROXY and NO_PROXY.",
    ),
    "connection_lost": Reason(
        "unreachable",
        "The gateway cannot be reached: the connection was lost before the answer was complete.",
    ),
    "timeout": Reason("timeout", "The gateway did not answer in time."),
    "unauthorized": Reason(
        "unauthorized", "The gateway refused the API key. Check JARVIS_API_KEY."
    ),
    "forbidden": Reason(
        "forbidden", "The gateway refused access: the API key may not use this namespace."
    ),
    "scope": Reason(
        "forbidden",
        "The API key lacks a scope that the gateway asks for. Its owner has to grant it.",
    ),
    "not_found": Reason(
        "not_found",
        "The gateway has nothing at this address. Check JARVIS_GATEWAY_URL and"
        " JARVIS_MCP_NAMESPACE.",
    ),
    "redirect": Reason(
        "refused",
        "The gateway answered with a redirect, which is not followed. Set JARVIS_GATEWAY_URL to"
        " the final address.",
    ),
    "session_lost": Reason("refused", "The gateway no longer knows the session."),
    "refused": Reason("refused", "The gateway refused the request."),
    "server_error": Reason("server_error", "The gateway answered with a server error."),
    "mcp_error": Reason("mcp_error", "The gateway answered with an MCP error."),
    "web_page": Reason(
        "malformed",
        "The gateway answered with a web page where JSON was expected. Check JARVIS_GATEWAY_URL"
        " and JARVIS_MCP_NAMESPACE.",
    ),
    "malformed": Reason("malformed", "The gateway's answer is not an MCP answer."),
    "bad_output": Reason(
        "malformed", "The tool's answer does not match the output schema that the tool declares."
    ),
    "too_large": Reason("too_large", "The gateway's answer is too large."),
    "closed": Reason("closed", "The gateway's tools were closed."),
}

STATES: Mapping[str, str] = {
    "ok": "The gateway answered.",
    "not_configured": "JARVIS_GATEWAY_URL is not set.",
    "misconfigured": "The gateway's configuration cannot be used.",
    **{reason.state: reason.text for kind, reason in KINDS.items() if kind == reason.state},
}
"""The states of a load, each with its sentence when nothing finer is known."""


class WireError(Exception):
    """An exchange that did not end in an MCP answer.

    `kind` is a key of KINDS, `status` the HTTP status when there was one, `words` what the
    gateway said about it (redacted, one line), `detail` a word of ours.
    """

    def __init__(
        self, kind: str, *, status: int | None = None, words: str = "", detail: str = ""
    ) -> None:
        super().__init__(KINDS[kind].text)
        self.kind = kind
        self.status = status
        self.words = words
        self.detail = detail

    @property
    def state(self) -> str:
        """The state of a load that ends in this."""
        return KINDS[self.kind].state

    @property
    def more(self) -> str:
        """What is known beside the sentence: status, detail, the gateway's words as such."""
        parts = []
        if self.status not in (None, 200):
            parts.append(f"HTTP {self.status}")
        if self.detail:
            parts.append(self.detail)
        if self.words:
            parts.append(f'the gateway says: "{self.words}"')
        return ", ".join(parts)

    def sentence(self) -> str:
        """The static sentence, and what is known beside it in brackets."""
        return f"{self} ({self.more})" if self.more else str(self)

    def again(self) -> WireError:
        """The same failure as an exception of its own, for another caller."""
        return WireError(self.kind, status=self.status, words=self.words, detail=self.detail)


def quotable(words: str) -> str:
    """`words` on one line and short; empty when they are markup, not words."""
    line = " ".join("".join(c if c.isprintable() else " " for c in words).split())
    if line.startswith("<") and not line.startswith("<redacted"):
        return ""
    return line[:MAX_QUOTE]
