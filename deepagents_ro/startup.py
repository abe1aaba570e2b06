"""Modules that one call imports and never uses, kept out of this process.

DCode's stack imports far more than a read-only call runs: a tracing client although tracing is off
(the contract, section 8), the server half of the MCP SDK, a second HTTP client, a command line.
`prepare` puts one finder in front of the others, before the stack is imported. It answers for the
modules of two tables; for some others it asks the finders behind it, and lets the modules take
stored code (`stored.py`). No attribute of any loaded module is touched.

- `ABSENT`: optional parts whose importer says itself what happens when they are not installed.
- `STAND_INS`: modules of which only names are needed, for annotations and `isinstance`. A stand-in
  has the names of the table and does nothing; whatever else is asked of it raises `StandInUsed`
  and is remembered, so that the command can end as `runtime_failure`, even if a library swallows
  the exception.

All of it holds for the combinations of `deepagents_ro.versions` alone. With any other version of
one of these packages `install` does nothing at all, and the call is as slow, and as right, as the
plain stack.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import TYPE_CHECKING, NoReturn

from deepagents_ro import packed, stored
from deepagents_ro.versions import BELOW, PACKAGE, QUALIFIED, RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PLAIN_VARIABLE = "DEEPAGENTS_RO_PLAIN_IMPORTS"

# Imported within `try ... except ImportError` by the packages themselves.
ABSENT = frozenset(
    {
        "filelock._async_read_write",  # locks in SQLite; DCode uses FileLock
        "httpx._main",  # httpx's command line, with click, pygments and rich
        "langgraph",  # a kind of answer that only the adapter's interceptors give
    }
)


class StandInUsed(RuntimeError):
    """Something asked more of a stand-in than is known to be needed."""


_used: list[str] = []


def refuse(what: str) -> NoReturn:
    """Remember that `what` was used, and raise."""
    _used.append(what)
    raise StandInUsed(f"{what} is a stand-in (see {__name__}); {PLAIN_VARIABLE}=1 loads the module")


def used() -> list[str]:
    """What was asked of stand-ins that they do not have; empty when all is well."""
    return list(_used)


def is_special(name: str) -> bool:
    """Whether `name` is looked up by the interpreter and by introspection, on anything."""
    return name.startswith("__") and name.endswith("__")


class Name(type):
    """A class of which only the name is needed: for annotations, `isinstance` and `except`."""

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, object]) -> Name:
        """Make the class; a class that is derived from one is refused."""
        if any(isinstance(base, Name) for base in bases):
            refuse(f"a base class of {name}")
        return super().__new__(mcs, name, bases, members)

    def __call__(cls, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse an instance."""
        refuse(cls.__name__)

    def __getattr__(cls, name: str) -> NoReturn:
        if is_special(name):
            raise AttributeError(name)
        refuse(f"{cls.__name__}.{name}")


class StandIn(types.ModuleType):
    """A module with the names that it was given; every other name is refused."""

    def __getattr__(self, name: str) -> NoReturn:
        where = f"{self.__name__}.{name}"
        if is_special(name) or where in STAND_INS:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        refuse(where)


def names(*classes: str, errors: Sequence[str] = ()) -> dict[str, object]:
    """Members of a stand-in: classes, and classes of exceptions."""
    members: dict[str, object] = {name: Name(name, (), {}) for name in classes}
    members.update((name, Name(name, (Exception,), {})) for name in errors)
    return members


def base(name: str) -> type:
    """A class that others are derived from as they are imported; an instance is refused."""

    def start(_self: object, *_args: object, **_kwargs: object) -> None:
        refuse(name)

    return type(name, (), {"__init__": start})


def tracing_is_enabled(_context: dict[str, object] | None = None) -> bool:
    """langsmith's switch: off."""
    return False


def get_tracer_project() -> str:
    """langsmith's name for what is traced, which older langchain-cores ask for at each call."""
    return "default"


def get_tracing_context(_context: object = None) -> dict[str, object]:
    """langsmith's tracing context where nothing was ever traced: a new dict at each call."""
    return dict.fromkeys(TRACING_KEYS)


def set_tracing_context(context: dict[str, object] | None = None) -> None:
    """Clear the tracing context, which is all that langchain-core does while nothing is traced."""
    if any(value is not None for value in (context or {}).values()):
        refuse("langsmith.run_helpers._set_tracing_context")


TRACING_KEYS = (
    "parent",
    "project_name",
    "address",
    "tags",
    "metadata",
    "enabled",
    "client",
    "replicas",
    "distributed_parent_id",
)

