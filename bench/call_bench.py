"""Wall time, processor time and peak memory of the whole command, beside the plain reference.

    python bench/call_bench.py [--runs 7] [--round-trip-ms 50] [--only reference|ours] [--streams]

Reference and ours take turns, with no delay and through a proxy that adds a round trip. A run
counts only if its envelope is right and the server logged exactly one `tools/call` for it.
Prints a table and writes bench/results/call.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from typing import Any

import results
from sandbox import ARGUMENTS, COMMANDS, Run, Sandbox, Server

EXPECTED = {
    "task_id": json.loads(ARGUMENTS)["task_id"],
    "state": "running",
    "attempt": 2,
    "progress": 0.5,
    "qualification": {"output_attestation": "loopback"},
}
SETTLE_RUNS = 1


def right(run: Run) -> bool:
    """Whether the envelope is the one that the server's answer asks for."""
    data = run.data()
    return (
        run.exit_code == 0
        and data.get("ok") is True
        and data.get("structured_content") == EXPECTED
        and run.stdout.count(b"\n") == 1
    )


def measure(
    sandbox: Sandbox, server: Server, names: list[str], runs: int
) -> dict[str, list[dict[str, Any]]]:
    """`runs` counted runs of each command in turns, after one that only warms the caches."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    position = server.events()[1]
    for turn in range(runs + SETTLE_RUNS):
        for name in names if turn % 2 else reversed(names):
            run = sandbox.run(COMMANDS[name])
            events, position = server.events(position)
            if not right(run) or events["call"] != 1:
                raise SystemExit(
                    f"{name}: run {turn} does not count: exit {run.exit_code}, "
                    f"{events['call']} calls, output {run.stdout[:300]!r}, "
                    f"errors {run.stderr[-300:]!r}"
                )
            if turn >= SETTLE_RUNS:
                rows[name].append(
                    {
                        "wall_s": run.wall_s,
                        "cpu_s": run.cpu_s,
                        "peak_bytes": run.peak_bytes,
                        "connections": events["connection"],
                        "requests": events["request"],
                    }
                )
    return rows


def medians(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The median of each column."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main() -> int:
    """Measure both conditions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--round-trip-ms", type=float, default=50.0)
    parser.add_argument("--only", choices=sorted(COMMANDS))
    parser.add_argument("--streams", action="store_true", help="event streams, not JSON")
    options = parser.parse_args()
    names = [options.only] if options.only else ["reference", "ours"]
    report: dict[str, Any] = {
        "runs": options.runs,
        "answers": "event streams" if options.streams else "JSON",
        "conditions": {},
    }
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", *([] if options.streams else ["--json"]))
        proxy = sandbox.start(
            "latency_proxy.py", str(server.port), str(options.round_trip_ms), log=False
        )
        conditions = {
            "no delay": server.port,
            f"{options.round_trip_ms:g} ms round trip": proxy.port,
        }
        for condition, port in conditions.items():
            sandbox.configure(port)
            rows = measure(sandbox, server, names, options.runs)
            report["conditions"][condition] = {
                name: {"median": medians(found), "runs": found} for name, found in rows.items()
            }
            results.say(f"{condition}, median of {options.runs}")
            results.table(
                ["", "wall s", "cpu s", "peak MiB", "connections", "requests"],
                [
                    [
                        name,
                        f"{(m := medians(found))['wall_s']:.3f}",
                        f"{m['cpu_s']:.3f}",
                        f"{m['peak_bytes'] / 2**20:.1f}",
                        f"{m['connections']:g}",
                        f"{m['requests']:g}",
                    ]
                    for name, found in rows.items()
                ]
                + ratios(rows),
            )
    results.write("call", report)
    return 0


def ratios(rows: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """The row "ours / reference", when both were measured."""
    if len(rows) < 2:
        return []
    ours, reference = medians(rows["ours"]), medians(rows["reference"])
    columns = ("wall_s", "cpu_s", "peak_bytes")
    return [["ours / reference", *(f"{ours[key] / reference[key]:.2f}" for key in columns)]]


if __name__ == "__main__":
    sys.exit(main())
