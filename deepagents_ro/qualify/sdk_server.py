"""A real MCP server: the installed SDK's FastMCP on uvicorn, TLS, Streamable HTTP with sessions.

Served twice: `/json/mcp` answers in JSON, `/sse/mcp` in event streams. `python -m
deepagents_ro.qualify.sdk_server` is a server on standard streams that starts a grandchild in a
session of its own, which a client has to end as well.
"""

# No `from __future__ import annotations`: FastMCP evaluates annotations that name local classes.

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import AudioContent, CallToolResult, ToolAnnotations
from pydantic import BaseModel
from starlette.applications import Starlette

from .authority import Authority
from .journal import RUN_HEADER, Journal, Seen

ATTESTATION = {
    "algorithm": "sha256",
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "nonce": "qualification-nonce",
}
REFLECTED_KEY = "sk-proj-Qualification0Credential1Value2"
OVERSIZED_BYTES = 1_000_000
READ_ONLY = ToolAnnotations(
    readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
)
# In HOME: the process ids of the server on standard streams and of its grandchild.
FAMILY_FILE = "family.pids"
SLEEPER = "import time; time.sleep(120)"


class Qualification(BaseModel):
    output_attestation: dict[str, str]


class TaskContext(BaseModel):
    task_id: str
    qualification: Qualification


def build(path: str, *, json_answers: bool) -> FastMCP:
    """The server with its tools, one a state of the contract."""
    server = FastMCP(
        "worker-broker",
        json_response=json_answers,
        streamable_http_path=path,
        log_level="CRITICAL",
        # The client is this machine, whatever name or address it was given for the server.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    @server.tool(annotations=READ_ONLY)
    def worker_task_context(task_id: str) -> TaskContext:
        """The context of one worker task."""
        attested = Qualification(output_attestation=ATTESTATION)
        return TaskContext(task_id=task_id, qualification=attested)

    @server.tool()
    def unannotated() -> str:
        """Says nothing about itself."""
        return "never"

    @server.tool(annotations=ToolAnnotations(readOnlyHint=False, destructiveHint=True))
    def mutating() -> str:
        """Writes."""
        return "never"

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True, destructiveHint=True))
    def contradictory() -> str:
        """Reads only, and destroys."""
        return "never"

    @server.tool(annotations=READ_ONLY)
    def failing() -> str:
        """Reports a failure in words of its own."""
        raise ToolError("the tool's own words")

    @server.tool(annotations=READ_ONLY)
    def sound() -> CallToolResult:
        """A valid block for which DCode's adapter has no conversion."""
        block = AudioContent(type="audio", data="UklGRg==", mimeType="audio/wav")
        return CallToolResult(content=[block])

    @server.tool(annotations=READ_ONLY)
    def oversized() -> dict[str, Any]:
        """More than an envelope may hold."""
        return {"value": "x" * OVERSIZED_BYTES}

    @server.tool(annotations=READ_ONLY)
    async def hanging() -> str:
        """Never answers."""
        await asyncio.Event().wait()
        return "never"

    @server.tool(annotations=READ_ONLY)
    def reflecting(context: Context) -> dict[str, Any]:  # type: ignore[type-arg]
        """Gives the caller's credential back, and one more of a known shape."""
        request = context.request_context.request
        assert request is not None
        return {
            "authorization": request.headers["authorization"],
            "nested": [{"credential": f"Bearer {REFLECTED_KEY}"}],
        }

    for name in ("c", "b_c"):
        server.add_tool(_constant, name=name, annotations=READ_ONLY)
    return server


def _constant() -> str:
    """One of two tools whose full names collide."""
    return "never"


class SDKServer:
    """The HTTP server; lives on the lab's event loop."""

    def __init__(self, journal: Journal, authority: Authority) -> None:
        self._journal = journal
        self._authority = authority
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._origin = ""

    @property
    def json_url(self) -> str:
        return f"{self._origin}/json/mcp"

    @property
    def stream_url(self) -> str:
        return f"{self._origin}/sse/mcp"

    async def start(self, host: str) -> None:
        """Listen on a free port of `host`; returns once requests are answered."""
        servers = [build("/json/mcp", json_answers=True), build("/sse/mcp", json_answers=False)]
        routes = [route for server in servers for route in server.streamable_http_app().routes]
        ready = asyncio.Event()

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with contextlib.AsyncExitStack() as stack:
                for server in servers:
                    await stack.enter_async_context(server.session_manager.run())
                ready.set()
                yield

        config = uvicorn.Config(
            Journalled(Starlette(routes=routes, lifespan=lifespan), self._journal),
            ssl_certfile=self._authority.cert_file,
            ssl_keyfile=self._authority.key_file,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        listener = socket.create_server((host, 0), backlog=128)
        self._origin = f"https://{host}:{listener.getsockname()[1]}"
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            waiting.cancel()
            await self._task
            raise RuntimeError("the MCP server ended while it started")

    async def stop(self) -> None:
        if self._server is None or self._task is None:
            return
        self._server.should_exit = self._server.force_exit = True
        await asyncio.wait({self._task}, timeout=5)


class Journalled:
    """ASGI middleware: notes each request before it is served, and each session id given out."""

    def __init__(self, app: Any, journal: Journal) -> None:  # noqa: ANN401
        self._app = app
        self._journal = journal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        messages = [await receive()]
        while messages[-1]["type"] == "http.request" and messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(message.get("body", b"") for message in messages)
        run = headers.get(RUN_HEADER, "")
        rpc, tool = describe(scope["method"], body)
        self._journal.note(
            Seen(
                run=run,
                method=scope["method"],
                rpc=rpc,
                tool=tool,
                body=body,
                authorization=headers.get("authorization", ""),
                session=headers.get("mcp-session-id", ""),
            )
        )

        async def replay() -> Any:  # noqa: ANN401
            return messages.pop(0) if messages else await receive()

        async def noting(message: Any) -> None:  # noqa: ANN401
            if message["type"] == "http.response.start" and rpc == "initialize":
                for name, value in message["headers"]:
                    if name.lower() == b"mcp-session-id":
                        self._journal.issued(run, value.decode())
            await send(message)

        await self._app(scope, replay, noting)


def describe(method: str, body: bytes) -> tuple[str | None, str | None]:
    """JSON-RPC method and called tool of one HTTP request."""
    if method != "POST":
        return None, None
    try:
        message = json.loads(body)
    except ValueError:
        return None, None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return None, None
    params = message.get("params")
    tool = params.get("name") if isinstance(params, dict) else None
    return message["method"], tool if message["method"] == "tools/call" else None


def main() -> None:
    """Serve on standard streams, with a grandchild that is hard to get rid of."""
    grandchild = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SLEEPER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    Path.home().joinpath(FAMILY_FILE).write_text(f"{os.getpid()} {grandchild.pid}\n")
    build("/unused", json_answers=True).run("stdio")


if __name__ == "__main__":
    main()
