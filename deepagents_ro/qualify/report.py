"""What people see while the proof runs, and the report that stays."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

import deepagents_ro

DISTRIBUTIONS = (
    "deepagents-code",
    "mcp",
    "langchain-mcp-adapters",
    "langchain-core",
    "httpx",
    "deepagents-ro",
)


@dataclass(frozen=True, slots=True)
class Proof:
    """One promise that was put to the proof."""

    name: str
    mode: str
    """Mode of tool disclosure; empty where it is about all runs."""
    claim: str
    broken: str | None
    """How it is broken; `None` when it is kept."""
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mode": self.mode,
            "claim": self.claim,
            "kept": self.broken is None,
            "broken": self.broken,
            "seconds": round(self.seconds, 3),
        }


@dataclass(slots=True)
class Report:
    """The whole qualification, in the order in which its promises were proved."""

    upstream: bool
    command: list[str]
    proofs: list[Proof] = field(default_factory=list)
    verdict: str = ""
    complete: bool = False
    """Whether every promise was put to the proof."""
    _started: float = field(default_factory=time.monotonic)

    @property
    def broken(self) -> list[Proof]:
        return [proof for proof in self.proofs if proof.broken is not None]

    @property
    def ok(self) -> bool:
        return self.complete and not self.broken

    def as_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "command": "qualify",
            "ok": self.ok,
            "verdict": self.verdict,
            "upstream": self.upstream,
            "complete": self.complete,
            "dcode": self.command,
            "python": platform.python_version(),
            "platform": f"{sys.platform} {platform.machine()}",
            "versions": versions(),
            "seconds": round(time.monotonic() - self._started, 1),
            "promises": [proof.as_json() for proof in self.proofs],
        }

    def text(self) -> str:
        """The report as JSON, ASCII, with a newline at its end."""
        return json.dumps(self.as_json(), indent=2) + "\n"

    def write(self, path: Path) -> None:
        """Put the report in the place of `path`, whole or not at all. Raises `OSError`."""
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            new.write_text(self.text(), encoding="ascii")
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """The installed versions of DCode and of the stack below it."""
    found = {"deepagents-ro": deepagents_ro.__version__}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


class Screen:
    """Speaks to people on `stream`: a live bar on a terminal, one line a promise elsewhere."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True, quiet=quiet)
        self._progress: Progress | None = None
        self._task: Any = None

    @contextlib.contextmanager
    def proving(self, total: int) -> Iterator[None]:
        """While this lasts, `show` moves the bar of `total` promises."""
        if not self._console.is_terminal:
            yield
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as progress:
            self._progress = progress
            self._task = progress.add_task("proving", total=total)
            yield
        self._progress = None

    def show(self, proof: Proof) -> None:
        """One promise has been proved."""
        word, style = ("kept  ", "green") if proof.broken is None else ("BROKEN", "bold red")
        where = f" [{proof.mode}]" if proof.mode else ""
        line = f"{proof.seconds:6.2f} s  {proof.name}{where}: {proof.claim}"
        self._line(word, style, line)
        if proof.broken is not None:
            broken = proof.broken.replace("\n", f"\n{'':17}")
            self._line("      ", "", f"          {broken}")
        if self._progress is not None:
            self._progress.advance(self._task)

    def say(self, text: str, style: str = "") -> None:
        """A line of its own."""
        self._console.print(text, style=style or None, markup=False)

    def _line(self, word: str, style: str, rest: str) -> None:
        self._console.print(Text.assemble((word, style), f" {rest}"))
