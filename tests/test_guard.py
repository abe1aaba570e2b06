"""The guard in real processes: one envelope, one end, nothing left behind."""

from __future__ import annotations

import fcntl
import os
import select
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ANSWER = b'{"ok":true}\n'
TIMEOUT = b'{"code":"timeout"}\n'
INTERRUPTED = b'{"code":"interrupted"}\n'
FAILED = b'{"code":"runtime_failure"}\n'
# bytes: more than a pipe takes
LARGE = 200_000
# Seconds that a busy machine may take beyond the schedule, which is proven on a clock that the test
# moves (tests/c/test_guard_deadline.c).
SLACK_S = 10.0
# seconds: nothing here may take longer
PATIENCE_S = 20.0

PRELUDE = f"""
import ctypes, os, signal, sys, time
from deepagents_ro import _mcpro
ANSWER = {ANSWER!r}
LARGE = b"x" * {LARGE}
def start(deadline_ms=15000, grace_ms=3000):
    return _mcpro.Guard.start({TIMEOUT!r}, {INTERRUPTED!r}, {FAILED!r}, deadline_ms, grace_ms)
def ready():
    with open(os.environ["GUARD_READY"], "w") as file:
        file.write("ready")
def hang():
    while True:
        signal.pause()
def child(life):
    pid = os.fork()
    if pid == 0:
        life()
        hang()
    return pid
"""

# One of each kind; the guard has to find them all.
FAMILY = """
BRED, CHAINED = 400, 2000
def stubborn():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)
def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
    stubborn()
    child(stubborn)
def dead():
    os._exit(0)
def breeder():
    for _ in range(BRED):
        if os.fork() == 0:
            hang()
        time.sleep(0.002)
def chain():
    for _ in range(CHAINED):
        if os.fork():
            os._exit(0)
        os.setsid()
def family():
    for life in (hang, stubborn, stopped, daemon, dead, breeder, chain):
        child(life)
    child(lambda: [child(life) for life in (hang, daemon, dead, stopped)])
"""


@dataclass
class Ended:
    """What a guarded process left: its status, its output, what runs on."""

    code: int
    out: bytes
    err: bytes
    seconds: float
    left: list[int]


