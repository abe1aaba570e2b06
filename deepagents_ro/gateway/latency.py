"""How long the gateway's tools take: N calls of each, percentiles, failures.

Only tools that the gateway itself calls read-only are called. All times are in milliseconds.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.tools import BaseTool

from .document import Document
from .load import GatewayTools
from .schemas import Checker

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Sample:
    """The calls of one tool: times of the ones that went well, in the order they ended."""

    tool: str
    times_ms: tuple[float, ...]
    failures: int
    errors: tuple[str, ...] = ()

    def percentile(self, percent: int) -> float | None:
        """The nearest-rank percentile; `None` without a single success."""
        return nearest_rank(self.times_ms, percent)

    def as_json(self) -> Document:
        """The sample for programs."""
        return {
            "tool": self.tool,
            "calls": len(self.times_ms) + self.failures,
            "failures": self.failures,
            "errors": list(self.errors),
            **{f"p{percent}_ms": _rounded(self.percentile(percent)) for percent in PERCENTILES},
            "min_ms": _rounded(min(self.times_ms, default=None)),
            "max_ms": _rounded(max(self.times_ms, default=None)),
        }


@dataclass
class LatencyReport:
    """Samples of the tools that were called, and why the others were not."""

    samples: list[Sample] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> Document:
        """The report for programs."""
        return {
            "tools": [sample.as_json() for sample in self.samples],
            "skipped": [{"tool": tool, "reason": why} for tool, why in self.skipped.items()],
        }


def nearest_rank(times: Sequence[float], percent: int) -> float | None:
    """The smallest time that at least `percent` per cent of `times` do not exceed."""
    if not times:
        return None
    ordered = sorted(times)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


async def measure(
    loaded: GatewayTools,
    arguments: Mapping[str, Mapping[str, object]] | None = None,
    *,
    calls: int = 20,
    in_flight: int = 1,
    progress: Callable[[str, int], None] = lambda _tool, _done: None,
) -> LatencyReport:
    """Call each loaded read-only tool `calls` times with its arguments.

    Args:
        arguments: by tool; a tool without an entry is called with the sample in the table, or
            with none if it requires none.
        in_flight: so many calls at the same time.
        progress: told the tool and how many of its calls have ended.
    """
    report = LatencyReport()
    arguments = arguments or {}
    sure = loaded.read_only()
    for name, tool in loaded.tools.items():
        sample = loaded.allocation.settings(name).sample
        given = dict(arguments.get(name, sample or {}))
        schema = tool.args_schema
        wrong = Checker(schema).complaint(given) if isinstance(schema, dict) else ""
        if name not in sure:
            report.skipped[name] = "the gateway does not call it read-only"
        elif name not in arguments and sample is None and _required(tool):
            report.skipped[name] = (
                f"no arguments given; use -a '{name}={{...}}' or a sample in the table"
            )
        elif wrong:
            report.skipped[name] = f"its arguments do not fit its schema: {wrong}"
        else:
            report.samples.append(await _sample(tool, given, calls, in_flight, progress))
    for name in arguments:
        if name not in loaded.tools:
            report.skipped[name] = "not loaded"
    return report


async def _sample(
    tool: BaseTool,
    arguments: Document,
    calls: int,
    in_flight: int,
    progress: Callable[[str, int], None],
) -> Sample:
    times: list[float] = []
    errors: list[str] = []
    left = iter(range(calls))

    async def caller() -> None:
        for _turn in left:
            started = time.perf_counter()
            answer = await tool.ainvoke(arguments)
            spent_ms = (time.perf_counter() - started) * 1000.0
            if answer["ok"]:
                times.append(spent_ms)
            else:
                errors.append(answer["error"]["message"])
            progress(tool.name, len(times) + len(errors))

    async with asyncio.TaskGroup() as group:
        for _caller in range(max(1, min(in_flight, calls))):
            group.create_task(caller())
    distinct = tuple(dict.fromkeys(errors))[:3]
    return Sample(tool.name, tuple(times), len(errors), distinct)


def _required(tool: BaseTool) -> list[str]:
    schema = tool.args_schema
    return list(schema.get("required", [])) if isinstance(schema, dict) else []


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
