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

import results
from sandbox import COMMANDS, Sandbox, is_right


def events(lines: list[str]) -> Iterator[tuple[str, str]]:
    """`(client's port, what happened)` of each line of the log; a POST by its message."""
    for line in lines:
        event, *details = line.split(" ")
        if event == "connection":
            yield details[0], "connection"
        elif event == "message" or (event == "request" and details[0] != "POST"):
            yield details[1], details[0]


def main() -> int:
    """Print both sequences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", action="store_true", help="event streams, not JSON")
    options = parser.parse_args()
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", *([] if options.streams else ["--json"]))
        assert server.log is not None
        sandbox.configure(server.port)
        for name, command in COMMANDS.items():
            before = len(server.log.read_text())
            run = sandbox.run(command)
            if not is_right(run):
                raise SystemExit(f"{name}: {run.stdout[:300]!r} {run.stderr[-300:]!r}")
            letters: dict[str, str] = {}
            found = list(events(server.log.read_text()[before:].splitlines()))
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
