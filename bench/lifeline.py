"""A helper process lives as long as its parent holds its standard input open.

The first line of standard output says how to reach it, as one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path


def hold() -> None:
    """End this process when standard input ends (the parent closed it or died)."""

    def wait() -> None:
        while os.read(0, 4096):
            continue
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def announce(*ports: int) -> None:
    """Tell the parent where we listen."""
    sys.stdout.write(json.dumps({"ports": ports}) + "\n")
    sys.stdout.flush()


class Log:
    """Events of a server, the name of the event and its details in a line, for the parent."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115  (lives as long as we do)

    def write(self, event: str, *details: object) -> None:
        """Append one line in one write, so that lines of many tasks stay whole."""
        self._file.write(" ".join([event, *map(str, details)]).encode() + b"\n")
