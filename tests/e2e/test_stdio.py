"""stdio servers: their lines, their environment, their ends."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.dcode import Dcode, processes_of
from servers.stdio import StdioServer, alive

from deepagents_ro.qualify.lab.raw_server import RawServer

Make = Callable[..., RawServer]
LINE = 1024 * 1024


def test_exact_both_ways(dcode: Dcode) -> None:
    """One child a session, one call, each token as it was sent."""
    server = StdioServer(
        dcode,
        """
def on_call(message):
    write(answer(message, '{"content": [], "structuredContent" : '
                 '{ "n": 1.10, "big": 12345678901234567890123, "e":1E400, '
                 '"u": "\\\\u00e9\\u20ac\\\\u0000" }}') + b"\\n")
""",
    )
    stdin = b'{"n": 1.10, "big":12345678901234567890123, "e":1E400,\n "self":null, "u":"\\u00e9"}'
    run = dcode.run("raw_look", stdin=stdin)
    assert (
        run.structured()
        == (
            '{"n":1.10,"big":12345678901234567890123,"e":1E400,"u":"\\u00e9\u20ac\\u0000"}'
        ).encode()
    )
    (call,) = server.lines("tools/call")
    exact = b'"arguments":{"n":1.10,"big":12345678901234567890123,"e":1E400,"self":null,'
    assert exact + b'"u":"\\u00e9"}' in call
    assert len(server.pids()) == 2
    assert len(server.lines("initialize")) == 2
    assert len(server.lines("notifications/initialized")) == 2
    assert len(server.lines("tools/list")) == 1


def test_what_a_child_inherits(dcode: Dcode) -> None:
    """The same as from DCode's stock client, but for standard error."""
    server = StdioServer(
        dcode,
        """
def on_start():
    status = open("/proc/self/status").read()
    note("inherited", json.dumps({
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "argv": sys.orig_argv,
        "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
        "session": os.getsid(0) == os.getpid(),
        "blocked": [l for l in status.splitlines() if l.startswith("SigBlk")],
        # without the two that the C library keeps to itself
        "ignored": [int(l.split()[1], 16) & 0x7fffffff
                    for l in status.splitlines() if l.startswith("SigIgn")],
        "umask": [l for l in status.splitlines() if l.startswith("Umask")],
        "limits": open("/proc/self/limits").read(),
    }).encode())
    note("stderr", os.readlink("/proc/self/fd/2").encode())
""",
        env={"OWN": "v", "EXPANDED": "a${RO_VALUE}b", "UNSET": "${RO_NONE:-d}", "HOME": "/tmp"},
    )
    env = {
        "RO_VALUE": "value",
        "NOT_INHERITED": "x",
        "USER": "somebody",
        "SHELL": "() { :; }",
        "TERM": "dumb",
        "LOGNAME": "",
    }
    dcode.run("raw_look", env=env).expect_ok("raw_look")
    ours = [json.loads(line) for line in server.lines("inherited")]
    assert len(ours) == 2
    assert set(server.lines("stderr")) == {b"/dev/null"}
    listed = dcode.run(argv=["tools", "list", "--json"], env=env)
    assert b"raw_look" in listed.stdout
    stock = json.loads(server.lines("inherited")[-1])
    assert len(server.lines("inherited")) == 3
    for mine in ours:
        assert mine == stock
    assert "NOT_INHERITED" not in ours[0]["environment"]
    assert ours[0]["environment"]["EXPANDED"] == "avalueb"


def test_standard_error_goes_nowhere(dcode: Dcode) -> None:
    StdioServer(
        dcode,
        """
def on_start():
    os.write(2, b"words\\n" * 100000)
    for path in ("/dev/tty", "/dev/stderr", "/proc/self/fd/2"):
        try:
            with open(path, "w") as out:
                out.write("more words")
        except OSError:
            pass
on_end = on_start
""",
    )
    dcode.run("raw_look").expect_ok("raw_look")


# 20 lines, and two writes of them a session: fewer than the 64 that are passed over. What a line is
# by itself is a table of tests/c/messages.h.
JUNK = (
    b"Server 1.0 is ready.\n"
    b"\n \n\t\n\r\n"
    b"\xff\xfe\x00\xc0\x80\n"
    b'42\n"text"\nnull\n[]\n{}\n{"type":"heartbeat"}\n\xef\xbb\xbf{"level":"info"}\n'
    b"one\r\n"
    b'{"a":\n{,}\n[[[\n'
    + b"[" * 5000
    + b"\n"
    + b"x" * 500_000
    + b"\n"
    + b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n' * 100
    + b"\x1b[31mred\x1b[0m\n\xef\xbb\xbf"
)


