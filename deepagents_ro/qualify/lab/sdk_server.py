"""A real MCP server, the installed SDK's FastMCP on uvicorn over TLS, in a process of its own.

`SDKServer` starts it and reads its log. The same tools are served in four ways, one a path, behind
any run's name (`/run-0001/json/mcp`):

    /json/mcp            JSON answers, sessions
    /sse/mcp             event-stream answers, sessions
    /stateless-json/mcp  JSON answers, no session
    /stateless-sse/mcp   event-stream answers, no session

The log has a line for each connection (`connection`: the client's port), each HTTP request (`at` in
monotonic seconds, `run`, `method`, `path`, `peer`, `rpc` or null, `tool` of a `tools/call` or null,
`authorization`, `session`), before it is served, and each session id that was given out (`issued`,
`run`). `serve` does the same for any other application.

    python -m deepagents_ro.qualify.lab.sdk_server

without arguments serves the tools on standard streams, and starts a grandchild in a session of its
own, which a client has to end as well.
"""

# No `from __future__ import annotations`: FastMCP evaluates annotations that name local classes.

import argparse
import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import helper

if TYPE_CHECKING:
    from mcp.server.fastmcp import FastMCP
    from mcp.types import ToolAnnotations

MODES = ("json", "sse", "stateless-json", "stateless-sse")
ATTESTATION = {
    "algorithm": "sha256",
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "nonce": "qualification-nonce",
}
REFLECTED_KEY = "sk-proj-Qualification0Credential1Value2"
OVERSIZED_BYTES = 1_000_000
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# In HOME: the process ids of the server on standard streams and of its grandchild.
FAMILY_FILE = "family.pids"
SLEEPER = "import time; time.sleep(120)"
_RUN = re.compile(r"/(run-[0-9]+)(/.*)", re.DOTALL)


def split_run(path: str) -> tuple[str, str]:
    """The run that a request's path names first, or '', and the rest of the path.

    Servers tell the runs apart by their paths: a managed runtime allows no header for it.
    """
    found = _RUN.fullmatch(path)
    return (found[1], found[2]) if found is not None else ("", path)


def task_context(task_id: str) -> dict[str, Any]:
    """The structured content that `worker_task_context` answers."""
    return {
        "task_id": task_id,
        "state": "ready",
        "qualification": {"output_attestation": ATTESTATION},
    }


