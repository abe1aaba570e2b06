"""Where results go: a table for the reader, a JSON file in bench/results/ for programs."""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).resolve().parent / "results"


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


def write(name: str, report: dict[str, Any]) -> Path:
    """Write `report` with what the reader has to know about the machine."""
    DIRECTORY.mkdir(exist_ok=True)
    path = DIRECTORY / f"{name}.json"
    machine = {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": platform.machine(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path.write_text(json.dumps({"machine": machine, **report}, indent=2), encoding="utf-8")
    return path
