"""Servers of other makers. `make interop` brings them and names where they are."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepagents_ro.qualify.lab.authority import Authority

HERE = Path(__file__).parent
TOOLS_VARIABLE = "DEEPAGENTS_RO_INTEROP"
START_SECONDS = 60.0

if TOOLS_VARIABLE not in os.environ:
    collect_ignore_glob = ["test_*.py"]


class Tools:
    """What scripts/interop.sh has made below one directory."""

    def __init__(self, root: Path) -> None:
        self.python = root / "venv" / "bin" / "python"
        self.node = root / "venv" / "bin" / "node"
        modules = root / "npm" / "node_modules"
        self.pyright = modules / "pyright" / "index.js"
        packages = modules / "@modelcontextprotocol"
        self.conformance = packages / "conformance" / "dist" / "index.js"
        self.everything = packages / "server-everything" / "dist" / "index.js"
        self.go_server = root / "go-server"


@pytest.fixture(scope="session")
def tools() -> Tools:
    """The other makers' programs; a missing one is an error, not a skip."""
    found = Tools(Path(os.environ[TOOLS_VARIABLE]).resolve())
    missing = [str(path) for path in vars(found).values() if not path.exists()]
    if missing:
        raise pytest.UsageError(f"run `make interop`; missing: {', '.join(missing)}")
    return found


def free_port() -> int:
    """A port that was free a moment ago, for servers that must be told one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: list[str], log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A child that ends when its standard input closes, or is killed."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={"PATH": os.defpath, "HOME": str(log.parent), **env},
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextlib.contextmanager
def printing_its_port(command: list[str], log: Path) -> Iterator[int]:
    """A server that prints the port it listens on."""
    with running(command, log) as process:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        line = process.stdout.readline() if ready else b""
        if not line.strip().isdigit():
            raise RuntimeError(f"{command[0]} did not start:\n{log.read_text()[-2000:]}")
        yield int(line)


class TlsFront:
    """Ends TLS and passes the bytes on to a plain server on the same machine.

    It answers HEAD itself: Express takes one to an event stream for a GET and never ends it, on
    which DCode's preflight gives up before any client of ours is asked.
    """

    def __init__(self, context: ssl.SSLContext, behind: int) -> None:
        self._context = context
        self._behind = behind
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), self._context.wrap_socket(client, True) as outer:
            first = outer.recv(65536)
            if first.startswith(b"HEAD "):
                outer.sendall(b"HTTP/1.1 405 No\r\nallow: GET, POST\r\nconnection: close\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", self._behind)) as inner:
                inner.sendall(first)
                back = threading.Thread(target=self._copy, args=(inner, outer), daemon=True)
                back.start()
                self._copy(outer, inner)
                back.join()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def behind_tls(command: list[str], log: Path, context: ssl.SSLContext) -> Iterator[int]:
    """A plain server that takes its port from `PORT`, and a TLS port in front of it."""
    port = free_port()
    with running(command, log, PORT=str(port)) as process:
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[1]} did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
        front = TlsFront(context, port)
        try:
            yield front.port
        finally:
            front.close()


@pytest.fixture(scope="session")
def everything(
    tools: Tools, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """server-everything by both transports: URLs by the configuration's `type`."""
    logs = tmp_path_factory.mktemp("everything")
    context = authority.server_context()
    node = [str(tools.node), str(tools.everything)]
    with (
        behind_tls([*node, "streamableHttp"], logs / "http", context) as http,
        behind_tls([*node, "sse"], logs / "sse", context) as sse,
    ):
        yield {
            "http": f"https://127.0.0.1:{http}/mcp",
            "sse": f"https://127.0.0.1:{sse}/sse",
        }


@pytest.fixture(scope="session")
def other_fastmcp(
    tools: Tools, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The origin of a server made with fastmcp."""
    command = [str(tools.python), str(HERE / "fastmcp_app.py")]
    command += [str(authority.cert_file)] * 2
    log = tmp_path_factory.mktemp("other") / "log"
    with printing_its_port(command, log) as port:
        yield f"https://127.0.0.1:{port}"


@pytest.fixture(scope="session", params=["stream", "json"])
def go_server(
    request: pytest.FixtureRequest,
    tools: Tools,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The origin of a server made with the Go SDK, answering in one of two ways."""
    command = [str(tools.go_server), *[str(authority.cert_file)] * 2]
    log = tmp_path_factory.mktemp("go") / "log"
    with printing_its_port([*command, request.param], log) as port:
        yield f"https://127.0.0.1:{port}"
