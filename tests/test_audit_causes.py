"""Why a server did not load: one word a cause, in this process."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from deepagents_ro import audit, causes, host
from deepagents_ro.causes import Cause
from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.raw_server import RawServer, http
from deepagents_ro.reasons import Reason, ToolReason

Make = Callable[..., RawServer]


@contextmanager
def one_answer(answer: bytes) -> Iterator[int]:
    """A port that says this to one connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _address = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.fixture(autouse=True)
def trust(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    monkeypatch.setenv("NO_PROXY", "*")


def probed(url: str) -> Cause:
    return asyncio.run(causes.probe(url))


def test_what_a_head_meets(authority: Authority, raw: Make) -> None:
    other_name = raw(context=authority.other_name_context("other.test"))
    cases = {
        "http://no-such-host.invalid/": Cause(Reason.UNKNOWN_HOST),
        "http://127.0.0.1:1/": Cause(Reason.REFUSED_PORT),
        other_name.url: Cause(Reason.CERTIFICATE),
        raw(handlers={"HEAD": http(501)}).url: Cause(Reason.HEAD_5XX, "HTTP 501"),
        raw(handlers={"HEAD": http(500)}).url: Cause(Reason.HEAD_5XX, "HTTP 500"),
        raw(handlers={"HEAD": http(499)}).url: Cause(Reason.INTERNAL),  # DCode would not mind
        "gopher://127.0.0.1/": Cause(Reason.BAD_URL),
    }
    assert {url: probed(url) for url in cases} == cases
    for scheme, answer, reason in (
        ("http", b"", Reason.CLOSED_BY_SERVER),
        ("http", b"hello\r\n\r\n", Reason.NOT_HTTP),
        ("https", b"HTTP/1.1 400 No\r\n\r\n", Reason.TLS),
    ):
        with one_answer(answer) as port:
            assert probed(f"{scheme}://127.0.0.1:{port}/") == Cause(reason)


def test_a_head_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "PROBE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert probed(f"http://127.0.0.1:{listener.getsockname()[1]}/") == Cause(Reason.SILENT)


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        (
            {"url": "https://${RO_NO_A}/${RO_NO_B}"},
            Cause(Reason.UNSET_VARIABLE, "RO_NO_A, RO_NO_B"),
        ),
        ({"command": "sh", "env": {"K": "${RO_NO_A}"}}, Cause(Reason.UNSET_VARIABLE, "RO_NO_A")),
        ({"command": "sh", "args": ["${RO_NO_A:-x}", "${RO_SET}"]}, Cause(Reason.INTERNAL)),
        ({"command": "sh", "args": ["${RO_SET"]}, Cause(Reason.BAD_ENTRY)),
        ({"command": "sh", "args": [5]}, Cause(Reason.BAD_ENTRY)),
        ({"command": "no-such-command-at-all"}, Cause(Reason.COMMAND_NOT_FOUND)),
        ({"url": "http://127.0.0.1:1/"}, Cause(Reason.REFUSED_PORT)),
    ],
)
def test_what_is_skipped(
    entry: dict[str, Any], cause: Cause, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RO_SET", "")
    assert asyncio.run(causes.of_skipped("s", entry)) == cause


def test_a_version_that_is_not_spoken() -> None:
    def refused(version: bytes | None) -> Cause:
        return causes.of_refused("s", SimpleNamespace(version=lambda _server: version))  # type: ignore[arg-type]

    assert refused(b'"1999-01-01"') == Cause(Reason.PROTOCOL_VERSION)
    assert refused(b'"2025-06-18"') == Cause(Reason.BAD_HANDSHAKE)
    assert refused(None) == Cause(Reason.BAD_HANDSHAKE)


def test_a_silent_server_has_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit ends when the others have answered and the silent one's time is over."""
    monkeypatch.setattr(audit, "SERVER_SECONDS", 0.05)
    monkeypatch.setattr(audit, "LOOK_SECONDS", 0.01)

    class Asking(audit.Audit):
        def __init__(self) -> None:
            self.names = ["quick", "silent", "slow to start"]
            self.exchanges = SimpleNamespace(asked={"silent": time.monotonic()})  # type: ignore[assignment]
            self.sources = SimpleNamespace(faults=[])  # type: ignore[assignment]
            self.ended: dict[str, bool] = {}

        async def ask(self, name: str) -> None:
            if name == "silent":
                await asyncio.Event().wait()
            if name == "slow to start":  # this process's time is not the server's
                await asyncio.sleep(0.2)

        def row(self, name: str, task: asyncio.Future[None]) -> audit.ServerRow:
            self.ended[name] = task.done()
            return audit.ServerRow(name, "http", Cause(Reason.NONE))

    async def run() -> tuple[Asking, list[str]]:
        told: list[str] = []
        asking = Asking()
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await asyncio.wait_for(asking.run(never, told.append), 10)
        return asking, told

    asking, told = asyncio.run(run())
    assert asking.ended == {"quick": True, "silent": False, "slow to start": True}
    assert told == ["quick", "slow to start"]


def test_what_is_around_a_tool() -> None:
    def row(name: str, *tools: str, lost: bool = False, why: Any = Reason.NONE) -> audit.ServerRow:
        found = [audit.ToolRow(tool, callable=True, reason=audit.READ_ONLY) for tool in tools]
        return audit.ServerRow(name, "http", Cause(why), found, lost)

    rows = audit.settle(
        [
            row("a", "a_b_c", "a_x", "a_d_y", "a_e_z"),
            row("a_b", "a_b_c"),
            row("a_d", lost=True, why=Reason.SILENT),
            row("a_e", why=Reason.DISABLED),
            row("q", "q_page_one", lost=True, why=Reason.HTTP_5XX),
        ]
    )
    assert {tool.name: tool.reason for each in rows for tool in each.tools} == {
        "a_b_c": ToolReason.AMBIGUOUS.word,
        "a_x": audit.READ_ONLY,
        "a_d_y": ToolReason.RIVAL_NOT_LOADED.word,
        "a_e_z": audit.READ_ONLY,
        "q_page_one": ToolReason.SERVER_NOT_LOADED.word,
    }


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "text",
        5,
        [],
        {"type": []},
        {"type": {}, "args": 5},
        {"transport": {"a": 1}, "env": "x"},
    ],
)
def test_an_entry_of_any_shape_is_no_fault_of_the_audit(entry: Any) -> None:
    assert host.transport_of(entry) in ("unknown", "stdio")
    assert host.is_valid_entry("a", entry) is False
    assert host.unset_variables(entry) == []
    assert causes.credential_headers(entry) == []


def test_variables_of_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RO_SET", "1")
    entry = {
        "command": "${RO_A}",
        "args": ["${RO_SET}", "${RO_B:-x}", "${RO_C}"],
        "env": {"K": "${RO_A}"},
    }
    assert host.unset_variables(entry) == ["RO_A", "RO_C"]
    assert host.transport_of(entry) == "stdio"
