"""No call's end, however it comes, is seen by another call."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Any

import pytest

from deepagents_ro.gateway import Allocation, ToolSettings, load_gateway_tools, sessions

from . import random_calls
from .conftest import stand_in_config
from .stand_in import READ_ONLY, StandIn, entry

TABLE = Allocation.of({"main": ["text_normalize"]})
HASTY = Allocation.of(
    {"main": ["text_normalize", "geo_create_buffer"]},
    tools=[ToolSettings("geo_create_buffer", timeout_s=0.05)],
)


def test_random_calls_over_one_pool() -> None:
    seconds = float(os.environ.get("GATEWAY_RANDOM_SECONDS", "10"))
    seed = int(os.environ.get("GATEWAY_RANDOM_SEED", "20261130"))
    logging.disable(logging.WARNING)  # each failure is expected, and logged
    try:
        counts = random_calls.run(seconds, seed)
    finally:
        logging.disable(logging.NOTSET)
    for kind in ("innocent, right", "unsendable", "limit", "cancelled", "dropped", "expiries"):
        assert counts[kind] > 0, counts
    print(f"\nseed {seed}, {seconds:g} s: {dict(sorted(counts.items()))}")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"t": "cut \ud83d"}, "Unicode"),
        ({"\udc00": 1}, "Unicode"),
        (random_calls.deep(64), "64 levels"),
        (random_calls.deep(500), "64 levels"),
        ({"t": "x" * (2**20)}, "1 MiB"),
        ({"t": float("nan")}, "JSON form"),
        ({"t": {1, 2}}, "JSON form"),
        ({"t": {1: "a", "1": "b"}}, "two keys"),
    ],
    ids=["surrogate", "surrogate-key", "depth", "recursion", "size", "nan", "set", "equal-keys"],
)
async def test_what_cannot_be_sent_is_answered_at_once(
    stand_in: StandIn, arguments: dict[str, Any], why: str
) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        slow = asyncio.create_task(tool.ainvoke({"n": 1, "delay_s": 0.3}))
        await asyncio.sleep(0)
        answer = await tool.ainvoke(arguments)
        assert not slow.done()
        assert not answer["ok"]
        assert answer["error"]["message"].startswith("The arguments were not sent: ")
        assert why in answer["error"]["message"]
        assert (await slow)["data"] == {"n": 1}
    assert stand_in.counts["tools/call"] == 1


@pytest.mark.parametrize(
    "arguments",
    [random_calls.deep(62), {"t": "x" * (2**20 - 9)}, {"t": "שלום \U0001f600 \ud83d\ude00"}],
    ids=["depth", "size", "pair"],
)
async def test_what_is_just_within_the_bounds_is_sent(
    stand_in: StandIn, arguments: dict[str, Any]
) -> None:
    if "t" in arguments:
        arguments = {"t": arguments["t"].encode("utf-16", "surrogatepass").decode("utf-16")}
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        assert (await gateway.tools["text_normalize"].ainvoke(arguments))["ok"]


async def test_a_busy_loop_costs_nobody_an_answer_that_is_there(stand_in: StandIn) -> None:
    config = stand_in_config(stand_in, timeout_s=2.0)
    async with load_gateway_tools(config, allocation=TABLE) as gateway:
        begun = time.monotonic()
        calls = [
            asyncio.create_task(gateway.tools["text_normalize"].ainvoke({"n": n, "delay_s": 0.05}))
            for n in range(1, 11)
        ]
        await stand_in.seen("tools/call", 10)
        while stand_in.answered < 10 or time.monotonic() < begun + 2.2:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop is busy until the limit has passed
        answers = await asyncio.gather(*calls)
    assert [answer["data"] for answer in answers] == [{"n": n} for n in range(1, 11)]


async def test_limits_and_cancellations_leave_the_session_alone(stand_in: StandIn) -> None:
    stand_in.entries.append(entry("x/geo_create_buffer"))
    async with load_gateway_tools(stand_in_config(stand_in), allocation=HASTY) as gateway:
        good, hasty = gateway.tools["text_normalize"], gateway.tools["geo_create_buffer"]
        quick = [asyncio.create_task(good.ainvoke({"n": n, "delay_s": 0.1})) for n in range(1, 9)]
        late = [asyncio.create_task(hasty.ainvoke({"n": 100, "delay_s": 30})) for _ in range(4)]
        dropped = [asyncio.create_task(good.ainvoke({"n": n, "delay_s": 0.1})) for n in (201, 202)]
        await asyncio.sleep(0.02)
        for task in dropped:
            task.cancel()
        assert all(answer["ok"] for answer in await asyncio.gather(*quick))
        for task in late:
            assert (await task)["error"]["message"] == "The gateway did not answer in time."
    assert stand_in.counts["initialize"] == 1


async def test_twenty_calls_on_an_expired_session(stand_in: StandIn) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        stand_in.expire()
        answers = await asyncio.gather(*(tool.ainvoke({"n": n}) for n in range(1, 21)))
    assert all(answer["ok"] for answer in answers)
    assert stand_in.counts["initialize"] == 2
    assert set(stand_in.executed.values()) == {1}
    assert stand_in.sessions == set()


async def test_a_call_that_was_sent_is_not_repeated(stand_in: StandIn) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        answer = await tool.ainvoke({"n": 7, "drop": True})
        assert "connection was lost" in answer["error"]["message"]
        assert (await tool.ainvoke({"n": 8}))["ok"]
    assert stand_in.executed == {7: 1, 8: 1}
    assert stand_in.counts["initialize"] == 1


async def test_the_caller_that_opens_a_session_may_go_away(stand_in: StandIn) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        stand_in.expire()
        first = asyncio.create_task(tool.ainvoke({"n": 1}))
        await stand_in.seen("initialize", 2)
        others = [asyncio.create_task(tool.ainvoke({"n": n})) for n in (2, 3)]
        await asyncio.sleep(0)
        first.cancel()
        assert all(answer["ok"] for answer in await asyncio.gather(*others))
    assert stand_in.counts["initialize"] == 2


async def test_an_opening_that_fails_is_final_for_nobody_who_came_later(stand_in: StandIn) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        stand_in.expire()
        stand_in.hold_initialize()
        first = asyncio.create_task(tool.ainvoke({"n": 1}))
        await stand_in.seen("initialize", 2)
        later = [asyncio.create_task(tool.ainvoke({"n": n})) for n in (2, 3)]
        await asyncio.sleep(0.01)
        stand_in.restart()
        assert "connection was lost" in (await first)["error"]["message"]
        assert all(answer["ok"] for answer in await asyncio.gather(*later))
    assert stand_in.counts["initialize"] == 3
    assert stand_in.executed == {2: 1, 3: 1}


def test_the_loop_that_opens_a_session_may_end(stand_in: StandIn) -> None:
    gateway = asyncio.run(
        load_gateway_tools(stand_in_config(stand_in), allocation=TABLE)  # type: ignore[arg-type]
    )
    tool = gateway.tools["text_normalize"]
    stand_in.expire()

    async def begin() -> None:
        task = asyncio.create_task(tool.ainvoke({"n": 1}))
        await stand_in.seen("initialize", 2)
        task.cancel()

    asyncio.run(begin())
    assert asyncio.run(tool.ainvoke({"n": 2}))["ok"]
    gateway.close()
    assert stand_in.executed[2] == 1


async def test_hints_are_judged_again_with_every_list(
    stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        stand_in.entries[0]["annotations"] = {"readOnlyHint": False, "destructiveHint": True}
        stand_in.expire()
        with caplog.at_level(logging.WARNING, "deepagents_ro.gateway"):
            answers = [await tool.ainvoke({"n": n}) for n in (1, 2)]
        for answer in answers:
            message = answer["error"]["message"]
            assert message == "The tool is refused now: its hints do not say read-only."
        assert len([line for line in caplog.messages if "refused from now on" in line]) == 1
        stand_in.entries[0]["annotations"] = READ_ONLY
        stand_in.expire()
        assert not (await tool.ainvoke({"n": 3}))["ok"]  # nothing is asked before the list is old
    assert stand_in.executed == {}


async def test_an_old_list_is_read_again(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        await tool.ainvoke({"n": 1})
        assert stand_in.counts["tools/list"] == 1
        monkeypatch.setattr(sessions, "LIST_FRESH_S", 0.0)
        stand_in.entries.clear()
        answer = await tool.ainvoke({"n": 2})
        assert "does not list it" in answer["error"]["message"]
    assert stand_in.counts["initialize"] == 1


async def test_a_list_that_cannot_be_read_again_costs_the_call_and_not_the_session(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        slow = asyncio.create_task(tool.ainvoke({"n": 1, "delay_s": 0.2}))
        await stand_in.seen("tools/call", 1)
        monkeypatch.setattr(sessions, "LIST_FRESH_S", 0.0)
        stand_in.status["tools/list"] = (503, "text/plain", b"busy")
        answer = await tool.ainvoke({"n": 2})
        assert "HTTP 503" in answer["error"]["message"]
        assert (await slow)["ok"]
        del stand_in.status["tools/list"]
        assert (await tool.ainvoke({"n": 3}))["ok"]
    assert stand_in.counts["initialize"] == 1


async def test_an_interceptor_cannot_call_what_is_not_allowed(stand_in: StandIn) -> None:
    stand_in.entries.append(entry("utils__trino_run_query"))

    async def other_name(request: Any, handler: Any) -> Any:
        return await handler(request.override(name="utils__trino_run_query"))

    async with load_gateway_tools(
        stand_in_config(stand_in), allocation=TABLE, interceptors=[other_name]
    ) as gateway:
        answer = await gateway.tools["text_normalize"].ainvoke({"n": 1})
    assert "runs SQL" in answer["error"]["message"]
    assert stand_in.executed == {}
