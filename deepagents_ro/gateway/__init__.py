"""Curated gateway tools for deep agents.

    agent = await acreate_deep_agent("provider:model", [run_query])

The gateway comes from the environment (see `config`); without it, or when it fails, the agent is
built without its tools. `load_gateway_tools` loads them alone, `create_deep_agent` takes tools
that are loaded already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .allocation import AgentEntry, Allocation, AllocationError, ToolSettings
from .config import ConfigError, GatewayConfig

if TYPE_CHECKING:
    from .agent import acreate_deep_agent, create_deep_agent
    from .auditing import Audit, audit
    from .latency import LatencyReport, measure
    from .load import GatewayTools, load_gateway_tools
    from .verdicts import Finding

__all__ = [
    "AgentEntry",
    "Allocation",
    "AllocationError",
    "Audit",
    "ConfigError",
    "Finding",
    "GatewayConfig",
    "GatewayTools",
    "LatencyReport",
    "ToolSettings",
    "acreate_deep_agent",
    "audit",
    "create_deep_agent",
    "load_gateway_tools",
    "measure",
]

_LATER = {
    "Audit": "auditing",
    "audit": "auditing",
    "Finding": "verdicts",
    "GatewayTools": "load",
    "LatencyReport": "latency",
    "acreate_deep_agent": "agent",
    "create_deep_agent": "agent",
    "load_gateway_tools": "load",
    "measure": "latency",
}


def __getattr__(name: str) -> object:
    """Import what needs `deepagents` and the adapter only when it is asked for."""
    if name in _LATER:
        from importlib import import_module

        found: object = getattr(import_module(f".{_LATER[name]}", __name__), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
