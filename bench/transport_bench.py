"""`CurlTransport` beside httpx's own transport: many small requests over one TLS host.

    python bench/transport_bench.py [--runs 7] [--quick] [--profile IN_FLIGHT]

POSTs of 1 KiB, answered with 1 KiB, with 1, 10 and 100 in flight. Each figure is one process that
sends its requests through an `httpx.AsyncClient`; the processes of all kinds take turns, the
server is a process of its own. `no transport` answers at once without a network: what is left is
`httpx.AsyncClient` and the event loop, which no transport can be faster than. CPU seconds are the
client process's (user and system, all threads), after a warm-up that opened the connections;
`of it loop` is the share of the event loop's thread, the one that bounds a loop's throughput.
Prints tables and writes bench/results/transport.json. `--profile` shows where the interpreter
spends its time in the C transport's process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import results
from sandbox import Sandbox

BYTES = 1024
REQUESTS = {1: 600, 10: 2000, 100: 4000}
CURL, STOCK = "CurlTransport", "httpx"
STOCK_DEFAULT, FLOOR = "httpx, default limits", "no transport"
KINDS = (CURL, STOCK, STOCK_DEFAULT, FLOOR)
PERCENTILES = (50, 95, 99)
LIMIT_S = 120.0


def client_of(kind: str, cafile: str, in_flight: int) -> Any:
    """An `httpx.AsyncClient` of the kind."""
    import httpx

    from deepagents_ro import CurlTransport

    class AtOnce(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await request.aread()
            return httpx.Response(200, content=b"x" * BYTES)

    # httpx keeps 20 idle connections unless it is told otherwise.
    room = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    make: dict[str, Callable[[], httpx.AsyncClient]] = {
        CURL: lambda: httpx.AsyncClient(transport=CurlTransport(cafile=cafile)),
        STOCK: lambda: httpx.AsyncClient(
            verify=ssl.create_default_context(cafile=cafile), limits=room
        ),
        STOCK_DEFAULT: lambda: httpx.AsyncClient(verify=ssl.create_default_context(cafile=cafile)),
        FLOOR: lambda: httpx.AsyncClient(transport=AtOnce()),
    }
    return make[kind]()


def cpu_s() -> float:
    """User and system time of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def load(client: Any, url: str, in_flight: int, requests: int) -> list[float]:
    """Seconds of each of `requests` requests, so many in flight."""
    body = b'"%s"' % (b"y" * (BYTES - 2))
    headers = {"content-type": "application/json"}
    times: list[float] = []
    left = iter(range(requests))

    async def sender() -> None:
        for _ in left:
            started = time.perf_counter()
            response = await client.post(url, content=body, headers=headers)
            times.append(time.perf_counter() - started)
            if response.status_code != 200 or len(response.content) != BYTES:
                raise SystemExit(f"answered {response.status_code}, {len(response.content)} bytes")

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(sender())
    return times


async def measure(kind: str, cafile: str, port: int, in_flight: int, requests: int) -> Any:
    """One process's figures."""
    url = f"https://127.0.0.1:{port}/"
    async with client_of(kind, cafile, in_flight) as client:
        await load(client, url, in_flight, 2 * in_flight + 20)
        cpu, loop, started = cpu_s(), time.thread_time(), time.perf_counter()
        times = await load(client, url, in_flight, requests)
        wall = time.perf_counter() - started
        cpu, loop = cpu_s() - cpu, time.thread_time() - loop
    return {
        "per_second": requests / wall,
        "cpu_ms": cpu * 1000.0 / requests,
        "loop_ms": loop * 1000.0 / requests,
        **{f"p{p}_ms": results.percentile(times, p) * 1000.0 for p in PERCENTILES},
    }


def child(arguments: list[str]) -> None:
    """The measuring process: KIND CAFILE PORT IN_FLIGHT REQUESTS."""
    kind, cafile, *numbers = arguments
    found = asyncio.run(measure(kind, cafile, *map(int, numbers)))
    sys.stdout.write(json.dumps(found))


def run_child(*arguments: object) -> dict[str, float]:
    """The figures of a measuring process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", *map(str, arguments)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_S,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """The median of each column."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def profile(cafile: str, port: int, in_flight: int) -> None:
    """The interpreter's functions by their own time, the C transport under load."""
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    profiler.enable()
    asyncio.run(measure(CURL, cafile, port, in_flight, REQUESTS[in_flight]))
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> int:
    """Measure every kind at every load."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="one run of a tenth")
    parser.add_argument("--profile", type=int, choices=sorted(REQUESTS), metavar="IN_FLIGHT")
    options = parser.parse_args()
    runs = 1 if options.quick else options.runs
    report: dict[str, Any] = {"runs": runs, "bytes": BYTES, "in_flight": {}}
    with Sandbox() as sandbox:
        cafile = str(sandbox.root / "ca.pem")
        server = sandbox.start("echo_server.py", str(BYTES), log=False)
        if options.profile:
            profile(cafile, server.port, options.profile)
            return 0
        for in_flight, requests in REQUESTS.items():
            count = requests // 10 if options.quick else requests
            kinds = [kind for kind in KINDS if kind != STOCK_DEFAULT or in_flight > 20]
            rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
            for turn in range(runs):
                for kind in kinds if turn % 2 else reversed(kinds):
                    rows[kind].append(run_child(kind, cafile, server.port, in_flight, count))
            found = {kind: medians(figures) for kind, figures in rows.items()}
            report["in_flight"][in_flight] = {"requests": count, "kinds": found}
            results.say(f"{in_flight} in flight, {count} requests, median of {runs}")
            show(found)
    results.write("transport", report)
    return 0


def show(found: dict[str, dict[str, float]]) -> None:
    """One table and the two factors."""
    times = [f"p{percent} ms" for percent in PERCENTILES]
    head = ["", "requests/s", *times, "cpu ms/request", "of it loop", "requests/cpu s"]
    results.table(
        head,
        [
            [
                kind,
                f"{row['per_second']:.0f}",
                *(f"{row[f'p{p}_ms']:.2f}" for p in PERCENTILES),
                f"{row['cpu_ms']:.3f}",
                f"{row['loop_ms']:.3f}",
                f"{1000.0 / row['cpu_ms']:.0f}",
            ]
            for kind, row in found.items()
        ],
    )
    curl, stock = found[CURL], found[STOCK]
    results.say(
        f"  {CURL} / {STOCK}: {curl['per_second'] / stock['per_second']:.2f} x the requests a "
        f"second, {stock['cpu_ms'] / curl['cpu_ms']:.2f} x the requests a CPU second\n"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        sys.exit()
    sys.exit(main())
