"""The compiled modules of the stack in one file, where Python reads a `.pyc` file for each.

`patch apply` copies the `.pyc` files of what a call imports into one file, as they are
(`patch/store.py`). A module comes from there exactly where Python would take its `.pyc` file: one
with the time and size of its source while the source has them; one that Python takes unchecked
(the image's) while the `.pyc` file begins as it did, which the hash of its source is a part of.
Anything else is found and loaded as ever, so nothing in the file can be out of date.

Modules of a package are also found by the file, where the package lies in the one directory that it
lay in; except DCode's own, which images edit.
"""

from __future__ import annotations

import _imp
import importlib.util
import marshal
import os
import sys
import types
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = os.path.join(
    os.path.dirname(__file__), "__pycache__", f"packed.{sys.implementation.cache_tag}.bin"
)
HEADER = 16
"""Bytes of a `.pyc` file in front of the code (PEP 552)."""
KINDS = CHECKED_BY_TIME, UNCHECKED = 0, 1
"""The kinds that are kept, by the second word of the header."""
EDITED = ("deepagents_code", "deepagents_ro")


Row = tuple[str, str, str, bool, bytes, int, int, int, int]
"""An `Entry` as it is written."""


class Module(NamedTuple):
    """What a module's entry is made of."""

    name: str
    source: str
    cached: str
    is_package: bool
    compiled: bytes
    """All of the `.pyc` file."""

    def entry(self, offset: int = 0) -> Entry:
        """Its entry, if its code begins at `offset`."""
        directory, header = os.path.dirname(self.source), self.compiled[:HEADER]
        return Entry(
            self.source,
            self.cached,
            os.path.dirname(directory) if self.is_package else directory,
            self.is_package,
            header,
            int.from_bytes(header[8:12], "little"),
            int.from_bytes(header[12:16], "little"),
            offset,
            len(self.compiled) - HEADER,
        )


class Entry(NamedTuple):
    """One module."""

    source: str
    cached: str
    """The `.pyc` file that this is a copy of."""
    place: str
    """The directory in which the module was looked for."""
    is_package: bool
    header: bytes
    """The first bytes of the `.pyc` file."""
    seconds: int
    """The time of the source, by the header."""
    bytes: int
    """The size of the source, by the header."""
    offset: int
    size: int
    """Of the code, in this file."""

    def is_fresh(self) -> bool:
        """Whether Python would take the `.pyc` file that this is a copy of."""
        try:
            if kind_of(self.header) == CHECKED_BY_TIME:
                found = os.stat(self.source)
                return (
                    int(found.st_mtime) & 0xFFFFFFFF == self.seconds
                    and found.st_size & 0xFFFFFFFF == self.bytes
                )
            with open(self.cached, "rb", 0) as file:
                return file.read(HEADER) == self.header
        except OSError:
            return False


def kind_of(header: bytes) -> int:
    """What a `.pyc` file says of how it is checked."""
    return int.from_bytes(header[4:8], "little")


class Pack:
    """An open file of modules."""

    def __init__(self, descriptor: int, rows: dict[str, Row]) -> None:
        self._descriptor = descriptor
        self._rows = rows

    def find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """The spec of a fresh module of a package that lies where it lay."""
        entry = self._entry(name)
        if (
            entry is None
            or path is None
            or name.startswith(EDITED)
            or list(path) != [entry.place]
            or not entry.is_fresh()
        ):
            return None
        spec = ModuleSpec(
            name, PackedLoader(name, entry.source, self), origin=entry.source,
            is_package=entry.is_package,
        )  # fmt: skip
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(entry.source))
        spec.has_location = True
        spec.cached = entry.cached
        return spec

    def settle(self, spec: ModuleSpec) -> ModuleSpec:
        """Let a module that was found elsewhere take its code from here, if that is fresh."""
        entry = self._entry(spec.name)
        if (
            entry is not None
            and type(spec.loader) is SourceFileLoader
            and spec.loader.path == entry.source
            and entry.is_fresh()
        ):
            spec.loader = PackedLoader(spec.name, entry.source, self)
        return spec

    def code(self, name: str) -> types.CodeType:
        """The code of a module.

        Raises:
            OSError, EOFError, TypeError, ValueError: the file was cut.
        """
        *_, offset, size = self._rows[name]
        code = marshal.loads(os.pread(self._descriptor, size, offset))
        if not isinstance(code, types.CodeType):
            raise TypeError
        return code

    def has(self, name: str) -> bool:
        """Whether the module `name` is one of them."""
        return name in self._rows

    def _entry(self, name: str) -> Entry | None:
        row = self._rows.get(name)
        return None if row is None else Entry(*row)


class PackedLoader(SourceFileLoader):
    """Python's own loader of a source file, which takes the code from a pack."""

    def __init__(self, name: str, path: str, pack: Pack) -> None:
        super().__init__(name, path)
        self._pack = pack

    def get_code(self, fullname: str) -> types.CodeType | None:
        """The pack's code; the source's, compiled or not, where the pack was cut."""
        try:
            return self._pack.code(fullname)
        except (OSError, EOFError, TypeError, ValueError):
            return super().get_code(fullname)


def read(path: str = FILE) -> Pack | None:
    """The pack in a file; None when there is none, or none for this interpreter as it runs."""
    if sys.flags.optimize or _imp.check_hash_based_pycs != "default":
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        magic = importlib.util.MAGIC_NUMBER
        start = os.pread(descriptor, len(magic) + 4, 0)
        if not start.startswith(magic):
            raise ValueError
        size = int.from_bytes(start[len(magic) :], "little")
        rows = marshal.loads(os.pread(descriptor, size, len(start)))
        if not isinstance(rows, dict):
            raise TypeError
        return Pack(descriptor, rows)
    except (OSError, EOFError, TypeError, ValueError):
        os.close(descriptor)
        return None


def content(modules: Sequence[Module]) -> bytes:
    """What `read` takes."""
    rows: dict[str, Row] = {}
    index = b""
    while True:  # the codes begin behind the index, whose size depends on where they begin
        offset = len(importlib.util.MAGIC_NUMBER) + 4 + len(index)
        for module in modules:
            entry = module.entry(offset)
            rows[module.name] = (*entry,)
            offset += entry.size
        written = marshal.dumps(rows, 2)
        if len(written) == len(index):
            break
        index = written
    codes = [module.compiled[HEADER:] for module in modules]
    return b"".join(
        (importlib.util.MAGIC_NUMBER, len(written).to_bytes(4, "little"), written, *codes)
    )
