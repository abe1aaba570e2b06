"""A place to measure in: an empty home, a certificate, servers, one user-level MCP configuration.

Kept free of heavy imports: a child's peak memory as the kernel reports it is at least the peak
of the process that started it, so the process that measures has to be the smallest.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TOOL = "worker-broker_worker_task_context"
ARGUMENTS = b'{"task_id":"worker.1"}'
REFERENCE = [sys.executable, str(HERE / "reference.py"), TOOL, "--json"]
OURS = [str(Path(sys.executable).parent / "dcode"), "tools", "call-read-only", TOOL, "--json"]
COMMANDS = {"reference": REFERENCE, "ours": OURS}


@dataclass(frozen=True)
class Run:
    """One finished command. Times in seconds, memory in bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    exit_code: int
    stdout: bytes
    stderr: bytes

    def data(self) -> dict[str, Any]:
        """The `data` of the envelope; an empty object when there is none."""
        try:
            return json.loads(self.stdout)["data"]
        except (ValueError, KeyError, TypeError):
            return {}


class Server:
    """A helper process that announced its port; ends when its standard input is closed."""

    def __init__(self, command: list[str], log: Path | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.log = log
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError(f"{command[0]} did not start")
        self.port: int = json.loads(line)["port"]

    def events(self, since: int = 0) -> tuple[Counter[str], int]:
        """Events of the log from byte `since`, counted by their first word; the new position."""
        if self.log is None:
            return Counter(), 0
        data = self.log.read_bytes()[since:]
        words = (line.split(b" ", 1)[0].decode() for line in data.splitlines())
        return Counter(words), since + len(data)

    def close(self) -> None:
        """End the process; safe to call twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Sandbox:
    """Everything that one benchmark needs, in a temporary directory."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="deepagents-ro-bench-")
        self.root = Path(self._temporary.name)
        self.home = self.root / "home"
        self.work = self.root / "work"
        for directory in (self.home / ".deepagents", self.work):
            directory.mkdir(parents=True)
        subprocess.run([sys.executable, str(HERE / "certificate.py"), str(self.root)], check=True)
        self._servers: list[Server] = []

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_exc: object) -> None:
        for server in reversed(self._servers):
            server.close()
        self._temporary.cleanup()

    def start(self, script: str, *arguments: str, log: bool = True) -> Server:
        """Start `script` of this directory; with `log` it gets the certificate and a log."""
        command = [str(HERE / script)]
        log_path = None
        if log:
            log_path = self.root / f"server-{len(self._servers)}.log"
            log_path.touch()
            command += [str(self.root / "server.pem"), str(log_path)]
        server = Server([*command, *arguments], log_path)
        self._servers.append(server)
        return server

    def configure(self, port: int) -> None:
        """Make the server at `port` the only one of the user's configuration."""
        config = {
            "mcpServers": {
                "worker-broker": {
                    "type": "http",
                    "url": f"https://127.0.0.1:{port}/mcp",
                    "headers": {"Authorization": "Bearer benchmark-not-a-secret"},
                }
            }
        }
        path = self.home / ".deepagents" / ".mcp.json"
        path.write_text(json.dumps(config), encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """The whole environment of a measured command."""
        return {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "SSL_CERT_FILE": str(self.root / "ca.pem"),
        }

    def run(
        self,
        command: list[str],
        *,
        stdin: bytes = ARGUMENTS,
        limit_s: float = 30.0,
        extra: dict[str, str] | None = None,
    ) -> Run:
        """Run `command` to its end and measure it; killed after `limit_s`."""
        out_path, err_path = self.root / "stdout", self.root / "stderr"
        in_path = self.root / "stdin"
        in_path.write_bytes(stdin)
        with in_path.open("rb") as source, out_path.open("wb") as out, err_path.open("wb") as err:
            started = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdin=source,
                stdout=out,
                stderr=err,
                cwd=self.work,
                env={**self.environment(), **(extra or {})},
            )
            status, usage = wait4(process.pid, started + limit_s)
            wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        return Run(
            wall_s=wall,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * 1024,
            exit_code=process.returncode,
            stdout=out_path.read_bytes(),
            stderr=err_path.read_bytes(),
        )


def wait4(pid: int, until: float) -> tuple[int, Any]:
    """`os.wait4` that kills the child at `until` (on the clock of `time.perf_counter`)."""
    handle = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        if not poller.poll(max(0.0, until - time.perf_counter()) * 1000.0):
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(handle)
    _pid, status, usage = os.wait4(pid, 0)
    return status, usage
