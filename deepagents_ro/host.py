"""The one module that imports `deepagents_code`.

Everything about servers (which there are, trust, `${VAR}`, authentication, discovery, wrapping) is
asked of DCode's own functions. No attribute of DCode is replaced; the seam is a subclass of
`MCPSessionManager`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from deepagents_ro import _mcpro, references, startup
from deepagents_ro import managed as managed_runtime
from deepagents_ro.anonymous import config_file
from deepagents_ro.plan import FileFault, Plan, Sources, inert_entries
from deepagents_ro.refusal import HostError, reader_reason
from deepagents_ro.steering import is_steering

if TYPE_CHECKING:
    from types import ModuleType

    from deepagents_code.mcp_tools import MCPSessionManager
    from deepagents_code.project_utils import ProjectContext
    from langchain_core.tools import BaseTool

    from deepagents_ro.command_line import Command
    from deepagents_ro.protocols import Connections, Layer, ServerInfo, Tool

PACKAGE = "deepagents_code"
DEBUG_VARIABLE = "DEEPAGENTS_CODE_DEBUG"
MARKER = "_deepagents_code_mcp"
SERVER_MARKER = "_deepagents_code_mcp_server"
# What a row of DCode's loader says of a server that is enabled and did not load.
NOT_LOADED = ("error", "unauthenticated", "awaiting_reconnect")

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
        raise HostError("dcode_missing")
    sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)


def load_environment(*, trust_project: bool) -> None:
    """Apply DCode's dotenv layers and prefixed variables to `os.environ`, as `tools list` does.

    A steering variable (`steering.py`) comes from the process or the user's own layer; from the
    project's only with `trust_project`. Call it before any thread starts. Tracing, TLS key logging
    and DCode's debug log stay off, whatever the layers say.
    """
    from deepagents_code import config

    if not trust_project:
        load_user_steering(config)
    settled = frozenset(os.environ)
    debug = os.environ.get(DEBUG_VARIABLE)
    os.environ[DEBUG_VARIABLE] = "0"
    try:
        config._ensure_bootstrap()
    finally:
        if debug is None:
            del os.environ[DEBUG_VARIABLE]
        else:
            os.environ[DEBUG_VARIABLE] = debug
    if not trust_project:
        for name in [name for name in os.environ if name not in settled and is_steering(name)]:
            del os.environ[name]
    for name in TRACING_SWITCHES:
        os.environ[name] = "false"
    # Plugins of pydantic are code of other packages, telemetry among it; finding them means to read
    # the metadata of everything that is installed.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    os.environ.pop("SSLKEYLOGFILE", None)
    logging.disable(logging.CRITICAL)


def load_user_steering(config: ModuleType) -> None:
    """Take the steering variables of the user's own dotenv layer before DCode reads any layer.

    DCode applies the project's layer first and never overwrites; what is set now, the project's
    layer cannot set. References inside the values see the process's environment alone.
    """
    import dotenv

    try:
        if not config._GLOBAL_DOTENV_PATH.is_file():
            return
        for name, value in dotenv.dotenv_values(config._GLOBAL_DOTENV_PATH).items():
            if value is None or name in os.environ or not is_steering(name):
                continue
            if name not in config._DOTENV_DENIED_ENV_KEYS:
                os.environ[name] = value
    except (OSError, ValueError):
        return  # DCode passes over a layer that it cannot read, too


def can_own(server: str, tool: str) -> bool:
    """Whether `tool` may be one of `server`'s: `<server>_<name>`."""
    return _mcpro.can_own(server, tool)


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
    path = managed_runtime.config_path() if managed else command.mcp_config
    if command.no_mcp or (managed and path is None):
        return None
    return read_sources(path, managed=managed)


