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

from deepagents_ro.qualify.lab.helper import Helper
from deepagents_ro.qualify.lab.runs import World

HERE = Path(__file__).resolve().parent
TOOL = "worker-broker_worker_task_context"
ARGUMENTS = b'{"task_id":"worker.1"}'
TOKEN = "benchmark-not-a-secret"
REFERENCE = [sys.executable, str(HERE / "reference.py"), TOOL, "--json"]
OURS = [str(Path(sys.executable).parent / "dcode"), "tools", "call-read-only", TOOL, "--json"]
COMMANDS = {"reference": REFERENCE, "ours": OURS}
# For our command: without what keeps modules out of the process.
PLAIN_IMPORTS = {"DEEPAGENTS_RO_PLAIN_IMPORTS": "1"}
# For our command: without the conversation that runs ahead of Python.
PLAIN_WIRE = {"DEEPAGENTS_RO_PLAIN_WIRE": "1"}


# The structured content that the servers of this directory answer.
EXPECTED = {
    "task_id": "worker.1",
    "state": "running",
    "attempt": 2,
    "progress": 0.5,
    "qualification": {"output_attestation": "loopback"},
}


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
            data = json.loads(self.stdout)["data"]
        except (ValueError, KeyError, TypeError):
            return {}
        return data if isinstance(data, dict) else {}


def is_right(run: Run) -> bool:
    """Whether the envelope is the one that the server's answer asks for."""
    data = run.data()
    return (
        run.exit_code == 0
        and data.get("ok") is True
        and data.get("structured_content") == EXPECTED
        and run.stdout.count(b"\n") == 1
    )


class Server(Helper):
    """A helper process of this directory."""

    def events(self, since: int = 0) -> tuple[Counter[str], int]:
        """Connections, requests and calls logged from byte `since` on; the new position."""
        found, position = self.read(since)
        counted = Counter(
            connection=sum("connection" in entry for entry in found),
            request=sum("method" in entry for entry in found),
            call=sum(entry.get("tool") is not None for entry in found),
        )
        return counted, position


class Sandbox:
    """Everything that one benchmark needs, in a temporary directory."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="deepagents-ro-bench-")
        self.root = Path(self._temporary.name)
        self.world = World(self.root / "world", self.root / "ca.pem")
        self.home = self.world.home
        subprocess.run(
            [sys.executable, "-I", "-m", "deepagents_ro.qualify.lab.authority", str(self.root)],
            check=True,
        )
        self._servers: list[Server] = []

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_exc: object) -> None:
        for server in reversed(self._servers):
            server.stop()
        self._temporary.cleanup()

    def start(
        self, script: str, *arguments: str, certificate: bool = True, log: bool = True
    ) -> Server:
        """Start `script` of this directory; its first arguments are the certificate and a log."""
        command = [sys.executable, str(HERE / script)]
        log_path = None
        if certificate:
            command.append(str(self.root / "server.pem"))
        if log:
            log_path = self.root / f"server-{len(self._servers)}.log"
            command.append(str(log_path))
        return self._keep(Server([*command, *arguments], log_path))

    def proxy(self, port: int, round_trip_ms: float) -> Server:
        """A proxy in front of `port` that makes it far away; TCP's handshake costs a round trip."""
        module = "deepagents_ro.qualify.lab.proxy"
        return self._keep(
            Server([sys.executable, "-I", "-m", module, str(port), str(round_trip_ms)])
        )

    def _keep(self, server: Server) -> Server:
        self._servers.append(server)
        return server

    def configure(self, port: int, *others: int) -> None:
        """Make the server at `port` the tool's in the user's configuration.

        `others` are ports of servers that cannot own the tool's name.
        """
        named = {"worker-broker": port}
        named.update((f"other-{number:02d}", other) for number, other in enumerate(others))
        servers = {
            name: {
                "type": "http",
                "url": f"https://127.0.0.1:{where}/mcp",
                "headers": {"Authorization": f"Bearer {TOKEN}"},
            }
            for name, where in named.items()
        }
        self.world.serve(**servers)

    def run(
        self,
        command: list[str],
        *,
        stdin: bytes = ARGUMENTS,
        limit_s: float = 30.0,
        extra: dict[str, str] | None = None,
        lane: int = 0,
    ) -> Run:
        """Run `command` to its end and measure it; killed after `limit_s`.

        Runs at the same time, on threads of their own, need different lanes.
        """
        out_path, err_path = self.root / f"stdout-{lane}", self.root / f"stderr-{lane}"
        in_path = self.root / f"stdin-{lane}"
        in_path.write_bytes(stdin)
        with in_path.open("rb") as source, out_path.open("wb") as out, err_path.open("wb") as err:
            started = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdin=source,
                stdout=out,
                stderr=err,
                cwd=self.world.project,
                env={**self.world.env, **(extra or {})},
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
