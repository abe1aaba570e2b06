"""Runs the real, patched `dcode` in a world of its own and judges what it prints.

The laboratory's world and runs, with what only the tests need: forked runs, a shell's redirections,
a lower deadline, the peak memory, and the schemas of what is printed.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deepagents_ro.qualify.lab import runs
from deepagents_ro.qualify.lab.runs import (
    BIN,
    DCODE,
    DEADLINE,
    INPUT,
    Process,
    World,
    entry,
    processes_of,
)

from .schemas import check_output
from .warm import WarmProcess, address

__all__ = ["BIN", "DCODE", "DEADLINE", "INPUT", "Dcode", "Run", "Running", "entry", "processes_of"]

# Variables that the loader or the interpreter reads before its first line: such a run is fresh.
STARTS_OTHERWISE = ("LD_", "PYTHON", "DEEPAGENTS_RO_PLAIN_IMPORTS")

# Starts the command from a process that is small, so that the peak memory that
# the kernel keeps across `exec` is not the test runner's.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as report:
    report.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
"""


class Run(runs.Run):
    """What it has printed is as the schemas say."""

    def __post_init__(self) -> None:
        check_output(self.stdout)


class Running(runs.Running):
    """A run that is judged by the schemas as well."""

    result = Run


def is_warm(command: Sequence[str | bytes], environment: Mapping[str, str]) -> bool:
    """Whether a forked run is the same run: one of our two commands, by the console script."""
    ours = any(
        first == "tools" and second in ("call-read-only", "audit-read-only")
        for first, second in itertools.pairwise(command)
    )
    otherwise = any(name.startswith(STARTS_OTHERWISE) for name in environment)
    return command[0] == str(DCODE) and ours and not otherwise


class Dcode(World):
    """A private world; see `start`."""

    running = Running

    def __init__(self, directory: Path, ca_file: Path, *, fresh: bool = False) -> None:
        super().__init__(directory, ca_file)
        # so that the whole suite can be run on the plain stack too
        if "DEEPAGENTS_RO_PLAIN_IMPORTS" in os.environ:
            self.env["DEEPAGENTS_RO_PLAIN_IMPORTS"] = os.environ["DEEPAGENTS_RO_PLAIN_IMPORTS"]
        self.fresh = fresh or "DEEPAGENTS_RO_PLAIN_IMPORTS" in self.env
        self._reports = 0
        self._lock = threading.Lock()

    def start(
        self,
        tool: str | None = "raw_look",
        *,
        stdin: bytes | int | None = INPUT,
        argv: Sequence[str | bytes] | None = None,
        options: Iterable[str] = (),
        env: Mapping[str, str | None] | None = None,
        deadline_ms: int | None = None,
        redirect: str = "",
        module: bool = False,
        measure: bool = False,
        stdout: int = subprocess.PIPE,
        mark: str | None = None,
    ) -> Running:
        """Starts one run.

        `stdin` is the bytes to send, `subprocess.PIPE` for a pipe that stays
        open, a descriptor, or None for an inherited null device. `argv`
        replaces everything after `dcode`; `options` come before `tools`.
        `redirect` is shell text such as `<&-`. Whatever is alive afterwards and
        has `mark` in its environment or arguments is a leftover; without one it
        is the private home, which servers' children get to see too. The process is forked from a
        warm one (see `warm.py`) unless `fresh`, or the way in which it starts, asks for its own.
        """
        command: list[str | bytes]
        if module:
            assert argv is None
            assert tool is not None
            command = [sys.executable, "-I", "-m", "deepagents_ro", tool, "--json"]
        elif argv is not None:
            command = [str(DCODE), *argv]
        else:
            assert tool is not None
            command = [str(DCODE), *options, "tools", "call-read-only", tool, "--json"]
        changes = dict(env or {})
        if mark is not None:
            changes["RO_TEST_RUN"] = mark
        if deadline_ms is not None:
            changes["DEEPAGENTS_RO_DEADLINE_MS"] = str(deadline_ms)
        report = None
        if measure:
            with self._lock:
                self._reports += 1
                report = self.home.parent / f"peak-{self._reports}"
            command = [sys.executable, "-I", "-S", "-c", MEASURE, str(report), *command]
        if redirect:
            command = ["/bin/sh", "-c", f'exec "$@" {redirect}', "sh", *command]
        return self.launch(
            command, stdin=stdin, stdout=stdout, env=changes, mark=mark, report=report
        )

    def spawner(
        self, command: Sequence[str | bytes], environment: Mapping[str, str]
    ) -> Callable[..., Process]:
        """A fork of the warm process where that is the same run."""
        if self.fresh or not is_warm(command, environment):
            return super().spawner(command, environment)
        address()  # the first run starts what forks them, which is no part of its time
        return WarmProcess

    def run(self, tool: str | None = "raw_look", *, limit: float = 120.0, **kwargs: Any) -> Run:
        """Runs to the end; the call must leave the temporary directory empty.

        DCode's own commands have no deadline and take long on a busy machine.
        """
        run = self.start(tool, **kwargs).finish(limit)
        if "call-read-only" in run.argv or "deepagents_ro" in run.argv:
            assert not list(self.temporary.iterdir()), "a temporary file was left behind"
        return run

    def run_all(self, calls: Sequence[Mapping[str, Any]], jobs: int = 2) -> list[Run]:
        """Runs several at a time; results are in the order of `calls`."""

        def one(numbered: tuple[int, Mapping[str, Any]]) -> Run:
            number, call = numbered
            return self.start(**call, mark=f"{self.home}/run-{number}").finish()

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, enumerate(calls, 100_000)))
