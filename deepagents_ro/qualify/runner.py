"""One run of the actual `dcode` process, in its own world and with the qualification's servers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from .lab.runs import Broken, Run, Running, World
from .scripted import PLACEHOLDER
from .servers import Lab

# No run may take longer than this, whatever is broken; the contract's end is at 18 s.
LIMIT_SECONDS = 40.0
POLL_SECONDS = 0.02


class Stopped(Exception):
    """The run was ended by `Runner.stop`; it says nothing about the command."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a run is started with, beyond what every run has."""

    servers: Mapping[str, Any]
    """Entries of the MCP configuration; the run's name goes into each URL."""
    words: tuple[str, ...]
    """Arguments behind `dcode`."""
    stdin: bytes = b"{}"
    env: Mapping[str, str] = field(default_factory=dict)
    interrupt_on_call: int | None = None
    """A signal to send once a server has the call."""


class Runner:
    """Runs `command` (the words that stand for `dcode`) in worlds of their own.

    `managed_config` is the file that a managed runtime reads; then all runs share it, one at a
    time. Otherwise each run has a HOME with a configuration of its own.
    """

    def __init__(self, lab: Lab, command: list[str], managed_config: Path | None) -> None:
        self.lab = lab
        self._command = command
        self._managed_config = managed_config
        self._lock = threading.Lock()
        self._config_lock = threading.Lock()
        self._running: list[Running] = []
        self._stopped = False

    def stop(self) -> None:
        """End the runs that are under way and begin no more; from any thread."""
        with self._lock:
            self._stopped = True
            for running in self._running:
                running.kill()

    def run(self, task: Task, disclosure: str) -> Run:
        """Run to the end; raises `Broken` after `LIMIT_SECONDS`, and `Stopped`."""
        name = self.lab.name_run()
        place = self.lab.root / name
        world = World(place, self.lab.authority.ca_file, Path(self._command[0]).parent)
        managed = self._managed_config is not None
        with self._configured(world, entries_of(task.servers, name, managed=managed)):
            running = self._start(task, world, str(place), disclosure)
            try:
                with self._interrupting(running, task, name):
                    run = running.finish(LIMIT_SECONDS)
            except Broken:
                if self._stopped:
                    raise Stopped from None
                raise
            finally:
                with self._lock:
                    self._running.remove(running)
        if self._stopped:
            raise Stopped
        run.leftovers += world.left()
        run.name = name
        return run

    def _start(self, task: Task, world: World, mark: str, disclosure: str) -> Running:
        proxy = self.lab.tripwire.url
        env = {
            "NEMOCLAW_TOOL_DISCLOSURE": disclosure,
            "HTTP_PROXY": proxy,
            "HTTPS_PROXY": proxy,
            "NO_PROXY": self.lab.host,
            **task.env,
        }
        with self._lock:
            if self._stopped:
                raise Stopped
            command = [*self._command, *task.words]
            running = world.launch(command, stdin=task.stdin, env=env, mark=mark)
            self._running.append(running)
            return running

    @contextlib.contextmanager
    def _interrupting(self, running: Running, task: Task, name: str) -> Iterator[None]:
        """While this lasts, the signal is sent as soon as a server has the call."""
        over = threading.Event()

        def interrupt(number: int) -> None:
            while not self.lab.journal.calls(name):
                if over.wait(POLL_SECONDS):
                    return
            running.send_signal(number)

        if task.interrupt_on_call is None:
            yield
            return
        thread = threading.Thread(target=interrupt, args=(task.interrupt_on_call,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextlib.contextmanager
    def _configured(self, world: World, servers: dict[str, Any]) -> Iterator[None]:
        if self._managed_config is None:
            world.serve(**servers)
            yield
            return
        with self._config_lock:
            write_private(self._managed_config, json.dumps({"mcpServers": servers}))
            try:
                yield
            finally:
                self._managed_config.unlink()


def entries_of(servers: Mapping[str, Any], run: str, *, managed: bool) -> dict[str, Any]:
    """The entries with the run's name in each URL.

    With `managed`, each has the one form that a managed runtime allows: `type`, `url`, and a
    placeholder as the one header.
    """
    made: dict[str, Any] = {}
    for name, entry in servers.items():
        made[name] = dict(entry)
        if "url" in entry:
            parts = urlsplit(entry["url"])
            made[name]["url"] = urlunsplit(parts._replace(path=f"/{run}{parts.path}"))
        if managed:
            made[name]["headers"] = {"Authorization": PLACEHOLDER}
    return made


def write_private(path: Path, text: str) -> None:
    """A new file of this user, mode 0600, one link: what a managed runtime takes.

    Raises:
        FileExistsError: somebody put a file there; it is not overwritten.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)  # whatever the umask took away
        file.write(text)


def find_dcode(python: str) -> str:
    """The `dcode` beside the interpreter `python`, else the one on the PATH.

    Raises:
        FileNotFoundError: there is none.
    """
    beside = Path(python).parent / "dcode"
    found = str(beside) if beside.exists() else shutil.which("dcode")
    if found is None:
        raise FileNotFoundError("dcode is not installed beside this Python, and not on the PATH")
    return found
