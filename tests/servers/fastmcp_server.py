"""A real `mcp` SDK server over TLS, run as a child process.

`FastMCPServer` starts it and reads its log. The same tools are served in four
ways, one a path:

    /json/mcp            JSON answers, sessions
    /sse/mcp             event-stream answers, sessions
    /stateless-json/mcp  JSON answers, no session
    /stateless-sse/mcp   event-stream answers, no session

Each HTTP request is one JSON line in the log file: `at` (monotonic seconds),
`method`, `path`, `peer` (the client's port: one a connection), `rpc` (the
JSON-RPC method or null), `tool` (of a `tools/call`, or null).

The child ends when its standard input closes, when its parent dies, or after
`MAX_SECONDS`.
"""

# No `from __future__ import annotations` here: FastMCP evaluates the tools'
# annotations, and some name classes that are local to `_build`.

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

MAX_SECONDS = 900.0
PR_SET_PDEATHSIG = 1
MODES = ("json", "sse", "stateless-json", "stateless-sse")
ATTESTATION = "attest-v1:MEUCIQDt3n7:5f2c9a7be1"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class FastMCPServer:
    """The running child; use it as a context manager."""

    def __init__(self, cert_file: Path, key_file: Path, log_file: Path) -> None:
        self.log_file = log_file
        self._command = [
            sys.executable,
            str(Path(__file__).resolve()),
            f"--cert={cert_file}",
            f"--key={key_file}",
            f"--log={log_file}",
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.log_file.touch()
        errors = self.log_file.with_suffix(".stderr")
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 60.0)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self.stop()
            raise RuntimeError(f"the MCP server did not start:\n{errors.read_text()[-2000:]}")
        self.port = json.loads(line)["port"]
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the child by closing its standard input, then by force."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._process = None

    def url(self, mode: str = "json", host: str = "127.0.0.1") -> str:
        """The endpoint of one of `MODES`."""
        return f"https://{host}:{self.port}/{mode}/mcp"

    def mark(self) -> int:
        """A position in the log, for `entries`."""
        return self.log_file.stat().st_size

    def entries(self, since: int = 0) -> list[dict[str, Any]]:
        """The requests that were logged after `since`."""
        with self.log_file.open("rb") as log:
            log.seek(since)
            return [json.loads(line) for line in log.read().splitlines()]

    def count(self, rpc: str, since: int = 0) -> int:
        """How many requests of one JSON-RPC (or else HTTP) method were logged."""
        return sum((entry["rpc"] or entry["method"]) == rpc for entry in self.entries(since))


class _RequestLog:
    """ASGI middleware that logs each request before it is served."""

    def __init__(self, app: Any, path: str) -> None:
        self.app = app
        self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        at = time.monotonic()
        body = b""
        messages = []
        more = True
        while more:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
        rpc = tool = None
        if scope["method"] == "POST":
            with contextlib.suppress(ValueError, AttributeError):
                parsed = json.loads(body)
                rpc = parsed.get("method", "response")
                if rpc == "tools/call":
                    tool = parsed["params"]["name"]
        entry = {
            "at": at,
            "method": scope["method"],
            "path": scope["path"],
            "peer": scope["client"][1],
            "rpc": rpc,
            "tool": tool,
        }
        os.write(self.descriptor, json.dumps(entry).encode() + b"\n")

        async def replay() -> Any:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, replay, send)


def _build(mode: str) -> Any:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.types import (
        AudioContent,
        BlobResourceContents,
        CallToolResult,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
        TextContent,
        TextResourceContents,
        ToolAnnotations,
    )
    from pydantic import BaseModel

    server = FastMCP(
        "worker-broker",
        stateless_http=mode.startswith("stateless"),
        json_response=mode.endswith("json"),
        streamable_http_path=f"/{mode}/mcp",
        log_level="CRITICAL",
    )
    read_only = ToolAnnotations(readOnlyHint=True, destructiveHint=False)

    class OutputAttestation(BaseModel):
        output_attestation: str

    class TaskContext(BaseModel):
        task_id: str
        state: str
        qualification: OutputAttestation

    class Sum(BaseModel):
        total: int

    @server.tool(annotations=read_only)
    def worker_task_context(task_id: str) -> TaskContext:
        """The context of one worker task."""
        return TaskContext(
            task_id=task_id,
            state="ready",
            qualification=OutputAttestation(output_attestation=ATTESTATION),
        )

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

    @server.tool(annotations=read_only)
    def failing() -> str:
        """Reports a failure."""
        raise ValueError("the tool's own words")

    @server.tool(annotations=read_only)
    async def slow(seconds: float) -> str:
        """Answers after some seconds."""
        await asyncio.sleep(seconds)
        return "late"

    @server.tool(annotations=read_only)
    async def chatty(context: Context) -> str:  # type: ignore[type-arg]
        """Reports progress and logs before it answers."""
        for step in range(5):
            await context.report_progress(step, 5)
            await context.info("step")
        return "said"

    @server.tool(annotations=read_only)
    def image() -> CallToolResult:
        """An image."""
        block = ImageContent(type="image", data=PIXEL, mimeType="image/png")
        return CallToolResult(content=[block])

    @server.tool(annotations=read_only)
    def audio() -> CallToolResult:
        """A sound, for which the adapter has no conversion."""
        return CallToolResult(
            content=[AudioContent(type="audio", data="UklGRg==", mimeType="audio/wav")]
        )

    @server.tool(annotations=read_only)
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

    @server.tool(annotations=read_only)
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

    @server.tool(annotations=read_only)
    def total(left: int, right: int) -> Sum:
        """Has an output schema."""
        return Sum(total=left + right)

    @server.tool(annotations=read_only, structured_output=False)
    def echo(value: str) -> str:
        """Text alone."""
        return value

    return server


def _watch_parent() -> None:
    """Ends the process with its parent, its standard input or its time."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def until_eof() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=until_eof, daemon=True).start()
    timer = threading.Timer(MAX_SECONDS, os._exit, (3,))
    timer.daemon = True
    timer.start()


def main() -> None:
    """Serves until the parent is done with it."""
    _watch_parent()
    parser = argparse.ArgumentParser()
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--log", required=True)
    options = parser.parse_args()

    import uvicorn
    from starlette.applications import Starlette

    servers = [_build(mode) for mode in MODES]
    routes = [route for server in servers for route in server.streamable_http_app().routes]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server.session_manager.run())
            os.write(1, json.dumps({"port": port}).encode() + b"\n")
            yield

    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    app = _RequestLog(Starlette(routes=routes, lifespan=lifespan), options.log)
    config = uvicorn.Config(
        app,
        ssl_certfile=options.cert,
        ssl_keyfile=options.key,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
