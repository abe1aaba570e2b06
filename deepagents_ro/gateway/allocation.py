"""The allocation table: which agent gets which gateway tools, and what is said about a tool.

The table is a TOML file; ours is `allocation.toml`, a user may bring another:

    [agents.main]
    tools = ["text_normalize"]

    [agents.value-resolver]
    tools = ["geo_create_buffer"]
    description = "..."        # for the agent that delegates to it
    system_prompt = "..."

    [tools.geo_create_buffer]
    gateway_name = "geo.registry/make_buffer"   # an alias: this tool and no other
    timeout_s = 3              # seconds for one call, instead of the configuration's
    sample = {longitude = 35.2, latitude = 31.8, distance_m = 100}  # for `gateway latency`

or build it in Python:

    Allocation.of({"main": ["text_normalize"]}, tools=[ToolSettings("text_normalize", timeout_s=3)])
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path

from .document import Document
from .names import normalise
from .time_limit import is_limit

MAIN = "main"
MAX_NAME = 64
"""Characters of a tool's name that every model's client takes."""


class AllocationError(ValueError):
    """The table cannot be used; the message says where."""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One agent: its tools by their allowed names, and what a subagent is made from.

    Raises:
        AllocationError: a member is of a wrong type or empty.
    """

    name: str
    tools: tuple[str, ...] = ()
    description: str = ""
    system_prompt: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise AllocationError("an agent has no name")
        where = f"agents.{self.name}"
        tools: object = self.tools
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise AllocationError(f"{where}.tools is not a list of names")
        canonical = tuple(dict.fromkeys(_tool_name(tool, f"{where}.tools") for tool in tools))
        object.__setattr__(self, "tools", canonical)
        if not isinstance(self.description, str) or not isinstance(self.system_prompt, str):
            raise AllocationError(f"{where} has a text that is no string")


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """What the table says about one tool.

    Args:
        name: its allowed name.
        gateway_name: the one gateway tool that it is, whatever its name looks like.
        timeout_s: seconds for one call.
        sample: arguments that a measurement may call it with.

    Raises:
        AllocationError: a member is of a wrong type or out of range.
    """

    name: str
    gateway_name: str = ""
    timeout_s: float | None = None
    sample: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _tool_name(self.name, "tools"))
        where = f"tools.{self.name}"
        if not isinstance(self.gateway_name, str):
            raise AllocationError(f"{where}.gateway_name is no string")
        if self.timeout_s is not None and not is_limit(self.timeout_s):
            raise AllocationError(f"{where}.timeout_s is not a positive number of seconds")
        if self.sample is not None and not isinstance(self.sample, Mapping):
            raise AllocationError(f"{where}.sample is not a table of arguments")


@dataclass(frozen=True, slots=True)
class Allocation:
    """Agents in the order of the table, and settings of tools.

    Raises:
        AllocationError: an agent or a tool is there twice, or settings are for a tool that no
            agent lists.
    """

    agents: tuple[AgentEntry, ...]
    settings_of: Mapping[str, ToolSettings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.agents]
        for name in names:
            if names.count(name) > 1:
                raise AllocationError(f"agents.{name} is there twice")
        listed = self.allowed()
        for name in self.settings_of:
            if name not in listed:
                raise AllocationError(f"tools.{name} is about a tool that no agent lists")

    @classmethod
    def of(
        cls,
        agents: Mapping[str, Iterable[str]] | Iterable[AgentEntry],
        *,
        tools: Iterable[ToolSettings] = (),
    ) -> Allocation:
        """A table built in Python: names of tools by agent, or whole entries."""
        if isinstance(agents, Mapping):
            entries = tuple(AgentEntry(name, _listed(names)) for name, names in agents.items())
        else:
            entries = tuple(agents)
        if not entries:
            raise AllocationError("no agents")
        settings: dict[str, ToolSettings] = {}
        for tool in tools:
            if tool.name in settings:
                raise AllocationError(f"tools.{tool.name} is there twice")
            settings[tool.name] = tool
        return cls(entries, settings)

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
        tools = document.get("tools", {})
        unknown = set(document) - {"agents", "tools"}
        if unknown or not isinstance(tools, dict):
            raise AllocationError(f"an unknown key: {min(unknown, default='tools')}")
        return cls.of(
            [
                AgentEntry(name, **_members(f"agents.{name}", value, AgentEntry))
                for name, value in agents.items()
            ],
            tools=[
                ToolSettings(name, **_members(f"tools.{name}", value, ToolSettings))
                for name, value in tools.items()
            ],
        )

    def agent(self, name: str) -> AgentEntry | None:
        """The entry of an agent; `None` when the table does not have it."""
        return next((entry for entry in self.agents if entry.name == name), None)

    def tools(self, agent: str) -> tuple[str, ...]:
        """The allowed names of an agent; empty for one that the table does not have."""
        entry = self.agent(agent)
        return entry.tools if entry is not None else ()

    def settings(self, tool: str) -> ToolSettings:
        """What the table says about a tool, by its allowed name."""
        return self.settings_of.get(tool) or ToolSettings(tool)

    def allowed(self) -> dict[str, tuple[str, ...]]:
        """Every allowed name, with the agents that list it."""
        found: dict[str, list[str]] = {}
        for entry in self.agents:
            for tool in entry.tools:
                found.setdefault(tool, []).append(entry.name)
        return {tool: tuple(agents) for tool, agents in found.items()}


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise AllocationError("an agent's tools are not a list of names")
    return tuple(names)


def _tool_name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise AllocationError(f"{where} is not a list of names")
    canonical = normalise(name)
    if not canonical.strip("_"):
        raise AllocationError(f"{where} has an empty name")
    if len(canonical) > MAX_NAME:
        raise AllocationError(f"{where} has a name of more than {MAX_NAME} characters")
    return canonical


def _members(where: str, value: object, kind: type[AgentEntry] | type[ToolSettings]) -> Document:
    """The members of one table of the document, all of them known."""
    if not isinstance(value, dict):
        raise AllocationError(f"{where} is not a table")
    unknown = set(value) - {member.name for member in fields(kind) if member.name != "name"}
    if unknown:
        raise AllocationError(f"{where} has an unknown key: {min(unknown)}")
    return value
