"""What the servers of a qualification saw, by the run that sent it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

# A configured header by which servers tell the runs apart.
RUN_HEADER = "x-qualification-run"


@dataclass(frozen=True, slots=True)
class Seen:
    """One HTTP request as a server saw it."""

    run: str
    method: str
    rpc: str | None
    """JSON-RPC method of a POST."""
    tool: str | None
    """Tool of a `tools/call`."""
    body: bytes
    authorization: str
    session: str
    """Session id that the request carries."""


class Journal:
    """The requests of all servers, in order of arrival; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._issued: dict[str, list[str]] = {}

    def note(self, seen: Seen) -> None:
        with self._lock:
            self._seen.append(seen)

    def issued(self, run: str, session: str) -> None:
        """A server gave out the id `session` in `run`."""
        with self._lock:
            self._issued.setdefault(run, []).append(session)

    def of(self, run: str) -> list[Seen]:
        """The requests of one run."""
        with self._lock:
            return [seen for seen in self._seen if seen.run == run]

    def calls(self, run: str) -> list[Seen]:
        """The `tools/call` requests of one run."""
        return [seen for seen in self.of(run) if seen.rpc == "tools/call"]

    def sessions(self, run: str) -> list[str]:
        """The session ids that were given out in one run."""
        with self._lock:
            return list(self._issued.get(run, ()))
