"""`python -m deepagents_ro.qualify [--json] [--report FILE] [--upstream]`."""

from __future__ import annotations

import sys


def run(words: list[str]) -> int:
    """The exit status; 2, with one line on standard error, when a package is missing."""
    try:
        from .lab.sdk_server import require
        from .prove import main

        require()
    except ModuleNotFoundError as error:
        print(f"deepagents-ro: the qualification needs {error.name}", file=sys.stderr)
        return 2
    try:
        status = main(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    return status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
