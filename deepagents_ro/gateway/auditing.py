"""The audit: is the gateway there, which tools does it have, who gets each, and why not.

It loads the tools as an agent would and calls none of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .allocation import Allocation
from .config import ConfigError, GatewayConfig
from .document import Document
from .load import GatewayTools, load_gateway_tools
from .verdicts import REASONS, Finding, near_misses

# States of a load in which the gateway has refused who asks.
_REFUSED = ("unauthorized", "forbidden")
_NOT_REACHED = ("not_configured", "misconfigured", "unreachable", "timeout")


@dataclass(frozen=True)
class Audit:
    """What the audit found; `elapsed_ms` is in milliseconds, `url` the endpoint that was asked."""

    loaded: GatewayTools
    elapsed_ms: float
    url: str = ""
    has_key: bool = False

    @property
    def reachable(self) -> bool:
        """Whether anything answered at the gateway's address."""
        return self.loaded.state not in _NOT_REACHED

    @property
    def authentication(self) -> str:
        """`sent` (it may not be checked), `not_sent`, `refused`; `unknown` if nobody answered."""
        if not self.reachable:
            return "unknown"
        if not self.has_key:
            return "not_sent"
        return "refused" if self.loaded.state in _REFUSED else "sent"

    @property
    def exit_status(self) -> int:
        """0 every allocated tool can be used, 1 some cannot, 2 the gateway cannot be asked."""
        if not self.loaded.available:
            return 2
        return 1 if self.absent() else 0

    def absent(self) -> dict[str, str]:
        """The allocated tools that cannot be used, each with why."""
        loaded = self.loaded
        if not loaded.available:
            return dict.fromkeys(loaded.allocation.allowed(), loaded.reason)
        found = {}
        for name in loaded.allocation.allowed():
            if name not in loaded.tools:
                found[name] = self._why_absent(name)
        return found

    def _why_absent(self, name: str) -> str:
        refused = [finding for finding in self.loaded.findings if finding.allowed_name == name]
        if refused:
            return "; ".join(
                f"{finding.name}: {REASONS[finding.reason]}"
                + (f" ({finding.detail})" if finding.detail else "")
                for finding in refused
            )
        near = near_misses(self.loaded.findings, name)
        if near:
            return f"the gateway lacks it; it has {', '.join(near)}, which does not match"
        return "the gateway lacks it"

    def access(self) -> str:
        """The answer to: who has access to what?"""
        loaded = self.loaded
        has = [
            f"{entry.name} has {len(loaded.for_agent(entry.name))} of {len(entry.tools)}"
            for entry in loaded.allocation.agents
            if entry.tools
        ]
        none = [entry.name for entry in loaded.allocation.agents if not entry.tools]
        if none:
            has.append(f"{', '.join(none)} none by design")
        always = "An agent works without them when the gateway does not."
        return f"Access: {'; '.join(has)}. {always}"

    def unused(self) -> str:
        """The answer to: which other tools are there, and why are they not used?"""
        counted = Counter(f.reason for f in self.loaded.findings if not f.exposed)
        if not self.loaded.available:
            return "Not used: unknown, since the gateway could not be asked."
        if not counted:
            return "Not used: nothing; every tool of the gateway is allocated."
        parts = [f"{times} {REASONS[reason]}" for reason, times in counted.most_common()]
        of_all = f"{sum(counted.values())} of {len(self.loaded.findings)} tools"
        return f"Not used: {of_all} ({'; '.join(parts)})."

    def selected(self, *, agent: str = "", refused: bool = False) -> list[Finding]:
        """The findings about one agent's tools, or those that no agent gets."""
        names = set(self.loaded.allocation.tools(agent)) if agent else set()
        return [
            finding
            for finding in self.loaded.findings
            if (not agent or finding.allowed_name in names) and not (refused and finding.exposed)
        ]

    def as_json(
        self, *, agent: str = "", refused: bool = False, page: int = 1, page_size: int = 0
    ) -> Document:
        """The report for programs.

        Args:
            agent: only the tools that the table gives to this agent.
            refused: only the tools that nobody gets.
            page: which part of the tools, from 1.
            page_size: tools in a part; 0 for all of them in one.
        """
        loaded = self.loaded
        findings = self.selected(agent=agent, refused=refused)
        pages = max(1, -(-len(findings) // page_size)) if page_size else 1
        first = (page - 1) * page_size
        shown = findings[first : first + page_size] if page_size else findings
        absent = self.absent()
        return {
            "gateway": {
                "state": loaded.state,
                "reason": loaded.reason,
                "url": self.url,
                "detail": loaded.detail,
                "reachable": self.reachable,
                "authentication": self.authentication,
                "elapsed_ms": round(self.elapsed_ms, 1),
            },
            "access": self.access(),
            "unused": self.unused(),
            "agents": [
                {
                    "name": entry.name,
                    "tools": [tool.name for tool in loaded.for_agent(entry.name)],
                    "absent": [name for name in entry.tools if name not in loaded.tools],
                }
                for entry in loaded.allocation.agents
                if agent in ("", entry.name)
            ],
            "tools": [
                {**finding.as_json(), "explanation": REASONS[finding.reason]} for finding in shown
            ],
            "page": {"number": page, "of": pages, "tools": len(findings)},
            "missing": [
                {"name": name, "agents": list(agents)}
                for name, agents in loaded.allocation.allowed().items()
                if name in loaded.missing or not loaded.available
            ],
            "unusable": [
                {"name": name, "why": why, "near": near_misses(loaded.findings, name)}
                for name, why in absent.items()
            ],
        }


async def audit(
    config: GatewayConfig | None = None,
    *,
    allocation: Allocation | None = None,
    require_hints: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Audit:
    """Look at the gateway; takes at most `UTILS_MCP_TIMEOUT_S` and a second for the good-bye."""
    started = time.perf_counter()
    loaded = await load_gateway_tools(
        config, allocation=allocation, require_hints=require_hints, environ=environ
    )
    elapsed_ms = (time.perf_counter() - started) * 1000.0
    await loaded.aclose()
    used = config or _configured(environ)
    if used is None:
        return Audit(loaded, elapsed_ms)
    return Audit(loaded, elapsed_ms, url=used.endpoint, has_key=bool(used.api_key))


def _configured(environ: Mapping[str, str] | None) -> GatewayConfig | None:
    try:
        return GatewayConfig.from_env(environ)
    except ConfigError:
        return None  # the load has reported it
