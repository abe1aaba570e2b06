"""What the gateway's wrapper and transport add to the bare adapter call, on the loopback.

    python bench/gateway_bench.py [--calls 300]

The same tool of the same server, called in turns: by the adapter's own tool on one open session
over httpx's own transport, and by the wrapped tool over the C transport. Prints p50, p95 and p99
and the differences, and writes bench/results/gateway.json; fails when the wrapped tool is slower
at p50 or p95.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import results
from sandbox import Sandbox

TOOL = "worker_task_context"
ARGUMENTS = {"task_id": "worker.1"}
TABLE = f'[agents.main]\ntools = ["{TOOL}"]\n'

Call = Callable[[], Awaitable[Any]]


async def bare_tool(url: str, context: ssl.SSLContext, stack: Any) -> Call:
    """The adapter's tool on a session of its own."""
    import httpx
    from langchain_mcp_adapters.sessions import StreamableHttpConnection, create_session
    from langchain_mcp_adapters.tools import load_mcp_tools

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=context, headers=headers, timeout=timeout, auth=auth)

    connection = StreamableHttpConnection(
        transport="streamable_http", url=url, httpx_client_factory=client
    )
    session = await stack.enter_async_context(create_session(connection))
    await session.initialize()
    tool = next(tool for tool in await load_mcp_tools(session) if tool.name == TOOL)

    async def call() -> None:
        content = await tool.ainvoke(ARGUMENTS)
        if "running" not in content[0]["text"]:
            raise SystemExit("the bare tool answered something else")

    return call


async def wrapped_tool(url: str, stack: Any) -> Call:
    """The curated tool."""
    from deepagents_ro.gateway import Allocation, GatewayConfig, load_gateway_tools

    config = GatewayConfig(url=url, api_key="benchmark-not-a-secret")
    loaded = await load_gateway_tools(config, allocation=Allocation.parse(TABLE))
    await stack.enter_async_context(loaded)
    if TOOL not in loaded.tools:
        raise SystemExit(f"the curated tool is not there: {loaded.state} {loaded.detail}")
    tool = loaded.tools[TOOL]

    async def call() -> None:
        answer = await tool.ainvoke(ARGUMENTS)
        if not answer["ok"] or answer["data"]["state"] != "running":
            raise SystemExit(f"the curated tool answered {answer}")

    return call


async def measure(port: int, cafile: str, calls: int) -> dict[str, list[float]]:
    """Milliseconds of each counted call, by kind."""
    from contextlib import AsyncExitStack

    times: dict[str, list[float]] = {"bare adapter": [], "wrapped": []}
    context = ssl.create_default_context(cafile=cafile)
    async with AsyncExitStack() as stack:
        tools = {
            "bare adapter": await bare_tool(
                f"https://127.0.0.1:{port}/mcp/global/", context, stack
            ),
            "wrapped": await wrapped_tool(f"https://127.0.0.1:{port}", stack),
        }
        for turn in range(calls + 20):
            for name in tools if turn % 2 else reversed(tools):
                started = time.perf_counter()
                await tools[name]()
                if turn >= 20:
                    times[name].append((time.perf_counter() - started) * 1000.0)
            if turn % 50 == 0:
                gc.collect()
    return times


def main() -> int:
    """Measure and print; 1 when the overhead is over its bound."""
    import os

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    with Sandbox() as sandbox:
        os.environ["SSL_CERT_FILE"] = str(sandbox.root / "ca.pem")
        server = sandbox.start("server.py", "--json", "--path", "/mcp/global/")
        times = asyncio.run(measure(server.port, str(sandbox.root / "ca.pem"), options.calls))
        events = server.events()[0]
    if events["call"] != 2 * (options.calls + 20):
        raise SystemExit(f"the server logged {events['call']} calls")
    rows = {
        name: {f"p{percent}_ms": results.percentile(found, percent) for percent in (50, 95, 99)}
        for name, found in times.items()
    }
    overhead = {
        which: rows["wrapped"][which] - rows["bare adapter"][which]
        for which in ("p50_ms", "p95_ms")
    }
    results.table(
        ["", "p50 ms", "p95 ms", "p99 ms"],
        [[name, *(f"{value:.2f}" for value in row.values())] for name, row in rows.items()],
    )
    results.say(f"more at p50: {overhead['p50_ms']:+.2f} ms, at p95: {overhead['p95_ms']:+.2f} ms")
    report = {"calls": options.calls, "kinds": rows, "overhead": overhead}
    results.write("gateway", report)
    return 0 if max(overhead.values()) <= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
