"""Curated gateway tools for deep agents.

    agent = await acreate_deep_agent("provider:model", [run_query])

The gateway comes from the environment (see `config`); without it, or when it fails, the agent is
built without its tools. `load_gateway_tools` loads them alone, `create_deep_agent` takes tools
that are loaded already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .allocation import Allocation, AllocationError
from .config import ConfigError, GatewayConfig

if TYPE_CHECKING:
    from .agent import acreate_deep_agent, create_deep_agent
    from .load import GatewayTools, load_gateway_tools

__all__ = [
    "Allocation",
    "AllocationError",
    "ConfigError",
    "GatewayConfig",
    "GatewayTools",
    "acreate_deep_agent",
    "create_deep_agent",
    "load_gateway_tools",
]

_LATER = {
    "GatewayTools": "load",
    "load_gateway_tools": "load",
    "acreate_deep_agent": "agent",
    "create_deep_agent": "agent",
}


def __getattr__(name: str) -> object:
    """Import what needs `deepagents` and the adapter only when it is asked for."""
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
