"""Deep agents with curated gateway tools: each agent gets its own, and works without them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias, cast

import deepagents
from deepagents.middleware.async_subagents import AsyncSubAgent
from deepagents.middleware.subagents import (
    GENERAL_PURPOSE_SUBAGENT,
    CompiledSubAgent,
    SubAgent,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from . import skill_files
from .allocation import MAIN, Allocation
from .config import GatewayConfig
from .document import Document
from .load import GatewayTools, load_gateway_tools

logger = logging.getLogger("deepagents_ro.gateway")

BUILT_IN = frozenset(
    {
        "ls",
        "read_file",
        "write_file",
        "edit_file",
        "delete",
        "glob",
        "grep",
        "execute",
        "task",
        "write_todos",
    }
)
"""Names that `deepagents` gives its own tools; an extra tool never takes one."""

ExtraTools = GatewayTools | Mapping[str, Sequence[BaseTool]] | Sequence[BaseTool]
Tool = BaseTool | Callable[..., object] | Document  # type: ignore[explicit-any]
Subagent = SubAgent | CompiledSubAgent | AsyncSubAgent
Option: TypeAlias = Any  # type: ignore[explicit-any]
"""Whatever a parameter of `deepagents.create_deep_agent` takes."""
Agent: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]  # type: ignore[explicit-any]
"""What `deepagents.create_deep_agent` makes, with state and context of any type."""


def create_deep_agent(
    model: str | BaseChatModel,
    tools: Sequence[Tool] | None = None,
    *,
    extra_tools: ExtraTools = (),
    gateway: GatewayTools | None = None,
    allocation: Allocation | None = None,
    subagents: Sequence[Subagent] | None = None,
    with_skills: bool = True,
    **options: Option,
) -> Agent:
    """A deep agent with extra tools; contacts nothing.

    Args:
        model: as in `deepagents.create_deep_agent`.
        tools: the main agent's own tools; subagents without `tools` of their own get these too,
            but never the main agent's extra tools.
        extra_tools: loaded gateway tools, or tools by agent (`{"main": [...]}`), or a plain list,
            of which each agent gets what the table gives it and the main agent also what the
            table does not list.
        gateway: loaded gateway tools beside the extra ones; of two tools of one name the
            gateway's is left out.
        allocation: the table; by default the one that the tools were loaded with, else the
            package's.
        subagents: as in `deepagents.create_deep_agent`; by default the subagents of the table.
        with_skills: mount the packaged skills, whether or not a gateway is there, for the main
            agent and every agent to which the table gives a tool.
        options: everything else that `deepagents.create_deep_agent` takes.

    Raises:
        ValueError: `extra_tools` has tools for an agent that there is not.
    """
    sources: list[ExtraTools] = [extra_tools] if gateway is None else [extra_tools, gateway]
    table = _table(sources, allocation)
    own = list(tools or [])
    specs = _subagents(table) if subagents is None else list(subagents)
    _check_agents(extra_tools, specs)
    if not any(spec["name"] == GENERAL_PURPOSE_SUBAGENT["name"] for spec in specs):
        # Without an entry `deepagents` makes one that has the main agent's allocation.
        general: SubAgent = {**GENERAL_PURPOSE_SUBAGENT}
        if options.get("skills"):
            general["skills"] = options["skills"]
        specs.append(general)
    skills = list(options.pop("skills", None) or [])
    if with_skills:
        options["backend"] = skill_files.mounted(options.get("backend"), _loaded(sources))
        skills.append(skill_files.MOUNT)
    if skills:
        options["skills"] = skills
    return deepagents.create_deep_agent(
        model,
        [*own, *_extra(MAIN, own, sources, table)],
        subagents=[_completed(spec, own, sources, table, with_skills) for spec in specs],
        **options,
    )


async def acreate_deep_agent(
    model: str | BaseChatModel,
    tools: Sequence[Tool] | None = None,
    *,
    config: GatewayConfig | None = None,
    gateway: GatewayTools | None = None,
    allocation: Allocation | None = None,
    require_hints: bool = False,
    **options: Option,
) -> Agent:
    """Load the gateway's tools and build the agent; without a gateway it is built without them.

    What it opens at the gateway (a session, connections) lives as long as the agent, or a tool
    of it, is referred to, in whatever loop or thread it is used; then it is closed in the
    background. Load the tools yourself and pass `gateway` to close them at a moment of your own,
    or to give many agents the same ones: an agent for each request is cheap then.

    Args:
        config: the gateway; by default what the environment says.
        gateway: tools that are loaded already; the caller may close them.
        require_hints: refuse tools that come without hints.

    The other arguments are those of `create_deep_agent`.
    """
    if gateway is None:
        gateway = await load_gateway_tools(
            config, allocation=allocation, require_hints=require_hints
        )
    return create_deep_agent(model, tools, gateway=gateway, allocation=allocation, **options)


def _table(sources: Sequence[ExtraTools], allocation: Allocation | None) -> Allocation:
    if allocation is not None:
        return allocation
    tables = [source.allocation for source in sources if isinstance(source, GatewayTools)]
    return tables[0] if tables else Allocation.default()


def _loaded(sources: Sequence[ExtraTools]) -> dict[str, BaseTool]:
    """The loaded gateway tools among the extra ones, by name."""
    found: dict[str, BaseTool] = {}
    for source in sources:
        if isinstance(source, GatewayTools):
            found.update(source.tools)
        elif not isinstance(source, Mapping):
            found.update({tool.name: tool for tool in source})
    return found


def _check_agents(extra_tools: ExtraTools, specs: Sequence[Subagent]) -> None:
    if not isinstance(extra_tools, Mapping):
        return
    known = {MAIN, GENERAL_PURPOSE_SUBAGENT["name"], *(spec["name"] for spec in specs)}
    for name in extra_tools:
        if name not in known:
            there_are = ", ".join(sorted(known))
            raise ValueError(f"extra_tools are for {name!r}, but the agents are {there_are}")


def _subagents(table: Allocation) -> list[Subagent]:
    """The table's subagents as specifications."""
    return [
        {
            "name": entry.name,
            "description": entry.description or f"The {entry.name} agent.",
            "system_prompt": entry.system_prompt or f"You are the {entry.name} agent.",
        }
        for entry in table.agents
        if entry.name != MAIN
    ]