def test_junk_is_passed_over(dcode: Dcode) -> None:
    server = StdioServer(
        dcode,
        f"""
JUNK = {JUNK!r}
def junk_first(function):
    def both(message):
        write(JUNK)
        function(message)
    return both
on_initialize, on_list, on_call = map(junk_first, (on_initialize, on_list, on_call))
""",
    )
    dcode.run("raw_look").expect_ok("raw_look")
    assert len(server.lines("tools/call")) == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"jsonrpc":"2.0","id":@,"result":{"content":[]', "malformed_result"),
        ('{"jsonrpc":"2.0","id":@,"result":{"content":[],"x":NaN}}', "malformed_result"),
        ('{"jsonrpc":"2.0","id":@,"result":{"content":[],"x":"\\\\ud800"}}', "malformed_result"),
        ('{"jsonrpc":"2.0","id":@,"result":{"content":[],"x":"\\xff"}}', "malformed_result"),
        ('{"jsonrpc":"2.0","id":@,"result":{"content":[],"content":[]}}', "malformed_result"),
        ('{"jsonrpc":"2.0","id":"@","result":{"content":[]}}', "malformed_result"),
        ('{"jsonrpc":"2.0","id":999,"result":{"content":[]}}', "malformed_result"),
        ('{"jsonrpc":"2.0","id":@,"result":{"content":7}}', "malformed_result"),
        ('{"jsonrpc":"2.0","id":@,"error":{"code":-1,"message":"m"}}', "tool_failed"),
        ('{"jsonrpc":"2.0","id":@,"result":{"content":[],"isError":true}}', "tool_failed"),
    ],
)
def test_answers_that_are_none(dcode: Dcode, line: str, code: str) -> None:
    server = StdioServer(
        dcode,
        f"""
def on_call(message):
    line = b'{line}' + b"\\n"
    write(line.replace(b"@", json.dumps(message["id"]).encode()))
""",
    )
    dcode.run("raw_look").expect(code).before_the_deadline()
    assert len(server.lines("tools/call")) == 1


@pytest.mark.parametrize("form", ["crlf", "bytes", "spaces", "glued"])
def test_forms_of_a_line(dcode: Dcode, form: str) -> None:
    StdioServer(
        dcode,
        f"""
def on_call(message):
    line = answer(message, '{{"content":[]}}')
    if {form!r} == "crlf":
        write(line + b"\\r\\n")
    elif {form!r} == "spaces":
        write(b" \\t" + line + b"  \\n")
    elif {form!r} == "glued":
        write(b"junk\\n" + line + b"\\njunk\\n{{")
    else:
        for byte in line + b"\\n":
            write(bytes([byte]))
""",
    )
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("phase", ["list", "call"])
def test_the_longest_line(dcode: Dcode, phase: str, over: int) -> None:
    result = '{"content":[],"_meta":{"x":"@"}}' if phase == "call" else '{"tools":[TOOL],"x":"@"}'
    StdioServer(
        dcode,
        f"""
def on_{phase}(message):
    result = {result!r}.replace("TOOL", TOOL)
    room = {LINE + over} - len(answer(message, result)) + 1
    write(answer(message, result.replace("@", "a" * room)) + b"\\n")
""",
    )
    run = dcode.run("raw_look")
    if over <= 0:
        run.expect_ok("raw_look")
    else:
        run.expect("result_too_large" if phase == "call" else "tool_not_found")


@pytest.mark.parametrize("junk", ["a line without end", "lines without end"])
def test_no_end_of_words(dcode: Dcode, junk: str) -> None:
    piece = "b'x' * 65536" if junk == "a line without end" else "(b'x' * 1023 + b'\\n') * 64"
    StdioServer(dcode, f"def on_call(message):\n    while True:\n        write({piece})\n")
    run = dcode.run("raw_look", measure=True)
    run.expect("result_too_large", "runtime_failure").before_the_deadline()


# Ends.


