"""Whole commands in turns against one server, the way every comparison here is made.

The order changes from turn to turn, the first turn only warms the caches, and a run counts only if
the command printed what the server answered and the server logged exactly one `tools/call`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox import Run, Sandbox, Server, is_right

# Round trips of a new connection and its first request: TCP, TLS 1.3, the request.
OPENING = 3
# A request may be there by so much of a round trip too soon: timers are not exact.
EARLY = 0.05

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


def rounds(entries: list[dict[str, Any]], round_trip_ms: float) -> float:
    """Round trips to the answer of the call, by the server's clock; 0 without a distance.

    Counted from DCode's preflight, which follows the imports, or else from the first request.
    """
    requests = [entry for entry in entries if "method" in entry]
    (call,) = (entry["at"] for entry in requests if entry["tool"] is not None)
    heads = [entry["at"] for entry in requests if entry["method"] == "HEAD"]
    wave = heads[0] if heads else requests[0]["at"]
    if not round_trip_ms:
        return 0
    count = OPENING
    for at in sorted(entry["at"] for entry in requests):
        waited = int((at - wave) * 1000 / round_trip_ms + EARLY)
        if at <= call and waited > 0:
            count += waited  # what is left over of the gap is the client's own time
            wave = at
    return count


def measure(
    sandbox: Sandbox,
    server: Server,
    contenders: Mapping[str, Contender],
    runs: int,
    round_trip_ms: float = 0.0,
) -> dict[str, list[Row]]:
    """One row of figures per counted run: what it cost, and what the server saw.

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
            before = position
            events, position = server.events(before)
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
                        "rounds": rounds(server.entries(before), round_trip_ms),
                    }
                )
    return rows


def medians(rows: list[Row]) -> Row:
    """The median of each column."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}