def living(token: str) -> list[int]:
    """Processes, zombies aside, that inherited the environment with `token`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if token.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


class World:
    """Starts guarded processes; each has its own token to find its descendants by."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.token = ""
        self.start_s = 0.0

    def command(self, body: str) -> list[str]:
        return [sys.executable, "-c", PRELUDE + body]

    def shell(self, body: str, script: str) -> list[str]:
        """`script` in bash, where `$RUN` stands for the guarded process."""
        run = " ".join(shlex.quote(word) for word in self.command(body))
        return ["bash", "-c", script.replace("$RUN", run)]

    def popen(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        self.token = f"GUARD_TOKEN={uuid.uuid4()}"
        name, _, value = self.token.partition("=")
        self.ready_file = self.directory / value
        environ = {**os.environ, name: value, "GUARD_READY": str(self.ready_file)}
        defaults: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.directory,
            "env": environ,
        }
        self.start_s = time.monotonic()
        return subprocess.Popen(command, **{**defaults, **options})

    def wait_ready(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while not (self.ready_file.exists() and self.ready_file.read_text()):
            assert time.monotonic() < end, "the guarded process did not get ready"
            time.sleep(0.005)

    def end(self, process: subprocess.Popen[bytes], data: bytes | None = None) -> Ended:
        try:
            out, err = process.communicate(data, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            for pid in living(self.token):
                os.kill(pid, signal.SIGKILL)
            raise
        seconds = time.monotonic() - self.start_s
        left = living(self.token)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return Ended(process.returncode, out or b"", err or b"", seconds, left)

    def run(self, body: str, data: bytes | None = None, **options: Any) -> Ended:
        if data is not None:
            options["stdin"] = subprocess.PIPE
        return self.end(self.popen(self.command(body), **options), data)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """(read end, write end), both closed at the end if the test has not."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for fd in ends:
            try:
                os.close(fd)
            except OSError:
                continue


def check(ended: Ended, code: int, out: bytes) -> None:
    assert (ended.code, ended.out, ended.err, ended.left) == (code, out, b"", [])


# ---- the object ----


def test_object(world: World) -> None:
    ended = world.run(
        """
def raises(error, call, *args):
    try:
        call(*args)
    except error:
        return True
guard = start()
left = guard.ms_left()
checks = [
    raises(TypeError, _mcpro.Guard),
    raises(RuntimeError, start),
    raises(ValueError, _mcpro.Guard.start, b"", b"x", b"x"),
    raises(ValueError, _mcpro.Guard.start, b"x", b"x", b""),
    raises(ValueError, _mcpro.Guard.start, b"x", b"y", b"z", -1),
    raises(TypeError, _mcpro.Guard.start, "x", b"y", b"z"),
    raises(ValueError, guard.finish, -1, b""),
    raises(ValueError, guard.finish, 256, b""),
    raises(TypeError, guard.finish, 0, "text"),
    raises(ValueError, guard.read_stdin, -1),
    raises(ValueError, guard.set_exit_hook, object()),
    raises(TypeError, guard.lower_deadline, 100),
    10000 < left <= 15000,
    not guard.stopping,
    guard.degraded == 0,
    guard.cancel_fd > 2,
]
guard.finish(0, repr([i for i, good in enumerate(checks) if not good]).encode())
"""
    )
    check(ended, 0, b"[]")


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_finish(world: World, code: int) -> None:
    ended = world.run(f"start().finish({code}, ANSWER)")
    check(ended, code, ANSWER)
    assert ended.seconds < SLACK_S


def test_only_the_document_comes_out(world: World) -> None:
    ended = world.run(
        """
import subprocess
guard = start()
print("noise", flush=True)
print("noise", file=sys.stderr, flush=True)
os.write(1, b"noise")
os.write(2, b"noise")
subprocess.run(["sh", "-c", "echo noise; echo noise >&2"])
guard.finish(0, ANSWER)
"""
    )
    check(ended, 0, ANSWER)


def test_finish_from_many_threads(world: World) -> None:
    ended = world.run(
        """
import threading
guard = start()
for i in range(8):
    threading.Thread(target=guard.finish, args=(i, b"%d\\n" % i * 20000)).start()
guard.finish(8, b"8\\n" * 20000)
"""
    )
    assert ended.out == b"%d\n" % ended.code * 20000
    assert ended.left == []


def test_refused_start_leaves_the_output(world: World) -> None:
    ended = world.run(
        """
import resource
used = max(int(fd) for fd in os.listdir("/proc/self/fd")) + 1
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(used, 10), limit[1]))
try:
    start()
except RuntimeError as error:
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    os.write(1, str(error).encode())
    start().finish(7, ANSWER)
"""
    )
    check(ended, 7, b"no_descriptor" + ANSWER)


def test_exit_hook(world: World, tmp_path: Path) -> None:
    # unlink(ctx, wait_ms): the second argument is one too many for it, and harmless
    target = tmp_path / "hooked"
    target.touch()
    ended = world.run(
        f"""
class Hook(ctypes.Structure):
    _fields_ = [("hook", ctypes.c_void_p), ("ctx", ctypes.c_char_p)]
hook = Hook(ctypes.cast(ctypes.CDLL(None).unlink, ctypes.c_void_p), {str(target).encode()!r})
make = ctypes.pythonapi.PyCapsule_New
make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name = b"deepagents_ro.exit_hook"
guard = start()
guard.set_exit_hook(make(ctypes.addressof(hook), name, None))
guard.finish(0, ANSWER)
"""
    )
    check(ended, 0, ANSWER)
    assert not target.exists()


def test_without_finish_the_interpreter_ends_as_ever(world: World) -> None:
    ended = world.run("guard = start(); del guard; sys.exit(5)")
    assert (ended.code, ended.out, ended.left) == (5, b"", [])
    assert ended.seconds < SLACK_S


# ---- deadline ----


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("hang()", id="signals"),
        pytest.param("while True: ctypes.PyDLL(None).sleep(60)", id="holds-the-GIL"),
        pytest.param("while True: pass", id="burns"),
        pytest.param("import atexit; atexit.register(time.sleep, 60); sys.exit()", id="shutdown"),
        pytest.param("os.close(0); os.close(1); os.close(2); time.sleep(60)", id="closes"),
    ],
)
def test_deadline(world: World, work: str) -> None:
    ended = world.run(f"start(500, 200)\n{work}")
    check(ended, 1, TIMEOUT)
    assert 0.65 < ended.seconds < 0.7 + SLACK_S


def test_first_deadline_wakes_the_loop(world: World) -> None:
    ended = world.run(
        """
