"""The one module that imports `deepagents_code`.

Everything about servers (which there are, trust, `${VAR}`, authentication, discovery, wrapping) is
asked of DCode's own functions. No attribute of DCode is replaced; the seam is a subclass of
`MCPSessionManager`.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from deepagents_ro.command import Command

PACKAGE = "deepagents_code"
MANAGED_MODULE = "deepagents_code._nemoclaw_managed"
DEBUG_VARIABLE = "DEEPAGENTS_CODE_DEBUG"
SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")
MARKER = "_deepagents_code_mcp"
SERVER_MARKER = "_deepagents_code_mcp_server"

# Switches of tracing that langchain-core and langsmith read at call time.
TRACING_SWITCHES = (
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING",
    "LANGSMITH_OTEL_ENABLED",
    "LANGSMITH_OTEL_ONLY",
)

# What `dcode tools list` shows as built in, with every optional tool configured.
BUILT_IN_TOOLS = frozenset(
    {
        "ask_user",
        "compact_conversation",
        "delete",
        "edit_file",
        "execute",
        "fetch_url",
        "get_current_thread_id",
        "get_goal",
        "get_rubric",
        "glob",
        "grep",
        "js_eval",
        "ls",
        "read_file",
        "task",
        "update_goal",
        "web_search",
        "write_file",
    }
)


class HostError(Exception):
    """DCode cannot read its configuration, or the managed runtime is unsafe."""


def prepare_package() -> None:
    """Make `deepagents_code.*` importable without running the package's `__init__`.

    That text opens DCode's debug log; the call neither creates nor writes it. Does nothing when the
    package is there already (the patched entry point leaves it in the same state).

    Raises:
        HostError: DCode is not installed.
    """
    if PACKAGE in sys.modules:
        return
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise HostError("deepagents-code is not installed")
    sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)


def is_managed() -> bool:
    """Whether a managed runtime is installed beside DCode."""
    return importlib.util.find_spec(MANAGED_MODULE) is not None


def check_managed_runtime() -> None:
    """The managed runtime's own safety check, before anything that a user can write is read.

    Raises:
        HostError: the runtime says that it is unsafe, or fails to say.
    """
    try:
        importlib.import_module(MANAGED_MODULE).assert_safe_runtime()
    except BaseException as error:
        raise HostError("the managed runtime is unsafe") from error


def managed_config_path() -> str | None:
    """The managed runtime's own configuration file; `None` for no server at all.

    Raises:
        HostError: the runtime does not name one.
    """
    try:
        path = importlib.import_module(MANAGED_MODULE).managed_mcp_config_path()
        return None if path is None else os.fspath(path)
    except BaseException as error:
        raise HostError("the managed runtime names no configuration") from error


def load_environment() -> None:
    """Apply DCode's dotenv layers and prefixed variables to `os.environ`, as `tools list` does.

    Call it before any thread starts. Tracing, TLS key logging and DCode's debug log stay off,
    whatever the layers say.
    """
    from deepagents_code import config

    debug = os.environ.get(DEBUG_VARIABLE)
    os.environ[DEBUG_VARIABLE] = "0"
    try:
        config._ensure_bootstrap()
    finally:
        if debug is None:
            del os.environ[DEBUG_VARIABLE]
        else:
            os.environ[DEBUG_VARIABLE] = debug
    for name in TRACING_SWITCHES:
        os.environ[name] = "false"
    # Plugins of pydantic are code of other packages, telemetry among it; finding them means to read
    # the metadata of everything that is installed.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    os.environ.pop("SSLKEYLOGFILE", None)
    logging.disable(logging.CRITICAL)


@dataclass(slots=True)
class Plan:
    """Which servers are asked, and what DCode's loader is given for it."""

    tool: str
    """Full tool name; empty for an audit."""
    owners: frozenset[str] = frozenset()
    """Servers that can own the tool's name."""
    raw: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Each owner's unresolved entries, from every source, lowest precedence first."""
    explicit: dict[str, Any] = field(default_factory=dict)
    """Servers of the in-memory file that goes on top of everything discovered."""
    plugins: tuple[dict[str, Any], ...] = ()
    trust_project: bool | None = None
    early: tuple[str, dict[str, Any]] | None = None
    """The owner and entry whose connection may be opened early, if there is one."""


def can_own(server: str, tool: str) -> bool:
    """Whether `tool` may be one of `server`'s: `<server>_<name>`."""
    return tool.startswith(f"{server}_")


