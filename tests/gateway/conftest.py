"""A real gateway for the tests: an MCP server behind a TLS reverse proxy, two processes."""

from __future__ import annotations

import json
import ssl
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deepagents_ro.gateway import GatewayConfig
from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.helper import Helper

from .reverse_proxy import API_KEY
from .stand_in import KEY, StandIn

HERE = Path(__file__).resolve().parent


class Process(Helper):
    """A server of this directory."""

    def __init__(self, script: str, *arguments: str) -> None:
        super().__init__([sys.executable, str(HERE / script), *arguments])

    def stop(self) -> None:
        """End the server at once; safe to call twice."""
        self.kill()
        super().stop()


class Gateway:
    """The test gateway. `mode(...)` tells it how to behave, `calls()` what it was asked."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        authority = Authority(directory)
        self.ca = authority.ca_file
        self._certificate = authority.cert_file
        self._mode = directory / "mode.json"
        self._log = directory / "proxy.log"
        self._upstream_log = directory / "upstream.log"
        self._upstream = Process("upstream.py", str(self._upstream_log))
        self.mode()
        self._proxy = self._start_proxy(0)
        self.port = self._proxy.port

    def _start_proxy(self, port: int) -> Process:
        return Process(
            "reverse_proxy.py",
            str(self._certificate),
            str(self._upstream.port),
            str(self._mode),
            str(self._log),
            str(port),
        )

    def mode(self, **members: Any) -> None:
        """Behave like this from the next request on, and forget what was asked before."""
        part = self._mode.with_suffix(".part")
        part.write_text(json.dumps(members), encoding="utf-8")
        part.replace(self._mode)
        self._log.write_bytes(b"")
        self._upstream_log.write_bytes(b"")

    def calls(self) -> list[str]:
        """The gateway's names of the tools called since the last `mode`, in order."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return [line.split(" ", 1)[1] for line in lines if line.startswith("call ")]

    def requests(self) -> Counter[str]:
        """HTTP methods since the last `mode`."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return Counter(line for line in lines if not line.startswith("call "))

    def executed(self) -> list[str]:
        """The upstream tools that really ran since the last `mode`."""
        lines = self._upstream_log.read_text(encoding="utf-8").splitlines()
        return [line.split(" ", 1)[1] for line in lines]

    def die(self) -> None:
        """The proxy goes away without a word."""
        self._proxy.stop()

    def revive(self) -> None:
        """Proxy and upstream come back, on the same port, with all sessions forgotten."""
        self._proxy.stop()
        self._upstream.stop()
        self._upstream = Process("upstream.py", str(self._upstream_log))
        self._proxy = self._start_proxy(self.port)

    def config(self, **changes: Any) -> GatewayConfig:
        """A configuration that works, with changes."""
        values = {
            "url": f"https://localhost:{self.port}",
            "api_key": API_KEY,
            "timeout_s": 20.0,
            **changes,
        }
        return GatewayConfig(**values)

    def environment(self) -> dict[str, str]:
        """The same as environment variables."""
        return {
            "JARVIS_GATEWAY_URL": f"https://localhost:{self.port}",
            "JARVIS_API_KEY": API_KEY,
            "UTILS_MCP_TIMEOUT_S": "20",
            "SSL_CERT_FILE": str(self.ca),
        }

    def close(self) -> None:
        """End both processes."""
        self._proxy.stop()
        self._upstream.stop()


@pytest.fixture(scope="module")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("gateway"))
    yield gateway
    gateway.close()


@pytest.fixture
def gateway(gateway_process: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """The module's gateway in its plain mode, trusted by this process."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(gateway_process.ca))
    gateway_process.mode()
    return gateway_process


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    """A gateway in a thread of this process, with one tool."""
    server = StandIn()
    yield server
    server.close()


def stand_in_config(server: StandIn, **changes: Any) -> GatewayConfig:
    """A configuration for it."""
    values: dict[str, Any] = {"url": server.url, "api_key": KEY, "timeout_s": 10.0, **changes}
    return GatewayConfig(**values)


def stock_transport(ca: Path) -> httpx.AsyncBaseTransport:
    """httpx's own transport, for comparison with the C one."""
    context = ssl.create_default_context(cafile=str(ca))
    return httpx.AsyncHTTPTransport(verify=context, limits=httpx.Limits(max_connections=200))
