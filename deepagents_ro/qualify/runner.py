"""One run of the actual `dcode` process in a world of its own, and what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .journal import RUN_HEADER
from .lab import Lab

COMMAND = "tools call-read-only"
HEAD = b'{"schema_version":1,"command":"tools call-read-only","data":{'
MAX_DOCUMENT_BYTES = 131_072
# No run may take longer than this, whatever is broken; the contract's end is at 18 s.
LIMIT_SECONDS = 40.0

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


class Stopped(Exception):  # noqa: N818 - asked for
    """The run was ended by `Runner.stop`; it says nothing about the command."""


class Broken(Exception):  # noqa: N818 - a finding, not a fault of this program
    """A promise is broken; the text says how."""


@dataclass(frozen=True, slots=True)
class World:
    """What a run is started in, beyond what every run has."""

    servers: Mapping[str, Any]
    """Entries of the MCP configuration; each HTTP entry gets the run's header."""
    words: tuple[str, ...]
    """Arguments behind `dcode`."""
    stdin: bytes = b"{}"
    env: Mapping[str, str] = field(default_factory=dict)
    interrupt_on_call: int | None = None
    """A signal to send once a server has the call."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One finished run."""

    run: str
    stdout: bytes
    stderr: bytes
    exit_status: int
    seconds: float
    """From before the process was made until it was gone."""
    leftovers: tuple[str, ...]
    """Processes and files that it left behind."""

    def expect_clean(self) -> None:
        """Raises `Broken` unless there is one document, a silent standard error and no traces."""
        if self.stderr:
            raise Broken(f"standard error is not empty: {shorten(self.stderr)}")
        if not self.stdout.endswith(b"\n") or self.stdout.count(b"\n") != 1:
            raise Broken(f"standard output is not one line: {shorten(self.stdout)}")
        if len(self.stdout) > MAX_DOCUMENT_BYTES + 1:
            raise Broken(f"standard output has {len(self.stdout)} bytes")
        if not self.stdout.startswith(HEAD):
            raise Broken(f"standard output is not the envelope: {shorten(self.stdout)}")
        if self.leftovers:
            raise Broken(f"left behind: {', '.join(self.leftovers)}")

    def data(self) -> dict[str, Any]:
        """The envelope's `data`. Raises `Broken`."""
        self.expect_clean()
        try:
            return dict(json.loads(self.stdout)["data"])
        except (ValueError, KeyError, TypeError) as error:
            raise Broken(f"standard output is no JSON envelope: {shorten(self.stdout)}") from error

    def expect_failure(self, code: str) -> None:
        """Raises `Broken` unless this is the constant envelope of `code`."""
        self._expect_code(code)
        data = {"ok": False, "status": "error", "code": code, "message": MESSAGES[code]}
        envelope = {"schema_version": 1, "command": COMMAND, "data": data}
        if self.stdout != json.dumps(envelope, separators=(",", ":")).encode() + b"\n":
            raise Broken(f"not the constant envelope of {code}: {shorten(self.stdout)}")
        self._expect_exit(EXITS.get(code, 1))

    def expect_success(self, tool: str) -> None:
        """Raises `Broken` unless this is a success of `tool`."""
        self._expect_code("ok")
        data = self.data()
        members = ["ok", "status", "tool", "content", "structured_content"]
        if list(data) not in (members, members[:-1]):
            raise Broken(f"members of data are {list(data)}")
        if data["ok"] is not True or data["tool"] != tool or not isinstance(data["content"], list):
            raise Broken(f"not a success of {tool}: {shorten(self.stdout)}")
        self._expect_exit(0)

    def structured(self) -> bytes:
        """The raw bytes of a success's `structured_content`."""
        return self.stdout.partition(b',"structured_content":')[2].removesuffix(b"}}\n")

    def _expect_code(self, wanted: str) -> None:
        data = self.data()
        found = data.get("code", data.get("status"))
        if found != wanted:
            raise Broken(f"expected {wanted}, got {found}")

    def _expect_exit(self, wanted: int) -> None:
        if self.exit_status != wanted:
            raise Broken(f"exit status {self.exit_status}, not {wanted}")


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
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def stop(self) -> None:
        """End the runs that are under way and begin no more; from any thread."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                kill_group(process)

    def run(self, world: World, disclosure: str) -> Outcome:
        """Run to the end; raises `Broken` after `LIMIT_SECONDS`, and `Stopped`."""
        run = self.lab.name_run()
        home = self.lab.root / run
        temporary = home / "tmp"
        temporary.mkdir(parents=True)
        with self._configured(home, with_header(world.servers, run)):
            started = time.monotonic()
            process = self._start(
                world, home, self._environment(home, temporary, world, disclosure)
            )
            try:
                stdout, stderr = self._finish(process, world, run)
            finally:
                with self._lock:
                    self._running.discard(process)
            seconds = time.monotonic() - started
        if self._stopped:
            raise Stopped
        leftovers = processes_of(home) + [str(path.name) for path in temporary.iterdir()]
        return Outcome(run, stdout, stderr, process.returncode, seconds, tuple(leftovers))

    def _start(
        self, world: World, home: Path, environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise Stopped
            process = subprocess.Popen(
                [*self._command, *world.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=home,
                env=environment,
                start_new_session=True,
            )
            self._running.add(process)
            return process

    def _finish(
        self, process: subprocess.Popen[bytes], world: World, run: str
    ) -> tuple[bytes, bytes]:
        interrupter = None
        if world.interrupt_on_call is not None:
            interrupter = threading.Thread(target=self._interrupt, args=(process, world, run))
            interrupter.start()
        try:
            stdout, stderr = process.communicate(world.stdin, LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            kill_group(process)
            process.communicate()
            raise Broken(f"no end within {LIMIT_SECONDS:g} s") from None
        finally:
            if interrupter is not None:
                interrupter.join()
        return stdout, stderr

    def _interrupt(self, process: subprocess.Popen[bytes], world: World, run: str) -> None:
        assert world.interrupt_on_call is not None
        while process.poll() is None and not self.lab.journal.calls(run):
            time.sleep(0.02)
        if process.poll() is None:
            process.send_signal(world.interrupt_on_call)

    @contextlib.contextmanager
    def _configured(self, home: Path, servers: dict[str, Any]) -> Iterator[None]:
        text = json.dumps({"mcpServers": servers})
        if self._managed_config is None:
            path = home / ".deepagents" / ".mcp.json"
            path.parent.mkdir()
            path.write_text(text)
            yield
            return
        with self._config_lock:
            self._managed_config.write_text(text)
            self._managed_config.chmod(0o600)
            try:
                yield
            finally:
                self._managed_config.unlink()

    def _environment(
        self, home: Path, temporary: Path, world: World, disclosure: str
    ) -> dict[str, str]:
        directory = os.path.dirname(self._command[0])
        proxy = self.lab.tripwire.url
        return {
            "HOME": str(home),
            "PATH": f"{directory}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TMPDIR": str(temporary),
            "SSL_CERT_FILE": str(self.lab.authority.ca_file),
            "NEMOCLAW_TOOL_DISCLOSURE": disclosure,
            "HTTP_PROXY": proxy,
            "HTTPS_PROXY": proxy,
            "NO_PROXY": self.lab.host,
            **world.env,
        }


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a run's whole process group: what stands for `dcode` may be a script that started it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def with_header(servers: Mapping[str, Any], run: str) -> dict[str, Any]:
    """The entries with the run's header in each that speaks HTTP."""
    made: dict[str, Any] = {}
    for name, entry in servers.items():
        made[name] = dict(entry)
        if "url" in entry:
            made[name]["headers"] = {**entry.get("headers", {}), RUN_HEADER: run}
    return made


def processes_of(home: Path) -> list[str]:
    """Live processes whose environment or arguments name `home`, each as `pid command`."""
    mark = os.fsencode(home)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if mark in command or mark in (entry / "environ").read_bytes():
                found.append(f"process {entry.name} ({shorten(command.replace(bytes(1), b' '))})")
        except OSError:
            continue  # it ended, or it is another user's
    return found


def shorten(text: bytes, limit: int = 300) -> str:
    """`text` for a message to people."""
    shown = text[:limit].decode(errors="replace").strip()
    return shown + (" ..." if len(text) > limit else "")


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