import select
guard = start()
before = select.select([guard.cancel_fd], [], [], 0)[0]
lowered = guard.lower_deadline("300"), guard.lower_deadline("400")
after = [select.select([guard.cancel_fd], [], [], 10)[0] for _ in range(2)]
good = (not before and all(after) and lowered == (True, False) and guard.ms_left() == 0
        and not guard.lower_deadline("100"))
guard.finish(0 if good else 9, ANSWER)
"""
    )
    check(ended, 0, ANSWER)
    assert 0.29 < ended.seconds < SLACK_S


def test_deadline_texts(world: World) -> None:
    wrong = ["", "0", "99", "15001", "0200", "+200", "-200", " 200", "200 ", "2e2", "200.0"]
    wrong += ["200\n", "200\0", "٢٠٠", "\udcff", "99999999999999999999", "2_00", "0x200"]
    ended = world.run(
        f"""
guard = start()
taken = [text for text in {wrong!r} if guard.lower_deadline(text)]
taken += [text for text in ("15000", "14000", "5000") if guard.lower_deadline(text)]
guard.finish(0, repr(taken).encode())
"""
    )
    check(ended, 0, b"['14000', '5000']")


def test_clock_starts_with_the_process(world: World) -> None:
    body = "guard = start(); guard.finish(0, b'%d' % guard.ms_left())"
    ended = world.end(world.popen(world.shell(body, "sleep 0.6; exec $RUN")))
    assert 10_000 < int(ended.out) <= 14_400 + 11  # the start's tick, and 1 ms


# ---- signals ----

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]


@pytest.mark.parametrize("work", ["hang()", "while True: ctypes.PyDLL(None).sleep(60)"])
@pytest.mark.parametrize("number", SIGNALS)
def test_signal(world: World, number: signal.Signals, work: str) -> None:
    process = world.popen(world.command(f"start(); ready()\n{work}"))
    world.wait_ready()
    process.send_signal(number)
    ended = world.end(process)
    check(ended, 130, INTERRUPTED)
    assert ended.seconds < SLACK_S


def test_many_signals(world: World) -> None:
    process = world.popen(world.command(FAMILY + "start(); family(); ready(); hang()"))
    world.wait_ready()
    for number in SIGNALS * 5:
        process.send_signal(number)
    check(world.end(process), 130, INTERRUPTED)


def test_nohup(world: World) -> None:
    body = "start(); ready(); hang()"
    process = world.popen(world.shell(body, "trap '' HUP; exec $RUN"))
    world.wait_ready()
    process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    check(world.end(process), 130, INTERRUPTED)


def test_signal_while_writing(world: World) -> None:
    process = world.popen(world.command("guard = start(); ready(); guard.finish(0, LARGE)"))
    world.wait_ready()
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert process.poll() is None
    check(world.end(process), 0, b"x" * LARGE)


def test_signal_dispositions_of_children(world: World) -> None:
    """A child is started with the mask and the dispositions it would have without a guard."""
    ended = world.run(
        """
import subprocess
guard = start()
guard.finish(0, subprocess.run(["grep", "^Sig[BI]", "/proc/self/status"],
                               capture_output=True).stdout)
