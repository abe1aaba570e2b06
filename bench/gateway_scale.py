"""What the gateway's tools cost at scale, over 21 namespaces and 2,005 tools on the loopback.

    python bench/gateway_scale.py

Loads every namespace; makes 1,000 calls, 100 in flight; calls once from each of 20 new event
loops. Prints times, memory and threads and writes bench/results/gateway_scale.json; fails when
memory grows by more than 8 MiB, when there is more than one thread beside the loop's, or when a
new loop's first call takes as long as a load.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import results

from deepagents_ro.gateway import GatewayConfig, GatewayTools, load_gateway_tools
from deepagents_ro.gateway.demo import KEY
from deepagents_ro.qualify.lab.helper import Helper

NAMESPACES = 21
CALLS, IN_FLIGHT = 1000, 100
LOOPS = 20
ALLOWED_BYTES = 8 * 2**20
TOOL = "text_normalize"


def resident() -> int:
    """Bytes of this process that are in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    """Threads of this process, native ones too."""
    return len(os.listdir("/proc/self/task"))


async def in_flight(gateway: GatewayTools, calls: int) -> float:
    """Seconds for so many calls, IN_FLIGHT at a time."""
    free = asyncio.Semaphore(IN_FLIGHT)
    tool = gateway.tools[TOOL]

    async def one(number: int) -> None:
        async with free:
            answer = await tool.ainvoke({"text": f"n  {number}"})
            if answer["data"]["normalized"] != f"n {number}":
                raise SystemExit(f"call {number} answered {answer}")

    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(calls)))
    return time.perf_counter() - started


async def loaded(port: int) -> tuple[GatewayTools, dict[str, Any]]:
    """All namespaces loaded, one after the other, and the load on one of them."""
    loads, gateways = [], []
    before = threads()
    for number in range(NAMESPACES):
        config = GatewayConfig(
            url=f"http://127.0.0.1:{port}", namespace=f"n{number}", api_key=KEY, timeout_s=60
        )
        started = time.perf_counter()
        gateways.append(await load_gateway_tools(config))
        loads.append((time.perf_counter() - started) * 1000.0)
        if len(gateways[-1].findings) != 2005 or len(gateways[-1].tools) != 5:
            raise SystemExit(f"namespace {number}: {gateways[-1].state} {gateways[-1].detail}")
    first = gateways[0]
    await in_flight(first, 300)
    gc.collect()
    memory = resident()
    seconds = await in_flight(first, CALLS)
    gc.collect()
    found = {
        "load_p50_ms": results.percentile(loads, 50),
        "load_max_ms": max(loads),
        "calls_per_s": CALLS / seconds,
        "grown_bytes": resident() - memory,
        "threads_added": threads() - before,
    }
    for gateway in gateways[1:]:
        await gateway.aclose()
    return first, found


def new_loops(gateway: GatewayTools) -> list[float]:
    """Milliseconds of the first call of each of so many event loops."""
    times = []
    for number in range(LOOPS):
        started = time.perf_counter()
        answer = asyncio.run(gateway.tools[TOOL].ainvoke({"text": f"{number}"}))
        times.append((time.perf_counter() - started) * 1000.0)
        if not answer["ok"]:
            raise SystemExit(f"a new loop's call answered {answer}")
    return times


def main() -> int:
    """Measure and print; 1 when a bound is passed."""
    script = Path(__file__).with_name("gateway_server.py")
    with Helper([sys.executable, "-I", str(script)]) as server:
        gateway, found = asyncio.run(loaded(server.port))
        times = new_loops(gateway)
        gateway.close()
    found["new_loop_p50_ms"] = results.percentile(times, 50)
    found["new_loop_max_ms"] = max(times)
    results.table(["", "figure"], [[name, f"{value:.2f}"] for name, value in found.items()])
    results.write("gateway_scale", found)
    kept = found["grown_bytes"] <= ALLOWED_BYTES and found["threads_added"] <= 1
    return 0 if kept and found["new_loop_p50_ms"] < found["load_p50_ms"] else 1


if __name__ == "__main__":
    sys.exit(main())
