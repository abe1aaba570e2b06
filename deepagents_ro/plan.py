"""Which servers one run asks: the configured sources, and what DCode's loader is given of them.

Data alone; `host.py` reads and uses it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deepagents_ro.protocols import Layer

SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclass(slots=True, eq=False, repr=False)
class Plan:
    """Which servers are asked, and what DCode's loader is given for it."""

    tool: str
    """Full tool name; empty for an audit."""
    owners: frozenset[str] = frozenset()
    """Servers that can own the tool's name."""
    raw: dict[str, list[object]] = field(default_factory=dict)
    """Each owner's unresolved entries, from every source, lowest precedence first."""
    explicit: Layer = field(default_factory=dict)
    """Servers of the anonymous file that goes on top of everything discovered."""
    layers: tuple[dict[str, object], ...] = ()
    """Configurations that the loader takes by value: plugins', or a managed runtime's owners."""
    trust_project: bool | None = None
    early: tuple[str, object] | None = None
    """The owner and entry whose conversation may run ahead, if there is one."""


class FileFault(NamedTuple):
    """A configuration file that DCode refuses, and where: a position, or a server's name."""

    path: Path
    line: int = 0
    column: int = 0
    server: str = ""

    def __str__(self) -> str:
        if self.line:
            return f"{self.path}:{self.line}:{self.column}"
        return f"{self.path}: server {self.server}" if self.server else str(self.path)


@dataclass(slots=True, eq=False, repr=False)
class Sources:
    """MCP server entries by kind of source, each a list of `{name: entry}`, in DCode's order."""

    user: list[Layer] = field(default_factory=list)
    plugins: list[Layer] = field(default_factory=list)
    project: list[Layer] = field(default_factory=list)
    explicit: Layer = field(default_factory=dict)
    plugin_layers: tuple[dict[str, object], ...] = ()
    """The plugins' layers as DCode's loader takes them."""
    managed: bool = False
    by_value: frozenset[str] = frozenset()
    """Servers of a managed runtime that DCode's loader takes by value; see `taken_by_value`."""
    faults: list[FileFault] = field(default_factory=list)
    """Discovered files that DCode leaves out."""

    def allowed(self) -> list[str]:
        """Names that may be asked, first seen first; a managed runtime has its own file only."""
        layers = (self.explicit,) if self.managed else self.layers()
        names = dict.fromkeys(name for layer in layers for name in layer)
        return [name for name in names if SERVER_NAME.match(name)]

    def entries(self, name: str) -> list[object]:
        """A server's entries, as they stand, of every source; the last one wins."""
        return [layer[name] for layer in self.layers() if name in layer]

    def discovered(self) -> Iterator[Layer]:
        """All that DCode finds by itself, lowest precedence first."""
        yield from self.user
        yield from self.plugins
        yield from self.project

    def layers(self) -> Iterator[Layer]:
        """All of them, lowest precedence first."""
        yield from self.discovered()
        yield self.explicit


def inert_entries(sources: Sources, owners: frozenset[str]) -> Layer:
    """An entry that contacts nobody for every discovered server that is no owner.

    It stands above what was discovered; `configure` drops it before anything is started.
    """
    discovered = {name for layer in sources.discovered() for name in layer}
    return {
        name: {"command": sys.executable or "/bin/sh"}
        for name in discovered - owners
        if SERVER_NAME.match(name)
    }
