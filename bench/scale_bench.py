"""Many calls, two at a time: what a host pays for them, beside the plain reference.

    python bench/scale_bench.py [--calls 200] [--at-once 2] [--only reference|ours]

Each call is a whole command of its own against the one server. The commands come in blocks that
take turns, so that a machine that gets slower meanwhile is slower for both. Each envelope of
ours has to be right, with exactly one call at the server for each, else the benchmark ends with
an error; wrong ones of the reference, which gives up after 15 s, are counted as `failed`. Prints
a table and writes bench/results/scale.json.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import results
from sandbox import COMMANDS, Run, Sandbox, Server, is_right

BLOCK = 20


def block(sandbox: Sandbox, name: str, calls: int, at_once: int) -> tuple[float, list[Run]]:
    """Seconds that `calls` calls took together, and the calls."""
    left = iter(range(calls))

    def lane(number: int) -> list[Run]:
        return [sandbox.run(COMMANDS[name], lane=number) for _ in left]

    started = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        lanes = list(pool.map(lane, range(at_once)))
    return time.perf_counter() - started, list(itertools.chain.from_iterable(lanes))


def measure(sandbox: Sandbox, server: Server, names: list[str], options: Any) -> dict[str, Any]:
    """What each command's calls cost."""
    walls = dict.fromkeys(names, 0.0)
    found: dict[str, list[Run]] = {name: [] for name in names}
    logged = dict.fromkeys(names, 0)
    for name in names:
        block(sandbox, name, options.at_once, options.at_once)
    turns = -(-options.calls // BLOCK)
    for turn in range(turns):
        calls = min(BLOCK, options.calls - turn * BLOCK)
        for name in names if turn % 2 else reversed(names):
            position = server.events()[1]
            wall, runs = block(sandbox, name, calls, options.at_once)
            walls[name] += wall
            found[name] += runs
            logged[name] += server.events(position)[0]["call"]
    wrong = [run for run in found.get("ours", []) if not is_right(run)]
    if wrong:
        raise SystemExit(f"{len(wrong)} wrong envelopes, the first: {wrong[0]}")
    if logged.get("ours", options.calls) != options.calls:
        raise SystemExit(f"{logged['ours']} calls at the server for {options.calls} commands")
    return {name: summary(walls[name], found[name]) for name in names}


def summary(wall_s: float, runs: list[Run]) -> dict[str, float]:
    """The figures of one command."""
    walls = [run.wall_s for run in runs]
    peaks = [float(run.peak_bytes) for run in runs]
    return {
        "failed": sum(not is_right(run) for run in runs),
        "wall_s": wall_s,
        "calls_per_s": len(runs) / wall_s,
        "p50_s": results.percentile(walls, 50),
        "p95_s": results.percentile(walls, 95),
        "cpu_s_per_call": statistics.mean(run.cpu_s for run in runs),
        "peak_bytes_p50": results.percentile(peaks, 50),
        "peak_bytes_max": max(peaks),
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", choices=sorted(COMMANDS))
    options = parser.parse_args()
    names = [options.only] if options.only else ["reference", "ours"]
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", "--json")
        sandbox.configure(server.port)
        rows = measure(sandbox, server, names, options)
    results.say(f"{options.calls} calls, {options.at_once} at a time")
    lines = [
        [
            name,
            f"{row['failed']:.0f}",
            f"{row['wall_s']:.1f}",
            f"{row['calls_per_s']:.2f}",
            f"{row['p50_s']:.3f}",
            f"{row['p95_s']:.3f}",
            f"{row['cpu_s_per_call']:.3f}",
            f"{row['peak_bytes_p50'] / 2**20:.1f}",
            f"{row['peak_bytes_max'] / 2**20:.1f}",
        ]
        for name, row in rows.items()
    ]
    if len(rows) == 2:
        keys = [key for key in rows["ours"] if key != "failed"]
        shares = (f"{rows['ours'][key] / rows['reference'][key]:.2f}" for key in keys)
        lines.append(["ours / reference", "", *shares])
    head = ["", "failed", "wall s", "calls/s", "p50 s", "p95 s", "cpu s/call", "MiB/call"]
    results.table([*head, "most MiB"], lines)
    results.write("scale", {"calls": options.calls, "at_once": options.at_once, "commands": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
