"""Peak memory against servers that send too much, or much, beside the same command's small call.

    python bench/memory_bench.py [--reference] [--runs 3]

`--reference` measures the plain reference too (gigabytes; it is stopped after 20 s). Prints a
table and writes bench/results/memory.json. Ours has to answer with the envelope that the
contract asks for; a mode with any other answer does not count and fails the run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import results
from sandbox import COMMANDS, Sandbox

EXPECTED = {
    "small": ("ok", 0),
    "body-200mb": ("result_too_large", 1),
    "body-endless": ("result_too_large", 1),
    "list-endless": ("tool_not_found", 1),
    "list-pages": ("tool_not_found", 1),
    "entry-keys": ("ok", 0),
    "initialize-keys": ("ok", 0),
    "schema": ("ok", 0),
    "blocks": ("result_too_large", 1),
    "meta": ("ok", 0),
}
LEGAL = ("entry-keys", "initialize-keys", "schema", "blocks", "meta")
"""Answers within every bound in bytes; the others are over one."""
ALLOWED_MIB, ALLOWED_LEGAL_MIB = 16, 40


def main() -> int:
    """Measure every mode; 1 when ours is out of bounds or answers something else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--reference", action="store_true")
    options = parser.parse_args()
    names = ["ours", "reference"] if options.reference else ["ours"]
    report: dict[str, Any] = {"runs": options.runs, "commands": {}}
    wrong: list[str] = []
    with Sandbox() as sandbox:
        servers = {mode: sandbox.start("hostile.py", mode) for mode in EXPECTED}
        for name in names:
            runs = options.runs if name == "ours" else 1
            peaks = {}
            rows = []
            for mode, server in servers.items():
                sandbox.configure(server.port)
                found = [sandbox.run(COMMANDS[name], limit_s=20.0) for _ in range(runs)]
                code = outcome(found[-1].data())
                peaks[mode] = statistics.median(run.peak_bytes for run in found)
                above = peaks[mode] - peaks["small"]
                wall = statistics.median(run.wall_s for run in found)
                rows.append(
                    [
                        mode,
                        code,
                        f"{peaks[mode] / 2**20:.1f}",
                        f"{above / 2**20:+.1f}",
                        f"{wall:.2f}",
                    ]
                )
                if name == "ours":
                    wrong += faults(mode, code, found[-1].exit_code, above)
            report["commands"][name] = peaks
            results.say(f"{name}, median of {runs}")
            results.table(["", "answer", "peak MiB", "above small", "wall s"], rows)
    results.write("memory", report)
    for line in wrong:
        results.say(line)
    return 1 if wrong else 0


def outcome(data: dict[str, Any]) -> str:
    """`ok`, the code of the failure, or `none` when there was no envelope."""
    return "ok" if data.get("ok") is True else str(data.get("code", "none"))


def faults(mode: str, code: str, exit_code: int, above: float) -> list[str]:
    """What is wrong with our result, one line each."""
    lines = []
    if (code, exit_code) != EXPECTED[mode]:
        lines.append(f"{mode}: {code} (exit {exit_code}), expected {EXPECTED[mode]}")
    allowed = ALLOWED_LEGAL_MIB if mode in LEGAL else ALLOWED_MIB
    if above > allowed * 2**20:
        lines.append(f"{mode}: {above / 2**20:.1f} MiB above the small call, allowed {allowed}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
