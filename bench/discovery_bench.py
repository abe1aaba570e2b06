"""How the cost of one call grows with what it does not need.

    python bench/discovery_bench.py [--runs 5] [--quick] [--figures DIRECTORY]

Two curves, reference and ours in turns:

- tools: one server lists up to 500 tools with 4 KiB of schema each; the list is ready-made bytes,
  so that what grows is the client;
- servers: up to 50 servers are configured, of which one owns the tool and all others accept TCP
  and then stay silent.

A run of ours counts only if its envelope is right and the server logged exactly one call. The
reference's own deadline (15 s) may end it: then its row says so. Prints two tables, writes
bench/results/discovery.json, and draws both curves there or into DIRECTORY.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import curves
import results
from sandbox import COMMANDS, Sandbox, Server, is_right

TOOLS = (0, 100, 200, 300, 400, 500)
SERVERS = (1, 5, 10, 25, 50)
SLOW_FROM = 10  # configured servers: the reference waits so long that it runs once
QUICK_TOOLS, QUICK_SERVERS = (0, 500), (1, 5)
SCHEMA_BYTES = 4096
LIMIT_S = 40.0

Row = dict[str, Any]


def measure(sandbox: Sandbox, server: Server, runs: dict[str, int]) -> dict[str, Row]:
    """Medians of each command's runs, in turns after one that warms the caches."""
    found: dict[str, list[Any]] = {name: [] for name in runs}
    answered = dict.fromkeys(runs, True)
    sandbox.run(COMMANDS["ours"])
    for turn in range(max(runs.values())):
        for name in runs:
            if turn >= runs[name]:
                continue
            position = server.events()[1]
            run = sandbox.run(COMMANDS[name], limit_s=LIMIT_S)
            good = is_right(run) and server.events(position)[0]["call"] == 1
            if name == "ours" and not good:
                raise SystemExit(f"a run does not count: {run.stdout[:300]!r}")
            answered[name] = answered[name] and good
            found[name].append(run)
    return {
        name: {
            "answered": answered[name],
            "runs": len(runs),
            "wall_s": statistics.median(run.wall_s for run in runs),
            "cpu_s": statistics.median(run.cpu_s for run in runs),
            "peak_bytes": statistics.median(run.peak_bytes for run in runs),
        }
        for name, runs in found.items()
    }


def by_tools(sandbox: Sandbox, steps: tuple[int, ...], runs: int) -> dict[int, dict[str, Row]]:
    """A row per number of further tools."""
    rows = {}
    for tools in steps:
        server = sandbox.start(
            "hostile.py", "small", "--tools", str(tools), "--entry-bytes", str(SCHEMA_BYTES)
        )
        sandbox.configure(server.port)
        rows[tools] = measure(sandbox, server, {"reference": runs, "ours": runs})
    return rows


def by_servers(sandbox: Sandbox, steps: tuple[int, ...], runs: int) -> dict[int, dict[str, Row]]:
    """A row per number of configured servers."""
    server = sandbox.start("hostile.py", "small")
    silent = sandbox.start("silent.py", str(max(steps)), certificate=False, log=False)
    rows = {}
    for servers in steps:
        sandbox.configure(server.port, *silent.ports[: servers - 1])
        slow = servers >= SLOW_FROM
        rows[servers] = measure(sandbox, server, {"reference": 1 if slow else runs, "ours": runs})
    return rows


def show(first: str, rows: dict[int, dict[str, Row]]) -> None:
    """One table."""
    head = [first]
    for name in ("reference", "ours"):
        head += [f"{name} wall s", "cpu s", "peak MiB"]
    lines = []
    for step, kinds in rows.items():
        cells = [str(step)]
        for name in ("reference", "ours"):
            row = kinds[name]
            wall = f"{row['wall_s']:.2f}" + ("" if row["answered"] else " (no answer)")
            cells += [wall, f"{row['cpu_s']:.2f}", f"{row['peak_bytes'] / 2**20:.0f}"]
        lines.append(cells)
    results.table(head, lines)


def walls(rows: dict[int, dict[str, Row]]) -> dict[str, curves.Points]:
    """The lines of a picture: seconds over steps."""
    return {
        name: [(float(step), kinds[name]["wall_s"]) for step, kinds in rows.items()]
        for name in ("reference", "ours")
    }


def main() -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one run of the ends of the curves")
    parser.add_argument("--figures", type=Path, default=results.DIRECTORY)
    options = parser.parse_args()
    runs = 1 if options.quick else options.runs
    with Sandbox() as sandbox:
        tools = by_tools(sandbox, QUICK_TOOLS if options.quick else TOOLS, runs)
        results.say(f"further tools of {SCHEMA_BYTES} bytes on the one server, median of {runs}")
        show("tools", tools)
        servers = by_servers(sandbox, QUICK_SERVERS if options.quick else SERVERS, runs)
        results.say(f"configured servers, all but one silent, median of {runs}")
        show("servers", servers)
    options.figures.mkdir(parents=True, exist_ok=True)
    curves.draw(
        options.figures / "discovery-tools.svg",
        "One call, by the number of tools that the server lists",
        "further tools, 4 KiB of schema each",
        "seconds",
        walls(tools),
    )
    curves.draw(
        options.figures / "discovery-servers.svg",
        "One call, by the number of configured servers",
        "configured servers, all but one silent",
        "seconds",
        walls(servers),
    )
    results.write("discovery", {"runs": runs, "tools": tools, "servers": servers})
    return 0


if __name__ == "__main__":
    sys.exit(main())
