"""Standard input: exactly one strict JSON object, judged before any server is contacted."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from collections.abc import Callable

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import RawServer

LIMIT = 131_072


def _sized(size: int) -> bytes:
    return b'{"pad":"' + b"p" * (size - 10) + b'"}'


def _nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    ("stdin", "code"),
    [
        (b"", "input_required"),
        (b" \n", "invalid_input"),
        (b"[]", "invalid_input"),
        (b"null", "invalid_input"),
        (b'"{}"', "invalid_input"),
        (b"{", "invalid_input"),
        (b"{}{}", "invalid_input"),
        (b"{} x", "invalid_input"),
        (b"{}\0", "invalid_input"),
        (b"\xef\xbb\xbf{}", "invalid_input"),
        (b"\xff\xfe{\0}\0", "invalid_input"),
        (b'{"a":1,"a":1}', "invalid_input"),
        (b'{"a":1,"\\u0061":1}', "invalid_input"),
        (b'{"a":{"b":1,"b":2}}', "invalid_input"),
        (b'{"a":NaN}', "invalid_input"),
        (b'{"a":Infinity}', "invalid_input"),
        (b'{"a":-Infinity}', "invalid_input"),
        (b'{"a":01}', "invalid_input"),
        (b'{"a":1.}', "invalid_input"),
        (b'{"a":.5}', "invalid_input"),
        (b'{"a":+1}', "invalid_input"),
        (b'{"a":1e}', "invalid_input"),
        (b'{"a":0x1}', "invalid_input"),
        (b'{"a":True}', "invalid_input"),
        (b'{"a":1,}', "invalid_input"),
        (b"{'a':1}", "invalid_input"),
        (b"{a:1}", "invalid_input"),
        (b'{"a":1}//', "invalid_input"),
        (b'{"a":"\\ud800"}', "invalid_input"),
        (b'{"a":"\\udc00\\ud800"}', "invalid_input"),
        (b'{"\\ud800":1}', "invalid_input"),
        (b'{"a":"\\x"}', "invalid_input"),
        (b'{"a":"\x01"}', "invalid_input"),
        (b'{"a":"\n"}', "invalid_input"),
        (b'{"a":"\xff"}', "invalid_input"),
        (b'{"a":"\xc0\xaf"}', "invalid_input"),
        (b'{"a":"\xed\xa0\x80"}', "invalid_input"),
        (b'{"a":"\xf5\x80\x80\x80"}', "invalid_input"),
        (b'{"a":\x0b1}', "invalid_input"),
        (b'{"a":\xc2\xa01}', "invalid_input"),
        (_nested(65), "invalid_input"),
        (b"[" * 100_000, "invalid_input"),
        (_sized(LIMIT + 1), "input_too_large"),
        (b" " * (LIMIT + 1), "input_too_large"),
        (b"[" * (4 * LIMIT), "input_too_large"),
    ],
    ids=lambda value: repr(value)[:24] if isinstance(value, bytes) else value,
)
def test_refused(dcode: Dcode, raw: Callable[..., RawServer], stdin: bytes, code: str) -> None:
    server = raw()
    dcode.serve(raw=server)
    dcode.run("raw_look", stdin=stdin).expect(code)
    assert not server.connections, "a server was contacted before stdin was judged"


@pytest.mark.parametrize(
    "stdin",
    [
        b" \t\r\n{ } \n",
        _nested(64),
        _sized(LIMIT - 1),
        _sized(LIMIT),
        b'{"a":1}' + b" " * (LIMIT - 7),
        b'{"a":"\\ud83d\\ude00","\xc3\xa9":"\x7f\xef\xbb\xbf"}',
    ],
    ids=lambda value: repr(value)[:24],
)
def test_accepted(dcode: Dcode, raw: Callable[..., RawServer], stdin: bytes) -> None:
    dcode.serve(raw=raw())
    dcode.run("raw_look", stdin=stdin).expect_ok("raw_look")


def test_closed(dcode: Dcode) -> None:
    dcode.run("raw_look", redirect="<&-", stdin=None).expect("input_required")


def test_null_device(dcode: Dcode) -> None:
    dcode.run("raw_look", stdin=None).expect("input_required")


def test_terminal(dcode: Dcode) -> None:
    master, slave = pty.openpty()
    try:
        running = dcode.start("raw_look", stdin=slave)
        os.close(slave)
        running.finish().expect("input_required")
    finally:
        os.close(master)


def test_too_large_is_told_without_waiting_for_the_end(dcode: Dcode) -> None:
    running = dcode.start("raw_look", stdin=subprocess.PIPE)
    assert running.process.stdin is not None
    running.process.stdin.write(b"x" * (LIMIT + 1))
    running.process.stdin.flush()
    running.finish().expect("input_too_large")


def test_slow_input_is_waited_for(dcode: Dcode, raw: Callable[..., RawServer]) -> None:
    dcode.serve(raw=raw())
    running = dcode.start("raw_look", stdin=subprocess.PIPE)
    assert running.process.stdin is not None
    for piece in (b'{"a"', b':"', b"x", b'"}'):
        time.sleep(0.4)
        running.process.stdin.write(piece)
    running.process.stdin.close()
    running.finish().expect_ok("raw_look")