def plan_for(sources: Sources, owners: frozenset[str], command: Command) -> Plan:
    """Ask `owners` alone: every other server is left out before DCode's preflight.

    DCode's loader contacts every server that it is given, and a managed runtime's file names up to
    64. So that file is read first, by DCode's own reader, and the loader is given the owners alone:
    by value, in a layer, which takes no file and no path. Where a layer would not do (something is
    discovered that must not win, or the user's policy, which rules over layers and not over a
    runtime's file, leaves an owner out), they go into an anonymous file, as an explicit file's do.
    """
    plan = Plan(command.tool, owners, layers=sources.plugin_layers)
    plan.trust_project = True if command.trust_project_mcp else None
    chosen = {name: sources.explicit[name] for name in owners if name in sources.explicit}
    if chosen and chosen.keys() <= sources.by_value:
        plan.layers = ({"mcpServers": chosen},)
    else:
        plan.explicit = inert_entries(sources, owners) | chosen
    plan.raw = {name: sources.entries(name) for name in owners}
    plan.early = early_owner(plan, sources)
    return plan


def taken_by_value(sources: Sources) -> frozenset[str]:
    """The managed servers that DCode's loader takes from a layer as it would from their file.

    There are none when anything is discovered, which a layer may not override. The user's policy
    rules over layers alone: a server that it denies is not among them, and there are none when it
    cannot be read.
    """
    from deepagents_code.mcp_tools import filter_trusted_project_servers
    from deepagents_code.model_config import load_mcp_server_trust_lists

    if any(sources.discovered()):
        return frozenset()
    try:
        lists = load_mcp_server_trust_lists()
        kept = filter_trusted_project_servers(
            sources.explicit,
            lists,
            project_root=Path.cwd(),
            config_trusted=not lists.load_failed,
        )
    except (OSError, RuntimeError):
        return frozenset()  # no working directory, which the loader needs for a layer
    return frozenset(kept)


def read_sources(path: str | None, *, managed: bool) -> Sources:
    """The entries of every source, by DCode's own readers; `path` is the explicit or managed file.

    Raises:
        HostError: that file cannot be read. A discovered one that cannot is a fault of the sources.
    """
    context = project_context()
    sources = Sources(managed=managed)
    if path:
        sources.explicit = explicit_servers(path, context, managed=managed)
    read_discovered(sources, context)
    if managed:
        sources.by_value = taken_by_value(sources)
    else:
        read_plugins(sources, context)
    return sources


def project_context() -> ProjectContext | None:
    """DCode's view of the working directory; `None` when there is no such directory."""
    from deepagents_code.project_utils import ProjectContext

    try:
        return ProjectContext.from_user_cwd(Path.cwd())
    except (OSError, RuntimeError):
        return None


def explicit_servers(path: str, context: ProjectContext | None, *, managed: bool) -> Layer:
    """The servers of one file that the user or the managed runtime names.

    Raises:
        HostError: DCode's reader, or the runtime that an image makes it ask, refuses the file.
    """
    from deepagents_code.mcp_tools import load_mcp_config

    try:
        if context is not None and not managed:
            path = str(context.resolve_user_path(path))
        servers: Layer = load_mcp_config(path)["mcpServers"]
    except Exception as error:
        raise HostError(reader_reason(error, managed=managed)) from error
    return servers


def read_discovered(sources: Sources, context: ProjectContext | None) -> None:
    """Add the user's and the project's files, and the faults of those that DCode leaves out."""
    from deepagents_code import mcp_tools

    try:
        paths = mcp_tools.discover_mcp_configs(project_context=context)
    except (OSError, RuntimeError):
        paths = []  # DCode's loader goes on without them too
    user_paths, project_paths = mcp_tools.classify_discovered_configs(paths)
    for found, load, layers in (
        (user_paths, mcp_tools.load_mcp_config_with_error, sources.user),
        (project_paths, mcp_tools._load_mcp_config_top_level_with_error, sources.project),
    ):
        for path in found:
            loaded, refusal = load(path)
            if loaded is not None:
                layers.append(loaded["mcpServers"])
            elif refusal is not None:
                sources.faults.append(fault_of(path))


def read_plugins(sources: Sources, context: ProjectContext | None) -> None:
    """Add the MCP layers of the enabled plugins, as `dcode tools list` gives them to the loader."""
    if not may_have_plugins():
        return
    from deepagents_code.plugins.adapters.mcp import discover_plugin_mcp_configs

    project_dir = None
    if context is not None:
        project_dir = context.project_root or context.user_cwd
    layers = discover_plugin_mcp_configs(project_dir=project_dir)
    sources.plugin_layers = tuple(dict[str, object](layer) for layer in layers)
    for layer in sources.plugin_layers:
        servers = layer.get("mcpServers")
        if isinstance(servers, dict):
            sources.plugins.append(servers)


