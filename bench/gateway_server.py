"""The demo gateway with 2,000 more tools, behind any namespace; for `gateway_bench.py`.

    python gateway_server.py

Announces its port; ends when standard input ends.
"""

from __future__ import annotations

from deepagents_ro.gateway.demo import PREFIX, gated
from deepagents_ro.gateway.demo_tools import READ_ONLY, build
from deepagents_ro.qualify.lab.sdk_server import serve

EXTRA = 1996
"""With the demo's nine tools: 2,005."""


def main() -> None:
    """Serve until standard input ends."""
    server = build(prefix=PREFIX)

    def extra(text: str, times: int = 1) -> str:
        """One of many."""
        return text * times

    for number in range(EXTRA):
        server.tool(f"{PREFIX}extra_{number}", annotations=READ_ONLY)(extra)
    serve(gated(server.streamable_http_app()))


if __name__ == "__main__":
    main()
