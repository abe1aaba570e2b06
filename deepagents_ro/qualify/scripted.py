"""An MCP server over TLS whose tools and results are scripted bytes: what no SDK would send."""

from __future__ import annotations

from .journal import Journal, Seen
from .lab.authority import Authority
from .lab.raw_server import RawServer, Request, Wire, http, result_message
from .lab.sdk_server import split_run

SCHEMA = '"inputSchema":{"type":"object"}'
READ_ONLY = '"annotations":{"readOnlyHint":true,"destructiveHint":false}'
PLACEHOLDER = "Bearer openshell:resolve:env:QUALIFICATION_TOKEN"
# Known to the proxy that puts it in the placeholder's place, and to the server behind it.
REAL_TOKEN = "Bearer qualification-0f6c1d9e7b"
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


class ScriptedServer(RawServer):
    """The tools and results above. Two paths are open; `/mcp` asks for `REAL_TOKEN`."""

    def __init__(self, journal: Journal, authority: Authority, host: str) -> None:
        super().__init__(authority.server_context(), host=host, timeout=60.0)
        self._journal = journal

    @property
    def url(self) -> str:
        return self.origin + OPEN_PATH

    @property
    def refused_url(self) -> str:
        return self.origin + REFUSED_PATH

    def note(self, request: Request) -> int:
        """In the journal, by the run that its path names."""
        run, _path = split_run(request.target)
        named = request.label == "tools/call"
        self._journal.note(
            Seen(
                run=run,
                method=request.method,
                rpc=request.label if request.method == "POST" else None,
                tool=request.message["params"]["name"] if named else None,
                body=request.body,
                authorization=(request.header("authorization") or b"").decode("latin-1"),
            )
        )
        return super().note(request)

    def default(self, request: Request, wire: Wire) -> bytes:
        """The tables' answers; everything else is a well-behaved server's."""
        _run, path = split_run(request.target)
        if path == BEHIND_PROXY_PATH and request.header("authorization") != REAL_TOKEN.encode():
            return http(401, content_type=None)
        if request.label == "tools/list":
            tools = REFUSED if path == REFUSED_PATH else TOOLS
            entries = (f'{{"name":"{name}",{rest}}}' for name, rest in tools.items())
            return http(200, result_message(request, '{"tools":[%s]}' % ",".join(entries)))
        if request.label == "tools/call":
            return http(200, result_message(request, RESULTS[request.message["params"]["name"]]))
        return super().default(request, wire)