def may_have_plugins() -> bool:
    """Whether DCode may have enabled a plugin: the known releases note it in one file."""
    from deepagents_code.model_config import DEFAULT_STATE_DIR

    try:
        os.stat(DEFAULT_STATE_DIR / "plugin_state.json")
    except (FileNotFoundError, NotADirectoryError):
        return not startup.is_known_release()
    except OSError:
        pass  # DCode says what it makes of it
    return True


def fault_of(path: Path) -> FileFault:
    """Where a file that DCode refuses is wrong; what stands there may be secret."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        return FileFault(path, error.lineno, error.colno)
    except (OSError, ValueError, RecursionError):
        return FileFault(path)
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if isinstance(servers, dict):
        for name, entry in servers.items():
            if not is_valid_entry(name, entry):
                return FileFault(path, server=name)
    return FileFault(path)


def early_owner(plan: Plan, sources: Sources) -> tuple[str, object] | None:
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


def session_manager(complete: Callable[[Connections], None]) -> MCPSessionManager:
    """A DCode `MCPSessionManager` whose `configure` hands the resolved connections to `complete`.

    `complete` changes the mapping in place before DCode's discovery sees it.
    """
    from deepagents_code.mcp_tools import MCPSessionManager

    class ReadOnlySessionManager(MCPSessionManager):
        def configure(self, connections: Connections) -> None:
            complete(connections)
            super().configure(connections)

    return ReadOnlySessionManager()


def import_readers() -> None:
    """Import what `make_plan` imports, for a process that makes no plan."""
    from deepagents_code import mcp_disabled, mcp_tools  # noqa: F401


def import_stack(stack: Mapping[str, str] | None = None) -> None:
    """Import what DCode's loader imports: before an event loop runs, or beside it (`load_stack`).

    `stack` is what `startup.prepare` said; with it pydantic builds models at their first use.
    """
    startup.defer_models(stack)
    import langchain_mcp_adapters.sessions
    import langchain_mcp_adapters.tools  # noqa: F401
    from deepagents_code import mcp_auth  # noqa: F401


def load_stack(plan: Plan, stack: Mapping[str, str] | None) -> None:
    """`import_stack`, now or while DCode's preflight of the plan's one owner waits for the network.

    With two owners the slower preflight would wait for the imports with its clock running.
    """
    from deepagents_ro.lazy_stack import LazyStack

    load = functools.partial(import_stack, stack)
    entries = [entry for name in plan.owners for entry in plan.raw[name]]
    remote = all(transport_of(entry) in ("http", "sse") for entry in entries)
    may_wait = startup.is_usable(stack) and len(plan.owners) == 1 and remote
    if not may_wait or not LazyStack(load).install():
        load()


def import_validator() -> None:
    """Import what the SDK checks a result against an output schema with.

    The SDK imports it itself, with the answer in its hands.
    """
    import jsonschema  # noqa: F401
    import referencing  # noqa: F401


async def load_tools(
    plan: Plan, manager: MCPSessionManager
) -> tuple[Sequence[Tool], Sequence[ServerInfo]]:
    """DCode's own loader on the plan: the tools that it returns and its `MCPServerInfo` rows.

    Raises:
        HostError: DCode refuses the merged configuration.
    """
    from deepagents_code.mcp_tools import resolve_and_load_mcp_tools

    try:
        with config_file(plan.explicit) as path:
            # No project_context: it would resolve the file's path. DCode falls back to the working
            # directory, which is what `tools list` makes its context of.
            tools, _, infos = await resolve_and_load_mcp_tools(
                explicit_config_path=path,
                trust_project_mcp=plan.trust_project,
                additional_configs=plan.layers,
                session_manager=manager,
            )
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise HostError("loader_merged") from error
    return tools, infos


def is_mcp_tool(tool: Tool) -> bool:
    """Whether `tool` carries DCode's MCP marker (`auto_mode.is_mcp_tool`, without its imports)."""
    metadata = getattr(tool, "metadata", None)
    return isinstance(metadata, dict) and metadata.get(MARKER) is True


