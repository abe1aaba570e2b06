"""Everything that `make bench` shows, one part after the other, each with a time limit.

    python bench/run.py [--runs 9] [--quick] [--node] [--write] [--yyjson] [--callgrind]
                        [--part NAME ...]

`--node` adds two MCP clients on Node (installed with npm), `--yyjson` the yyjson binding (with
pip), `--callgrind` instruction counts (under valgrind); without them nothing is installed and the
network is not used. `--write` puts the call's tables into the pages that quote them. `--part` runs
the named parts alone. Exit 1 when a part failed or ran out of time; the parts behind it run all the
same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import results

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Part:
    """One script with its arguments, and how long it may take."""

    name: str
    command: list[str]
    limit_s: int


def parts(options: argparse.Namespace) -> list[Part]:
    """All parts in their order."""
    quick = options.quick
    runs = 1 if quick else options.runs
    calls = 10 if quick else 200
    brief = ["--quick"] if quick else []
    node = ["--node"] if options.node else []
    write = ["--write"] if options.write else []
    return [
        Part("call", ["call_bench.py", "--runs", str(runs), *node, *write], 400 + 40 * runs),
        Part("memory", ["memory_bench.py", "--runs", "1" if quick else "3"], 240),
        Part("imports", ["imports.py"], 120),
        Part("sequence", ["sequence.py"], 60),
        Part("discovery", ["discovery_bench.py", *brief], 600),
        Part("scale", ["scale_bench.py", "--calls", str(calls)], 600),
        Part("transport", ["transport_bench.py", *brief], 900),
        Part("gateway", ["gateway_bench.py"], 120),
        Part("gateway_scale", ["gateway_scale.py"], 120),
        Part("json", ["json_bench.py", *(["--yyjson"] if options.yyjson else [])], 180),
        Part("native", ["native_bench.py", *(["--callgrind"] if options.callgrind else [])], 300),
    ]


def run(part: Part) -> bool:
    """Whether the part succeeded within its time."""
    results.say(f"== {part.name}")
    started = time.monotonic()
    command = [sys.executable, str(HERE / part.command[0]), *part.command[1:]]
    try:
        done = subprocess.run(command, timeout=part.limit_s, check=False)
    except subprocess.TimeoutExpired:
        results.say(f"{part.name}: not finished after {part.limit_s} s\n")
        return False
    results.say(f"({time.monotonic() - started:.0f} s)\n")
    return done.returncode == 0


def main() -> int:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="of the whole command")
    parser.add_argument("--quick", action="store_true", help="as little as possible of each")
    parser.add_argument("--node", action="store_true", help="also MCP clients on Node")
    parser.add_argument("--write", action="store_true", help="the call's tables into the pages")
    parser.add_argument("--yyjson", action="store_true", help="also the yyjson binding")
    parser.add_argument("--callgrind", action="store_true", help="also instruction counts")
    parser.add_argument("--part", action="append", metavar="NAME", help="only this part")
    options = parser.parse_args()
    wanted = parts(options)
    if unknown := set(options.part or ()) - {part.name for part in wanted}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    chosen = [part for part in wanted if not options.part or part.name in options.part]
    failed = [part.name for part in chosen if not run(part)]
    results.say(f"reports are in bench/{results.DIRECTORY.name}/")
    for name in failed:
        results.say(f"failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
