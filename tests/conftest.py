"""Fixtures of the end-to-end tests: the CA, the servers and a private world for `dcode`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from servers.dcode import DCODE, Dcode
from servers.fastmcp_server import FastMCPServer
from servers.raw_server import RawServer
from servers.tls import Authority

E2E = Path(__file__).parent / "e2e"
WITNESS = Path(__file__).parent / "servers" / "witness.c"


def pytest_configure() -> None:
    """Makes children independent of how and where the tests were started."""
    # a child's Python must not find the source tree in the working directory: it has no extension
    os.environ["PYTHONSAFEPATH"] = "1"
    # what a launcher (nohup, say) ignores, children would ignore too
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuses to start the end-to-end tests on a `dcode` that is not patched."""
    if config.option.collectonly or not any(E2E in item.path.parents for item in items):
        return
    if not DCODE.exists():
        raise pytest.UsageError(f"deepagents-code is not installed beside {sys.executable}")
    check = subprocess.run(
        [sys.executable, "-I", "-m", "deepagents_ro.patch", "check"],
        capture_output=True,
        text=True,
    )
    if check.returncode != 0:
        raise pytest.UsageError(
            "dcode is not patched; run `python -m deepagents_ro.patch apply` first.\n"
            + check.stdout
            + check.stderr
        )


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA that every server's certificate is from."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def fastmcp(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FastMCPServer]:
    """One real SDK server for the session."""
    log = tmp_path_factory.mktemp("fastmcp") / "requests.log"
    with FastMCPServer(authority.cert_file, authority.key_file, log) as server:
        yield server


@pytest.fixture
def raw(authority: Authority) -> Iterator[Callable[..., RawServer]]:
    """Makes scripted servers that end with the test; `tls=False` for plain HTTP."""
    servers: list[RawServer] = []

    def make(*, tls: bool = True, context: Any = None, **kwargs: Any) -> RawServer:
        if context is None and tls:
            context = authority.server_context()
        server = RawServer(context, **kwargs)
        server.__enter__()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()
    broken = [error for server in servers for error in server.errors]
    assert not broken, f"a test's own handler failed: {broken!r}"


@pytest.fixture
def dcode(tmp_path: Path, authority: Authority) -> Dcode:
    """A private world in which to run `dcode`."""
    return Dcode(tmp_path, authority.ca_file)


@pytest.fixture(scope="session")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded library that notes look-ups and connections."""
    library = tmp_path_factory.mktemp("witness") / "witness.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(WITNESS), "-ldl"], check=True
    )
    return library