def server_of(tool: Tool) -> str:
    """The configured name of the server that `tool`, an MCP tool, belongs to."""
    return str((tool.metadata or {})[SERVER_MARKER])


def filtered_names(server: str, entry: dict[str, object], names: list[str]) -> set[str]:
    """Those of a server's full tool names that its `allowedTools`/`disabledTools` leave."""
    from deepagents_code.mcp_tools import _apply_tool_filter

    # It reads nothing but their names.
    tools = cast("list[BaseTool]", [SimpleNamespace(name=name) for name in names])
    return {tool.name for tool in _apply_tool_filter(tools, server, entry)}


def is_valid_list(result: bytes) -> bool:
    """Whether the SDK's model takes a raw tools/list result."""
    from mcp.types import ListToolsResult
    from pydantic import ValidationError

    try:
        ListToolsResult.model_validate_json(result)
    except ValidationError:
        return False
    return True


def transport_of(entry: object) -> str:
    """DCode's name for what a server's entry speaks, or `unknown`."""
    from deepagents_code.mcp_tools import _resolve_server_type

    if not isinstance(entry, dict):
        return "unknown"
    try:
        return str(_resolve_server_type(entry))
    except TypeError:  # it looks the entry's word up, which may be a list
        return "unknown"


def resolved(name: str, entry: object) -> Mapping[str, object] | None:
    """A server's entry with every `${VAR}` resolved by DCode, or `None` when it cannot be."""
    from deepagents_code.mcp_config import resolve_mcp_server_env

    if not isinstance(entry, dict):
        return None
    try:
        return resolve_mcp_server_env(name, entry)
    except (RuntimeError, TypeError, ValueError):
        return None


def unset_variables(entry: object) -> list[str]:
    """Variables without a default that an entry refers to where DCode resolves, and are not set."""
    if not isinstance(entry, dict):
        return []
    texts: list[object] = [entry.get("command"), entry.get("url")]
    for field_name in ("args", "env", "headers"):
        values = entry.get(field_name)
        if isinstance(values, dict):
            texts += values.values()
        elif isinstance(values, list):
            texts += values
    strings = (text for text in texts if isinstance(text, str))
    names = dict.fromkeys(references.without_default(strings))
    return [name for name in names if name not in os.environ]


def is_valid_entry(name: str, entry: object) -> bool:
    """Whether DCode takes a server's entry as it is written."""
    from deepagents_code.mcp_tools import _validate_server_config

    if not isinstance(entry, dict):
        return False
    try:
        _validate_server_config(name, entry)
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


def speaks(version: bytes) -> bool:
    """Whether the SDK takes a protocol version, given as a raw JSON string."""
    from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

    return json.loads(version) in SUPPORTED_PROTOCOL_VERSIONS


def needed_modules(plan: Plan) -> list[str]:
    """What the plan's owners need of the modules that most calls do without."""
    needed: list[str] = []
    entries = [entry for entries in plan.raw.values() for entry in entries]
    if any(map(may_have_tokens, plan.owners)) or not all(map(is_without_login, entries)):
        needed += startup.FOR_LOGIN
    if any(transport_of(entry) not in ("http", "sse") for entry in entries):
        needed += startup.FOR_COMMANDS
    return needed


def is_without_login(entry: object) -> bool:
    """Whether an entry does not ask for a login; one that has stored tokens may use them still."""
    return isinstance(entry, dict) and not entry.get("auth")


def may_have_tokens(name: str) -> bool:
    """Whether DCode may have stored tokens for a server, whatever its URL."""
    from deepagents_code.model_config import DEFAULT_STATE_DIR

    try:
        files = os.listdir(DEFAULT_STATE_DIR / "mcp-tokens")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return any(re.fullmatch(rf"{name}(-[0-9a-f]{{16}})?\.json", file) for file in files)


async def stored_tokens(connections: Mapping[str, Mapping[str, object]]) -> list[str]:
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
