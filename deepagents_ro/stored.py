"""Code that `dataclasses` compiles from text at every start, compiled once and kept.

`dataclasses` writes the methods of each class as text and compiles it. What it compiles while a
call imports its stack is the same text each time. `patch apply` imports that stack, notes each
text, and keeps its code in one file beside the `.pyc` files (`patch/store.py`); a call takes code
from there instead of compiling it (`Store`). The whole text is the key: what is not in the file is
compiled as ever, and nothing in the file can be out of date.

No loaded module is touched, the standard library's least of all. The finder of `startup.py` has the
modules of `PACKAGES` run with builtins of their own (`Loaders`), in which `import dataclasses`
gives a copy of that module: the same classes and constants, and functions that ask the store.
"""

from __future__ import annotations

import builtins
import importlib.util
import marshal
import os
import sys
import types
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING

from deepagents_ro.packed import PackedLoader

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

# Packages that define dataclasses as they are imported.
PACKAGES = frozenset(
    {
        "annotated_types",
        "anyio",
        "deepagents_code",
        "filelock",
        "h11",
        "langchain_mcp_adapters",
        "mcp",
        "pydantic",
    }
)

# Loaders that run a module's code in its namespace, and do nothing else.
LOADERS = (SourceFileLoader, PackedLoader)

FILE = os.path.join(
    os.path.dirname(__file__), "__pycache__", f"stored.{sys.implementation.cache_tag}.bin"
)


class Store:
    """Code by the text that it is compiled from."""

    def __init__(self, codes: dict[str, bytes]) -> None:
        self.codes = codes
        """In the form of `marshal`; what nobody asks for is not made."""

    def code(self, text: str) -> types.CodeType:
        """What `exec` would compile `text` to in a module without `__future__`."""
        stored = self.codes.get(text)
        code: types.CodeType = compiled(text) if stored is None else marshal.loads(stored)
        return code


def compiled(text: str) -> types.CodeType:
    """The code of `text`."""
    code: types.CodeType = compile(text, "<string>", "exec", dont_inherit=True)
    return code


def read(path: str = FILE) -> Store | None:
    """The store in a file; None when there is none, or not one of this interpreter's."""
    try:
        with open(path, "rb") as file:
            content = memoryview(file.read())
        behind = len(importlib.util.MAGIC_NUMBER)
        if content[:behind] != importlib.util.MAGIC_NUMBER:
            return None
        codes = marshal.loads(content[behind:])
        return Store(codes) if isinstance(codes, dict) else None
    except (OSError, EOFError, TypeError, ValueError):
        return None


class Loaders:
    """What the modules of `PACKAGES` are loaded with, so that they take code from a store."""

    def __init__(self, store: Store) -> None:
        self._builtins = builtins_of(store)

    def are_for(self, name: str) -> bool:
        """Whether the module `name` is one of them."""
        return name.partition(".")[0] in PACKAGES

    def settle(self, spec: ModuleSpec) -> ModuleSpec:
        """Let the ordinary loader in a new `spec` run its module with builtins of its own."""
        loader = spec.loader
        if isinstance(loader, SourceFileLoader) and type(loader) in LOADERS:
            run = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                module.__dict__["__builtins__"] = self._builtins
                run(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def builtins_of(store: Store) -> dict[str, object]:
    """Builtins whose `import dataclasses` gives `copy_of_dataclasses`."""
    copy = copy_of_dataclasses(store)
    ordinary = builtins.__import__

    def import_(
        name: str,
        globals: dict[str, object] | None = None,
        locals: dict[str, object] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> types.ModuleType:
        if name == "dataclasses" and level == 0:
            return copy
        return ordinary(name, globals, locals, fromlist, level)

    return {**vars(builtins), "__import__": import_}


def copy_of_dataclasses(store: Store) -> types.ModuleType:
    """A module with the same classes and constants, whose functions run code of `store`."""
    import dataclasses

    copy = types.ModuleType(dataclasses.__name__, dataclasses.__doc__)
    names = vars(copy)
    names.update(vars(dataclasses))

    def run(text: str, globals: dict[str, object], locals: dict[str, object]) -> None:
        exec(store.code(text), globals, locals)

    names["exec"] = run
    copies = {
        function: function_copy(function, names)
        for function in vars(dataclasses).values()
        if isinstance(function, types.FunctionType) and function.__module__ == dataclasses.__name__
    }
    names.update((function.__name__, made) for function, made in copies.items())
    # The one table of functions: what to do about `__hash__`.
    table = names["_hash_action"]
    names["_hash_action"] = {key: copies.get(action, action) for key, action in table.items()}
    return copy


def function_copy(function: types.FunctionType, names: dict[str, object]) -> types.FunctionType:
    """The function with `names` for its globals."""
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__qualname__ = function.__qualname__
    copy.__doc__ = function.__doc__
    copy.__dict__.update(vars(function))
    return copy
