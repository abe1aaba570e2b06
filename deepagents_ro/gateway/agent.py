"""Deep agents with curated gateway tools: each agent gets its own, and works without them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import deepagents
from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from . import skill_files
from .allocation import MAIN, Allocation
from .config import GatewayConfig
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
Tool = BaseTool | Callable[..., Any] | dict[str, Any]


def create_deep_agent(
    model: str | BaseChatModel,
    tools: Sequence[Tool] | None = None,
    *,
    extra_tools: ExtraTools = (),
    allocation: Allocation | None = None,
    subagents: Sequence[Any] | None = None,
    with_skills: bool = True,
    **options: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A deep agent with extra tools; contacts nothing.

    Args:
        model: as in `deepagents.create_deep_agent`.
        tools: the main agent's own tools; subagents without `tools` of their own get these too,
            but never the main agent's extra tools.
        extra_tools: loaded gateway tools, or tools by agent (`{"main": [...]}`), or a plain list,
            of which each agent gets what the table gives it and the main agent also what the
            table does not list.
        allocation: the table; by default the one that the tools were loaded with, else the
            package's.
        subagents: as in `deepagents.create_deep_agent`; by default the subagents of the table.
        with_skills: mount the packaged skills for the main agent and `value-resolver`.
        options: everything else that `deepagents.create_deep_agent` takes.
    """
    table = _table(extra_tools, allocation)
    own = list(tools or [])
    specs = _subagents(table) if subagents is None else list(subagents)
    if not any(_field(spec, "name") == GENERAL_PURPOSE_SUBAGENT["name"] for spec in specs):
        # Left alone it would inherit the main agent's allocation.
        specs.append({**GENERAL_PURPOSE_SUBAGENT, **_inherited(options)})
    skills = list(options.pop("skills", None) or [])
    if with_skills:
        options["backend"] = skill_files.mounted(options.get("backend"))
        skills.append(skill_files.MOUNT)
    if skills:
        options["skills"] = skills
    return deepagents.create_deep_agent(
        model,
        [*own, *_extra(MAIN, own, extra_tools, table)],
        subagents=[_completed(spec, own, extra_tools, table, with_skills) for spec in specs],
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
    **options: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Load the gateway's tools and build the agent; without a gateway it is built without them.

    Args:
        config: the gateway; by default what the environment says.
        gateway: tools that are loaded already, for a caller that closes them itself; otherwise
            the session lives until the running event loop ends.
        require_hints: refuse tools that come without hints.

    The other arguments are those of `create_deep_agent`.
    """
    if gateway is None:
        gateway = await load_gateway_tools(
            config, allocation=allocation, require_hints=require_hints
        )
    return create_deep_agent(model, tools, extra_tools=gateway, allocation=allocation, **options)


def _table(extra_tools: ExtraTools, allocation: Allocation | None) -> Allocation:
    if allocation is not None:
        return allocation
    return extra_tools.allocation if isinstance(extra_tools, GatewayTools) else Allocation.default()


def _subagents(table: Allocation) -> list[dict[str, Any]]:
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


def _inherited(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the default general-purpose subagent would have taken from the main agent."""
    return {"skills": options["skills"]} if options.get("skills") else {}


def _field(spec: Any, name: str) -> Any:
    return spec.get(name) if isinstance(spec, Mapping) else None


def _completed(
    spec: Any, own: list[Tool], extra_tools: ExtraTools, table: Allocation, with_skills: bool
) -> Any:
    """A subagent's specification with its own allocation; compiled and remote ones as they are."""
    if not isinstance(spec, Mapping) or "runnable" in spec or "graph_id" in spec:
        return spec
    base = list(spec["tools"]) if "tools" in spec else own
    extra = _extra(str(spec["name"]), base, extra_tools, table)
    completed = {**spec, "tools": [*base, *extra]}
    if with_skills and extra:
        completed["skills"] = [*spec.get("skills", []), skill_files.MOUNT]
    return completed


def _extra(
    agent: str, own: Sequence[Tool], extra_tools: ExtraTools, table: Allocation
) -> list[BaseTool]:
    """The extra tools of one agent, without names that it has already."""
    taken = {_tool_name(tool) for tool in own} | BUILT_IN
    offered = []
    for tool in _allocated(agent, extra_tools, table):
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
