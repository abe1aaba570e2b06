"""A conversion under way is ended by the deadline alone, however long it takes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from deepagents_ro.call import Denied, Run, supervise
from deepagents_ro.host import SERVER_MARKER

HOUR = 3600.0


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time the test moves."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class Converter:
    """DCode's wrapper in a conversion that ends when the test says so."""

    def __init__(self, message: Any) -> None:
        self.name = "s_t"
        self.metadata = {SERVER_MARKER: "s"}
        self.message = message
        self.started = asyncio.Event()
        self.finish = asyncio.Event()

    async def ainvoke(self, _request: dict[str, Any]) -> Any:
        self.started.set()
        await self.finish.wait()
        if isinstance(self.message, Exception):
            raise self.message
        return self.message


@pytest.fixture
def loop() -> Iterator[Clock]:
    loop = Clock()
    yield loop
    loop.close()


@pytest.fixture
def guard() -> Iterator[Any]:
    """A guard whose deadline comes when the test writes to `alarm`."""
    cancel_fd, alarm = os.pipe()
    yield SimpleNamespace(cancel_fd=cancel_fd, alarm=alarm)
    os.close(cancel_fd)
    os.close(alarm)


def one(outcome: str) -> Run:
    """A call whose answer is on record."""
    work = object.__new__(Run)
    recorded = asyncio.Event()
    recorded.set()

    async def settle_auth() -> None:
        return None

    work.exchanges = SimpleNamespace(recorded=recorded, settle_auth=settle_auth)  # type: ignore[assignment]
    entry = b'{"name":"t"}'
    work.worker = SimpleNamespace(outcome=lambda: outcome, entries=lambda _server: [entry])  # type: ignore[assignment]
    return work


MESSAGE = SimpleNamespace(status="success", content=[])


async def idle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_conversion_takes_its_time(loop: Clock, guard: Any) -> None:
    async def scenario() -> None:
        converter = Converter(MESSAGE)
        work = one("ok")
        job = asyncio.ensure_future(supervise(work, work.invoke(converter), guard))
        await converter.started.wait()
        loop.ahead += HOUR
        await idle()
        assert not job.done()
        converter.finish.set()
        assert await job is MESSAGE.content

    loop.run_until_complete(scenario())


def test_the_deadline_ends_it_as_a_timeout(loop: Clock, guard: Any) -> None:
    async def scenario() -> None:
        converter = Converter(MESSAGE)
        work = one("ok")
        job = asyncio.ensure_future(supervise(work, work.invoke(converter), guard))
        await converter.started.wait()
        os.write(guard.alarm, b"x")
        with pytest.raises(Denied) as denied:
            await job
        assert denied.value.code == "timeout"
        converter.finish.set()  # abandoned, not cancelled: let it end
        await idle()

    loop.run_until_complete(scenario())


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (SimpleNamespace(status="error", content=[]), "malformed_result"),
        (SimpleNamespace(status="success", content="text"), "malformed_result"),
        (NotImplementedError(), "runtime_failure"),
    ],
)
def test_what_it_ends_with_counts(loop: Clock, message: Any, code: str) -> None:
    async def scenario() -> None:
        converter = Converter(message)
        converter.finish.set()
        with pytest.raises(Denied) as denied:
            await one("ok").invoke(converter)
        assert denied.value.code == code

    loop.run_until_complete(scenario())


def test_a_recorded_failure_waits_for_no_conversion(loop: Clock) -> None:
    async def scenario() -> None:
        converter = Converter(MESSAGE)
        with pytest.raises(Denied) as denied:
            await one("tool_failed").invoke(converter)
        assert denied.value.code == "tool_failed"
        converter.finish.set()
        await idle()

    loop.run_until_complete(scenario())
