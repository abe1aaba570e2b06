"""What the servers of a qualification saw, by the run that sent it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .lab.sdk_server import SDKServer


@dataclass(frozen=True, slots=True)
class Seen:
    """One HTTP request as a server saw it."""

    run: str
    method: str
    rpc: str | None
    """JSON-RPC method of a POST."""
    tool: str | None
    """Tool of a `tools/call`."""
    authorization: str
    session: str = ""
    """Session id that the request carries."""
    body: bytes = b""
    """Of a request to a scripted server."""


class Journal:
    """The requests of all servers; for any thread. The SDK's server keeps a log of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._issued: list[tuple[str, str]] = []
        self._sdk: SDKServer | None = None

    def follow(self, sdk: SDKServer) -> None:
        """Its log counts too."""
        self._sdk = sdk

    def note(self, seen: Seen) -> None:
        with self._lock:
            self._seen.append(seen)

    def issued(self, run: str, session: str) -> None:
        """A server gave out the id `session` in `run`."""
        with self._lock:
            self._issued.append((run, session))

    def of(self, run: str) -> list[Seen]:
        """The requests of one run."""
        with self._lock:
            seen = [seen for seen in self._seen if seen.run == run]
        for entry in self._logged(run):
            if "method" in entry:
                seen.append(Seen(**{name: entry[name] for name in LOGGED}))
        return seen

    def calls(self, run: str) -> list[Seen]:
        """The `tools/call` requests of one run."""
        return [seen for seen in self.of(run) if seen.rpc == "tools/call"]

    def sessions(self, run: str) -> list[str]:
        """The session ids that were given out in one run."""
        with self._lock:
            noted = [session for name, session in self._issued if name == run]
        return noted + [entry["issued"] for entry in self._logged(run) if "issued" in entry]

    def _logged(self, run: str) -> Iterator[dict[str, Any]]:
        entries = [] if self._sdk is None else self._sdk.entries()
        return (entry for entry in entries if entry.get("run") == run)


LOGGED = ("run", "method", "rpc", "tool", "authorization", "session")
