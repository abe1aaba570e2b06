"""The test gateway: a TLS reverse proxy in front of the upstream MCP server.

    python reverse_proxy.py CERTIFICATE UPSTREAM_PORT MODE_FILE LOG [PORT]

Serves `/mcp/{namespace}/`. Every request needs `Authorization: ApiKey <key>`. Tool names get the
namespace's prefix. MODE_FILE is read for every request; its members:

    status        answer every POST with this status and a gateway error body
    hang_s        wait so long before answering
    hang_calls_s  the same for `tools/call` alone
    lack          upstream tools that are not listed
    prefix        instead of the namespace's own
    annotations   {upstream tool: annotations, or null for none}
    schemas       {upstream tool: inputSchema}
    extra         so many more tools
    raw_entries   texts put into the list as they are
    call_error    answer `tools/call` with this as its result
    call_status   answer `tools/call` with this status and a gateway error body
    body          answer every POST with this text, as JSON, with status 200
    streams       answer in event streams, after a comment and a notification

LOG gets one line per request: its method, or `call TOOL`. Ends when standard input ends.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deepagents_ro.qualify.lab.sdk_server import serve

API_KEY = "gateway-key-0123456789"
PREFIXES = {"global": "utils__", "geo": "geo.registry/", "flat": ""}
PASSED = ("mcp-session-id", "mcp-protocol-version", "accept", "content-type")


def gateway_error(status: int, text: str) -> dict[str, Any]:
    """The body that this gateway puts in front of any failure."""
    return {"error": "Upstream request failed", "status_code": status, "response_text": text}


class Gateway:
    """One proxy; `mode` is read from its file for each request."""

    def __init__(self, upstream: int, mode_file: str, log_file: str) -> None:
        self._url = f"http://127.0.0.1:{upstream}/mcp"
        self._mode_file = Path(mode_file)
        self._log = Path(log_file).open("ab", buffering=0)
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=100)
        self._client = httpx.AsyncClient(timeout=60, limits=limits, trust_env=False)

    async def handle(self, request: Request) -> Response:
        """One request of a client."""
        mode = json.loads(self._mode_file.read_text(encoding="utf-8"))
        self._log.write(f"{request.method}\n".encode())
        namespace = request.path_params["namespace"]
        if request.headers.get("authorization") != f"ApiKey {API_KEY}":
            given = request.headers.get("authorization", "")
            return JSONResponse({"detail": f"not accepted: {given}"}, status_code=401)
        if namespace not in PREFIXES:
            return JSONResponse({"detail": "no such namespace"}, status_code=404)
        if request.method != "POST":
            return await self._forward_other(request)
        prefix = mode.get("prefix", PREFIXES[namespace])
        return await self._post(request, mode, prefix)

    async def _forward_other(self, request: Request) -> Response:
        if request.method == "GET":
            return Response(status_code=405)
        answer = await self._client.request(
            request.method, self._url, headers=self._headers(request)
        )
        return Response(status_code=answer.status_code)

    async def _post(self, request: Request, mode: dict[str, Any], prefix: str) -> Response:
        await asyncio.sleep(mode.get("hang_s", 0))
        message = json.loads(await request.body())
        if mode.get("status"):
            status = mode["status"]
            return JSONResponse(gateway_error(status, "down"), status_code=status)
        if mode.get("body") is not None:
            return Response(mode["body"], media_type="application/json")
        if message.get("method") == "tools/call":
            early = await self._call(message, mode, prefix)
            if early is not None:
                return early
        try:
            answer = await self._client.post(
                self._url, content=json.dumps(message), headers=self._headers(request)
            )
        except httpx.HTTPError:
            return JSONResponse(gateway_error(502, "no upstream"), status_code=502)
        body = answer.content
        if message.get("method") == "tools/list" and answer.status_code == 200:
            body = listed(json.loads(body), mode, prefix)
        headers = {key: value for key, value in answer.headers.items() if key == "mcp-session-id"}
        if mode.get("streams") and answer.status_code == 200:
            return StreamingResponse(stream(body), media_type="text/event-stream", headers=headers)
        kind = answer.headers.get("content-type")
        return Response(body, status_code=answer.status_code, media_type=kind, headers=headers)

    async def _call(
        self, message: dict[str, Any], mode: dict[str, Any], prefix: str
    ) -> Response | None:
        name = message["params"]["name"]
        self._log.write(f"call {name}\n".encode())
        await asyncio.sleep(mode.get("hang_calls_s", 0))
        message["params"]["name"] = name.removeprefix(prefix)
        if mode.get("call_status"):
            status = mode["call_status"]
            text = f"upstream said {status} to ApiKey {API_KEY}"
            return JSONResponse(gateway_error(status, text), status_code=status)
        if mode.get("call_error") is not None:
            answer = {"jsonrpc": "2.0", "id": message["id"], **mode["call_error"]}
            return JSONResponse(answer)
        return None

    def _headers(self, request: Request) -> dict[str, str]:
        return {key: request.headers[key] for key in PASSED if key in request.headers}


def listed(answer: dict[str, Any], mode: dict[str, Any], prefix: str) -> bytes:
    """The list as this gateway shows it."""
    texts = []
    for tool in answer["result"]["tools"]:
        name = tool["name"]
        if name in mode.get("lack", []):
            continue
        if name in mode.get("annotations", {}):
            tool.pop("annotations", None)
            if mode["annotations"][name] is not None:
                tool["annotations"] = mode["annotations"][name]
        if name in mode.get("schemas", {}):
            tool["inputSchema"] = mode["schemas"][name]
        texts.append(json.dumps({**tool, "name": prefix + name}))
    for number in range(mode.get("extra", 0)):
        entry = {
            "name": f"{prefix}extra_{number}",
            "description": "One of many.",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
        }
        texts.append(json.dumps(entry))
    texts += mode.get("raw_entries", [])
    identity = json.dumps(answer["id"])
    tools = ",".join(texts)
    return f'{{"jsonrpc":"2.0","id":{identity},"result":{{"tools":[{tools}]}}}}'.encode()


async def stream(body: bytes) -> AsyncIterator[bytes]:
    """The answer as the last event, in pieces; then the stream stays open for a while."""
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
    yield b": hello\n\n"
    yield b"event: message\ndata: " + note + b"\n\nevent: message\nda"
    yield b"ta: " + body + b"\n\n"
    await asyncio.sleep(0.2)


def main() -> None:
    """Serve until standard input ends."""
    certificate, upstream, mode_file, log_file = sys.argv[1:5]
    port = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    gateway = Gateway(int(upstream), mode_file, log_file)
    methods = ["GET", "POST", "DELETE"]
    app = Starlette(routes=[Route("/mcp/{namespace}/", gateway.handle, methods=methods)])
    serve(app, certificate=certificate, port=port)


if __name__ == "__main__":
    main()
