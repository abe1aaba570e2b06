"""Where results go: a table for the reader, a JSON file in bench/results/ for programs."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).resolve().parent / "results"
PACKAGES = ("deepagents-code", "deepagents-ro", "langchain-mcp-adapters", "mcp", "httpx")


def say(text: str) -> None:
    """One line for the reader, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print `rows` under `head`; the first column left, the others right."""
    width = [
        max(len(row[column]) for row in [head, *rows] if column < len(row))
        for column in range(len(head))
    ]
    for row in [head, *rows]:
        first = row[0].ljust(width[0])
        rest = (cell.rjust(width[n]) for n, cell in enumerate(row[1:], 1))
        say("  " + "  ".join([first, *rest]).rstrip())
    say("")


def percentile(values: list[float], percent: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def machine() -> dict[str, Any]:
    """What the reader of a report has to know; `load` tells a busy machine from a quiet one."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": processor(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        "packages": {name: version(name) for name in PACKAGES},
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def processor() -> str:
    """The model as the kernel names it, else the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def version(package: str) -> str | None:
    """Of an installed package; None when it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def write(name: str, report: dict[str, Any]) -> Path:
    """Write `report` with what the reader has to know about the machine."""
    DIRECTORY.mkdir(exist_ok=True)
    path = DIRECTORY / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **report}, indent=2), encoding="utf-8")
    return path
