"""A scripted server of HTTP with SSE, the transport of protocol 2024-11-05."""

from __future__ import annotations

import threading
from typing import Any

from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, event, http

PHASES = ("initialize", "notifications/initialized", "tools/list", "tools/call")


class LegacyServer:
    """Turns a `RawServer` into one: answers to POSTs go to the newest stream.

    `preamble` is what each stream begins with, `content_type` the streams' own; `acknowledge` what
    each POST is answered with. `streams` are the open ones, oldest first.
    """

    def __init__(
        self,
        server: RawServer,
        *,
        preamble: bytes = event("/messages?session_id=1", name="endpoint"),
        acknowledge: bytes = http(202, b"Accepted", content_type="text/plain"),
        content_type: str = "text/event-stream",
    ) -> None:
        self.server = server
        self.preamble = preamble
        self.acknowledge = acknowledge
        self.content_type = content_type
        self.streams: list[Wire] = []
        # a client that has read the preamble may post before this thread goes on
        self._opening = threading.Lock()
        server.handlers["GET"] = self.open
        for phase in (*PHASES, "response"):
            server.handlers[phase] = self.posted

    @property
    def entry(self) -> dict[str, Any]:
        """The configuration entry."""
        return {"type": "sse", "url": self.server.url}

    def open(self, request: Request, wire: Wire) -> None:
        """A stream: the preamble, then whatever `say` sends."""
        wire.chunked_head(content_type=self.content_type)
        with self._opening:
            wire.chunk(self.preamble)
            self.streams.append(wire)
        wire.stall()

    def say(self, data: bytes, *, name: str | None = "message") -> None:
        """One event on the newest stream."""
        with self._opening:
            newest = self.streams[-1]
        newest.chunk(event(data, name=name))

    def answer_to(self, request: Request, wire: Wire) -> bytes:
        """The well-behaved server's JSON-RPC answer."""
        return self.server.default(request, wire).partition(b"\r\n\r\n")[2]

    def posted(self, request: Request, wire: Wire) -> bytes | None:
        """A POST: its answer goes to the stream, first."""
        if request.label != "response" and "id" in request.message:
            self.say(self.answer_to(request, wire))
        return self.acknowledge
