"""The names that a Python file binds at its top level, each with the text that binds it.

Functions are compared by their own text and not by their file's, so that an edit elsewhere in the
file is none. What counts as a name's text is every statement of the top level that can change what
the name stands for: definitions (a later one replaces an earlier one), assignments, also to an
attribute or an item of it, deletions. What runs on import and belongs to no name is one more entry.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

STATEMENTS = "(statements)"
"""The entry for what runs on import and binds no name."""
NOTHING = "nothing"
"""In place of a SHA-256: no text binds the name."""
_IMPORTS = "(imports:"

Import = ast.Import | ast.ImportFrom
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Source:
    """One parsed file. Raises `SyntaxError` or `ValueError` for what is not Python."""

    def __init__(self, content: bytes) -> None:
        self._text = content.decode()
        self._lines = self._text.split("\n")
        self.nodes: dict[str, list[ast.stmt]] = {}
        """Name -> the statements that bind it, in order, imports among them."""
        self._visit(ast.parse(self._text).body)

    def _visit(self, body: list[ast.stmt]) -> None:
        for node in body:
            for name in dict.fromkeys(_bound(node)):
                self.nodes.setdefault(name, []).append(node)
            for inner in _inner(node):
                self._visit(inner)

    def binds(self, name: str) -> bool:
        """Whether `name` is bound by more than imports."""
        return any(not isinstance(node, Import) for node in self.nodes.get(name, ()))

    def digest(self, entry: str) -> str:
        """SHA-256 of the text that binds the name `entry`, or `NOTHING`.

        The text of one statement is its lines, without the newline at the end. The texts of
        several, and of the names of `imports`, are joined with a NUL. An import is written out,
        one name each, whatever else its statement imports.
        """
        names = entry[len(_IMPORTS) : -1].split(",") if entry.startswith(_IMPORTS) else [entry]
        texts = [self._segment(node, name) for name in names for node in self.nodes.get(name, ())]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest() if texts else NOTHING

    def _segment(self, node: ast.stmt, name: str) -> str:
        if isinstance(node, Import):
            return "\n".join(_imported(node, name))
        first = node.lineno
        if isinstance(node, Definition):
            first = min([first, *(item.lineno for item in node.decorator_list)])
        return "\n".join(self._lines[first - 1 : node.end_lineno])


def imports(names: Iterable[str]) -> str:
    """The one entry for all of `names`, which a file imports from elsewhere."""
    return f"{_IMPORTS}{','.join(sorted(names))})"


@lru_cache(maxsize=256)
def read(content: bytes) -> Source:
    """`Source` of `content`, parsed once."""
    return Source(content)


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names whose meaning a statement of the top level changes, without what lies in it."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0]
        case ast.Assign() | ast.Delete():
            for target in node.targets:
                yield from _names(target)
        case ast.AnnAssign() | ast.AugAssign():
            yield from _names(node.target)
        case ast.If() | ast.Try() | ast.TryStar() | ast.Pass():
            pass
        case ast.Expr(value=ast.Constant()):
            pass  # a docstring
        case _:
            yield STATEMENTS


def _names(target: ast.expr) -> Iterator[str]:
    """`x` of `x`, `x.a`, `x[0]`, `(x, y)`, `*x`."""
    match target:
        case ast.Name():
            yield target.id
        case ast.Attribute() | ast.Subscript() | ast.Starred():
            yield from _names(target.value)
        case ast.Tuple() | ast.List():
            for item in target.elts:
                yield from _names(item)
        case _:
            yield STATEMENTS


def _inner(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    match node:
        case ast.If():
            yield from (node.body, node.orelse)
        case ast.Try() | ast.TryStar():
            yield node.body
            yield from (handler.body for handler in node.handlers)
            yield from (node.orelse, node.finalbody)


def _imported(node: Import, name: str) -> Iterator[str]:
    for alias in node.names:
        if (alias.asname or alias.name).split(".")[0] != name:
            continue
        if isinstance(node, ast.ImportFrom):
            yield f"from {'.' * node.level}{node.module or ''} import {alias.name} as {name}"
        else:
            yield f"import {alias.name} as {alias.asname or ''}"
