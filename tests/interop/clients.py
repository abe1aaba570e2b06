"""One MCP session of the `mcp` SDK, over either transport."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from deepagents_ro import CurlTransport

KINDS = ("stock", "curl", "curl http2")


def http_client(kind: str, ca_file: str, **kwargs: Any) -> httpx.AsyncClient:
    """An httpx client over one of `KINDS`, trusting one CA."""
    transport: httpx.AsyncBaseTransport
    if kind == "stock":
        import ssl

        context = ssl.create_default_context(cafile=ca_file)
        transport = httpx.AsyncHTTPTransport(verify=context)
    else:
        transport = CurlTransport(cafile=ca_file, http2=kind == "curl http2")
    kwargs["timeout"] = httpx.Timeout(20.0)
    return httpx.AsyncClient(transport=transport, **kwargs)


@contextlib.asynccontextmanager
async def session(kind: str, type: str, url: str, ca_file: str) -> AsyncIterator[ClientSession]:
    """An initialized session."""
    async with contextlib.AsyncExitStack() as stack:
        if type == "sse":

            def factory(
                headers: dict[str, str] | None = None,
                timeout: httpx.Timeout | None = None,
                auth: httpx.Auth | None = None,
            ) -> httpx.AsyncClient:
                return http_client(kind, ca_file, headers=headers, auth=auth)

            opened = sse_client(url, httpx_client_factory=factory)
            read, write = await stack.enter_async_context(opened)
        else:
            client = await stack.enter_async_context(http_client(kind, ca_file))
            streams = streamable_http_client(url, http_client=client)
            read, write, _ = await stack.enter_async_context(streams)
        made = await stack.enter_async_context(ClientSession(read, write))
        await made.initialize()
        yield made


async def talk(
    kind: str, type: str, url: str, ca_file: str, calls: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """The tools and the results of `calls`, as plain data."""
    async with session(kind, type, url, ca_file) as opened:
        listed = await opened.list_tools()
        results = {
            name: (await opened.call_tool(name, arguments)).model_dump(mode="json")
            for name, arguments in calls.items()
        }
    return {"tools": listed.model_dump(mode="json"), "results": results}
