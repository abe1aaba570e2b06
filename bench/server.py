"""A real MCP server for the benchmark: the SDK's FastMCP over uvicorn, TLS, loopback.

    python bench/server.py CERTIFICATE LOG [--tools N] [--schema-bytes B] [--json] [--path P]

Serves `worker_task_context` (read-only) and N more tools with a schema of about B bytes each.
LOG gets `connection PORT` when a TLS connection is established, `request METHOD PORT` per HTTP
request, `message METHOD PORT` per JSON-RPC message and `call TOOL` per `tools/call`; PORT is the
client's. Ends when standard input ends.
"""

import argparse
import json
import logging
import socket
from typing import Annotated, Any

import lifeline
import uvicorn
from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field
from sandbox import EXPECTED
from uvicorn.protocols.http.h11_impl import H11Protocol

READ_ONLY = ToolAnnotations(readOnlyHint=True, destructiveHint=False, openWorldHint=False)


def build(tools: int, schema_bytes: int, json_answers: bool, path: str) -> FastMCP:
    """The server with its tools."""
    mcp = FastMCP("worker-broker", json_response=json_answers, streamable_http_path=path)

    @mcp.tool(annotations=READ_ONLY, structured_output=True)
    def worker_task_context(task_id: str) -> dict[str, Any]:
        """The context of one task."""
        return {**EXPECTED, "task_id": task_id}

    filler = "x" * max(0, schema_bytes - 200)
    for number in range(tools):

        def extra(value: Annotated[str, Field(description=filler)] = "") -> str:
            return value

        mcp.add_tool(
            extra,
            name=f"extra_{number:04d}",
            description="One of many.",
            annotations=READ_ONLY,
            structured_output=False,
        )
    return mcp


def counted(app: Any, log: lifeline.Log) -> Any:
    """`app` with every request and every JSON-RPC message written to `log`."""

    async def wrapper(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        port = scope["client"][1]
        log.write("request", scope["method"], port)
        body = bytearray()

        async def counting_receive() -> Any:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    note_message(bytes(body), port, log)
                    body.clear()
            return message

        await app(scope, counting_receive, send)

    return wrapper


def note_message(body: bytes, port: int, log: lifeline.Log) -> None:
    """Write `message METHOD PORT`, and `call TOOL` for a `tools/call`, when `body` is a message."""
    if not body:
        return
    message = json.loads(body)
    log.write("message", message.get("method", "-"), port)
    if message.get("method") == "tools/call":
        log.write("call", message["params"]["name"])


def protocol(log: lifeline.Log) -> type[H11Protocol]:
    """uvicorn's protocol that also counts connections, unused ones included."""

    class CountingProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            log.write("connection", transport.get_extra_info("peername")[1])
            super().connection_made(transport)

    return CountingProtocol


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("certificate")
    parser.add_argument("log")
    parser.add_argument("--tools", type=int, default=3)
    parser.add_argument("--schema-bytes", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--path", default="/mcp")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # FastMCP reports each stream that a client closes
    log = lifeline.Log(options.log)
    server = build(options.tools, options.schema_bytes, options.json, options.path)
    app = server.streamable_http_app()
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        counted(app, log),
        http=protocol(log),
        ssl_certfile=options.certificate,
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    lifeline.hold()
    lifeline.announce(listener.getsockname()[1])
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
