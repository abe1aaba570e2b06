"""Puts new bytes in a file's place, and keeps its compiled copies in step.

Never writes into a file: some installers hard-link or link what they install from a cache, and
every other environment would change with it. A new file in the same directory takes the old one's
name by rename, with its mode, owner, extended attributes and times. The time of last change is
kept, so that a revert gives the installed state back; a compiled copy that goes by time goes by
size as well, and the patch changes the size.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import py_compile
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_SUFFIX = ".new"
_HEADER = 16  # bytes before the code object: magic, flags, then time and size, or a hash
_HASHED, _CHECKED = 0b01, 0b10


@contextlib.contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A temporary file beside `target`; gone at the end, unless it was renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=_SUFFIX, dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _take_place(new: Path, old: Path) -> None:
    """Rename `new` to `old`, on disk before this returns. The owner is kept where it may be."""
    state = os.stat(old)
    mine = os.stat(new)
    if (mine.st_uid, mine.st_gid) != (state.st_uid, state.st_gid):
        os.chown(new, state.st_uid, state.st_gid)
    with open(new, "rb") as file:
        os.fsync(file.fileno())
    os.replace(new, old)
    directory = os.open(old.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def replace(path: Path, content: bytes) -> None:
    """Give the file `path` the bytes `content`. Raises `OSError`; then `path` is as it was."""
    with _new_file(path) as new:
        new.write_bytes(content)
        shutil.copystat(path, new)
        _take_place(new, path)


@dataclass(frozen=True)
class Compiled:
    """One compiled copy of `source`, as its name and header describe it."""

    path: Path
    source: Path
    tag: str
    optimization: int
    data: bytes

    @property
    def mode(self) -> py_compile.PycInvalidationMode | None:
        """How Python decides whether the copy is current; None when it does not read it at all."""
        if len(self.data) < _HEADER:
            return None
        flags = int.from_bytes(self.data[4:8], "little")
        if flags & ~(_HASHED | _CHECKED):
            return None
        if not flags & _HASHED:
            return py_compile.PycInvalidationMode.TIMESTAMP
        if flags & _CHECKED:
            return py_compile.PycInvalidationMode.CHECKED_HASH
        return py_compile.PycInvalidationMode.UNCHECKED_HASH

    @property
    def ours(self) -> bool:
        """Whether the running interpreter reads and writes copies of this name."""
        return self.tag == sys.implementation.cache_tag

    def current(self) -> bool:
        """Whether the running interpreter would run this copy, and it says what its source says."""
        return self.ours and self._used() and self._same_code()

    def hides(self) -> bool:
        """Whether an interpreter would run this copy although it says something else.

        A copy of another interpreter can only in the mode that never looks at the source: the
        other modes compare the size, or the source itself.
        """
        if not self.ours:
            return self.mode is py_compile.PycInvalidationMode.UNCHECKED_HASH
        return self._used() and not self._same_code()

    def _used(self) -> bool:
        if self.data[:4] != importlib.util.MAGIC_NUMBER:
            return False
        if self.mode is py_compile.PycInvalidationMode.UNCHECKED_HASH:
            return True
        if self.mode is py_compile.PycInvalidationMode.CHECKED_HASH:
            return self.data[8:16] == importlib.util.source_hash(self.source.read_bytes())
        if self.mode is py_compile.PycInvalidationMode.TIMESTAMP:
            state = os.stat(self.source)
            stamp = (int(state.st_mtime) & 0xFFFFFFFF, state.st_size & 0xFFFFFFFF)
            return self.data[8:16] == b"".join(part.to_bytes(4, "little") for part in stamp)
        return False

    def code(self) -> CodeType | None:
        """The code object, None when there is none that the running interpreter can read."""
        if self.data[:4] != importlib.util.MAGIC_NUMBER:
            return None
        try:
            code = marshal.loads(self.data[_HEADER:])
        except (EOFError, ValueError, TypeError):
            return None
        return code if isinstance(code, CodeType) else None

    def _same_code(self) -> bool:
        source = self.source.read_bytes()
        expected = compile(
            source, str(self.source), "exec", dont_inherit=True, optimize=self.optimization
        )
        return self.code() == expected


def compiled_copies(source: Path) -> list[Compiled]:
    """Every compiled copy of `source`, of any interpreter and optimization level."""
    folders = {source.parent / "__pycache__"}
    with contextlib.suppress(NotImplementedError):
        folders.add(Path(importlib.util.cache_from_source(str(source))).parent)
    copies: list[Compiled] = []
    for folder in sorted(folders):
        for path in sorted(folder.glob(f"{source.stem}.*.pyc")):
            tag, _, level = path.name[len(source.stem) + 1 : -len(".pyc")].partition(".opt-")
            if level in ("", "1", "2"):
                copies.append(Compiled(path, source, tag, int(level or 0), path.read_bytes()))
    return copies


def settle_copies(source: Path) -> bool:
    """Bring every compiled copy of `source` in step with it; True when one had to change.

    A copy of the running interpreter is compiled again, in the mode and at the level that it has.
    A copy of another interpreter is removed when it would hide the source: without a copy Python
    compiles the source itself. Raises `OSError`, `py_compile.PyCompileError`.
    """
    changed = False
    for copy in compiled_copies(source):
        if copy.ours and not copy.current():
            _recompile(copy)
        elif not copy.ours and copy.hides():
            copy.path.unlink(missing_ok=True)
        else:
            continue
        changed = True
    return changed


def _recompile(copy: Compiled) -> None:
    code = copy.code()  # a tree that was staged elsewhere names its final place
    with _new_file(copy.path) as new:
        py_compile.compile(
            str(copy.source),
            cfile=str(new),
            dfile=code.co_filename if code else str(copy.source),
            doraise=True,
            optimize=copy.optimization,
            invalidation_mode=copy.mode or py_compile.PycInvalidationMode.TIMESTAMP,
        )
        shutil.copymode(copy.path, new)
        _take_place(new, copy.path)


def leftovers(path: Path) -> list[Path]:
    """What a run that was killed left beside `path` and beside its compiled copies."""
    places = [(path.parent, path.name)]
    places += [(copy.path.parent, copy.path.name) for copy in compiled_copies(path)]
    return [item for folder, name in places for item in sorted(folder.glob(f".{name}.*{_SUFFIX}"))]
