"""A TLS server that does as little as it can: the transports are measured, not it.

    python bench/echo_server.py CERTIFICATE ANSWER_BYTES

Every HTTP/1.1 request with a Content-Length is answered with the same ANSWER_BYTES of JSON on a
connection that stays open. Ends when standard input ends.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys

from deepagents_ro.qualify.lab import helper

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
BACKLOG = 256


class Echo(asyncio.Protocol):
    """One connection; requests may come in pieces or several at a time."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            found = CONTENT_LENGTH.search(self._received, 0, end)
            total = end + 4 + (int(found[1]) if found else 0)
            if len(self._received) < total:
                return
            self._received = self._received[total:]
            self._transport.write(self._answer)


async def serve(certificate: str, answer_bytes: int) -> None:
    """Accept on a free port and announce it."""
    body = b'"%s"' % (b"x" * (answer_bytes - 2))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    answer = head % len(body) + body
    server = await asyncio.get_running_loop().create_server(
        lambda: Echo(answer), "127.0.0.1", 0, ssl=context, backlog=BACKLOG
    )
    helper.announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    helper.hold()
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
