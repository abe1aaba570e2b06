"""What one call says to the server, connection by connection, in the server's order.

    python bench/sequence.py [--streams]

Each command runs once, without delay; the letters are connections. Shows the sequences that
README.md draws.
"""

from __future__ import annotations

import argparse
import string
import sys
from collections.abc import Iterator
from typing import Any

import results
from sandbox import COMMANDS, Sandbox, is_right


def events(entries: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    """`(client's port, what happened)` of each entry of the log; a POST by its message."""
    for entry in entries:
        if "connection" in entry:
            yield entry["connection"], "connection"
        elif "method" in entry:
            yield entry["peer"], entry["rpc"] or entry["method"]


def main() -> int:
    """Print both sequences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", action="store_true", help="event streams, not JSON")
    options = parser.parse_args()
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", *([] if options.streams else ["--json"]))
        sandbox.configure(server.port)
        for name, command in COMMANDS.items():
            before = server.mark()
            run = sandbox.run(command)
            if not is_right(run):
                raise SystemExit(f"{name}: {run.stdout[:300]!r} {run.stderr[-300:]!r}")
            letters: dict[int, str] = {}
            found = list(events(server.entries(before)))
            for port, _what in found:
                letters.setdefault(port, string.ascii_uppercase[len(letters)])
            requests = sum(what != "connection" for _port, what in found)
            results.say(f"{name}: {len(letters)} connections, {requests} requests")
            for port, what in found:
                results.say(f"  {letters[port]}  {what}")
            results.say("")
    return 0


if __name__ == "__main__":
    sys.exit(main())