"""
    )
    plain = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os; os.execvp('grep', ['grep', '^Sig[BI]', '/proc/self/status'])",
        ],
        capture_output=True,
        check=True,
    ).stdout
    blocked, ignored = (int(line.split()[1], 16) for line in ended.out.splitlines())
    plain_blocked = int(plain.split()[1], 16)
    assert blocked == plain_blocked
    for number in SIGNALS:
        assert not ignored >> (number - 1) & 1


# ---- standard output ----


def test_nobody_reads(world: World) -> None:
    with pipe() as (reader, writer):
        process = world.popen(world.command("start(3000, 200).finish(0, LARGE)"), stdout=writer)
        os.close(writer)
        ended = world.end(process)
        assert (ended.code, ended.err, ended.left) == (1, b"", [])
        assert 3.15 < ended.seconds < 3.2 + SLACK_S
        written = b""
        while part := os.read(reader, 65536):
            written += part
        assert 0 < len(written) < LARGE
        assert set(written) == {ord("x")}


def test_nobody_reads_and_the_deadline_is_lowered(world: World) -> None:
    with pipe() as (_, writer):
        body = "guard = start(15000, 200); guard.lower_deadline('400'); guard.finish(0, LARGE)"
        process = world.popen(world.command(body), stdout=writer)
        ended = world.end(process)
    assert (ended.code, ended.left) == (1, [])
    assert ended.seconds < 0.6 + SLACK_S


def test_slow_reader(world: World) -> None:
    process = world.popen(world.command("start().finish(0, LARGE)"))
    assert process.stdout is not None
    got = b""
    while part := os.read(process.stdout.fileno(), 9000):
        got += part
        time.sleep(0.005)
    assert got == b"x" * LARGE
    assert world.end(process).code == 0


def test_reader_gone(world: World) -> None:
    with pipe() as (reader, writer):
        process = world.popen(
            world.command(FAMILY + "guard = start(); family(); guard.finish(0, ANSWER)"),
            stdout=writer,
        )
        os.close(reader)
        ended = world.end(process)
    check(ended, 1, b"")
    assert ended.seconds < SLACK_S


def test_no_space(world: World) -> None:
    with open("/dev/full", "wb") as full:
        check(world.run("start().finish(0, ANSWER)", stdout=full), 1, b"")


@pytest.mark.parametrize(("document", "status"), [("ANSWER", b"0"), ("LARGE", b"1")])
def test_head(world: World, document: str, status: bytes) -> None:
    script = "$RUN | head -c 1; echo $PIPESTATUS"
    command = world.shell(f"start().finish(0, {document})", script)
    ended = world.end(world.popen(command))
    assert ended.out[1:].strip() == status
    assert (ended.err, ended.left) == (b"", [])


def test_terminal(world: World) -> None:
    master, slave = os.openpty()
    try:
        process = world.popen(
            world.command("guard = start(); guard.finish(0, repr(guard.read_stdin(9)).encode())"),
            stdin=slave,
            stdout=slave,
        )
        ended = world.end(process)
        assert (ended.code, os.read(master, 100)) == (0, b"('missing', b'')")
    finally:
        os.close(master)
        os.close(slave)


def test_flags_of_inherited_descriptors(world: World) -> None:
    with pipe() as (reader, writer):
        before = fcntl.fcntl(reader, fcntl.F_GETFL), fcntl.fcntl(writer, fcntl.F_GETFL)
        process = world.popen(
            world.command("guard = start(); ready(); guard.read_stdin(9); guard.finish(0, LARGE)"),
            stdin=reader,
            stdout=writer,
        )
        world.wait_ready()
        time.sleep(0.05)
        during = fcntl.fcntl(reader, fcntl.F_GETFL), fcntl.fcntl(writer, fcntl.F_GETFL)
        process.kill()
        world.end(process)
    assert during == before


@pytest.mark.parametrize("closed", range(8))
def test_closed_descriptors(world: World, closed: int) -> None:
    """Nothing that is opened later becomes descriptor 0, 1 or 2."""
    closings = " ".join(f"{fd}>&-" for fd in range(3) if closed & 1 << fd)
    body = """
import socket
guard = start()
with socket.socket() as one, open("/dev/null") as two:
    low = min(one.fileno(), two.fileno())
