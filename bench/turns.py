"""Whole commands in turns against one server, the way every comparison here is made.

The order changes from turn to turn, the first turn only warms the caches, and a run counts only if
the command printed what the server answered and the server logged exactly one `tools/call`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import results
from sandbox import Run, Sandbox, Server, is_right

SETTLE_RUNS = 1
# Seconds until the server has seen the last of a client that is gone, through the proxy too.
SETTLE_S = 0.2

Row = dict[str, float]


@dataclass(frozen=True)
class Contender:
    """A command that makes the one call."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the sandbox's."""
    is_right: Callable[[Run], bool] = is_right
    """Whether it printed what the server answered."""


def measure(
    sandbox: Sandbox, server: Server, contenders: Mapping[str, Contender], runs: int
) -> dict[str, list[Row]]:
    """One row per counted run: `wall_s`, `cpu_s`, `peak_bytes`, `connections`, `requests`.

    Raises:
        SystemExit: a run does not count.
    """
    rows: dict[str, list[Row]] = {name: [] for name in contenders}
    position = server.events()[1]
    for turn in range(runs + SETTLE_RUNS):
        for name in contenders if turn % 2 else reversed(list(contenders)):
            contender = contenders[name]
            run = sandbox.run(contender.command, extra=dict(contender.environment))
            time.sleep(SETTLE_S)
            events, position = server.events(position)
            if not contender.is_right(run) or events["call"] != 1:
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


def medians(rows: list[Row]) -> Row:
    """The median of each column."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def show(found: Mapping[str, Row], shares: Mapping[str, Row]) -> None:
    """A table of medians, and of shares under the same columns (wall, cpu and peak alone)."""
    lines = [
        [
            name,
            f"{row['wall_s']:.3f}",
            f"{row['cpu_s']:.3f}",
            f"{row['peak_bytes'] / 2**20:.1f}",
            f"{row['connections']:g}",
            f"{row['requests']:g}",
        ]
        for name, row in found.items()
    ]
    for name, row in shares.items():
        lines.append([name, *(f"{row[key]:.2f}" for key in ("wall_s", "cpu_s", "peak_bytes"))])
    results.table(["", "wall s", "cpu s", "peak MiB", "connections", "requests"], lines)
