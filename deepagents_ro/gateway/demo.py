"""The demo gateway: an MCP server of the SDK behind a key, on the loopback, for trying things out.

    deepagents-ro gateway demo [--port PORT] [--tls]

It answers at `/mcp/{any namespace}/` over plain HTTP, or over TLS with a certificate made on the
spot, to loopback clients only, and prints the environment that an agent needs. Its tools are those
of `demo_tools`.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from .demo_tools import build

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from deepagents_ro.qualify.lab.authority import Authority

KEY = "demo-key-not-a-secret"
PREFIX = "utils__"


def gated(app: ASGIApp) -> ASGIApp:
    """Any namespace's path is the server's; without the key the answer is 401."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            if headers.get(b"authorization") != f"ApiKey {KEY}".encode():
                await _refuse(send, 401, "the API key is missing or wrong")
                return
            parts = scope["path"].strip("/").split("/")
            if len(parts) != 2 or parts[0] != "mcp":
                await _refuse(send, 404, "nothing here; try /mcp/global/")
                return
            scope = {**scope, "path": "/mcp", "raw_path": b"/mcp"}
        await app(scope, receive, send)

    return handle


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": "Refused", "status_code": status, "response_text": text}).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def environment(port: int, ca_file: Path | None = None) -> dict[str, str]:
    """What an agent needs to find it, and to trust it when it speaks TLS."""
    scheme, trust = ("http", {}) if ca_file is None else ("https", {"SSL_CERT_FILE": str(ca_file)})
    return {"JARVIS_GATEWAY_URL": f"{scheme}://127.0.0.1:{port}", "JARVIS_API_KEY": KEY, **trust}


def serve(port: int, *, tls: bool = False) -> int:
    """Serve until interrupted; the exit status.

    Raises:
        OSError: the port cannot be had.
    """
    listener = socket.create_server(("127.0.0.1", port))
    if not tls:
        return _serve(listener, None)
    from deepagents_ro.qualify.lab.authority import Authority

    with tempfile.TemporaryDirectory(prefix="deepagents-ro-gateway-") as directory:
        return _serve(listener, Authority(Path(directory)))


def _serve(listener: socket.socket, authority: Authority | None) -> int:
    logging.disable(logging.WARNING)
    ca_file, certificate = (None, None)
    if authority is not None:
        ca_file, certificate = authority.ca_file, authority.cert_file
    for name, value in environment(listener.getsockname()[1], ca_file).items():
        print(f"export {name}={value}")
    if authority is not None:
        print("# SSL_CERT_FILE stands for all other roots; unset it when you are done")
    print("# serving until you press Ctrl-C", flush=True)
    app = gated(build(prefix=PREFIX).streamable_http_app())
    config = uvicorn.Config(
        app, ssl_certfile=certificate, log_level="critical", timeout_graceful_shutdown=1
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return 0
