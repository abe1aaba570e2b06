"""Derives `deepagents_ro/patch/relied_on.txt`: scripts/relied_on.py SITE...

Each SITE is a directory that one release of DCode is installed in (`pip install --no-deps --target
SITE deepagents-code==RELEASE`), or one of the SDK (`mcp==VERSION`). What is used of them is read
from this package's own sources; what those names use in turn, from DCode's. Lines of the form
`managed` are kept as they are: no installation from a package index has those texts.
"""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from deepagents_ro.patch import relied_on, source
from deepagents_ro.patch.relied_on import PUBLISHED, Entry
from deepagents_ro.versions import DISTRIBUTION, PACKAGE

SOURCES = Path(__file__).parent.parent / "deepagents_ro"

# The two functions whose answer the C verdict must imply: their module is too heavy to import.
VERDICT = {
    ("deepagents_code.auto_mode", "is_mcp_tool"),
    ("deepagents_code.auto_mode", "mcp_tool_is_coherently_read_only"),
}
# Where the search ends, each with the reason why what lies behind cannot change a call.
ENDS = {
    ("deepagents_code.config", "configure_langsmith_secret_redaction"),  # tracing is off
    ("deepagents_code.config_manifest", None),  # options of the terminal
    ("deepagents_code.app", None),  # the terminal
    ("deepagents_code.mcp_providers.github", None),  # logins, which the call never starts
    ("deepagents_code.mcp_providers.slack", None),
    ("deepagents_code.mcp_oauth_ui", None),
}


def used(sources: Path = SOURCES) -> set[tuple[str, str]]:
    """(module, name) of DCode and of the SDK's `mcp.shared._httpx_utils`, wherever we use them."""
    found: set[tuple[str, str]] = set()
    for path in sources.rglob("*.py"):
        tree = ast.parse(path.read_text())
        modules: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and is_watched(node.module or ""):
                for alias in node.names:
                    found.add((node.module or "", alias.name))
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = modules.get(node.value.id)
                if module is not None:
                    found.add((module, node.attr))
    return found


def is_watched(module: str) -> bool:
    return f"{module}.".startswith((f"{PACKAGE}.", "mcp.shared._httpx_utils."))


class Tree:
    """One installed site: what its modules bind, and what those names use."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self._files: dict[str, tuple[str, source.Source] | None] = {}
        self.reached: dict[str, set[str]] = {}
        """File -> names that the search reached."""

    def module(self, name: str) -> tuple[str, source.Source] | None:
        """The file of a module, below the site, and what it binds."""
        if name not in self._files:
            stem = name.replace(".", "/")
            paths = [self.site / f"{stem}.py", self.site / stem / "__init__.py"]
            path = next((path for path in paths if path.is_file()), None)
            self._files[name] = path and (
                path.relative_to(self.site).as_posix(),
                source.read(path.read_bytes()),
            )
        return self._files[name]

    def reach(self, module: str, name: str) -> None:
        """Note a name, and everything that its text uses."""
        found = self.module(module)
        if found is None or name not in found[1].nodes:
            return
        names = self.reached.setdefault(found[0], set())
        if name in names:
            return
        names.add(name)
        if (module, name) in ENDS or (module, None) in ENDS:
            return
        for node in found[1].nodes[name]:
            if isinstance(node, ast.ImportFrom):
                aliases = [each for each in node.names if (each.asname or each.name) == name]
                for alias in aliases:
                    self.reach(node.module or "", alias.name)
            elif not isinstance(node, ast.Import):
                for each in self.uses(node, module):
                    self.reach(*each)

    def uses(self, node: ast.stmt, module: str) -> Iterator[tuple[str, str]]:
        """(module, name) of whatever a statement may look up outside itself."""
        modules: dict[str, str] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.ImportFrom) and is_watched(inner.module or ""):
                for alias in inner.names:
                    yield inner.module or "", alias.name
                    modules[alias.asname or alias.name] = f"{inner.module}.{alias.name}"
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                yield module, inner.id
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Attribute) or not isinstance(inner.value, ast.Name):
                continue
            if inner.value.id in modules:
                yield modules[inner.value.id], inner.attr

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """(file, name, digest) of everything reached."""
        bound = dict(filter(None, self._files.values()))
        for file in sorted(self.reached):
            names = self.reached[file]
            here = {name for name in names if bound[file].binds(name)}
            wanted = [*sorted(here), source.STATEMENTS]
            if names - here:
                wanted.append(source.imports(names - here))
            for name in wanted:
                yield file, name, bound[file].digest(name)


def derive(site: Path) -> Iterator[tuple[str, str, str]]:
    """(file, name, digest) of what is relied on in one installed site."""
    tree = Tree(site)
    for module, name in used() | VERDICT:
        tree.reach(module, name)
    return tree.entries()


def version(site: Path) -> str:
    """The release of DCode, or of the SDK, that a site holds."""
    found = importlib.metadata.distributions(path=[str(site)])
    names = {str(item.metadata["Name"]).lower(): item.version for item in found}
    return names.get(DISTRIBUTION) or names[relied_on.SDK]


def merge(sites: Iterable[Path]) -> list[Entry]:
    """The published entries of several sites, those of equal text in one line."""
    versions: dict[tuple[str, str, str], list[str]] = {}
    for site in sites:
        for each in derive(site):
            versions.setdefault(each, []).append(version(site))
    return [
        Entry(file, name, PUBLISHED, tuple(sorted(found)), digest)
        for (file, name, digest), found in sorted(versions.items())
    ]


def main(words: list[str]) -> None:
    """Write the table for the sites in `words`."""
    table = relied_on.TABLE
    kept = [each for each in relied_on.parse(table.read_text()) if each.form != PUBLISHED]
    entries = sorted([*merge(map(Path, words)), *kept], key=Entry.line)
    head = "# scripts/relied_on.py writes this file: file, name, form, versions, SHA-256\n"
    table.write_text(head + "".join(f"{entry.line()}\n" for entry in entries))
    print(f"{table}: {len(entries)} entries")


if __name__ == "__main__":
    main(sys.argv[1:])
