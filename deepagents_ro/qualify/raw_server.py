"""An MCP server over TLS whose tools and results are scripted bytes: what no SDK would send."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from .authority import Authority
from .http1 import Request, read_request, response
from .journal import RUN_HEADER, Journal, Seen
from .proxy import REAL_TOKEN
from .sdk_server import describe

SCHEMA = '"inputSchema":{"type":"object"}'
READ_ONLY = '"annotations":{"readOnlyHint":true,"destructiveHint":false}'
BEHIND_PROXY_PATH = "/mcp"
OPEN_PATH = "/open/mcp"

# Token for token: numbers and escapes that parsers rewrite, and text that looks like a credential,
# which an attestation may hold.
LOSSLESS = (
    '{"qualification":{"output_attestation":{"digest":"Bearer sk-proj-Attested0Digest1Value2Zz",'
    '"weights":[1.10,1e2,1E400,-0.0,123456789012345678901234567890],'
    '"escapes":"\\u0000\\u00e9\\/\\ud83d\\ude00","text":"\u00e9\u2028\U0001f600"}},"":null}'
)

# Tool -> what follows its name in `tools/list`.
TOOLS = {
    "lossless": f"{SCHEMA},{READ_ONLY}",
    "echo": f"{SCHEMA},{READ_ONLY}",
    "duplicate_key": f"{SCHEMA},{READ_ONLY}",
    "not_a_number": f"{SCHEMA},{READ_ONLY}",
    "wrong_type": f"{SCHEMA},{READ_ONLY}",
    "hint_text": f'{SCHEMA},"annotations":{{"readOnlyHint":"yes"}}',
    "hint_number": f'{SCHEMA},"annotations":{{"readOnlyHint":1}}',
    "hint_null": f'{SCHEMA},"annotations":{{"readOnlyHint":true,"destructiveHint":null}}',
    "hint_twice": f'{SCHEMA},"annotations":{{"readOnlyHint":false,"readOnlyHint":true}}',
    "hint_escaped": f'{SCHEMA},"annotations":{{"readOnlyHint":false,"read\\u004fnlyHint":true}}',
    "annotations_twice": f'{SCHEMA},"annotations":{{"readOnlyHint":false}},{READ_ONLY}',
}
# In a list of its own: the SDK's model refuses it, and with it every tool beside it.
REFUSED = {"hint_refused": f'{SCHEMA},"annotations":{{"readOnlyHint":"maybe"}}'}
REFUSED_PATH = "/refused/mcp"

RESULTS = {
    "lossless": f'{{"content":[],"structuredContent":{LOSSLESS}}}',
    "echo": '{"content":[{"type":"text","text":"seen"}]}',
    "duplicate_key": '{"content":[],"structuredContent":{"a":1,"a":2}}',
    "not_a_number": '{"content":[],"structuredContent":{"a":NaN}}',
    "wrong_type": '{"content":{},"isError":"no"}',
}


class RawServer:
    """Lives on the lab's event loop. Two paths are open; `/mcp` asks for `REAL_TOKEN`."""

    def __init__(self, journal: Journal, authority: Authority) -> None:
        self._journal = journal
        self._authority = authority
        self._host = ""
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://{self._host}:{self.port}{OPEN_PATH}"

    @property
    def refused_url(self) -> str:
        return f"https://{self._host}:{self.port}{REFUSED_PATH}"

    async def start(self, host: str) -> None:
        """Listen on a free port of `host`."""
        context = self._authority.server_context()
        server = await asyncio.start_server(self._serve, host, 0, ssl=context)
        self._host, self.port = host, server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):  # a client goes as it likes
            while True:
                writer.write(self._answer(await read_request(reader)))
                await writer.drain()
        writer.close()

    def _answer(self, request: Request) -> bytes:
        rpc, tool = describe(request.method, request.body)
        message = json.loads(request.body) if rpc is not None else {}
        authorization = request.headers.get("authorization", "")
        self._journal.note(
            Seen(
                run=request.headers.get(RUN_HEADER, ""),
                method=request.method,
                rpc=rpc,
                tool=tool,
                body=request.body,
                authorization=authorization,
                session="",
            )
        )
        if request.target == BEHIND_PROXY_PATH and authorization != REAL_TOKEN:
            return response(401)
        if request.method != "POST":
            return response(405 if request.method in ("GET", "HEAD") else 200)
        if rpc is None or "id" not in message:
            return response(202)
        result = self._result(request, rpc, tool, message)
        identity = json.dumps(message["id"])
        return response(200, f'{{"jsonrpc":"2.0","id":{identity},"result":{result}}}')

    def _result(self, request: Request, rpc: str, tool: str | None, message: dict[str, Any]) -> str:
        if rpc == "initialize":
            return json.dumps(
                {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                }
            )
        if rpc == "tools/list":
            tools = REFUSED if request.target == REFUSED_PATH else TOOLS
            return '{"tools":[%s]}' % ",".join(
                f'{{"name":"{name}",{rest}}}' for name, rest in tools.items()
            )
        return RESULTS.get(tool or "", "{}")