def _completed(
    spec: Subagent,
    own: list[Tool],
    sources: Sequence[ExtraTools],
    table: Allocation,
    with_skills: bool,
) -> Subagent:
    """A subagent's specification with its own allocation; compiled and remote ones as they are."""
    if "runnable" in spec or "graph_id" in spec:
        return spec
    completed = cast("SubAgent", {**spec})
    base = list(completed["tools"]) if "tools" in completed else own
    name = completed["name"]
    extra = _extra(name, base, sources, table)
    completed["tools"] = [*base, *extra]
    if with_skills and (extra or table.tools(name)):
        completed["skills"] = [*completed.get("skills", []), skill_files.MOUNT]
    return completed


def _extra(
    agent: str, own: Sequence[Tool], sources: Sequence[ExtraTools], table: Allocation
) -> list[BaseTool]:
    """The extra tools of one agent, without names that it has already."""
    taken = {_tool_name(tool) for tool in own} | BUILT_IN
    offered = []
    for tool in chain.from_iterable(_allocated(agent, source, table) for source in sources):
        if tool.name in taken:
            logger.warning("%s has a tool %s already; the extra one is left out", agent, tool.name)
            continue
        taken.add(tool.name)
        offered.append(tool)
    return offered


def _allocated(agent: str, extra_tools: ExtraTools, table: Allocation) -> Sequence[BaseTool]:
    if isinstance(extra_tools, GatewayTools):
        names = table.tools(agent)
        return [extra_tools.tools[name] for name in names if name in extra_tools.tools]
    if isinstance(extra_tools, Mapping):
        return extra_tools.get(agent, ())
    listed = table.allowed()
    return [tool for tool in extra_tools if agent in listed.get(tool.name, (MAIN,))]


def _tool_name(tool: Tool) -> str:
    if isinstance(tool, BaseTool):
        return tool.name
    if isinstance(tool, dict):
        function = tool.get("function", tool)
        return str(function.get("name", "")) if isinstance(function, dict) else ""
    return str(getattr(tool, "__name__", ""))
