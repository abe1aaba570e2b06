"""Proxies: one that adds a round trip, one that speaks CONNECT, one that nobody is to use.

    python -m deepagents_ro.qualify.lab.proxy PORT ROUND_TRIP_MS

makes the server at PORT of the loopback far away until its standard input ends.
"""

from __future__ import annotations

import base64
import contextlib
import queue
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping

from . import helper
from .listener import Listener

PIECE = 65536


def _close(*socks: socket.socket) -> None:
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            sock.close()


def _connect(listener: Listener, host: str, port: int) -> socket.socket:
    """A connection onward, which ends with the listener."""
    onward = socket.create_connection((host, port), timeout=10)
    onward.settimeout(None)
    onward.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener.hold(onward)


class LatencyProxy(Listener):
    """Forwards to one address; every byte is late by half of `rtt` seconds each way.

    Bytes that are on the way do not wait for one another, so throughput is not limited. Opening a
    connection costs one `rtt`, as TCP's handshake would.
    """

    def __init__(self, host: str, port: int, rtt: float) -> None:
        super().__init__()
        self._target = (host, port)
        self._half = rtt / 2
        self._opening = rtt

    def serve(self, sock: socket.socket, number: int) -> None:
        self.stopping.wait(self._opening)
        onward = _connect(self, *self._target)
        back = threading.Thread(target=self._pump, args=(onward, sock), daemon=True)
        back.start()
        self._pump(sock, onward)
        back.join()
        self.release(onward)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def deliver() -> None:
            while True:
                due, data = pieces.get()
                self.stopping.wait(max(0.0, due - time.monotonic()))
                with contextlib.suppress(OSError):
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)
                    continue
                return

        writer = threading.Thread(target=deliver, daemon=True)
        writer.start()
        data = b"?"
        while data:
            try:
                data = source.recv(PIECE)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + self._half, data))
        writer.join()


class ConnectProxy(Listener):
    """An HTTP proxy: CONNECT tunnels, and plain requests in absolute form.

    `credentials` ("user:password") are asked for with a 407. With `terminate`
    (a server's TLS context, and a client's to trust the real server) it ends
    the client's TLS and passes each piece of decrypted client bytes through
    `rewrite` before it encrypts them again. `routes` says where a name really is. `heads` holds the
    head of each request to the proxy itself, as bytes; `seen` what a terminating proxy decrypted
    from clients.
    """

    def __init__(
        self,
        *,
        credentials: str | None = None,
        terminate: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
        rewrite: Callable[[bytes], bytes] = lambda data: data,
        listen_tls: ssl.SSLContext | None = None,
        routes: Mapping[str, tuple[str, int]] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(host)
        self._routes = routes or {}
        self._expected = (
            b"basic " + base64.b64encode(credentials.encode()).lower() if credentials else None
        )
        self._terminate = terminate
        self._rewrite = rewrite
        self._listen_tls = listen_tls
        self.heads: list[bytes] = []
        self.refused = 0
        self.tunnels: list[str] = []
        self.seen = b""

    @property
    def url(self) -> str:
        """The proxy's own URL."""
        return f"{'https' if self._listen_tls else 'http'}://{self.address}"

    def serve(self, sock: socket.socket, number: int) -> None:
        if self._listen_tls is not None:
            sock = self.hold(self._listen_tls.wrap_socket(sock, server_side=True))
        try:
            self._serve(sock)
        finally:
            self.release(sock)

    def _serve(self, sock: socket.socket) -> None:
        while True:
            head, rest = self._head(sock)
            if not head:
                return
            self.heads.append(head)
            if self._admitted(head):
                break
            self.refused += 1
            sock.sendall(
                b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                b'Proxy-Authenticate: Basic realm="test"\r\nContent-Length: 0\r\n\r\n'
            )
        method, target, _ = head.split(b"\r\n", 1)[0].split(b" ", 2)
        if method == b"CONNECT":
            self._tunnel(sock, target.decode(), rest)
        else:
            self._forward(sock, head, rest)

    def _head(self, sock: socket.socket) -> tuple[bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(PIECE)
            if not more:
                return b"", b""
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n", rest

    def _admitted(self, head: bytes) -> bool:
        if self._expected is None:
            return True
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"proxy-authorization":
                return value.strip().lower() == self._expected
        return False

    def _tunnel(self, sock: socket.socket, target: str, rest: bytes) -> None:
        host, _, port = target.rpartition(":")
        host = host.strip("[]")
        self.tunnels.append(target)
        onward = _connect(self, *self._routes.get(host, (host, int(port))))
        sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        if self._terminate is not None:
            server_context, client_context = self._terminate
            sock = self.hold(server_context.wrap_socket(sock, server_side=True))
            onward = self.hold(client_context.wrap_socket(onward, server_hostname=host))
        elif rest:
            onward.sendall(rest)
        try:
            self._splice(sock, onward)
        finally:
            _close(sock, onward)

    def _forward(self, sock: socket.socket, head: bytes, rest: bytes) -> None:
        first, _, others = head.partition(b"\r\n")
        method, target, version = first.split(b" ", 2)
        authority, _, path = target.removeprefix(b"http://").partition(b"/")
        host, _, port = authority.decode().partition(":")
        self.tunnels.append(authority.decode())
        onward = _connect(self, host, int(port or 80))
        onward.sendall(b" ".join((method, b"/" + path, version)) + b"\r\n" + others + rest)
        self._splice(sock, onward)

    def _splice(self, sock: socket.socket, onward: socket.socket) -> None:
        """Moves bytes both ways until either side ends."""
        other = {sock: onward, onward: sock}
        while not self.stopping.is_set():
            ready: list[socket.socket] = [
                end for end in other if isinstance(end, ssl.SSLSocket) and end.pending()
            ]
            if not ready:
                ready, _, _ = select.select(list(other), [], [], 0.5)
            for end in ready:
                end.settimeout(0)  # readable TLS may hold a session ticket and no data
                try:
                    data = end.recv(PIECE)
                except (BlockingIOError, ssl.SSLWantReadError):
                    continue
                if not data:
                    _close(onward)
                    return
                if end is sock and self._terminate is not None:
                    self.seen += data
                    data = self._rewrite(data)
                other[end].settimeout(30)
                other[end].sendall(data)


class Tripwire(Listener):
    """What a run is told to use as proxy for all others: refuses, and notes who came."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.url = f"http://{self.address}"
        self.targets: list[str] = []
        """First line of each request; of anything else its first bytes."""

    def serve(self, sock: socket.socket, number: int) -> None:
        data = sock.recv(4096)
        self.targets.append(data.split(b"\r\n")[0][:200].decode("latin-1"))
        sock.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


def main(port: int, round_trip_ms: float) -> None:
    """Serve until standard input ends."""
    with LatencyProxy("127.0.0.1", port, round_trip_ms / 1000) as proxy:
        helper.announce(proxy.port)
        helper.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
