"""Runs the real, patched `dcode` in a world of its own and judges what it prints."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
DCODE = BIN / "dcode"
INPUT = b'{"task_id":"worker.1"}'
STDOUT_LIMIT = 131_072
HEAD = '{"schema_version":1,"command":"tools call-read-only","data":{'

MESSAGES = {
    "invalid_command": "Use: dcode tools call-read-only TOOL --json",
    "invalid_tool_name": "The MCP tool name is invalid.",
    "interrupted": "The MCP tool call was interrupted.",
    "timeout": "The managed MCP tool call exceeded its time limit.",
    "input_required": "A JSON object is required on standard input.",
    "input_too_large": "The JSON input exceeds the managed size limit.",
    "invalid_input": "Standard input must be one JSON object.",
    "runtime_failure": "The managed MCP tool call failed.",
    "not_mcp_tool": "The selected tool is not an MCP tool.",
    "tool_not_found": "The exact MCP tool is unavailable.",
    "ambiguous_tool": "The exact MCP tool name is ambiguous.",
    "tool_not_read_only": "The selected MCP tool is not coherently read-only.",
    "result_too_large": "The MCP tool result exceeds the managed size limit.",
    "malformed_result": "The MCP tool returned an unsupported result.",
    "tool_failed": "The MCP tool reported a failure.",
}
EXITS = {"invalid_command": 2, "invalid_tool_name": 2, "interrupted": 130}

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


def failure_document(code: str) -> bytes:
    """The one document, newline included, that a failure prints."""
    data = f'"ok":false,"status":"error","code":"{code}","message":"{MESSAGES[code]}"'
    return (HEAD + data + "}}\n").encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"duplicate member in {pairs!r}"
    return found


@dataclass
class Run:
    """One finished run. Times are monotonic seconds; `peak` is in KiB."""

    argv: list[str]
    stdout: bytes
    stderr: bytes
    exit_code: int
    started_at: float
    first_byte_at: float | None
    exited_at: float
    leftovers: list[str]
    peak: int | None = None

    @property
    def seconds(self) -> float:
        """Wall time of the whole process."""
        return self.exited_at - self.started_at

    def clean(self) -> Run:
        """Nothing on standard error, nothing left running."""
        assert self.stderr == b"", self._show("standard error is not empty")
        assert not self.leftovers, self._show(f"still running: {self.leftovers}")
        return self

    def document(self) -> dict[str, Any]:
        """The one envelope, after the checks that every envelope has to pass."""
        self.clean()
        assert self.stdout.endswith(b"\n"), self._show("no newline at the end")
        line = self.stdout[:-1]
        assert b"\n" not in line, self._show("more than one line")
        assert len(line) <= STDOUT_LIMIT, self._show("too long")
        assert line.startswith(HEAD.encode()), self._show("not the envelope's head")
        try:
            document = json.loads(line, object_pairs_hook=_unique)
        except ValueError as error:
            raise AssertionError(self._show(f"not one JSON document: {error}")) from error
        assert list(document) == ["schema_version", "command", "data"], self._show("members")
        self._check_spelling(line, document["data"])
        return document

    def _check_spelling(self, line: bytes, data: dict[str, Any]) -> None:
        before = line
        if "structured_content" in data:
            members = ["ok", "status", "tool", "content", "structured_content"]
            # a text in `content` cannot look like this: its quotes are escaped
            before, mark, _ = line.partition(b',"structured_content":{')
            assert mark, self._show("structured_content is not an object")
        elif data.get("ok") is True:
            members = ["ok", "status", "tool", "content"]
        else:
            members = ["ok", "status", "code", "message"]
        assert list(data) == members, self._show(f"members {list(data)}")
        assert before.isascii(), self._show("not ASCII outside structured_content")
        outside = re.sub(rb'"(?:[^"\\]|\\.)*"', b'""', before)
        assert not re.search(rb"\s", outside), self._show("white space between tokens")
        assert not re.search(rb"(?<!\\)(?:\\\\)*\\u[0-9a-f]*[A-F]", before), self._show(
            "upper-case escape"
        )

    def expect(self, *codes: str) -> Run:
        """A failure with one of `codes`: exact bytes and exit status."""
        document = self.document()
        code = document["data"].get("code", "ok")
        assert code in codes, self._show(f"expected {' or '.join(codes)}, got {code}")
        assert self.stdout == failure_document(code), self._show("not the constant envelope")
        assert self.exit_code == EXITS.get(code, 1), self._show(f"exit {self.exit_code}")
        return self

    def expect_ok(self, tool: str | None = None) -> dict[str, Any]:
        """A success; returns its `data`."""
        data = self.document()["data"]
        assert data.get("code", "ok") == "ok", self._show(f"expected success, got {data['code']}")
        assert data["ok"] is True, self._show("ok")
        assert data["status"] == "ok", self._show("status")
        assert isinstance(data["content"], list), self._show("content")
        if tool is not None:
            assert data["tool"] == tool, self._show("tool")
        assert self.exit_code == 0, self._show(f"exit {self.exit_code}")
        return data

    def structured(self) -> bytes:
        """The exact bytes of `structured_content`."""
        self.expect_ok()
        _, mark, rest = self.stdout.partition(b',"structured_content":')
        assert mark, self._show("no structured content")
        return rest.removesuffix(b"}}\n")

    def prompt_after(self, moment: float, *, within: float = 1.0) -> Run:
        """The envelope came, and the process ended, in time after `moment`."""
        assert self.first_byte_at is not None, self._show("no output")
        late = self.first_byte_at - moment
        assert late <= within, self._show(f"envelope {late:.2f} s after the byte that shows it")
        late = self.exited_at - moment
        assert late <= within + 0.75, self._show(f"exit {late:.2f} s after the byte")
        return self

    def ended_between(self, earliest: float, latest: float) -> Run:
        """The whole run took between so many seconds."""
        assert earliest <= self.seconds <= latest, self._show(
            f"took {self.seconds:.2f} s, not {earliest} to {latest}"
        )
        return self

    def _show(self, what: str) -> str:
        return (
            f"{what}\nargv: {self.argv}\nexit: {self.exit_code} after {self.seconds:.2f} s\n"
            f"stdout: {self.stdout[:600]!r}\nstderr: {self.stderr[-1500:].decode(errors='replace')}"
        )


@dataclass
class Running:
    """A run that has started; `finish` waits for it."""

    process: subprocess.Popen[bytes]
    argv: list[str]
    started_at: float
    mark: str
    report: Path | None
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

    def finish(self, limit: float = 30.0) -> Run:
        """Waits at most `limit` seconds from the start."""
        end = self.started_at + limit
        reaper, *others = self._threads
        reaper.join(max(0.0, end - time.monotonic()))
        if reaper.is_alive():
            self.process.kill()
            reaper.join()
            raise AssertionError(f"no exit within {limit} s: {self.argv}")
        leftovers = processes_of(self.mark)
        for thread in others:
            thread.join(5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        peak = int(self.report.read_text()) if self.report else None
        return Run(
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
                found.append(f"{entry.name}: {command.replace(bytes(1), b' ').decode()}")
        except OSError:
            continue  # it ended, or it is not ours to read
    return found


class Dcode:
    """A private HOME, project, temporary directory and environment for runs."""

    def __init__(self, directory: Path, ca_file: Path) -> None:
        self.home = directory / "home"
        self.project = directory / "project"
        self.temporary = directory / "temporary"
        for path in (self.home / ".deepagents", self.project, self.temporary):
            path.mkdir(parents=True)
        self.env = {
            "PATH": f"{BIN}:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.temporary),
            "SSL_CERT_FILE": str(ca_file),
        }
        # so that the whole suite can be run on the plain stack too
        if "DEEPAGENTS_RO_PLAIN_IMPORTS" in os.environ:
            self.env["DEEPAGENTS_RO_PLAIN_IMPORTS"] = os.environ["DEEPAGENTS_RO_PLAIN_IMPORTS"]
        self._reports = 0
        self._lock = threading.Lock()

    # Configuration.

    def serve(self, **servers: Any) -> Dcode:
        """Writes the user's `~/.deepagents/.mcp.json`; see `entry`."""
        self.write(self.home / ".deepagents" / ".mcp.json", servers)
        return self

    def serve_project(self, **servers: Any) -> Dcode:
        """Writes the project's `.mcp.json`."""
        self.write(self.project / ".mcp.json", servers)
        return self

    def explicit(self, name: str = "explicit.json", **servers: Any) -> str:
        """Writes a file for `--mcp-config` and returns its path."""
        return str(self.write(self.project / name, servers))

    def user_toml(self, text: str) -> Dcode:
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
        is the private home, which servers' children get to see too.
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
        environment = dict(self.env)
        if mark is not None:
            environment["RO_TEST_RUN"] = mark
        if deadline_ms is not None:
            environment["DEEPAGENTS_RO_DEADLINE_MS"] = str(deadline_ms)
        for name, value in (env or {}).items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        report = None
        if measure:
            with self._lock:
                self._reports += 1
                report = self.home.parent / f"peak-{self._reports}"
            command = [sys.executable, "-I", "-S", "-c", MEASURE, str(report), *command]
        if redirect:
            command = ["/bin/sh", "-c", f'exec "$@" {redirect}', "sh", *command]
        source: Any = subprocess.DEVNULL if stdin is None else stdin
        if isinstance(stdin, bytes):
            source = subprocess.PIPE
        started_at = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=self.project,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        shown = [part.decode(errors="replace") if isinstance(part, bytes) else part
                 for part in command]  # fmt: skip
        running = Running(process, shown, started_at, mark or str(self.home), report)
        return running.begin(stdin if isinstance(stdin, bytes) else None)

    def run(self, tool: str | None = "raw_look", *, limit: float = 30.0, **kwargs: Any) -> Run:
        """Runs to the end; the call must leave the temporary directory empty."""
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


def entry(value: Any) -> Any:
    """A configuration entry from a URL, from an object with a `url`, or as it is."""
    if isinstance(value, str):
        return {"type": "http", "url": value}
    url = getattr(value, "url", None)
    if isinstance(url, str):
        return {"type": "http", "url": url}
    return value
