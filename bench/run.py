"""Everything that `make bench` shows, one part after the other, each with a time limit.

python bench/run.py [--runs 7] [--quick]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import results

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run all parts; 1 when one of them failed or ran out of time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="one run of each")
    options = parser.parse_args()
    runs = 1 if options.quick else options.runs
    parts = [
        ("call", ["call_bench.py", "--runs", str(runs)], 60 + 12 * runs),
        ("memory", ["memory_bench.py", "--runs", "1" if options.quick else "3"], 240),
        ("imports of the reference", ["imports.py", "reference", "--top", "15"], 60),
        ("import budget of the call", ["imports.py", "budget", "--top", "60"], 60),
        ("strict JSON", ["json_bench.py"], 120),
        ("gateway", ["gateway_bench.py"], 120),
    ]
    failed = []
    for name, command, limit_s in parts:
        results.say(f"== {name}")
        try:
            done = subprocess.run(
                [sys.executable, str(HERE / command[0]), *command[1:]], timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            results.say(f"{name}: not finished after {limit_s} s")
            failed.append(name)
            continue
        if done.returncode != 0:
            failed.append(name)
    results.say(f"results are in {results.DIRECTORY.name}/")
    for name in failed:
        results.say(f"failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
