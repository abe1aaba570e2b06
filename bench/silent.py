"""Servers that take a connection and never say a word.

    python bench/silent.py COUNT

Announces COUNT ports. The kernel completes TCP for a listening socket that nobody accepts from,
so a client waits for TLS until it gives up. Ends when standard input ends.
"""

from __future__ import annotations

import socket
import sys

from deepagents_ro.qualify.lab import helper

BACKLOG = 1024

if __name__ == "__main__":
    sockets = [
        socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) for _ in range(int(sys.argv[1]))
    ]
    helper.announce(*(listener.getsockname()[1] for listener in sockets))
    helper.wait()
