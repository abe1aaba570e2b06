"""An HTTP/1.1 server that ends its connections as a table says, over TCP, TLS or a CONNECT proxy.

What a library's own closing would mix is apart here: TLS close_notify, FIN, RST, and when.
`requests` are counted when their last byte is in.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable

from deepagents_ro.qualify.lab.listener import Listener
from deepagents_ro.qualify.lab.raw_server import Gone

READ = 65536


class Connection:
    """One accepted connection; with TLS, over memory buffers."""

    def __init__(self, server: ClosingServer, sock: socket.socket, number: int) -> None:
        self.number = number
        self.asked = 0
        """Requests that came on it."""
        self._server = server
        self._socket = sock
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._buffer = b""

    def shake_hands(self, context: ssl.SSLContext | None) -> None:
        sock = self._socket
        if self._server.is_proxy:
            self._read_head()
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        if context is not None:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._pump(self._tls.do_handshake)

    def _pump(self, step: Callable[[], bytes | None]) -> bytes:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._socket.recv(READ)
                if not data:
                    raise Gone from None
                self._incoming.write(data)
                continue
            except ssl.SSLError:
                raise Gone from None
            self._flush()
            return result or b""

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._socket.sendall(data)

    def _receive(self) -> bytes:
        if self._tls is None:
            data = self._socket.recv(READ)
        else:
            tls = self._tls
            data = self._pump(lambda: tls.read(READ))
        if not data:
            raise Gone
        return data

    def _read_head(self) -> bytes:
        while b"\r\n\r\n" not in self._buffer:
            self._buffer += self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head

    def request(self) -> bytes:
        """The next one's body, or its request line when it has none."""
        head = self._read_head()
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(self._buffer) < length:
            self._buffer += self._receive()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        self.asked += 1
        request = body or head.split(b"\r\n")[0]
        self._server.note(request)
        return request

    def send(self, data: bytes) -> None:
        if self._tls is None:
            self._socket.sendall(data)
        else:
            tls = self._tls
            self._pump(lambda: tls.write(data) and None)

    def say_goodbye(self) -> None:
        """TLS close_notify, and nothing more."""
        if self._tls is not None:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLError):
                self._tls.unwrap()
            self._flush()

    def end(self, *, notify: bool = True, reset: bool = False) -> None:
        with contextlib.suppress(OSError):
            if notify:
                self.say_goodbye()
            if reset:
                linger = struct.pack("ii", 1, 0)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            else:
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def wait(self) -> None:
        """Until the peer has closed, or the server ends."""
        with contextlib.suppress(OSError):
            while True:
                self._receive()


Handler = Callable[[Connection], None]


class ClosingServer(Listener):
    """`with ClosingServer(handler, context) as server`; handler runs once a connection."""

    def __init__(
        self, handler: Handler, context: ssl.SSLContext | None = None, *, is_proxy: bool = False
    ) -> None:
        super().__init__()
        self.requests: list[bytes] = []
        self.is_proxy = is_proxy
        self._handler = handler
        self._context = context
        self._changed = threading.Condition()
        self._ended = 0

    def url(self, path: str = "/mcp") -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://localhost:{self.port}{path}"

    def note(self, request: bytes) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def count(self, method: str) -> int:
        """Of a JSON-RPC method, how many came."""
        return sum(_method_of(request) == method for request in list(self.requests))

    def await_ends(self, count: int) -> bool:
        """Until so many connections are over on this side; false after five seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended >= count, 5)

    def serve(self, sock: socket.socket, number: int) -> None:
        connection = Connection(self, sock, number)
        with contextlib.suppress(OSError):
            connection.shake_hands(self._context)
            self._handler(connection)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()
        with self._changed:
            self._ended += 1
            self._changed.notify_all()


def _method_of(request: bytes) -> str | None:
    try:
        return json.loads(request).get("method")
    except (ValueError, AttributeError):
        return None


def pause(seconds: float) -> None:
    """A server's own delay."""
    time.sleep(seconds)
