"""Wall time, processor time and peak memory of the whole command, beside the plain reference.

    python bench/call_bench.py [--runs 9] [--round-trip-ms 50] [--only reference|ours]
                               [--streams] [--plain-imports]

Reference and ours take turns, with no delay and through a proxy that adds a round trip. A run
counts only if its envelope is right and the server logged exactly one `tools/call` for it.
`--plain-imports` measures ours a second time without the start-up shortcuts. Prints a table and
writes bench/results/call.json.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import results
import turns
from sandbox import COMMANDS, PLAIN_IMPORTS, Sandbox

# What is to be reached, as a share of the reference.
WALL_TARGETS = {0.0: 0.38, 50.0: 0.48}
PEAK_TARGET = 0.75


def shares_of(found: dict[str, turns.Row]) -> dict[str, turns.Row]:
    """Our medians as shares of the reference's; empty when that was not measured."""
    if "reference" not in found:
        return {}
    reference = found["reference"]
    return {
        f"{name} / reference": {key: value / reference[key] for key, value in row.items()}
        for name, row in found.items()
        if name != "reference"
    }


def judge(share: turns.Row, round_trip_ms: float) -> None:
    """Say which of the figures to be reached were."""
    for what, got, target in (
        ("wall", share["wall_s"], WALL_TARGETS.get(round_trip_ms)),
        ("peak memory", share["peak_bytes"], PEAK_TARGET),
    ):
        if target is not None:
            verdict = "reached" if got <= target else "NOT reached"
            results.say(f"  {what} {got:.2f}, at most {target:.2f}: {verdict}")
    results.say("")


def main() -> int:
    """Measure both conditions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--round-trip-ms", type=float, default=50.0)
    parser.add_argument("--only", choices=sorted(COMMANDS))
    parser.add_argument("--streams", action="store_true", help="event streams, not JSON")
    parser.add_argument("--plain-imports", action="store_true", help="also without shortcuts")
    options = parser.parse_args()
    names = [options.only] if options.only else ["reference", "ours"]
    contenders = {name: turns.Contender(COMMANDS[name]) for name in names}
    if options.plain_imports:
        contenders["plain imports"] = turns.Contender(COMMANDS["ours"], PLAIN_IMPORTS)
    report: dict[str, Any] = {
        "runs": options.runs,
        "answers": "event streams" if options.streams else "JSON",
        "conditions": {},
    }
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", *([] if options.streams else ["--json"]))
        far = sandbox.proxy(server.port, options.round_trip_ms)
        for round_trip_ms, port in ((0.0, server.port), (options.round_trip_ms, far.port)):
            condition = f"{round_trip_ms:g} ms round trip" if round_trip_ms else "no delay"
            sandbox.configure(port)
            rows = turns.measure(sandbox, server, contenders, options.runs)
            found = {name: turns.medians(each) for name, each in rows.items()}
            shares = shares_of(found)
            report["conditions"][condition] = {"medians": found, "shares": shares, "runs": rows}
            results.say(f"{condition}, median of {options.runs}")
            turns.show(found, shares)
            if "ours / reference" in shares:
                judge(shares["ours / reference"], round_trip_ms)
    results.write("call", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