@dataclass(slots=True)
class Sources:
    """MCP server entries by kind of source, each a list of `{name: entry}`, in DCode's order."""

    user: list[dict[str, Any]] = field(default_factory=list)
    plugins: list[dict[str, Any]] = field(default_factory=list)
    project: list[dict[str, Any]] = field(default_factory=list)
    explicit: dict[str, Any] = field(default_factory=dict)
    plugin_layers: tuple[dict[str, Any], ...] = ()
    """The plugins' layers as DCode's loader takes them."""
    managed: bool = False

    def allowed(self) -> list[str]:
        """Names that may be asked, first seen first; a managed runtime has its own file only."""
        layers = (self.explicit,) if self.managed else self.layers()
        names = dict.fromkeys(name for layer in layers for name in layer)
        return [name for name in names if SERVER_NAME.match(name)]

    def discovered(self) -> Iterator[dict[str, Any]]:
        """All that DCode finds by itself, lowest precedence first."""
        yield from self.user
        yield from self.plugins
        yield from self.project

    def layers(self) -> Iterator[dict[str, Any]]:
        """All of them, lowest precedence first."""
        yield from self.discovered()
        yield self.explicit


def make_plan(command: Command, *, managed: bool) -> Plan | None:
    """The plan for the command's one tool; `None` for no servers at all.

    Raises:
        HostError: the explicit or managed file cannot be read.
    """
    sources = read_configuration(command, managed=managed)
    if sources is None:
        return None
    owners = frozenset(name for name in sources.allowed() if can_own(name, command.tool))
    return plan_for(sources, owners, command)


def read_configuration(command: Command, *, managed: bool) -> Sources | None:
    """Every configuration source that `dcode tools list` reads; `None` for no servers at all.

    Raises:
        HostError: the explicit or managed file cannot be read, or the managed runtime is unsafe.
    """
    path = managed_config_path() if managed else command.mcp_config
    if command.no_mcp or (managed and path is None):
        return None
    return read_sources(path, managed=managed)


def plan_for(sources: Sources, owners: frozenset[str], command: Command) -> Plan:
    """Ask `owners` alone: every other server is left out before DCode's preflight."""
    plan = Plan(command.tool, owners, plugins=sources.plugin_layers)
    plan.trust_project = True if command.trust_project_mcp else None
    discovered = {name for layer in sources.discovered() for name in layer}
    for name in discovered - owners:
        if SERVER_NAME.match(name):
            plan.explicit[name] = {"command": sys.executable or "/bin/sh"}
    for name in owners & sources.explicit.keys():
        plan.explicit[name] = sources.explicit[name]
    for name in owners:
        plan.raw[name] = [layer[name] for layer in sources.layers() if name in layer]
    plan.early = early_owner(plan, sources)
    return plan


def read_sources(path: str | None, *, managed: bool) -> Sources:
    """The entries of every source, by DCode's own readers."""
    from deepagents_code import mcp_tools
    from deepagents_code.project_utils import ProjectContext

    sources = Sources(managed=managed)
    try:
        context = ProjectContext.from_user_cwd(Path.cwd())
    except (OSError, RuntimeError):
        context = None
    if path or managed:
        try:
            if context is not None and not managed:
                path = str(context.resolve_user_path(path))
            sources.explicit = mcp_tools.load_mcp_config(path)["mcpServers"]
        except (OSError, RuntimeError, TypeError, ValueError, RecursionError) as error:
            raise HostError("the MCP configuration file cannot be read") from error
    try:
        paths = mcp_tools.discover_mcp_configs(project_context=context)
    except (OSError, RuntimeError):
        paths = []
    user_paths, project_paths = mcp_tools.classify_discovered_configs(paths)
    for found in user_paths:
        loaded, _ = mcp_tools.load_mcp_config_with_error(found)
        if loaded is not None:
            sources.user.append(loaded["mcpServers"])
    for found in project_paths:
        loaded, _ = mcp_tools._load_mcp_config_top_level_with_error(found)
        if loaded is not None:
            sources.project.append(loaded["mcpServers"])
    if not managed:
        sources.plugin_layers = plugin_layers(context)
    for layer in sources.plugin_layers:
        servers = layer.get("mcpServers") if isinstance(layer, dict) else None
        if isinstance(servers, dict):
            sources.plugins.append(servers)
    return sources


def plugin_layers(context: Any) -> tuple[dict[str, Any], ...]:  # noqa: ANN401
    """MCP layers of the enabled plugins, as `dcode tools list` gives them to the loader."""
    from deepagents_code.plugins.adapters.mcp import discover_plugin_mcp_configs

    project_dir = None
    if context is not None:
        project_dir = context.project_root or context.user_cwd
    return discover_plugin_mcp_configs(project_dir=project_dir)


def early_owner(plan: Plan, sources: Sources) -> tuple[str, dict[str, Any]] | None:
    """The one owner whose winning entry a user-level, explicit or managed file names, enabled."""
    from deepagents_code.mcp_disabled import get_disabled_servers

    if len(plan.owners) != 1:
        return None
    (name,) = plan.owners
    if name not in sources.explicit and any(
        name in layer for layer in (*sources.plugins, *sources.project)
    ):
        return None
    entry = plan.raw[name][-1]
    return None if name in get_disabled_servers() else (name, entry)


