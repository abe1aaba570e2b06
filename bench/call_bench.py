"""The whole command over the distance to the server, beside the reference and two clients on Node.

    python bench/call_bench.py [--runs 9] [--round-trips 0 10 50 150] [--node] [--plain-imports]
                               [--streams] [--only NAME ...] [--write]

All commands take turns at each distance. A run counts only if what it printed is right and the
server logged exactly one `tools/call` for it. `ours, in step` is ours with nothing running ahead.
Prints tables and writes bench/results/call.json; `--write` puts them, and the picture, into
bench/README.md, README.md and docs/performance.md as well.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import curves
import node_clients
import pages
import results
import turns
from sandbox import COMMANDS, HERE, PLAIN_IMPORTS, PLAIN_WIRE, Sandbox

REFERENCE, OURS, IN_STEP = "reference", "ours", "ours, in step"
ROUND_TRIPS = [0.0, 10.0, 50.0, 150.0]
FIGURE = HERE / "figures" / "call-distance.svg"
# What is to be reached, by round trip in milliseconds: shares of the reference's wall time and peak
# memory, and of the faster Node client's wall and processor time.
WALL_TARGETS = {0.0: 0.22, 50.0: 0.22, 150.0: 0.24}
NODE_WALL_TARGETS = {0.0: 0.95, 50.0: 0.80, 150.0: 0.75}
NODE_CPU_TARGETS = {0.0: 0.80}
PEAK_TARGET = 0.62
ROUNDS_TARGET = 4.0

Found = dict[str, turns.Row]


def condition_of(round_trip_ms: float) -> str:
    """How tables name a distance."""
    return f"{round_trip_ms:g} ms round trip" if round_trip_ms else "no delay"


def faster_node(found: Found) -> turns.Row | None:
    """The row of the Node client that was faster here; None when none was measured."""
    rows = [row for name, row in found.items() if name in node_clients.NAMES]
    return min(rows, key=lambda row: row["wall_s"]) if rows else None


def goals(found: Found, round_trip_ms: float) -> list[list[str]]:
    """A row for each figure to be reached here: what, at most, measured, whether."""
    ours, reference, node = found.get(OURS), found.get(REFERENCE), faster_node(found)
    if ours is None:
        return []
    wanted: list[tuple[str, float | None, float | None]] = []
    if reference is not None:
        share = ours["wall_s"] / reference["wall_s"]
        wanted.append(("wall, of the reference's", share, WALL_TARGETS.get(round_trip_ms)))
        share = ours["peak_bytes"] / reference["peak_bytes"]
        wanted.append(("peak memory, of the reference's", share, PEAK_TARGET))
    if node is not None:
        for what, key, targets in (
            ("wall", "wall_s", NODE_WALL_TARGETS),
            ("processor time", "cpu_s", NODE_CPU_TARGETS),
        ):
            share = ours[key] / node[key]
            wanted.append(
                (f"{what}, of the faster Node client's", share, targets.get(round_trip_ms))
            )
    if round_trip_ms >= 50:
        wanted.append(("round trips behind the imports", ours["rounds"], ROUNDS_TARGET))
    return [
        [condition_of(round_trip_ms), what, f"{most:.2f}", f"{got:.2f}", verdict(got, most)]
        for what, got, most in wanted
        if most is not None and got is not None
    ]


def verdict(got: float, most: float) -> str:
    """Whether a figure, as it is printed, is reached."""
    return "reached" if round(got, 2) <= most else "not reached"


def rows_of(found: Found, round_trip_ms: float) -> list[list[str]]:
    """The table's rows at one distance."""
    reference, node = found.get(REFERENCE), faster_node(found)

    def of(row: turns.Row, base: turns.Row | None, key: str) -> str:
        return f"{row[key] / base[key]:.2f}" if base is not None else "-"

    return [
        [
            f"{condition_of(round_trip_ms)}: {name}",
            f"{row['wall_s']:.3f}",
            of(row, reference, "wall_s"),
            of(row, node, "wall_s"),
            f"{row['cpu_s']:.3f}",
            of(row, node, "cpu_s"),
            f"{row['peak_bytes'] / 2**20:.1f}",
            f"{row['connections']:g}",
            f"{row['requests']:g}",
            f"{row['rounds']:.0f}" if round_trip_ms >= 50 else "-",
        ]
        for name, row in found.items()
    ]


HEAD = [
    *("", "wall s", "of the reference", "of Node", "cpu s", "of Node", "peak MiB"),
    *("connections", "requests", "round trips"),
]
GOALS_HEAD = ["", "figure", "at most", "measured", ""]


def contenders(
    options: argparse.Namespace, sandbox: Sandbox, modules: Path | None, port: int
) -> dict[str, turns.Contender]:
    """Everything that is measured, in the order of the tables."""
    found = {REFERENCE: turns.Contender(COMMANDS["reference"])}
    if modules is not None:
        found.update(node_clients.contenders(sandbox, modules, port))
    found[OURS] = turns.Contender(COMMANDS["ours"])
    found[IN_STEP] = turns.Contender(COMMANDS["ours"], PLAIN_WIRE)
    if options.plain_imports:
        found["ours, plain imports"] = turns.Contender(COMMANDS["ours"], PLAIN_IMPORTS)
    if options.only:
        found = {name: each for name, each in found.items() if name in options.only}
    return found


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--round-trips", type=float, nargs="+", default=ROUND_TRIPS, metavar="MS")
    parser.add_argument("--node", action="store_true", help="also two clients on Node, by npm")
    parser.add_argument("--plain-imports", action="store_true", help="also without shortcuts")
    parser.add_argument("--streams", action="store_true", help="event streams, not JSON")
    parser.add_argument("--only", action="append", metavar="NAME", help="of the commands")
    parser.add_argument("--write", action="store_true", help="into the pages, too")
    return parser.parse_args()


def main() -> int:
    """Measure every distance."""
    options = parsed()
    modules = node_clients.install() if options.node else None
    report: dict[str, Any] = {
        "runs": options.runs,
        "answers": "event streams" if options.streams else "JSON",
        "conditions": {},
    }
    table: list[list[str]] = []
    reached: list[list[str]] = []
    lines: dict[str, curves.Points] = {}
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", *([] if options.streams else ["--json"]))
        for round_trip_ms in options.round_trips:
            port = sandbox.proxy(server.port, round_trip_ms).port if round_trip_ms else server.port
            sandbox.configure(port)
            wanted = contenders(options, sandbox, modules, port)
            rows = turns.measure(sandbox, server, wanted, options.runs, round_trip_ms)
            found = {name: turns.medians(each) for name, each in rows.items()}
            report["conditions"][condition_of(round_trip_ms)] = {"medians": found, "runs": rows}
            here = rows_of(found, round_trip_ms)
            results.say(f"{condition_of(round_trip_ms)}, median of {options.runs}")
            results.table(HEAD, here)
            table += here
            reached += goals(found, round_trip_ms)
            for name, row in found.items():
                lines.setdefault(name, []).append((round_trip_ms, row["wall_s"]))
    if reached:
        results.table(GOALS_HEAD, reached)
    report["goals"] = reached
    results.write("call", report)
    if options.write:
        curves.draw(FIGURE, "The whole command", "round trip, ms", "seconds", lines)
        pages.write(HEAD, table, GOALS_HEAD, reached, options.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
