"""A listening socket with a thread for each connection: the base of servers and proxies.

Handlers are plain blocking code on plain sockets, so that they can do to a connection what no
server library would.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Listener:
    """Listens on a free port of `host`; a context manager. A subclass has `serve`.

    `stopping` is set when it ends: what waits, waits for that too.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), backlog=64, family=family)
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        """Connections so far."""
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="accept", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the listener and every connection."""
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            left = list(self._open)
        for sock in left:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join(5)

    @property
    def address(self) -> str:
        """`host:port` as a URL has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def live(self) -> int:
        """Sockets that have not been closed."""
        with self._lock:
            return len(self._open)

    def arrived(self, number: int) -> None:
        """A connection was accepted; called before its thread can answer."""

    def serve(self, sock: socket.socket, number: int) -> None:
        """One connection, in its own thread; numbers count from 0. `OSError` ends it quietly."""
        raise NotImplementedError

    def hold(self, sock: socket.socket) -> socket.socket:
        """`sock`, which ends with the listener from now on."""
        with self._lock:
            self._open.add(sock)
        return sock

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number, self.accepted = self.accepted, self.accepted + 1
            self.arrived(number)
            threading.Thread(
                target=self._guarded, args=(self.hold(sock), number), name="serve", daemon=True
            ).start()

    def _guarded(self, sock: socket.socket, number: int) -> None:
        try:
            with contextlib.suppress(OSError):  # a peer goes as it likes
                self.serve(sock, number)
        finally:
            self.release(sock)

    def release(self, *socks: socket.socket) -> None:
        """Close them."""
        with self._lock:
            self._open.difference_update(socks)
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.close()