os.write(1, b"noise")
os.write(2, b"noise")
how, _ = guard.read_stdin(10)
ready()
guard.finish(0 if low > 2 else 3, how.encode())
"""
    command = world.shell(body, f"exec $RUN {closings}")
    ended = world.end(world.popen(command))
    if closed & 2:
        check(ended, 1, b"")
    else:
        check(ended, 0, b"missing")
    assert world.ready_file.exists()


# ---- standard input ----

READ = """
guard = start({})
how, data = guard.read_stdin(1000)
guard.finish(0, b"%s %d" % (how.encode(), len(data)))
"""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", b"missing 0"),
        (b"x", b"ok 1"),
        (b"x" * 999, b"ok 999"),
        (b"x" * 1000, b"ok 1000"),
        (b"x" * 1001, b"too_large 0"),
        (b"x" * 100_000, b"too_large 0"),
    ],
)
def test_input(world: World, data: bytes, expected: bytes) -> None:
    check(world.run(READ.format(""), data), 0, expected)


def test_input_bytes(world: World) -> None:
    data = bytes(range(256)) * 512
    body = f"guard = start(); guard.finish(0, guard.read_stdin({len(data)})[1])"
    check(world.run(body, data), 0, data)


def test_input_is_not_read_past_the_bound(world: World) -> None:
    with pipe() as (reader, writer):
        os.write(writer, b"x" * 5000)
        check(
            world.end(world.popen(world.command(READ.format("")), stdin=reader)), 0, b"too_large 0"
        )
        assert len(os.read(reader, 9000)) == 5000 - 1001


@pytest.mark.parametrize("sent", [b"", b"{}"])
def test_input_never_ends(world: World, sent: bytes) -> None:
    with pipe() as (reader, writer):
        os.write(writer, sent)
        ended = world.end(world.popen(world.command(READ.format("400, 1000")), stdin=reader))
    check(ended, 0, b"timeout 0")
    assert 0.38 < ended.seconds < SLACK_S


def test_signal_while_reading(world: World) -> None:
    with pipe() as (reader, _):
        process = world.popen(
            world.command("guard = start(); ready(); guard.read_stdin(9); hang()"), stdin=reader
        )
        world.wait_ready()
        process.send_signal(signal.SIGTERM)
        check(world.end(process), 130, INTERRUPTED)


@pytest.mark.parametrize(
    ("path", "flags", "expected"),
    [
        ("/dev/null", os.O_RDONLY, b"missing 0"),
        ("/dev/zero", os.O_RDONLY, b"too_large 0"),
        ("/dev/null", os.O_WRONLY, b"broken 0"),
    ],
)
def test_odd_inputs(world: World, path: str, flags: int, expected: bytes) -> None:
    fd = os.open(path, flags)
    try:
        check(world.end(world.popen(world.command(READ.format("")), stdin=fd)), 0, expected)
    finally:
        os.close(fd)


def test_reading_releases_the_gil(world: World) -> None:
    with pipe() as (reader, _):
        body = """
import threading
guard = start()
threading.Timer(0.1, guard.finish, (0, ANSWER)).start()
guard.read_stdin(10)
hang()
"""
        check(world.end(world.popen(world.command(body), stdin=reader)), 0, ANSWER)


# ---- descendants ----


@pytest.mark.parametrize(
    ("begin", "end", "code", "out"),
    [
        pytest.param("start()", "guard.finish(0, ANSWER)", 0, ANSWER, id="success"),
        pytest.param("start()", "guard.finish(1, ANSWER)", 1, ANSWER, id="failure"),
        pytest.param("start(600, 200)", "hang()", 1, TIMEOUT, id="timeout"),
        pytest.param("start()", "os.kill(os.getpid(), 15); hang()", 130, INTERRUPTED, id="signal"),
    ],
)
def test_family(world: World, begin: str, end: str, code: int, out: bytes) -> None:
    # the last stop kills for RO_GUARD_KILL_MS, whatever the machine is doing
    size = "BRED, CHAINED = 20, 50" if end == "hang()" else ""
    ended = world.run(f"{FAMILY}\n{size}\nguard = {begin}; family(); time.sleep(0.1)\n{end}")
    check(ended, code, out)
    assert ended.seconds < SLACK_S


def test_no_zombies(world: World) -> None:
    """Whoever adopts the orphans of a guarded process gets none, dead ones included."""
    body = FAMILY + "guard = start(); family(); time.sleep(0.1); guard.finish(0, ANSWER)"
    supervisor = f"""
