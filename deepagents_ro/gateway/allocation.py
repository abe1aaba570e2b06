"""The allocation table: which agent gets which gateway tools.

The table is a TOML file; ours is `allocation.toml`, a user may bring another:

    [agents.main]
    tools = ["text_normalize"]

    [agents.value-resolver]
    tools = ["geo_create_buffer"]
    description = "..."        # for the agent that delegates to it
    system_prompt = "..."
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from .names import normalise

MAIN = "main"


class AllocationError(ValueError):
    """The table cannot be used; the message says where."""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One agent: its tools by their allowed names, and what a subagent is made from."""

    name: str
    tools: tuple[str, ...]
    description: str = ""
    system_prompt: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Agents in the order of the file."""

    agents: tuple[AgentEntry, ...]

    @classmethod
    def default(cls) -> Allocation:
        """The table that comes with the package."""
        text = resources.files(__package__).joinpath("allocation.toml").read_text("utf-8")
        return cls.parse(text)

    @classmethod
    def load(cls, path: str | Path) -> Allocation:
        """A user's own table.

        Raises:
            OSError: the file cannot be read.
            AllocationError: it is no such table.
        """
        return cls.parse(Path(path).read_bytes().decode("utf-8", "replace"))

    @classmethod
    def parse(cls, text: str) -> Allocation:
        """The table in `text`."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise AllocationError(f"not a TOML document: {error}") from error
        agents = document.get("agents")
        if not isinstance(agents, dict) or not agents:
            raise AllocationError("no [agents.NAME] table")
        return cls(tuple(_entry(name, value) for name, value in agents.items()))

    def agent(self, name: str) -> AgentEntry | None:
        """The entry of an agent; `None` when the table does not have it."""
        return next((entry for entry in self.agents if entry.name == name), None)

    def tools(self, agent: str) -> tuple[str, ...]:
        """The allowed names of an agent; empty for one that the table does not have."""
        entry = self.agent(agent)
        return entry.tools if entry is not None else ()

    def allowed(self) -> dict[str, tuple[str, ...]]:
        """Every allowed name, with the agents that list it."""
        found: dict[str, list[str]] = {}
        for entry in self.agents:
            for tool in entry.tools:
                found.setdefault(tool, []).append(entry.name)
        return {tool: tuple(agents) for tool, agents in found.items()}


def _entry(name: str, value: Any) -> AgentEntry:
    if not isinstance(value, dict):
        raise AllocationError(f"agents.{name} is not a table")
    unknown = set(value) - {"tools", "description", "system_prompt"}
    if unknown:
        raise AllocationError(f"agents.{name} has an unknown key: {sorted(unknown)[0]}")
    tools = value.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
        raise AllocationError(f"agents.{name}.tools is not a list of names")
    canonical = tuple(dict.fromkeys(normalise(tool) for tool in tools))
    if any(not tool.strip("_") for tool in canonical):
        raise AllocationError(f"agents.{name}.tools has an empty name")
    texts = {key: value.get(key, "") for key in ("description", "system_prompt")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise AllocationError(f"agents.{name} has a text that is no string")
    return AgentEntry(name, canonical, texts["description"], texts["system_prompt"])
