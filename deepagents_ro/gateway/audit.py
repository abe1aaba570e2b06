"""The audit: is the gateway there, which tools does it have, who gets each, and why not.

It loads the tools as an agent would and calls none of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .allocation import Allocation
from .config import GatewayConfig
from .load import STATES, GatewayTools, load_gateway_tools
from .verdicts import REASONS

_AUTHENTICATION = {
    "ok": "accepted",
    "unauthorized": "refused",
    "forbidden": "refused",
}
_NOT_REACHED = ("not_configured", "misconfigured", "unreachable", "timeout")


@dataclass(frozen=True)
class Audit:
    """What the audit found; `elapsed_ms` is in milliseconds."""

    loaded: GatewayTools
    elapsed_ms: float

    @property
    def reachable(self) -> bool:
        """Whether anything answered at the gateway's address."""
        return self.loaded.state not in _NOT_REACHED

    @property
    def authentication(self) -> str:
        """`accepted`, `refused`, or `unknown` when it did not come to that."""
        return _AUTHENTICATION.get(self.loaded.state, "unknown")

    def as_json(self) -> dict[str, Any]:
        """The report for programs."""
        loaded = self.loaded
        return {
            "gateway": {
                "state": loaded.state,
                "reason": STATES[loaded.state],
                "detail": loaded.detail,
                "reachable": self.reachable,
                "authentication": self.authentication,
                "elapsed_ms": round(self.elapsed_ms, 1),
            },
            "agents": [
                {
                    "name": entry.name,
                    "tools": [tool.name for tool in loaded.for_agent(entry.name)],
                    "absent": [name for name in entry.tools if name not in loaded.tools],
                }
                for entry in loaded.allocation.agents
            ],
            "tools": [
                {**finding.as_json(), "explanation": REASONS[finding.reason]}
                for finding in loaded.findings
            ],
            "missing": [
                {"name": name, "agents": list(agents)}
                for name, agents in loaded.allocation.allowed().items()
                if name in loaded.missing or not loaded.available
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
    return Audit(loaded, elapsed_ms)