def require() -> None:
    """Raises `ModuleNotFoundError` when a package that the server's process needs is missing."""
    for name in ("mcp", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class SDKServer(helper.Helper):
    """The running server; a context manager."""

    def __init__(self, cert_file: Path, log: Path, host: str = "127.0.0.1") -> None:
        self.host = host
        module = [sys.executable, "-I", "-m", "deepagents_ro.qualify.lab.sdk_server"]
        super().__init__([*module, str(cert_file), str(log), "--host", host], log)

    def url(self, mode: str = "json", host: str | None = None) -> str:
        """The endpoint of one of `MODES`."""
        return f"https://{host or self.host}:{self.port}/{mode}/mcp"

    def requests(self, since: int = 0) -> list[dict[str, Any]]:
        """The HTTP requests that were logged after `since`."""
        return [entry for entry in self.entries(since) if "method" in entry]

    def count(self, rpc: str, since: int = 0) -> int:
        """How many requests of one JSON-RPC (or else HTTP) method were logged."""
        return sum((entry["rpc"] or entry["method"]) == rpc for entry in self.requests(since))


class Recorded:
    """ASGI middleware: logs each request before it is served, and each session id given out.

    The application sees the path without the run's name.
    """

    def __init__(self, app: Any, log: helper.Log) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        at = time.monotonic()
        messages = [await receive()]
        while messages[-1]["type"] == "http.request" and messages[-1].get("more_body"):
            messages.append(await receive())
        rpc, tool = describe(b"".join(message.get("body", b"") for message in messages))
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        run, path = split_run(scope["path"])
        self._log.write(
            at=at,
            run=run,
            method=scope["method"],
            path=path,
            peer=scope["client"][1],
            rpc=rpc,
            tool=tool,
            authorization=headers.get("authorization", ""),
            session=headers.get("mcp-session-id", ""),
        )

        async def replay() -> Any:
            return messages.pop(0) if messages else await receive()

        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start" and rpc == "initialize":
                for name, value in message["headers"]:
                    if name.lower() == b"mcp-session-id":
                        self._log.write(run=run, issued=value.decode())
            await send(message)

        await self._app({**scope, "path": path, "raw_path": path.encode()}, replay, noting)


def describe(body: bytes) -> tuple[str | None, str | None]:
    """JSON-RPC method ("response" for an answer) and called tool of one HTTP request's body."""
    try:
        message = json.loads(body)
        rpc = message.get("method", "response")
        return rpc, message["params"]["name"] if rpc == "tools/call" else None
    except (ValueError, AttributeError, KeyError, TypeError):
        return None, None


def serve(
    app: Any,
    *,
    certificate: str | None = None,
    log: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
) -> None:
    """Serve an ASGI application until standard input ends; the port is announced.

    Over TLS with the `certificate` (and key) of a file; `log` gets connections and requests.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    logging.disable(logging.CRITICAL)  # FastMCP reports each stream that a client closes
    listener = socket.create_server((host, port), backlog=512)
    written = None if log is None else helper.Log(log)

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            if written is not None:
                written.write(connection=transport.get_extra_info("peername")[1])
            super().connection_made(transport)

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            helper.announce(listener.getsockname()[1])

    config = uvicorn.Config(
        app if written is None else Recorded(app, written),
        http=Protocol,
        ssl_certfile=certificate,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    helper.hold()
    Announced(config).run(sockets=[listener])


def together(servers: "list[FastMCP[Any]]") -> Any:
    """One ASGI application of several FastMCP servers with paths of their own."""
    from starlette.applications import Starlette

    routes = [route for server in servers for route in server.streamable_http_app().routes]

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server.session_manager.run())
            yield

    return Starlette(routes=routes, lifespan=lifespan)


def build(mode: str) -> "FastMCP[Any]":
    """The server with its tools, in one of `MODES`."""
    from mcp.server.fastmcp import FastMCP
    from mcp.server.transport_security import TransportSecuritySettings

    server: FastMCP[Any] = FastMCP(
        "worker-broker",
        stateless_http=mode.startswith("stateless"),
        json_response=mode.endswith("json"),
        streamable_http_path=f"/{mode}/mcp",
        log_level="CRITICAL",
        # The client is this machine, whatever name or address it was given for the server.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    add_hints(server)
    add_states(server)
    add_blocks(server)
    return server


def read_only() -> "ToolAnnotations":
    """The hints of a tool that may be called."""
    from mcp.types import ToolAnnotations

    return ToolAnnotations(
        readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
    )


def add_hints(server: "FastMCP[Any]") -> None:
    """Tools that are refused for what they say of themselves, or for their name."""
    from mcp.types import ToolAnnotations

    def never() -> str:
        """Is never called."""
        return "never"

    hints = {
        "unannotated": None,
        "mutating": ToolAnnotations(readOnlyHint=False, destructiveHint=True),
        "contradictory": ToolAnnotations(readOnlyHint=True, destructiveHint=True),
        # of servers `a` and `a_b`: the full names collide
        "c": read_only(),
        "b_c": read_only(),
    }
    for name, annotations in hints.items():
        server.add_tool(never, name=name, annotations=annotations)


def add_states(server: "FastMCP[Any]") -> None:
    """Tools for the states in which a call can end."""
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp.exceptions import ToolError
    from pydantic import BaseModel

    class Qualification(BaseModel):
        output_attestation: dict[str, str]

    class TaskContext(BaseModel):
        task_id: str
        state: str
        qualification: Qualification

    class Sum(BaseModel):
        total: int

    tool = server.tool(annotations=read_only())

    @tool
    def worker_task_context(task_id: str) -> TaskContext:
        """The context of one worker task."""
        return TaskContext.model_validate(task_context(task_id))

    @tool
    def failing() -> str:
        """Reports a failure in words of its own."""
        raise ToolError("the tool's own words")

    @tool
    def oversized() -> dict[str, Any]:
        """More than an envelope may hold."""
        return {"value": "x" * OVERSIZED_BYTES}

    @tool
    def oversized_secret() -> dict[str, Any]:
        """More than an envelope may hold, a credential first."""
        return {"value": f"Bearer {REFLECTED_KEY} " + "x" * OVERSIZED_BYTES}

    @tool
    async def hanging() -> str:
        """Never answers."""
        await asyncio.Event().wait()
        return "never"

    @tool
    def reflecting(context: Context) -> dict[str, Any]:  # type: ignore[type-arg]
        """Gives the caller's credential back, and one more of a known shape."""
        request = context.request_context.request
        assert request is not None
        return {
            "authorization": request.headers["authorization"],
            "nested": [{"credential": f"Bearer {REFLECTED_KEY}"}],
        }

    @tool
    async def slow(seconds: float) -> str:
        """Answers after some seconds."""
        await asyncio.sleep(seconds)
        return "late"

    @tool
    async def chatty(context: Context) -> str:  # type: ignore[type-arg]
        """Reports progress and logs before it answers."""
        for step in range(5):
            await context.report_progress(step, 5)
            await context.info("step")
        return "said"

    @tool
    def total(left: int, right: int) -> Sum:
        """Has an output schema."""
        return Sum(total=left + right)

    @server.tool(annotations=read_only(), structured_output=False)
    def echo(value: str) -> str:
        """Text alone."""
        return value


def add_blocks(server: "FastMCP[Any]") -> None:
    """Tools whose results have blocks of each kind."""
    from mcp.types import (
        AudioContent,
        BlobResourceContents,
        CallToolResult,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
        TextContent,
        TextResourceContents,
    )

    tool = server.tool(annotations=read_only())

    @tool
    def image() -> CallToolResult:
        """An image."""
        block = ImageContent(type="image", data=PIXEL, mimeType="image/png")
        return CallToolResult(content=[block])

    @tool
    def audio() -> CallToolResult:
        """A sound, for which the adapter has no conversion."""
        return CallToolResult(
            content=[AudioContent(type="audio", data="UklGRg==", mimeType="audio/wav")]
        )

    @tool
    def resource_link() -> CallToolResult:
        """Links to a document and to an image."""
        return CallToolResult(
            content=[
                ResourceLink(
                    type="resource_link",
                    name="doc",
                    uri="https://example.invalid/doc.pdf",  # type: ignore[arg-type]
                    mimeType="application/pdf",
                ),
                ResourceLink(
                    type="resource_link",
                    name="pixel",
                    uri="https://example.invalid/pixel.png",  # type: ignore[arg-type]
                    mimeType="image/png",
                ),
            ]
        )

    @tool
    def embedded() -> CallToolResult:
        """Embedded text, document and image."""
        uri: Any = "file:///note"
        return CallToolResult(
            content=[
                EmbeddedResource(
                    type="resource",
                    resource=TextResourceContents(uri=uri, text="note\u2028\U0001f600"),
                ),
                EmbeddedResource(
                    type="resource",
                    resource=BlobResourceContents(
                        uri=uri, blob="JVBERg==", mimeType="application/pdf"
                    ),
                ),
                EmbeddedResource(
                    type="resource",
                    resource=BlobResourceContents(uri=uri, blob=PIXEL, mimeType="image/png"),
                ),
                TextContent(type="text", text="end"),
            ]
        )


def on_standard_streams() -> None:
    """Serve on standard streams, with a grandchild that is hard to get rid of."""
    grandchild = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SLEEPER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    Path.home().joinpath(FAMILY_FILE).write_text(f"{os.getpid()} {grandchild.pid}\n")
    build("json").run("stdio")


def main() -> None:
    """Serve over TLS when there is a certificate."""
    if len(sys.argv) == 1:
        on_standard_streams()
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("certificate")
    parser.add_argument("log")
    parser.add_argument("--host", required=True)
    options = parser.parse_args()
    app = together([build(mode) for mode in MODES])
    serve(app, certificate=options.certificate, log=options.log, host=options.host)


if __name__ == "__main__":
    main()
