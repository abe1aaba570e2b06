"""A helper process lives as long as its parent holds its standard input open.

The first line of its standard output says how to reach it, as one JSON object. `Helper` is the
parent's side, the functions are the helper's. Loads nothing heavy: whoever measures memory starts
its helpers with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

START_SECONDS = 60.0


class Helper:
    """A helper process, a context manager. Raises `RuntimeError` when it does not start.

    `log` is where it writes what it saw; the lines of `Log` are read with `entries`.
    """

    def __init__(self, command: Sequence[str], log: Path | None = None) -> None:
        self.log = log
        if log is not None:
            log.touch()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self.stop()
            raise RuntimeError(f"{' '.join(command)} did not start")
        self.ports: list[int] = json.loads(line)["ports"]
        self.port = self.ports[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it by closing its standard input, then by force; safe to call twice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def mark(self) -> int:
        """A position in the log, for `entries`."""
        return self.read()[1]

    def entries(self, since: int = 0) -> list[dict[str, Any]]:
        """What was logged after `since`."""
        return self.read(since)[0]

    def read(self, since: int = 0) -> tuple[list[dict[str, Any]], int]:
        """What was logged after `since`, and the position behind it."""
        if self.log is None:
            return [], 0
        with self.log.open("rb") as log:
            log.seek(since)
            *lines, part = log.read().split(b"\n")
            return [json.loads(line) for line in lines], log.tell() - len(part)


def wait() -> None:
    """Return when standard input ends (the parent closed it or died)."""
    while os.read(0, 4096):
        continue


def hold() -> None:
    """End this process when standard input ends."""

    def end() -> None:
        wait()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def announce(*ports: int) -> None:
    """Tell the parent where we listen."""
    sys.stdout.write(json.dumps({"ports": ports}) + "\n")
    sys.stdout.flush()


class Log:
    """What a helper saw, one JSON object a line, for the parent."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("ab", buffering=0)

    def write(self, **entry: object) -> None:
        """Append one line in one write, so that lines of many tasks stay whole."""
        self._file.write(json.dumps(entry).encode() + b"\n")
