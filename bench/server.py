"""A real MCP server for the benchmark: the SDK's FastMCP over uvicorn, TLS, loopback.

    python bench/server.py CERTIFICATE LOG [--tools N] [--schema-bytes B] [--json] [--path P]

Serves `worker_task_context` (read-only) and N more tools with a schema of about B bytes each; LOG
is the lab's (`deepagents_ro.qualify.lab.sdk_server`). Ends when standard input ends.
"""

import argparse
from typing import Annotated, Any

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field
from sandbox import EXPECTED

from deepagents_ro.qualify.lab.sdk_server import serve

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
    server = build(options.tools, options.schema_bytes, options.json, options.path)
    serve(server.streamable_http_app(), certificate=options.certificate, log=options.log)


if __name__ == "__main__":
    main()
