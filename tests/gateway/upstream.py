"""The MCP server behind the test gateway: the demo's tools in a process of their own.

    python upstream.py LOG

LOG gets `call TOOL` for each call. Ends when standard input ends.
"""

import sys
from pathlib import Path

from deepagents_ro.gateway.demo_tools import build
from deepagents_ro.qualify.lab.sdk_server import serve


def main() -> None:
    """Serve until standard input ends."""
    log = Path(sys.argv[1]).open("ab", buffering=0)
    serve(build(lambda name: log.write(f"call {name}\n".encode())).streamable_http_app())


if __name__ == "__main__":
    main()
