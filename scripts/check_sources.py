"""Checks what a compiler does not: which layer includes what, banned functions, sizes.

python scripts/check_sources.py        exit 1 and one line per finding
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# header -> the only layer that may include it
OWNERS = {"Python.h": "py", "curl/curl.h": "net", "cjson/cJSON.h": "core"}
# layer -> the layers whose headers it may include
MAY_INCLUDE = {
    "core": {"core"},
    "guard": {"core", "guard"},
    "net": {"core", "net"},
    "py": {"core", "guard", "net", "py"},
}
# Unbounded, not reentrant, or without a way to see a failure.
BANNED = ["alloca", "atof", "atoi", "atol", "gets", "longjmp", "setjmp", "sprintf", "sscanf"]
BANNED += ["strcat", "strcpy", "strncat", "strncpy", "strtok", "system", "vsprintf"]
BANNED += ["PyGILState_Ensure", "PyGILState_Release"]
HEAP = ["malloc", "calloc", "realloc", "reallocarray", "strdup", "strndup", "free"]
HEAP_OWNER = "csrc/core/alloc.c"
SOURCE_LINES, HEADER_LINES = 600, 180

_CALL = re.compile(r"(?<![\w.>])(" + "|".join([*BANNED, *HEAP]) + r")\s*\(")
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def code_of(text: str) -> str:
    """C without its comments and literals, line for line."""
    return _TEXT.sub(lambda match: "\n" * match.group().count("\n"), text)


def findings(root: Path = ROOT) -> Iterator[str]:
    """One line per finding."""
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
        code = code_of(text)
        for number, line in enumerate(code.splitlines(), 1):
            for called in _CALL.findall(line):
                if called in HEAP and (name == HEAP_OWNER or layer == "py"):
                    continue
                yield f"{name}:{number}: calls {called}"
        lines = text.splitlines()
        limit = HEADER_LINES if path.suffix == ".h" else SOURCE_LINES
        if len(lines) > limit:
            yield f"{name}: {len(lines)} lines, more than {limit}: it has two concerns"


if __name__ == "__main__":
    found = list(findings())
    print("\n".join(found) or "sources: in order")
    sys.exit(1 if found else 0)
