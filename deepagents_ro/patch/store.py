"""Writes what `stored.py` and `packed.py` read: `python -I -m deepagents_ro.patch.store`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import marshal
import os
import sys
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

from deepagents_ro import host, packed, startup, stored

if TYPE_CHECKING:
    from collections.abc import Iterable

# What a call imports while it discovers, beside what `host.import_stack` does.
LATE = ("anyio._backends._asyncio", "h11", "httpcore", "langchain_core.tracers.context")


class Recorder(stored.Store):
    """A store that keeps whatever it is asked for."""

    def code(self, text: str) -> types.CodeType:
        """Compile and keep."""
        code = stored.compiled(text)
        # In this version equal code is equal bytes, whoever else holds parts of it.
        self.codes[text] = marshal.dumps(code, 2)
        return code

    def content(self) -> bytes:
        """What `read` takes."""
        return importlib.util.MAGIC_NUMBER + marshal.dumps(self.codes, 2)


def write(path: str = stored.FILE, pack: str = packed.FILE) -> int:
    """Import what a call imports, and keep it compiled; how many texts were compiled.

    Zero, and no files, for a stack that was not verified. For a process of its own.

    Raises:
        OSError: a file cannot be written.
    """
    stack = startup.verified()
    finder = startup.put_in_front(stack)
    if finder is None:
        return 0
    before = frozenset(sys.modules)
    finder.pack = None
    recorder = Recorder({})
    finder.take_code_from(recorder)
    host.prepare_package()
    host.load_environment(trust_project=False)
    host.import_readers()
    startup.install(stack)
    host.import_stack(stack)
    host.import_validator()
    for name in LATE:
        importlib.import_module(name)
    replace(path, recorder.content())
    replace(pack, packed.content(compiled(sys.modules.keys() - before)))
    return len(recorder.codes)


def compiled(names: Iterable[str]) -> list[packed.Module]:
    """The modules of these names whose `.pyc` file Python takes, and is of a kind that is kept."""
    found: list[packed.Module] = []
    for name in sorted(names):
        spec = sys.modules[name].__spec__
        if spec is None or type(spec.loader) is not SourceFileLoader or spec.cached is None:
            continue
        with contextlib.suppress(OSError):
            content = Path(spec.cached).read_bytes()
            is_package = spec.submodule_search_locations is not None
            module = packed.Module(name, spec.loader.path, spec.cached, is_package, content)
            if packed.kind_of(content) in packed.KINDS and module.entry().is_fresh():
                found.append(module)
    return found


def replace(path: str, content: bytes) -> None:
    """Put a file in place in one step."""
    new = Path(f"{path}.{os.getpid()}")
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        new.write_bytes(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


if __name__ == "__main__":
    write()
