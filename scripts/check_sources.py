"""Checks what a compiler does not: layers, circles, banned functions, sizes, places of limits.

python scripts/check_sources.py        exit 1 and one line per finding
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# header -> the only layer that may include it
OWNERS = {"Python.h": "py", "curl/curl.h": "net", "cjson/cJSON.h": "core"}
# layer -> the layers whose headers it may include
MAY_INCLUDE = {
    "core": {"core"},
    "guard": {"core", "guard"},
    "net": {"core", "net"},
    "mcp": {"core", "net", "mcp"},
    "py": {"core", "guard", "mcp", "net", "py"},
}
# The files of a layer from the bottom up: one includes only what stands before it, and what its
# header declares it defines itself, so that no call goes up either.
ORDER = {
    "mcp": [
        # bytes: no session is known here
        *["rpc", "message", "sse", "shape", "result", "reduce", "toollist"],
        *["owner", "reason", "tool_reason", "response", "replies", "child"],
        # what outlives the sessions
        *["discovery", "gate", "record"],
        # a session's objects, and what each of its files needs
        *["carrier", "state", "ending", "request", "allowance", "event_stream"],
        *["exchange", "answer", "waiting"],
        # the carriers
        *["http_state", "delete", "ahead_plan", "prefetch", "ahead"],
        *["push", "post", "http", "legacy", "stdio"],
        # the way in
        *["raw", "start", "session"],
    ],
}
# Unbounded, not reentrant, or without a way to see a failure.
BANNED = ["alloca", "atof", "atoi", "atol", "gets", "longjmp", "setjmp", "sprintf", "sscanf"]
BANNED += ["strcat", "strcpy", "strncat", "strncpy", "strtok", "system", "vsprintf"]
BANNED += ["PyGILState_Ensure", "PyGILState_Release"]
HEAP = ["malloc", "calloc", "realloc", "reallocarray", "strdup", "strndup", "free"]
HEAP_OWNER = "csrc/core/alloc.c"
RAISE_OWNER = "csrc/py/errors.c"
SOURCE_LINES, HEADER_LINES = 600, 180
LIMITS = "csrc/core/limits.h"
# Numbers of core, net and mcp outside LIMITS, into which no peer runs: the sizes of tables, chunks
# and stacks, parts of a format, constants of an algorithm. Each has its reason where it stands.
NO_LIMITS = {
    "csrc/core/buf.c": ["FIRST_CAP"],
    "csrc/core/hints.c": ["BATCH", "MAX_BATCH", "MAX_RAW_KEY"],
    "csrc/core/json_keys.h": ["RO_JSON_FEW_KEYS", "RO_JSON_FEW_SLOTS"],
    "csrc/core/json_scan.h": ["RO_JSON_FEW_FRAMES"],
    "csrc/core/secrets.c": ["BASE_A", "BASE_B", "PRIME", "STRIDE", "TAIL"],
    "csrc/core/shapes.h": ["RO_SHAPE_MIN"],
    "csrc/core/thread.h": ["RO_CRASH_SIGNALS", "RO_SIGNAL_STACK"],
    "csrc/mcp/prefetch.c": ["CHUNK"],
    "csrc/mcp/rpc.h": [
        *["RO_RPC_INTERNAL_ERROR", "RO_RPC_INVALID_REQUEST", "RO_RPC_METHOD_NOT_FOUND"],
    ],
    "csrc/mcp/shape.h": ["RO_SHAPE_MAX_MEMBERS"],
    "csrc/mcp/stdio.c": ["CHUNK", "LOOK_MS", "TURN_READS"],
    "csrc/net/bounds.h": [
        *["RO_NET_DESTINATIONS", "RO_NET_MAX_METHOD", "RO_NET_MAX_REQUEST_HEADERS"],
        *["RO_NET_POOL", "RO_NET_STACK"],
    ],
    "csrc/net/sockets.c": ["ALERT_LENGTH", "RECORD_HEADER"],
    "csrc/net/worker.c": ["MAX_WAIT_MS"],
}

_CALL = re.compile(r"(?<![\w.>])(" + "|".join([*BANNED, *HEAP]) + r")\s*\(")
# PyErr_ functions that look at an exception or drop it set none.
_RAISE = re.compile(r"\b(PyErr_(?!Occurred|ExceptionMatches|Clear)\w+)\s*\(")
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_DECLARED = re.compile(r"^(?!typedef|static)\w[^;{}()=]*?\b(ro_\w+)\([^{}]*?\);", re.MULTILINE)
_NUMBER = re.compile(r"^\s*#\s*define\s+(\w+)\s+\(*-?\d", re.MULTILINE)
# of four digits or more, which is a limit rather than an index
_LONG_NUMBER = re.compile(r"(?<![\w.])\d{4,}[uUlL]*\b")
_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def code_of(text: str) -> str:
    """C without its comments and literals, line for line."""
    return _TEXT.sub(lambda match: "\n" * match.group().count("\n"), text)


def imported(tree: ast.AST, module: str, known: Collection[str]) -> set[str]:
    """The modules of `known` that a file imports, within functions and for types too.

    Args:
        module: the file's own name; a package's file is `PACKAGE.__init__`, as in `known`.

    The packages above an imported module are run with it and do not count.
    """

    def of(name: str) -> set[str]:
        return {name, f"{name}.__init__"} & set(known)

    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(*(of(alias.name) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            package = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                found |= of(f"{package}.{alias.name}") or of(package)
    return found - {module}


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, the first one again at the end; or none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def import_findings(root: Path = ROOT) -> Iterator[str]:
    """A line for a circle of imports within the Python package."""
    package = root / "deepagents_ro"
    paths = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")])
    }
    graph = {
        name: imported(ast.parse(path.read_text(encoding="utf-8")), name, paths)
        for name, path in paths.items()
    }
    found = circle(graph)
    if found:
        yield f"deepagents_ro: imports in a circle: {' -> '.join(found)}"


def out_of_order(path: Path, text: str) -> Iterator[str]:
    """What a file of an ordered layer includes or declares and may not."""
    layer, file = path.parent.name, path.stem
    order = ORDER.get(layer, [])
    if file not in order:
        if order:
            yield f"stands in no place of the order of csrc/{layer}"
        return
    for included in _INCLUDE.findall(text):
        other, _, header = included.partition("/")
        name = header.removesuffix(".h")
        if other == layer and name in order[order.index(file) + 1 :]:
            yield f"includes {included}, which stands above it"
    if path.suffix == ".h":
        source = path.with_suffix(".c")
        defined = code_of(source.read_text()) if source.exists() else ""
        for name in _DECLARED.findall(code_of(text)):
            if not re.search(rf"^{name}\(", defined, re.MULTILINE):
                yield f"declares {name}, which {source.name} does not define"


def stray_limits(name: str, code: str) -> Iterator[str]:
    """Numbers that may be limits and do not stand in `LIMITS`."""
    layer = name.split("/")[1]
    if layer not in ("core", "net", "mcp") or name == LIMITS:
        return
    known = NO_LIMITS.get(name, [])
    for gone in sorted({*known} - {*_NUMBER.findall(code)}):
        yield f"{name}: defines no {gone}, which scripts/check_sources.py names"
    for number, line in enumerate(code.splitlines(), 1):
        defined = _NUMBER.match(line)
        if defined and defined[1] not in known:
            yield f"{name}:{number}: defines {defined[1]}; a limit belongs to {LIMITS}"
        elif layer != "core" and not defined and _LONG_NUMBER.search(line):
            yield f"{name}:{number}: has a number without a name; a limit belongs to {LIMITS}"


def findings(root: Path = ROOT) -> Iterator[str]:
    """One line per finding."""
    yield from import_findings(root)
    for path in sorted(root.glob("csrc/*/*.[ch]")):
        name = path.relative_to(root).as_posix()
        layer = path.parent.name
        text = path.read_text()
        for included in _INCLUDE.findall(text):
            if OWNERS.get(included, layer) != layer:
                yield f"{name}: includes {included}, which belongs to csrc/{OWNERS[included]}"
            other = included.split("/")[0]
            if other in MAY_INCLUDE and other not in MAY_INCLUDE.get(layer, set()):
                yield f"{name}: includes {included} of another layer"
        yield from (f"{name}: {breach}" for breach in out_of_order(path, text))
        code = code_of(text)
        yield from stray_limits(name, code)
        for number, line in enumerate(code.splitlines(), 1):
            for called in _CALL.findall(line):
                if called in HEAP and (name == HEAP_OWNER or layer == "py"):
                    continue
                yield f"{name}:{number}: calls {called}"
            for called in _RAISE.findall(line) if name != RAISE_OWNER else ():
                yield f"{name}:{number}: calls {called}, which belongs to {RAISE_OWNER}"
        lines = text.splitlines()
        limit = HEADER_LINES if path.suffix == ".h" else SOURCE_LINES
        if len(lines) > limit:
            yield f"{name}: {len(lines)} lines, more than {limit}: it has two concerns"


if __name__ == "__main__":
    found = list(findings())
    print("\n".join(found) or "sources: in order")
    sys.exit(1 if found else 0)