STAND_INS: dict[str, dict[str, object]] = {
    "langsmith": {
        **names("Client"),
        # langchain-core asks once which generation of pydantic its runs are made with.
        "RunTree": Name("RunTree", (), {"model_dump": None}),
        "get_tracing_context": get_tracing_context,
    },
    "langsmith.address": {},
    "langsmith.run_helpers": {
        "get_tracing_context": get_tracing_context,
        "_set_tracing_context": set_tracing_context,
    },
    "langsmith.run_trees": {"_CLIENT": None},
    "langsmith.utils": {
        "get_tracer_project": get_tracer_project,
        "tracing_is_enabled": tracing_is_enabled,
        **names(errors=["LangSmithError"]),
    },
    "mcp.server": {},
    "mcp.server.fastmcp": {},
    "mcp.server.fastmcp.tools": names("Tool"),
    "mcp.server.fastmcp.utilities": {},
    "mcp.server.fastmcp.utilities.func_metadata": names("ArgModelBase", "FuncMetadata"),
    "mcp.server.session": names("ServerSession"),
    "mcp.server.stdio": names("stdio_server"),
    "requests": names("Response", errors=["HTTPError"]),
    "pydantic.v1": names(
        "BaseModel", "Field", "create_model", "validate_arguments", errors=["ValidationError"]
    ),
    # Validators of attrs' own; what `jsonschema` and `referencing` define does without.
    "attr.validators": {},
    "attrs.validators": {},
    # The half of httpcore that blocks; DCode and the SDK use the other one.
    "httpcore._backends.mock": names(
        "AsyncMockBackend", "AsyncMockStream", "MockBackend", "MockStream"
    ),
    "httpcore._backends.sync": names("SyncBackend"),
    "httpcore._sync": names(
        *("ConnectionInterface", "ConnectionPool", "HTTP11Connection", "HTTP2Connection"),
        *("HTTPConnection", "HTTPProxy", "SOCKSProxy"),
    ),
    "httpcore._sync.connection_pool": names("ConnectionPool"),
    # What the adapter never gets to see: `exchange.py` puts every connection on Streamable HTTP.
    "mcp.client.session_group": names("ClientSessionGroup"),
    "mcp.client.sse": names("sse_client"),
    "mcp.client.stdio": names("StdioServerParameters", "stdio_client"),
    # What DCode's `mcp_auth` is made of; of its names a call without a login uses its own alone.
    "filelock": names("FileLock", errors=["Timeout"]),
    "mcp.client.auth": {"OAuthClientProvider": base("OAuthClientProvider"), "TokenStorage": object},
    "mcp.client.auth.utils": names(
        "build_oauth_authorization_server_metadata_discovery_urls",
        "build_protected_resource_metadata_discovery_urls",
        "create_oauth_metadata_request",
        "handle_auth_metadata_response",
        "handle_protected_resource_response",
    ),
    "mcp.shared.auth": names("OAuthClientInformationFull", "OAuthMetadata", "OAuthToken"),
    # Tracers of langchain-core: classes that `isinstance` asks for, and ways to stream.
    "langchain_core.tracers.event_stream": names(
        "_astream_events_implementation_v1", "_astream_events_implementation_v2"
    ),
    "langchain_core.tracers.langchain": names("LangChainTracer"),
    "langchain_core.tracers.log_stream": names(
        "LogStreamCallbackHandler", "_astream_log_implementation"
    ),
    "langchain_core.tracers.root_listeners": names(
        "AsyncRootListenersTracer", "RootListenersTracer"
    ),
    "langchain_core.tracers.run_collector": names("RunCollectorCallbackHandler"),
    "langchain_core.tracers.stdout": names("ConsoleCallbackHandler"),
    "filetype": {},
    "jsonpatch": {},
    "tenacity": names(
        "Retrying", "retry_if_exception_type", "stop_after_attempt", "wait_exponential_jitter"
    ),
}
# Stand-ins that a run does without when a server of its plan needs the modules: one with a login,
# and one that is a command.
FOR_LOGIN = ("filelock", "mcp.client.auth", "mcp.shared.auth")
FOR_COMMANDS = ("mcp.client.stdio",)
# Whatever lies below one of these and is not in the table is refused.
ROOTS = tuple(name for name in STAND_INS if name.rpartition(".")[0] not in STAND_INS)