@pytest.mark.parametrize(
    "end", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "os.close(1)"]
)
@pytest.mark.parametrize("phase", ["list", "call"])
def test_an_answer_and_then_the_end(dcode: Dcode, phase: str, end: str) -> None:
    server = StdioServer(
        dcode,
        f"""
plain = on_{phase}
def on_{phase}(message):
    write(b'{{"jsonrpc":"2.0","method":"x"}}\\n' * 2000 + b"a last word\\n" * 60)
    plain(message)
    {end}
""",
    )
    dcode.run("raw_look").expect_ok("raw_look")
    assert len(server.lines("tools/call")) == 1
    assert not any(map(alive, server.pids()))


def test_half_an_answer_and_then_the_end(dcode: Dcode) -> None:
    """A line ends with a line feed."""
    StdioServer(
        dcode,
        "def on_call(message):\n    write(answer(message, '{\"content\":[]}'))\n    os._exit(0)\n",
    )
    dcode.run("raw_look").expect("runtime_failure").before_the_deadline()


@pytest.mark.parametrize("phase", ["start", "initialize", "list", "call"])
@pytest.mark.parametrize("how", ["exits", "is killed", "leaves its pipes to another"])
def test_an_end_without_an_answer(dcode: Dcode, phase: str, how: str) -> None:
    end = {
        "exits": "os._exit(0)",
        "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
        "leaves its pipes to another": (
            "os.fork() == 0 and (os.setsid(), time.sleep(60)); os._exit(1)"
        ),
    }[how]
    server = StdioServer(dcode, f"def on_{phase}(*message):\n    {end}\n")
    run = dcode.run("raw_look", deadline_ms=8000)
    run.expect("runtime_failure" if phase == "call" else "tool_not_found").before_the_deadline()
    assert len(server.lines("tools/call")) <= 1
    assert not processes_of(dcode.home)


@pytest.mark.parametrize("kind", ["missing", "path", "not executable", "directory", "no program"])
def test_a_command_that_does_not_start(dcode: Dcode, tmp_path: Path, kind: str) -> None:
    command = {"missing": "ro-no-such-command", "path": "/nowhere/at/all"}.get(kind)
    if command is None:
        file = tmp_path / "program"
        command = str(file)
        if kind == "directory":
            file.mkdir()
        else:
            file.write_text("no program")
            file.chmod(0o755 if kind == "no program" else 0o644)
    dcode.serve(raw={"command": command, "args": ["x"]})
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()


def test_a_command_on_the_configured_path(dcode: Dcode, tmp_path: Path) -> None:
    """DCode's preflight looks on its own PATH, the child is looked for on the configured one."""
    server = StdioServer(dcode)
    for place, code in (("one", 7), ("two", None)):
        program = tmp_path / place / "ro-server"
        program.parent.mkdir()
        text = f"exit {code}" if code else f'exec {sys.executable} -I -S {server.script} "$@"'
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    entry = {
        "command": "ro-server",
        "args": [str(dcode.home)],
        "env": {"PATH": f"{tmp_path}/two:/usr/bin:/bin"},
    }
    dcode.serve(raw=entry)
    path = f"{tmp_path}/one:{dcode.env['PATH']}"
    dcode.run("raw_look", env={"PATH": path}).expect_ok("raw_look")
    assert len(server.pids()) == 2


def test_a_child_that_ignores_its_end(dcode: Dcode) -> None:
    """Discovery's child ends in the background; the call's costs 500 ms."""
    polite = StdioServer(dcode)
    quick = dcode.run("raw_look")
    quick.expect_ok("raw_look")
    stubborn = StdioServer(
        dcode,
        """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def on_end():
    while True:
        time.sleep(60)
""",
    )
    slow = dcode.run("raw_look")
    slow.expect_ok("raw_look")
    assert slow.seconds - quick.seconds < 2.0
    assert not any(map(alive, polite.pids() + stubborn.pids()))


def test_a_child_that_takes_its_leave(dcode: Dcode) -> None:
    """Standard input is closed first; who then ends by itself is not killed."""
    server = StdioServer(dcode, 'def on_end():\n    note("goodbye", b"")\n')
    dcode.run("raw_look").expect_ok("raw_look")
    assert len(server.lines("goodbye")) == 2


