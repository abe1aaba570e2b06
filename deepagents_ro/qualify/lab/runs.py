"""Runs of the actual `dcode` process in worlds of their own, and what came of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, Self

from .oracle import EXITS, HEAD, MAX_DOCUMENT_BYTES, failure_document

BIN = Path(sys.executable).parent
DCODE = BIN / "dcode"
INPUT = b'{"task_id":"worker.1"}'
DEADLINE = 15.0
# How long a pipe may be open when the process has ended: what was written has to be read.
HELD_SECONDS = 5.0


class Broken(AssertionError):
    """A promise is broken; the text says how."""


class Process(Protocol):
    """The part of `subprocess.Popen` that a run needs."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    returncode: Any

    def wait(self) -> int:
        """The exit status, once it has ended."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"duplicate member in {pairs!r}")
    return found


@dataclass
class Run:
    """One finished run. Times are monotonic seconds; `peak` is in KiB.

    What it is asked for and has not raises `Broken`.
    """

    argv: list[str]
    stdout: bytes
    stderr: bytes
    exit_code: int
    started_at: float
    first_byte_at: float | None
    exited_at: float
    leftovers: list[str]
    peak: int | None = None
    name: str = ""
    """Of the run, where it has one."""

    @property
    def seconds(self) -> float:
        """Wall time of the whole process."""
        return self.exited_at - self.started_at

    @property
    def answered_at(self) -> float:
        """When the first byte of standard output came."""
        if self.first_byte_at is None:
            raise self._broken("no output")
        return self.first_byte_at

    def clean(self) -> Run:
        """Nothing on standard error, nothing left running."""
        self._require(self.stderr == b"", "standard error is not empty")
        self._require(not self.leftovers, f"left behind: {', '.join(self.leftovers)}")
        return self

    def document(self) -> dict[str, Any]:
        """The one envelope, after the checks that every envelope has to pass."""
        self.clean()
        self._require(self.stdout.endswith(b"\n"), "standard output is not one line")
        line = self.stdout[:-1]
        self._require(b"\n" not in line, "standard output is not one line")
        self._require(len(line) <= MAX_DOCUMENT_BYTES, f"standard output has {len(line)} bytes")
        self._require(line.startswith(HEAD), "standard output is not the envelope")
        try:
            document: dict[str, Any] = json.loads(line, object_pairs_hook=_unique)
        except ValueError as error:
            raise self._broken(f"not one JSON document: {error}") from error
        self._require(list(document) == ["schema_version", "command", "data"], "members")
        self._require(isinstance(document["data"], dict), "data is no object")
        self._check_spelling(line, document["data"])
        return document

    def _check_spelling(self, line: bytes, data: dict[str, Any]) -> None:
        before = line
        if "structured_content" in data:
            members = ["ok", "status", "tool", "content", "structured_content"]
            # a text in `content` cannot look like this: its quotes are escaped
            before, mark, _ = line.partition(b',"structured_content":{')
            self._require(mark != b"", "structured_content is not an object")
        elif data.get("ok") is True:
            members = ["ok", "status", "tool", "content"]
        else:
            members = ["ok", "status", "code", "message"]
        self._require(list(data) == members, f"members {list(data)}")
        self._require(before.isascii(), "not ASCII outside structured_content")
        outside = re.sub(rb'"(?:[^"\\]|\\.)*"', b'""', before)
        self._require(not re.search(rb"\s", outside), "white space between tokens")
        self._require(
            not re.search(rb"(?<!\\)(?:\\\\)*\\u[0-9a-f]*[A-F]", before), "upper-case escape"
        )

    def expect(self, *codes: str) -> Run:
        """A failure with one of `codes`: exact bytes and exit status."""
        document = self.document()
        code = document["data"].get("code", "ok")
        self._require(code in codes, f"expected {' or '.join(codes)}, got {code}")
        self._require(self.stdout == failure_document(code), "not the constant envelope")
        self._require(self.exit_code == EXITS[code], f"exit status {self.exit_code}")
        return self

    def expect_ok(self, tool: str | None = None) -> dict[str, Any]:
        """A success; returns its `data`."""
        data: dict[str, Any] = self.document()["data"]
        self._require(data.get("code", "ok") == "ok", f"expected ok, got {data.get('code')}")
        self._require(data["ok"] is True, "ok is not true")
        self._require(data["status"] == "ok", "status is not ok")
        self._require(isinstance(data["content"], list), "content is no list")
        if tool is not None:
            self._require(data["tool"] == tool, f"not a success of {tool}")
        self._require(self.exit_code == 0, f"exit status {self.exit_code}")
        return data

    def structured(self) -> bytes:
        """The exact bytes of `structured_content`."""
        self.expect_ok()
        _, mark, rest = self.stdout.partition(b',"structured_content":')
        self._require(mark != b"", "no structured content")
        return rest.removesuffix(b"}}\n")

    def prompt_after(self, moment: float, *, within: float = 3.0) -> Run:
        """The envelope came, and the process ended, in time after `moment`.

        What shows an answer may come while Python imports still; nothing waits for the deadline.
        """
        late = self.answered_at - moment
        self._require(late <= within, f"envelope {late:.2f} s after the byte that shows it")
        late = self.exited_at - moment
        self._require(late <= within + 0.75, f"exit {late:.2f} s after the byte")
        return self

    def ended_between(self, earliest: float, latest: float) -> Run:
        """The whole run took between so many seconds."""
        self._require(
            earliest <= self.seconds <= latest,
            f"took {self.seconds:.2f} s, not {earliest} to {latest}",
        )
        return self

    def before_the_deadline(self) -> Run:
        """It did not sit out what would have ended it otherwise."""
        return self.ended_between(0, DEADLINE)

    def _require(self, kept: bool, what: str) -> None:
        if not kept:
            raise self._broken(what)

    def _broken(self, what: str) -> Broken:
        errors = self.stderr[-1500:].decode(errors="replace")
        return Broken(
            f"{what}\nargv: {self.argv}\nexit: {self.exit_code} after {self.seconds:.2f} s\n"
            f"stdout: {shorten(self.stdout)}\nstderr: {errors}"
        )


@dataclass
class Running:
    """A run that has started; `finish` waits for it, and gives a `result`."""

    result: ClassVar[type[Run]] = Run

    process: Process
    argv: list[str]
    started_at: float
    mark: str
    report: Path | None = None
    """Where the peak memory will stand."""
    _out: list[bytes] = field(default_factory=list)
    _err: list[bytes] = field(default_factory=list)
    _first: list[float] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _exited: list[float] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def begin(self, stdin: bytes | None) -> Running:
        """Feeds and drains the pipes in threads."""

        def feed(data: bytes) -> None:
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):
                self.process.stdin.write(data)
            with contextlib.suppress(OSError):
                self.process.stdin.close()

        def drain(stream: Any, into: list[bytes], first: list[float] | None) -> None:
            while data := os.read(stream.fileno(), 65536):
                if first is not None and not first:
                    first.append(time.monotonic())
                into.append(data)

        def reap() -> None:
            self.process.wait()
            self._exited.append(time.monotonic())

        tasks: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(reap, ())]
        if stdin is not None:
            tasks.append((feed, (stdin,)))
        if self.process.stdout is not None:
            tasks.append((drain, (self.process.stdout, self._out, self._first)))
        if self.process.stderr is not None:
            tasks.append((drain, (self.process.stderr, self._err, None)))
        for target, arguments in tasks:
            thread = threading.Thread(target=target, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def send_signal(self, number: int) -> None:
        """To the process, if it has not ended."""
        if not self._exited:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kill the whole process group: what stands for `dcode` may be a script that started it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def finish(self, limit: float = 30.0) -> Run:
        """Waits at most `limit` seconds from the start."""
        end = self.started_at + limit
        reaper, *others = self._threads
        reaper.join(max(0.0, end - time.monotonic()))
        if reaper.is_alive():
            self.kill()
            reaper.join()
            raise Broken(f"no end within {limit:g} s: {self.argv}")
        leftovers = processes_of(self.mark)
        for thread in others:
            thread.join(HELD_SECONDS)
        if any(thread.is_alive() for thread in others):
            leftovers.append("a pipe that is held open")
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        peak = int(self.report.read_text()) if self.report else None
        return self.result(
            self.argv,
            b"".join(self._out),
            b"".join(self._err),
            self.process.returncode,
            self.started_at,
            self._first[0] if self._first else None,
            self._exited[0],
            leftovers,
            peak,
        )


class World:
    """A private HOME, project, temporary directory and environment for runs.

    `directory` is new; `bin` comes first on the PATH. A subclass says otherwise how a process is
    made, or a run judged.
    """

    running: type[Running] = Running

    def __init__(self, directory: Path, ca_file: Path, bin: Path = BIN) -> None:
        self.home = directory / "home"
        self.project = directory / "project"
        self.temporary = directory / "temporary"
        for path in (self.home / ".deepagents", self.project, self.temporary):
            path.mkdir(parents=True)
        self.env = {
            "PATH": f"{bin}:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.temporary),
            "SSL_CERT_FILE": str(ca_file),
        }

    # Configuration.

    def serve(self, **servers: Any) -> Self:
        """Writes the user's `~/.deepagents/.mcp.json`; see `entry`."""
        self.write(self.home / ".deepagents" / ".mcp.json", servers)
        return self

    def serve_project(self, **servers: Any) -> Self:
        """Writes the project's `.mcp.json`."""
        self.write(self.project / ".mcp.json", servers)
        return self

    def explicit(self, name: str = "explicit.json", **servers: Any) -> str:
        """Writes a file for `--mcp-config` and returns its path."""
        return str(self.write(self.project / name, servers))

    def user_toml(self, text: str) -> Self:
        """Writes the user's `~/.deepagents/config.toml`."""
        (self.home / ".deepagents" / "config.toml").write_text(text)
        return self

    @staticmethod
    def write(path: Path, servers: Mapping[str, Any]) -> Path:
        """Writes one configuration; a value is a URL, a server with a `url`, or an entry."""
        entries = {name: entry(value) for name, value in servers.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mcpServers": entries}))
        return path

    # Running.

    def call(self, tool: str, *, stdin: bytes = INPUT) -> Run:
        """One call to its end; the temporary directory is empty then."""
        command = [str(DCODE), "tools", "call-read-only", tool, "--json"]
        run = self.launch(command, stdin=stdin).finish()
        run.leftovers += self.left()
        return run

    def left(self) -> list[str]:
        """What is in the temporary directory."""
        return [path.name for path in self.temporary.iterdir()]

    def launch(
        self,
        command: Sequence[str | bytes],
        *,
        stdin: bytes | int | None,
        stdout: int = subprocess.PIPE,
        env: Mapping[str, str | None] | None = None,
        mark: str | None = None,
        report: Path | None = None,
    ) -> Running:
        """Start `command`; `env` changes the environment, None takes a variable out.

        `stdin` is the bytes to send, `subprocess.PIPE` for a pipe that stays open, a descriptor, or
        None for the null device. Whatever is alive afterwards and has `mark` in its environment or
        arguments is a leftover; without one it is the private home.
        """
        environment = dict(self.env)
        for name, value in (env or {}).items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        source = subprocess.DEVNULL if stdin is None else stdin
        given = subprocess.PIPE if isinstance(source, bytes) else source
        spawn = self.spawner(command, environment)
        started_at = time.monotonic()
        process = spawn(command, stdin=given, stdout=stdout, cwd=self.project, env=environment)
        shown = [os.fsdecode(part) for part in command]
        running = self.running(process, shown, started_at, mark or str(self.home), report)
        return running.begin(stdin if isinstance(stdin, bytes) else None)

    def spawner(
        self, command: Sequence[str | bytes], environment: Mapping[str, str]
    ) -> Callable[..., Process]:
        """What makes the process; whatever it needs first is done here, before the clock starts."""
        return spawn


def spawn(
    command: Sequence[str | bytes], *, stdin: int, stdout: int, cwd: Path, env: Mapping[str, str]
) -> Process:
    """A process in a session of its own."""
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        start_new_session=True,
        bufsize=0,
    )


def entry(value: Any) -> Any:
    """A configuration entry from a URL, from an object with a `url`, or as it is."""
    if isinstance(value, str):
        return {"type": "http", "url": value}
    url = getattr(value, "url", None)
    if isinstance(url, str):
        return {"type": "http", "url": url}
    return value


def processes_of(text: str | Path) -> list[str]:
    """The command lines of live processes whose environment or arguments hold `text`."""
    mark = str(text).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if mark in command or mark in (entry / "environ").read_bytes():
                shown = shorten(command.replace(bytes(1), b" "))
                found.append(f"process {entry.name} ({shown})")
        except OSError:
            continue  # it ended, or it is not ours to read
    return found


def shorten(text: bytes, limit: int = 600) -> str:
    """`text` for a message to people."""
    shown = text[:limit].decode(errors="replace").strip()
    return shown + (" ..." if len(text) > limit else "")
