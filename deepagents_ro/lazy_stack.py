"""The adapter and the SDK, imported on a thread while DCode's preflight waits for the network.

DCode's loader takes a few names of the adapter, asks each server with a HEAD request, and calls
those names only then. More than half of what the imports take is behind them. So the loader gets
functions in their place, the modules are imported on a thread once it has them all, and the first
call of such a function waits for that thread. DCode imports these modules on a thread as well,
before the preflight.

Until the thread starts, the modules of `PUT_OFF` stand in `sys.modules` without their text; from
then on they are what they always are. While it runs, the event loop's thread imports nothing: two
threads in one circle of modules may see half of one (`tests/test_lazy_stack.py`).
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.machinery
import sys
import threading
import types
from typing import TYPE_CHECKING, Protocol

from deepagents_ro.startup import is_special

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What DCode's loader takes before its preflight and calls behind it, by module.
PUT_OFF: dict[str, tuple[str, ...]] = {
    "langchain_mcp_adapters": (),
    "langchain_mcp_adapters.sessions": (
        *("SSEConnection", "StdioConnection", "StreamableHttpConnection", "create_session"),
    ),
    "langchain_mcp_adapters.tools": ("convert_mcp_tool_to_langchain_tool",),
    "deepagents_code.mcp_auth": (),
}
NAMES = frozenset((module, name) for module, names in PUT_OFF.items() for name in names)
# What httpx imports as it sends its first request.
PREFLIGHT = (
    "anyio._backends._asyncio",
    "anyio.streams.stapled",
    "anyio.streams.tls",
    "certifi",
    "encodings.idna",
    "httpcore._backends.anyio",
    "sniffio",
)
# Seconds behind the last name: by then the preflight is on its way, or, beside the server, over.
START_SECONDS = 0.02
# Seconds that a thread may keep the interpreter while another wants it. The preflight wants it for
# a moment at every packet.
SWITCH_SECONDS = 0.0005


class Function(Protocol):
    """Any function."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call it."""


class PutOff(types.ModuleType):
    """A module that is not imported yet."""

    def __init__(self, name: str, stack: LazyStack) -> None:
        super().__init__(name)
        self._stack = stack

    def __getattr__(self, name: str) -> object:
        where = self.__name__, name
        if is_special(name) or ".".join(where) in PUT_OFF:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if where not in NAMES:
            return self._stack.real(*where)
        self._stack.note_taken(where)
        return functools.partial(self._stack.call, where)


class LazyStack:
    """Finder and loader of the modules of `PUT_OFF` until `load` imports them."""

    def __init__(self, load: Callable[[], None]) -> None:
        self._load = load
        self._missing = set(NAMES)
        self._thread: threading.Thread | None = None
        self._begun = False
        self._error: BaseException | None = None

    def install(self) -> bool:
        """Answer for the modules from here on; False where one of them is there already."""
        if not sys.modules.keys().isdisjoint(PUT_OFF):
            return False
        for name in PREFLIGHT:
            importlib.import_module(name)
        sys.meta_path.insert(0, self)
        return True

    def find_spec(
        self,
        name: str,
        _path: Sequence[str] | None = None,
        _target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that is put off."""
        if name not in PUT_OFF:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> PutOff:
        """A module without its text."""
        return PutOff(spec.name, self)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run nothing."""

    def note_taken(self, where: tuple[str, str]) -> None:
        """Start the thread soon if this is the last name that the loader takes."""
        self._missing.discard(where)
        if not self._missing:
            asyncio.get_running_loop().call_later(START_SECONDS, self._start)

    def call(self, where: tuple[str, str], /, *args: object, **kwargs: object) -> object:
        """What the module's own function returns; see `real`."""
        return self.real(*where)(*args, **kwargs)

    def real(self, module: str, name: str) -> Function:
        """What the module has by that name; imports it, or waits until it is imported.

        Raises:
            BaseException: what the import raised, at every call.
        """
        if not self._begun:
            self._import()
        elif self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        found: Function = getattr(importlib.import_module(module), name)
        return found

    def _start(self) -> None:
        if not self._begun:
            self._begun = True
            self._thread = threading.Thread(target=self._import, name="imports", daemon=True)
            self._thread.start()

    def _import(self) -> None:
        self._begun = True
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            sys.meta_path.remove(self)
            for name in PUT_OFF:
                sys.modules.pop(name, None)
            self._load()
            for name in PUT_OFF:  # and that it is its package's attribute
                importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - raised again where a name is called
            self._error = error
        finally:
            sys.setswitchinterval(interval)