class Finder:
    """A finder and loader of the two tables' modules; everything else is the other finders'."""

    def __init__(self, stack: Mapping[str, str]) -> None:
        self.stack = stack
        self.roots: frozenset[str] = frozenset()
        self._below: tuple[str, ...] = ()
        self._loaders: stored.Loaders | None = None
        self.pack = packed.read()
        self.take_code_from(stored.read())

    def take_code_from(self, store: stored.Store | None) -> None:
        """Let the modules of `stored.PACKAGES` take their code from `store`."""
        self._loaders = None if store is None else stored.Loaders(store)

    def leave_out(self, roots: Iterable[str]) -> None:
        """Replace the modules of `ABSENT`, and `roots` with all that lies below them."""
        self.roots = frozenset(roots)
        self._below = tuple(f"{root}." for root in self.roots)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a stand-in, or of a module that takes stored code.

        Raises:
            ModuleNotFoundError: an optional part that this process has not.
            StandInUsed: a module of a replaced package that nobody is known to need.
        """
        if self.roots and name in ABSENT:
            raise ModuleNotFoundError(f"{name} is left out by {__name__}", name=name)
        if name not in self.roots and not name.startswith(self._below):
            return self._ordinary(name, path, target)
        if name not in STAND_INS:
            refuse(name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def _ordinary(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that takes packed or stored code."""
        takes_stored = self._loaders is not None and self._loaders.are_for(name)
        is_packed = self.pack is not None and self.pack.has(name)
        if not takes_stored and not is_packed:
            return None
        spec = self.pack.find(name, path) if self.pack is not None else None
        if spec is None:
            spec = self._found_behind(name, path, target)
            if spec is not None and self.pack is not None:
                spec = self.pack.settle(spec)
        if spec is not None and takes_stored and self._loaders is not None:
            spec = self._loaders.settle(spec)
        return spec

    def _found_behind(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the finders behind this one give."""
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> StandIn:
        """A new stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: StandIn) -> None:
        """Give a stand-in its names."""
        module.__dict__.update(STAND_INS[module.__name__])


def place_of(package: str) -> str | None:
    """The directory that `package` would be imported from."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    place = next(iter(spec.submodule_search_locations or ()), spec.origin)
    return os.path.dirname(place) if place else None


def is_version(package: str, place: str, versions: Iterable[str]) -> bool:
    """Whether one of `versions` of `package` is installed in `place`."""
    return any(
        os.path.isdir(os.path.join(place, f"{package}-{version}.dist-info")) for version in versions
    )


def is_known_release() -> bool:
    """Whether the DCode that is or would be imported is one of `RELEASES`."""
    if os.environ.get(PLAIN_VARIABLE):
        return False
    place = place_of(PACKAGE)
    return place is not None and is_version(PACKAGE, place, RELEASES)


def in_front() -> Finder | None:
    """The finder, once it is there."""
    return next((finder for finder in sys.meta_path if isinstance(finder, Finder)), None)


def verified() -> Mapping[str, str] | None:
    """Versions of the stack that is or would be imported, if it is one that was verified."""
    finder = in_front()
    if finder is not None:
        return finder.stack
    rows = [{**BELOW, **row} for row in QUALIFIED]
    for distribution in {PACKAGE: None, **rows[0]}:
        package = distribution.replace("-", "_")
        place = place_of(package)
        if place is None:
            return None
        if package == PACKAGE:
            if not is_version(package, place, RELEASES):
                return None
            continue
        rows = [row for row in rows if is_version(package, place, (row[distribution],))]
        if not rows:
            return None
    return rows[0]


def is_usable(stack: Mapping[str, str] | None) -> bool:
    """Whether shortcuts are taken with what `verified` said."""
    return stack is not None and not os.environ.get(PLAIN_VARIABLE)


def prepare(needed: Iterable[str] = (*FOR_LOGIN, *FOR_COMMANDS)) -> Mapping[str, str] | None:
    """`install` for the stack that is there; its versions if it is one that was verified."""
    stack = verified()
    install(stack, needed)
    return stack


def install(
    stack: Mapping[str, str] | None, needed: Iterable[str] = (*FOR_LOGIN, *FOR_COMMANDS)
) -> bool:
    """Leave modules out of what is imported from here on; whether it was done.

    Roots that are `needed` or loaded already stay what they are. Nothing happens with
    `PLAIN_VARIABLE` in the environment or without a verified `stack`.
    """
    finder = put_in_front(stack)
    if finder is None:
        return False
    if not finder.roots:
        real = {*needed, *sys.modules}
        finder.leave_out(root for root in ROOTS if root not in real)
    return True


def put_in_front(stack: Mapping[str, str] | None) -> Finder | None:
    """The finder, in front of the others; until `install` it only gives modules stored code."""
    if stack is None or not is_usable(stack):
        return None
    finder = in_front()
    if finder is None:
        finder = Finder(stack)
        sys.meta_path.insert(0, finder)
    return finder


def defer_models(stack: Mapping[str, str] | None) -> bool:
    """Let pydantic build each model at its first use, before any is made; whether it will.

    `defer_build` is a documented setting of a model's configuration, which every model inherits
    from `BaseModel`. Of the SDK's 200 models a call uses a few. What a model then takes and refuses
    is the same (`tests/test_startup.py`).
    """
    if not is_usable(stack):
        return False
    import pydantic

    pydantic.BaseModel.model_config["defer_build"] = True
    return True