def test_a_child_that_does_not_read(dcode: Dcode) -> None:
    server = StdioServer(
        dcode,
        """
def on_other(message):
    if len(open(os.path.join(home, "log")).read().split("start ")) == 3:
        time.sleep(60)
""",
    )
    stdin = json.dumps({"x": "a" * 131_000}).encode()
    started = time.monotonic()
    run = dcode.run("raw_look", stdin=stdin, deadline_ms=5000).expect("timeout")
    assert run.exited_at - started < 7
    assert not server.lines("tools/call")


def test_the_largest_arguments(dcode: Dcode) -> None:
    server = StdioServer(dcode)
    stdin = json.dumps({"x": "a" * 131_000}).encode()
    dcode.run("raw_look", stdin=stdin).expect_ok("raw_look")
    (call,) = server.lines("tools/call")
    assert b"a" * 131_000 in call


# What a server may ask, and what it may offer.


@pytest.mark.parametrize(
    ("method", "answered"),
    [
        ("ping", b'"result":{}'),
        ("sampling/createMessage", b'"error"'),
        ("roots/list", b'"error"'),
        ("elicitation/create", b'"error"'),
        ("unheard/of", b'"error"'),
    ],
)
def test_requests_of_the_server(dcode: Dcode, method: str, answered: bytes) -> None:
    server = StdioServer(
        dcode,
        f"""
def on_call(message):
    global waiting
    waiting = message
    write(b'{{"jsonrpc":"2.0","id":"s-1","method":"{method}"}}\\n')
def on_other(message):
    if "method" not in message:
        write(answer(waiting, '{{"content":[]}}') + b"\\n")
""",
    )
    dcode.run("raw_look").expect_ok("raw_look")
    (response,) = server.lines("response")
    assert b'"id":"s-1"' in response
    assert answered in response


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ('"annotations":{"readOnlyHint":"yes"}', "tool_not_read_only"),
        ('"annotations":{"readOnlyHint":1}', "tool_not_read_only"),
        ('"annotations":{"readOnlyHint":true,"destructiveHint":null}', "tool_not_read_only"),
        ('"annotations":{"readOnlyHint":true,"openWorldHint":1}', "tool_not_read_only"),
        ('"annotations":{"readOnlyHint":false,"readOnlyHint":true}', "tool_not_read_only"),
        ('"annotations":{"readOnlyHint":false,"read\\\\u004fnlyHint":true}', "tool_not_read_only"),
        ('"annotations":{"readOnlyHint":true},"annotations":{"readOnlyHint":true}',
         "tool_not_read_only"),
        ('"annotations":{"readOnlyHint":"maybe"}', "tool_not_found"),
        ('"title":"t"', "tool_not_read_only"),
    ],
)  # fmt: skip
def test_hints_are_judged_as_strictly(dcode: Dcode, tool: str, code: str) -> None:
    server = StdioServer(
        dcode, f"""TOOL = '{{"name":"look","inputSchema":{{"type":"object"}},{tool}}}'\n"""
    )
    dcode.run("raw_look").expect(code)
    assert not server.lines("tools/call")
    assert len(server.pids()) == 1


def test_secrets_of_a_child(dcode: Dcode) -> None:
    server = StdioServer(
        dcode,
        """
def on_call(message):
    told = {"content": [], "structuredContent": {
        "a": os.environ["API_TOKEN"], "b": os.environ["PLAIN"], "c": sys.argv[2],
        "d": os.environ["VISIBLE"]}}
    write(answer(message, json.dumps(told)) + b"\\n")
""",
        env={"API_TOKEN": "token-of-the-server", "PLAIN": "x${RO_SECRET}", "VISIBLE": "visible-v"},
    )
    server.entry["args"].append("--key=${RO_SECRET}")
    dcode.serve(raw=server.entry)
    run = dcode.run("raw_look", env={"RO_SECRET": "resolved-secret-value"})
    assert run.expect_ok("raw_look")["structured_content"] == {
        "a": "<redacted-secret>",
        "b": "x<redacted-secret>",
        "c": "--key=<redacted-secret>",
        "d": "visible-v",
    }


def test_a_silent_child(dcode: Dcode) -> None:
    server = StdioServer(dcode, "def on_call(message):\n    time.sleep(60)\n")
    dcode.run("raw_look", deadline_ms=4000).expect("timeout").ended_between(3.9, 4 + 2.9)
    assert len(server.lines("tools/call")) == 1
    assert not any(map(alive, server.pids()))