def resolve_entry(name: str, entry: dict[str, Any]) -> dict[str, Any] | None:
    """`entry` with `${VAR}` resolved by DCode; `None` for what DCode would refuse or run."""
    from deepagents_code.mcp_config import resolve_mcp_server_env
    from deepagents_code.mcp_tools import _resolve_server_type

    if _resolve_server_type(entry) != "http":
        return None
    try:
        return resolve_mcp_server_env(name, entry)
    except (RuntimeError, TypeError):
        return None


def session_manager(complete: Callable[[dict[str, Any]], None]) -> Any:  # noqa: ANN401
    """A DCode `MCPSessionManager` whose `configure` hands the resolved connections to `complete`.

    `complete` changes the mapping in place before DCode's discovery sees it.
    """
    from deepagents_code.mcp_tools import MCPSessionManager

    class ReadOnlySessionManager(MCPSessionManager):
        def configure(self, connections: dict[str, Any]) -> None:
            complete(connections)
            super().configure(connections)

    return ReadOnlySessionManager()


def import_stack() -> None:
    """Import what DCode's loader imports, on this thread, before an event loop runs."""
    import langchain_mcp_adapters.sessions
    import langchain_mcp_adapters.tools  # noqa: F401
    from deepagents_code import mcp_auth  # noqa: F401


def import_validator() -> None:
    """Import what the SDK checks a result against an output schema with.

    The SDK imports it itself, with the answer in its hands.
    """
    import jsonschema  # noqa: F401
    import referencing  # noqa: F401


async def load_tools(plan: Plan, manager: Any) -> tuple[list[BaseTool], list[Any]]:  # noqa: ANN401
    """DCode's own loader on the plan: the tools that it returns and its `MCPServerInfo` rows.

    Raises:
        HostError: DCode refuses the merged configuration.
    """
    from deepagents_code.mcp_tools import resolve_and_load_mcp_tools

    descriptor = None
    try:
        if plan.explicit:
            descriptor = memory_file({"mcpServers": plan.explicit})
        # No project_context: it would resolve the descriptor's path. DCode falls back to the
        # working directory, which is what `tools list` makes its context of.
        tools, _, infos = await resolve_and_load_mcp_tools(
            explicit_config_path=None if descriptor is None else f"/proc/self/fd/{descriptor}",
            trust_project_mcp=plan.trust_project,
            additional_configs=plan.plugins,
            session_manager=manager,
        )
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise HostError("DCode refuses the MCP configuration") from error
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return tools, infos


def memory_file(document: dict[str, Any]) -> int:
    """An anonymous file in memory that holds `document` as JSON; the descriptor is the caller's."""
    descriptor = os.memfd_create("mcp", os.MFD_CLOEXEC)
    with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
        json.dump(document, file)
    return descriptor


def is_mcp_tool(tool: Any) -> bool:  # noqa: ANN401
    """Whether `tool` carries DCode's MCP marker (`auto_mode.is_mcp_tool`, without its imports)."""
    metadata = getattr(tool, "metadata", None)
    return isinstance(metadata, dict) and metadata.get(MARKER) is True


def server_of(tool: Any) -> str:  # noqa: ANN401
    """The configured name of the server that `tool` belongs to."""
    return tool.metadata[SERVER_MARKER]


def filtered_names(server: str, entry: dict[str, Any], names: list[str]) -> set[str]:
    """Those of a server's full tool names that its `allowedTools`/`disabledTools` leave."""
    from deepagents_code.mcp_tools import _apply_tool_filter

    tools: list[Any] = [SimpleNamespace(name=name) for name in names]
    return {tool.name for tool in _apply_tool_filter(tools, server, entry)}


def is_valid_definition(entry: bytes) -> bool:
    """Whether the SDK's model takes a raw tools/list entry."""
    from mcp.types import Tool
    from pydantic import ValidationError

    try:
        Tool.model_validate_json(entry)
    except ValidationError:
        return False
    return True


def transport_of(entry: Any) -> str:  # noqa: ANN401
    """DCode's name for what a server's entry speaks, or `unknown`."""
    from deepagents_code.mcp_tools import _resolve_server_type

    return str(_resolve_server_type(entry)) if isinstance(entry, dict) else "unknown"


def resolves(name: str, entry: dict[str, Any]) -> bool:
    """Whether DCode can resolve every `${VAR}` of a server's entry."""
    from deepagents_code.mcp_config import resolve_mcp_server_env

    try:
        resolve_mcp_server_env(name, entry)
    except (RuntimeError, TypeError):
        return False
    return True


async def stored_tokens(connections: dict[str, Any]) -> list[str]:
    """Access and refresh tokens that DCode has stored for these connections, rotated ones too."""
    tokens: list[str] = []
    for connection in connections.values():
        context = getattr(connection.get("auth"), "context", None)
        if context is None:
            continue
        for held in (context.current_tokens, await context.storage.get_tokens()):
            for name in ("access_token", "refresh_token"):
                value = getattr(held, name, None)
                if isinstance(value, str):
                    tokens.append(value)
    return tokens
