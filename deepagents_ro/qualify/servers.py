"""The servers of one qualification, and what they saw."""

from __future__ import annotations

import itertools
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from .journal import Journal
from .lab.authority import Authority
from .lab.proxy import ConnectProxy, Tripwire
from .lab.sdk_server import SDKServer
from .scripted import PLACEHOLDER, REAL_TOKEN, ScriptedServer

# Resolved by nobody: only the proxy knows where it leads.
PROXIED_HOST = "worker-broker.invalid"


class Lab:
    """All servers of one qualification; a context manager. `host` is the address they listen on.

    `managed` says that a managed runtime is in what is proved. Raises `OSError` and `RuntimeError`.
    """

    def __init__(self, host: str, *, managed: bool = False) -> None:
        self.host = host
        self.managed = managed
        self.journal = Journal()
        self.replaced = 0
        """Placeholders in whose place the proxy has put the token."""
        self._runs = itertools.count(1)
        with ExitStack() as stack:
            directory = tempfile.TemporaryDirectory(prefix="deepagents-ro-qualify-")
            self.root = Path(stack.enter_context(directory))
            self._serve(stack)
            self._stack = stack.pop_all()

    def _serve(self, stack: ExitStack) -> None:
        host = self.host
        self.authority = Authority(self.root, [host, "localhost", PROXIED_HOST])
        self.stranger = Authority(self.root / "stranger", [host])
        self.leaf = Authority.self_signed(self.root, host)
        self.tripwire = stack.enter_context(Tripwire(host))
        self.raw = stack.enter_context(ScriptedServer(self.journal, self.authority, host))
        self.by_itself = stack.enter_context(ScriptedServer(self.journal, self.leaf, host))
        self.proxy = stack.enter_context(
            ConnectProxy(
                terminate=(self.authority.server_context(), self.authority.client_context()),
                rewrite=self._put_token,
                routes={PROXIED_HOST: (host, self.raw.port)},
                host=host,
            )
        )
        server = SDKServer(self.authority.cert_file, self.root / "sdk.log", host)
        self.sdk = stack.enter_context(server)
        self.journal.follow(self.sdk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self._stack.close()

    def _put_token(self, data: bytes) -> bytes:
        """So the token is in the proxy and at the server, never in the process of the call."""
        self.replaced += data.count(PLACEHOLDER.encode())
        return data.replace(PLACEHOLDER.encode(), REAL_TOKEN.encode())

    def name_run(self) -> str:
        """A name for one run; no name is part of another."""
        return f"run-{next(self._runs):04d}"

    @property
    def proxied_url(self) -> str:
        """The raw server behind the placeholder's proxy."""
        return f"https://{PROXIED_HOST}/mcp"
