"""Calls in the test's own process: everything of a call but the process around it.

DCode's configuration, discovery and wrapper, the C transport, the gate, the record of the outcome
and the envelope are those of a run; standard input, the deadline's guard, the exit and the cleanup
at the end are not there, and what tests them asks for a process. A call here costs a tenth of one
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import logging
import os
import time
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

from deepagents_ro import _mcpro, call, host
from deepagents_ro.command_line import Command
from deepagents_ro.qualify.lab import runs
from deepagents_ro.refusal import HostError

from .dcode import DCODE, DEADLINE, INPUT, Dcode, Run
from .zygote import LATE


class Inside(Dcode):
    """`Dcode` that calls in this process whatever needs no process of its own."""

    def run(self, tool: str | None = "raw_look", **kwargs: Any) -> Run:
        """As `Dcode.run`; only arguments in place of `INPUT` can be given without a process."""
        if tool is None or not kwargs.keys() <= {"stdin"}:
            return super().run(tool, **kwargs)
        return self.call(tool, kwargs.get("stdin", INPUT))

    def call(self, tool: str, arguments: bytes) -> Run:
        """One call: the document that a process would print, and its exit status."""
        import_all()
        why: list[str] = []
        started_at = time.monotonic()
        # in a thread: the test may have an event loop of its own
        with surroundings(self), ThreadPoolExecutor(1) as thread:
            code, document = thread.submit(outcome_of, tool, arguments, why).result()
        ended_at = time.monotonic()
        argv = [str(DCODE), "tools", "call-read-only", tool, "--json"]
        times = (started_at, ended_at, ended_at)
        return Told(argv, document + b"\n", b"", code, *times, [], why=why)


@contextlib.contextmanager
def surroundings(dcode: Dcode, changes: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """The environment, with these changes, and the working directory that a process would have."""
    before, directory = dict(os.environ), os.getcwd()
    os.environ.clear()
    os.environ.update({**dcode.env, **changes}, PYDANTIC_DISABLE_PLUGINS="__all__")
    os.environ.update(dict.fromkeys(host.TRACING_SWITCHES, "false"))
    os.chdir(dcode.project)
    logging.disable(logging.CRITICAL)  # as `host.load_environment` does
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(before)


@functools.cache
def import_all() -> None:
    """All that a call imports, which is no part of the first one's time."""
    host.prepare_package()
    host.import_stack()
    for name in (*LATE, f"{host.PACKAGE}.plugins.adapters.mcp", f"{host.PACKAGE}.mcp_disabled"):
        importlib.import_module(name)


def outcome_of(tool: str, arguments: bytes, why: list[str]) -> tuple[int, bytes]:
    """Exit status and document, by the steps of `deepagents_ro.call.success_of`."""
    code = "runtime_failure"
    try:
        _mcpro.json_check(arguments)
        plan = host.make_plan(Command(tool), managed=False)
        assert plan is not None
        if not plan.owners:
            raise call.Denied(call.missing_code(tool))
        return 0, made(plan, arguments, why)
    except call.Denied as denied:
        code = denied.code
    except HostError:
        why.append(traceback.format_exc())
    return _mcpro.envelope_exit(code), _mcpro.envelope_error(code)


@dataclass
class Told(Run):
    """A run that says, to a test that did not expect its failure, where it began."""

    why: list[str] = field(default_factory=list)

    def _broken(self, what: str) -> runs.Broken:
        return super()._broken("\n".join([what, *self.why]))


async def told(work: call.Run, why: list[str]) -> bytes:
    """What `make` returns, or why it failed."""
    try:
        return await work.make()
    except BaseException:
        why += [traceback.format_exc(), f"the wire said {work.worker.outcome()}"]
        raise


def made(plan: host.Plan, arguments: bytes, why: list[str]) -> bytes:
    """The success document, or `Denied`."""
    loop = asyncio.new_event_loop()
    reader, writer = os.pipe()
    try:
        work = call.Run(plan, _mcpro.Worker(plan.tool), arguments, loop)
        loop.call_later(DEADLINE, os.write, writer, b"\n")
        guard: Any = SimpleNamespace(cancel_fd=reader)
        return loop.run_until_complete(call.supervise(work, told(work, why), guard))
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        with contextlib.suppress(Exception):
            loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
            # or the next call's collector runs them, on the next call's loop
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        os.close(reader)
        os.close(writer)