import ctypes, os, subprocess
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
done = subprocess.run({world.command(body)!r}, capture_output=True)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none", done.returncode, flush=True)
"""
    ended = world.end(world.popen([sys.executable, "-c", supervisor]))
    check(ended, 0, b"none 0\n")


def test_children_from_before_an_exec_stay(world: World) -> None:
    """A shell's own children are not ours after it exec'ed us."""
    body = FAMILY + "guard = start(); family(); guard.finish(0, ANSWER)"
    script = "(sleep 30; :) >/dev/null 2>&1 & echo $!; sleep 30 >/dev/null 2>&1 & exec $RUN"
    ended = world.end(world.popen(world.shell(body, script)))
    number, _, rest = ended.out.partition(b"\n")
    assert (ended.code, rest) == (0, ANSWER)
    assert int(number) in ended.left
    # the subshell and the two sleeps
    assert len(ended.left) == 3


@pytest.mark.needs("root")
def test_other_users_stay(world: World) -> None:
    body = """
def other():
    os.closerange(0, 100)
    os.setuid(65534)
guard = start()
pid = child(other)
time.sleep(0.1)
guard.finish(0, b"%d" % pid)
"""
    ended = world.end(world.popen(world.command(body)))
    assert (ended.code, ended.left) == (0, [int(ended.out)])


PID_NAMESPACES = [
    ("--pid", "--fork", "--mount-proc"),
    # the numbers in /proc are those of the outer namespace
    ("--pid", "--fork"),
]


@pytest.mark.needs("pid namespaces")
@pytest.mark.parametrize("options", PID_NAMESPACES, ids=" ".join)
@pytest.mark.parametrize("first", [True, False], ids=["PID 1", "below PID 1"])
@pytest.mark.parametrize("end", ["finish", "signal", "timeout"])
def test_pid_namespace(world: World, options: tuple[str, ...], first: bool, end: str) -> None:
    begin, work, code, out = {
        "finish": ("start()", "guard.finish(0, ANSWER)", 0, ANSWER),
        "signal": ("start()", "os.kill(os.getpid(), 15); hang()", 130, INTERRUPTED),
        "timeout": ("start(500, 100)", "hang()", 1, TIMEOUT),
    }[end]
    body = f"{FAMILY}\nguard = {begin}; assert (os.getpid() == 1) == {first}\n"
    body += f"assert guard.degraded == 0; family(); {work}"
    script = f"exec unshare {' '.join(options)} " + (
        "$RUN" if first else "sh -c '\"$@\"; exit $?' sh $RUN"
    )
    check(world.end(world.popen(world.shell(body, script))), code, out)


def test_fork_without_exec(world: World) -> None:
    """A forked copy of the process cannot print, nor end it."""
    ended = world.run(
        """
guard = start()
pid = os.fork()
if pid == 0:
    guard.finish(0, b"child\\n")
_, status = os.waitpid(pid, 0)
sleeper = child(lambda: None)
time.sleep(0.05)
os.kill(sleeper, signal.SIGTERM)
_, killed = os.waitpid(sleeper, 0)
good = os.waitstatus_to_exitcode(status) == 1 and os.waitstatus_to_exitcode(killed) == -15
guard.finish(0 if good and not guard.stopping else 9, ANSWER)
"""
    )
    check(ended, 0, ANSWER)


def test_a_child_that_holds_the_output(world: World) -> None:
    """Standard output reaches its end as soon as the process is gone."""
    with pipe() as (reader, writer):
        process = world.popen(
            world.command(FAMILY + "guard = start(); family(); guard.finish(0, ANSWER)"),
            stdout=writer,
        )
        os.close(writer)
        process.wait(PATIENCE_S)
        assert os.read(reader, 100) == ANSWER
        assert select.select([reader], [], [], 1)[0]
        assert os.read(reader, 100) == b""
        assert world.end(process).left == []
