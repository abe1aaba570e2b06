"""Random calls, cancellations, time limits, deaths, expiries and restarts over one pool.

    make gateway-random SECONDS=600

Holds: every call that nothing was done to is answered, and with its own answer; each `tools/call`
reaches the server at most once; there is never more than one session, and none is left. Several
event loops and threads use the same tools at the same time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from typing import Any

from deepagents_ro.gateway import (
    Allocation,
    GatewayConfig,
    GatewayTools,
    ToolSettings,
    load_gateway_tools,
)

from .stand_in import KEY, StandIn, entry

WORKERS = 8
GOOD, HASTY = "text_normalize", "geo_create_buffer"
TABLE = Allocation.of({"main": [GOOD, HASTY]}, tools=[ToolSettings(HASTY, timeout_s=0.03)])


def deep(levels: int) -> dict[str, Any]:
    value: Any = 0
    for _level in range(levels):
        value = {"a": value}
    return {"a": value}


UNSENDABLE: list[dict[str, Any]] = [{"t": "\ud83d"}, deep(100), {"t": "x" * 1_100_000}, {"t": {1}}]


class Run:
    """One run; `counts` says what was done."""

    def __init__(self, seed: int) -> None:
        self.server = StandIn([entry(f"utils__{GOOD}"), entry(f"utils__{HASTY}")])
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.numbers = itertools.count(1)
        self.restarts = 0
        self.expiries = 0
        self.faults: list[str] = []
        self.troubled = time.monotonic()
        self.tools: GatewayTools

    def check(self, number: int, answer: Any, restarts: int, expiries: int) -> None:
        """The answer to an innocent call."""
        if answer["ok"] and answer["data"] == {"n": number}:
            self.counts["innocent, right"] += 1
            if self.server.executed[number] != 1:
                self.faults.append(f"{number} ran {self.server.executed[number]} times")
        elif restarts != self.restarts or restarts % 2:
            self.counts["cut by a restart"] += 1  # it was on the connection that was cut
        elif self.expiries - expiries > 2:  # two and a half: one may have been before the call
            self.counts["refused on three sessions"] += 1
        else:
            since = time.monotonic() - self.troubled
            ran = self.server.executed[number]
            self.faults.append(f"{number}, ran {ran} times, {since:.4f} s after trouble: {answer}")

    async def innocent(self, choose: random.Random) -> None:
        number, restarts, expiries = next(self.numbers), self.restarts, self.expiries
        arguments = {
            "n": number,
            "delay_s": choose.choice([0, 0, 0.001, 0.01]),
            "stream": choose.random() < 0.3,
        }
        answer = await self.tools.tools[GOOD].ainvoke(arguments)
        self.check(number, answer, restarts, expiries)

    async def guilty(self, choose: random.Random) -> None:
        """A call that something is done to; it must end, and reach the server once at most."""
        kind = choose.choice(["unsendable", "limit", "cancelled", "dropped"])
        self.counts[kind] += 1
        number = next(self.numbers)
        if kind == "unsendable":
            bad = {**choose.choice(UNSENDABLE), "n": number}
            answer = await self.tools.tools[GOOD].ainvoke(bad)
            if answer["ok"] or self.server.executed[number]:
                self.faults.append(f"{number} was sent")
        elif kind == "limit":
            delay_s = choose.choice([0.025, 0.03, 0.031, 0.035, 0.2])
            await self.tools.tools[HASTY].ainvoke({"n": number, "delay_s": delay_s})
        elif kind == "cancelled":
            arguments = {"n": number, "delay_s": choose.choice([0, 0.005])}
            task = asyncio.create_task(self.tools.tools[GOOD].ainvoke(arguments))
            await asyncio.sleep(choose.random() * 0.01)
            task.cancel()
            await asyncio.wait([task])
        else:
            answer = await self.tools.tools[GOOD].ainvoke({"n": number, "drop": True})
            if answer["ok"]:
                self.faults.append(f"{number} was answered by nobody")

    async def worker(self, seed: int, until: float) -> None:
        choose = random.Random(seed)
        while time.monotonic() < until and not self.faults:
            if choose.random() < 0.02:
                time.sleep(choose.random() * 0.04)  # noqa: ASYNC251 - a busy loop is the point
            await (self.guilty(choose) if choose.random() < 0.3 else self.innocent(choose))

    def short_loops(self, until: float) -> None:
        """An event loop a call, in a thread."""
        choose = random.Random(self.random.random())
        while time.monotonic() < until and not self.faults:
            asyncio.run(self.innocent(choose))
            self.counts["loops"] += 1

    def synchronous(self, until: float) -> None:
        """No event loop at all."""
        while time.monotonic() < until and not self.faults:
            number, restarts, expiries = next(self.numbers), self.restarts, self.expiries
            answer = self.tools.tools[GOOD].invoke({"n": number})
            self.check(number, answer, restarts, expiries)
            self.counts["sync"] += 1

    def trouble(self, until: float) -> None:
        """Expiries and restarts, now and then."""
        choose = random.Random(self.random.random())
        while time.monotonic() < until and not self.faults:
            time.sleep(choose.random() * 0.4)
            if choose.random() < 0.3:
                self.restarts += 1  # odd while connections are being cut
                self.server.restart()
                self.troubled = time.monotonic()
                self.restarts += 1
                self.counts["restarts"] += 1
            else:
                self.troubled = time.monotonic()
                self.expiries += 1
                self.server.expire()
                self.expiries += 1
                self.counts["expiries"] += 1

    async def main(self, seconds: float) -> None:
        config = GatewayConfig(url=self.server.url, api_key=KEY, timeout_s=30.0)
        self.tools = await load_gateway_tools(config, allocation=TABLE)
        assert len(self.tools.tools) == 2, self.tools
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=target, args=(until,))
            for target in (self.short_loops, self.synchronous, self.trouble)
        ]
        for thread in threads:
            thread.start()
        seeds = [self.random.randrange(2**32) for _worker in range(WORKERS)]
        await asyncio.gather(*(self.worker(seed, until) for seed in seeds))
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await self.tools.aclose()

    def finish(self) -> None:
        """What holds at the end."""
        repeated = {number: times for number, times in self.server.executed.items() if times > 1}
        assert not repeated, repeated
        assert not self.faults, self.faults[:5]
        events = 1 + self.counts["restarts"] + self.counts["expiries"]
        assert self.server.counts["initialize"] <= events, (self.server.counts, events)
        assert self.server.sessions == set(), self.server.sessions


def run(seconds: float, seed: int) -> Counter[str]:
    """One run; AssertionError when something did not hold."""
    this = Run(seed)
    try:
        asyncio.run(this.main(seconds))
        this.finish()
    finally:
        this.server.close()
    this.counts["tools/call"] = this.server.counts["tools/call"]
    this.counts["sessions"] = this.server.counts["initialize"]
    return this.counts
