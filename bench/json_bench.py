"""Speed of the strict JSON scanner beside json.loads, orjson and yyjson.

    python bench/json_bench.py [--seconds 0.5] [--yyjson [DIRECTORY]]

Gigabytes (10^9 bytes) a second of the best run, and how many times faster that is than json.loads
with a hook that refuses duplicate keys: the only other function here that checks what
json_check checks. `json_check` and `yyjson.Document` make no Python objects, the others do. orjson
is measured if it is installed; `--yyjson` installs the binding of that name, in the version below,
into DIRECTORY (build/bench-yyjson) with pip. Writes bench/results/json.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module, util
from pathlib import Path

import documents
import results

from deepagents_ro import _mcpro

YYJSON = "yyjson==4.0.6"
MAX_BYTES = 64 * 1024 * 1024
INSTALL_LIMIT_S = 120
# Long enough for the caches to be the contender's own.
BURST_S = 0.05
BASELINE = "json.loads, hook for duplicates"

Contenders = dict[str, Callable[[bytes], object]]


def refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object_pairs_hook that raises ValueError for a key that comes twice."""
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(key)
        members[key] = value
    return members


def contenders() -> Contenders:
    """Each measured function under the name that the table prints."""
    table: Contenders = {
        BASELINE: lambda d: json.loads(d, object_pairs_hook=refuse_duplicates),
        "json.loads": json.loads,
        "json_check": lambda d: _mcpro.json_check(d, max_bytes=MAX_BYTES),
        "json_check, duplicates kept": lambda d: _mcpro.json_check(
            d, max_bytes=MAX_BYTES, duplicates=True
        ),
    }
    if util.find_spec("orjson"):
        table["orjson.loads"] = import_module("orjson").loads
    if util.find_spec("yyjson"):
        yyjson = import_module("yyjson")
        table["yyjson.loads"] = yyjson.loads
        table["yyjson.Document"] = yyjson.Document
    return table


def rates(table: Contenders, document: bytes, seconds: float) -> dict[str, float]:
    """Bytes a second of each one's fastest run; they take turns of `BURST_S` for `seconds` each."""
    best = dict.fromkeys(table, float("inf"))
    end = time.perf_counter() + seconds * len(table)
    while time.perf_counter() < end:
        for name, run in table.items():
            until = time.perf_counter() + BURST_S
            while (started := time.perf_counter()) < until:
                run(document)
                best[name] = min(best[name], time.perf_counter() - started)
    return {name: len(document) / spent for name, spent in best.items()}


def install(directory: Path) -> None:
    """Put the yyjson binding on the path, installed into `directory` unless it is there."""
    if not (directory / "yyjson").is_dir():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run(
            [*pip, "--only-binary=:all:", "--no-deps", "--target", str(directory), YYJSON],
            check=True,
            timeout=INSTALL_LIMIT_S,
        )
    sys.path.append(str(directory))


def main() -> int:
    """Measure every document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    parser.add_argument(
        "--yyjson",
        type=Path,
        nargs="?",
        const=Path(__file__).resolve().parent.parent / "build" / "bench-yyjson",
        metavar="DIRECTORY",
    )
    options = parser.parse_args()
    if options.yyjson is not None:
        install(options.yyjson.resolve())
    table = contenders()
    report = {}
    for title, document in (documents.usual() | documents.extreme()).items():
        found = rates(table, document, options.seconds)
        report[title] = {"bytes": len(document), "bytes_per_s": found}
        results.say(f"{title}, {len(document):,} bytes")
        results.table(
            ["", "GB/s", "times"],
            [
                [n, f"{rate / 1e9:.3f}", f"{rate / found[BASELINE]:.1f}"]
                for n, rate in found.items()
            ],
        )
    results.write("json", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
