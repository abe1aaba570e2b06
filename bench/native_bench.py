"""The C parts alone, without Python: speed, allocations, instructions.

    python bench/native_bench.py [--seconds 0.3] [--callgrind]

Builds native/native.c with csrc/core and the readers of csrc/mcp twice (as released, and with the
allocation counter of the test build) and runs each operation on the documents that it meets.
`--callgrind` also counts instructions per byte under valgrind and names the functions that they
were spent in. Writes bench/results/native.json.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import documents
import results

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OPERATIONS = {
    "tool result": ("scan", "judge", "minify", "redact"),
    "tool list": ("keep", "reduce"),
    "arguments": ("scan", "minify"),
    "one object of short keys": ("scan", "keep"),
    "long strings": ("scan",),
}
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-fvisibility=hidden", "-pthread"]
SHOWN_FUNCTIONS = 4
LIMIT_S = 120.0
# `  12,345 (67.89%)  file.c:function [object]` of callgrind_annotate
COST_LINE = re.compile(r"^\s*([\d,]+) \([ \d.]+%\)\s+\S*?:(\w+)")


def build(program: Path, *macros: str) -> None:
    """Compile the program at once, core and the readers of mcp with it."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    config = subprocess.run(
        [os.environ.get("PKG_CONFIG", "pkg-config"), "--cflags", "--libs", "libcjson"],
        check=True,
        capture_output=True,
        text=True,
    )
    csrc = ROOT / "csrc"
    sources = [HERE / "native" / "native.c", *sorted((csrc / "core").glob("*.c"))]
    sources += [csrc / "mcp" / f"{name}.c" for name in ("result", "rpc", "toollist")]
    command = [*compiler, *FLAGS, *macros, f"-I{ROOT / 'csrc'}", "-o", str(program)]
    subprocess.run([*command, *map(str, sources), *shlex.split(config.stdout), "-lm"], check=True)


def run(*command: object) -> str:
    """Standard output of a program that succeeded."""
    done = subprocess.run(
        list(map(str, command)), check=True, capture_output=True, text=True, timeout=LIMIT_S
    )
    return done.stdout


def instructions(program: Path, operation: str, document: Path) -> tuple[int, dict[str, int]]:
    """Instructions of one run, and of the functions with most of them (their own)."""
    out = document.with_suffix(".callgrind")
    run(
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        "--toggle-collect=measured",
        f"--callgrind-out-file={out}",
        *(program, operation, document, 0),
    )
    functions: dict[str, int] = {}
    for line in run("callgrind_annotate", "--inclusive=no", "--auto=no", out).splitlines():
        if found := COST_LINE.match(line):
            functions[found[2]] = functions.get(found[2], 0) + int(found[1].replace(",", ""))
    return sum(functions.values()), functions


def measure(work: Path, seconds: float, *, callgrind: bool) -> list[dict[str, Any]]:
    """One row per document and operation."""
    program, counting = work / "native", work / "counting"
    build(program)
    build(counting, "-DRO_TEST_ALLOC")
    rows = []
    for title, document in (documents.usual() | documents.extreme()).items():
        path = work / "document.json"
        path.write_bytes(document)
        for operation in OPERATIONS[title]:
            best_ns = int(run(program, operation, path, int(seconds * 1000)))
            row: dict[str, Any] = {
                "document": title,
                "operation": operation,
                "bytes": len(document),
                "best_ns": best_ns,
                "allocations": int(run(counting, operation, path, 0)),
            }
            if callgrind:
                total, functions = instructions(program, operation, path)
                row["instructions"] = total
                row["functions"] = dict(
                    sorted(functions.items(), key=lambda item: -item[1])[:SHOWN_FUNCTIONS]
                )
            rows.append(row)
    return rows


def main() -> int:
    """Build, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure")
    parser.add_argument("--callgrind", action="store_true", help="needs valgrind")
    options = parser.parse_args()
    if options.callgrind and shutil.which("valgrind") is None:
        raise SystemExit("valgrind is missing (Debian package: valgrind)")
    with tempfile.TemporaryDirectory(prefix="deepagents-ro-bench-") as directory:
        rows = measure(Path(directory), options.seconds, callgrind=options.callgrind)
    head = ["document, operation", "bytes", "us", "GB/s", "allocations"]
    if options.callgrind:
        head += ["instructions/byte"]
    lines = []
    for row in rows:
        line = [
            f"{row['document']}, {row['operation']}",
            f"{row['bytes']:,}",
            f"{row['best_ns'] / 1000:.0f}",
            f"{row['bytes'] / row['best_ns']:.2f}",
            f"{row['allocations']:,}",
        ]
        if options.callgrind:
            line.append(f"{row['instructions'] / row['bytes']:.2f}")
        lines.append(line)
    results.table(head, lines)
    for row in rows if options.callgrind else []:
        spent = ", ".join(
            f"{name} {count / row['instructions']:.0%}" for name, count in row["functions"].items()
        )
        results.say(f"  {row['document']}, {row['operation']}: {spent}")
    results.write("native", {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
