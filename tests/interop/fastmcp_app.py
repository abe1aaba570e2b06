"""A server made with fastmcp, over TLS on a loopback port that it prints.

    fastmcp_app.py CERT KEY

/http/mcp and /json/mcp keep sessions, /stateless/mcp does not, /legacy/sse speaks HTTP with SSE.
It ends when its standard input closes. Runs in an environment that has fastmcp and nothing of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator

import uvicorn
from fastmcp import Context, FastMCP
from starlette.applications import Starlette
from starlette.routing import Mount

READ_ONLY = {"readOnlyHint": True, "destructiveHint": False}


def build() -> FastMCP:
    """The tools."""
    server = FastMCP("fastmcp")

    @server.tool(annotations=READ_ONLY)
    def echo(text: str) -> str:
        return text

    @server.tool(name="sum", annotations=READ_ONLY)
    def total(a: float, b: float) -> dict[str, float]:
        return {"sum": a + b}

    @server.tool(annotations=READ_ONLY)
    async def slow(ctx: Context) -> str:
        for step in range(5):
            await ctx.report_progress(step, 5)
            await ctx.info(f"step {step}")
            await asyncio.sleep(0.3)
        return "slow"

    @server.tool
    def write(text: str) -> str:
        return text

    return server


async def main(cert: str, key: str) -> None:
    """Serve until standard input closes."""
    server = build()
    apps = {
        "http": server.http_app(path="/mcp"),
        "json": server.http_app(path="/mcp", json_response=True),
        "stateless": server.http_app(path="/mcp", stateless_http=True),
        "legacy": server.http_app(path="/sse", transport="sse"),
    }

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.lifespan(app))
            yield

    mounts = [Mount(f"/{name}", app=app) for name, app in apps.items()]
    config = uvicorn.Config(
        Starlette(routes=mounts, lifespan=lifespan),
        ssl_certfile=cert,
        ssl_keyfile=key,
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.ensure_future(uvicorn.Server(config).serve(sockets=[listener]))
    print(listener.getsockname()[1], flush=True)
    await asyncio.wait(
        {serving, asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))},
        return_when=asyncio.FIRST_COMPLETED,
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
