"""Runs of `dcode` that are forked from a process with the stack imported: see `zygote.py`.

Such a run is the patched `dcode` from its first line on, in a process of its own with its own
environment, working directory and session; what it saves is the start of the interpreter and the
imports of other packages, nine tenths of a run's processor time. `make check` (`RO_TEST_CHECK=1`)
runs some cases of each test with a fresh process.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

CHECK_VARIABLE = "RO_TEST_CHECK"
ZYGOTE = Path(__file__).parent / "zygote.py"


class WarmProcess:
    """A forked run: the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        argv: Sequence[str | bytes],
        *,
        stdin: int,
        stdout: int,
        cwd: Path,
        env: Mapping[str, str],
    ) -> None:
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self.returncode: int | None = None
        self._lock = threading.Lock()
        request = {
            "argv": [os.fsencode(part).decode("latin-1") for part in argv],
            "env": dict(env),
            "cwd": str(cwd),
        }
        opened: list[int] = []

        def end(wanted: int, mode: int) -> tuple[int, int | None]:
            """The descriptor for the run, and this side's end of a new pipe."""
            if wanted == subprocess.DEVNULL:
                opened.append(os.open(os.devnull, mode))
                return opened[-1], None
            if wanted != subprocess.PIPE:
                return wanted, None
            reader, writer = os.pipe()
            theirs, ours = (reader, writer) if mode == os.O_RDONLY else (writer, reader)
            opened.append(theirs)
            return theirs, ours

        source, feed = end(stdin, os.O_RDONLY)
        target, drain = end(stdout, os.O_WRONLY)
        errors, notes = end(subprocess.PIPE, os.O_WRONLY)
        if feed is not None:
            self.stdin = os.fdopen(feed, "wb", buffering=0)
        if drain is not None:
            self.stdout = os.fdopen(drain, "rb", buffering=0)
        if notes is not None:
            self.stderr = os.fdopen(notes, "rb", buffering=0)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(address())
        rights = array.array("i", [source, target, errors])
        self._socket.sendmsg(
            [json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        )
        for descriptor in opened:
            os.close(descriptor)
        self.pid = int(self._socket.recv(64))

    def wait(self) -> int:
        """The exit status, or minus the signal's number, once the run has ended."""
        with self._lock:
            if self.returncode is None:
                status = self._socket.recv(64)
                assert status, "the process that forks the runs is gone"
                self.returncode = os.waitstatus_to_exitcode(int(status))
                self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing, once the run has been waited for."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


_started: list[str] = []
_lock = threading.Lock()


def address() -> str:
    """The socket of this test process's zygote, which the first call starts."""
    with _lock:
        if not _started:
            _started.append(_start())
        return _started[0]


def _start() -> str:
    directory = Path(tempfile.mkdtemp(prefix="ro-zygote-"))
    home = directory / "home"
    home.mkdir()
    path = str(directory / "socket")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    process = subprocess.Popen(
        [sys.executable, "-I", str(ZYGOTE), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=home,
        env=env,
    )

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)
        shutil.rmtree(directory, ignore_errors=True)

    atexit.register(end)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == b"ready\n", "the process that forks the runs did not start"
    return path
