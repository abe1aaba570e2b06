"""The laboratory: its runs notice what is no envelope, its helpers end with their parents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deepagents_ro.qualify.lab.helper import Helper
from deepagents_ro.qualify.lab.oracle import HEAD, MAX_DOCUMENT_BYTES, failure_document
from deepagents_ro.qualify.lab.runs import Broken, Run

TIMEOUT = failure_document("timeout")
SUCCESS = b'"ok":true,"status":"ok","tool":"a_b","content":[%s]%s}}\n'
HELPER = """
import sys
from deepagents_ro.qualify.lab import helper
log = helper.Log(sys.argv[1])
log.write(one=1)
log.write(two="2\\n")
open(sys.argv[1], "a").write('{"half":')
helper.announce(7, 8)
helper.wait()
"""


def run_of(
    stdout: bytes, *, stderr: bytes = b"", exit_code: int = 1, leftovers: tuple[str, ...] = ()
) -> Run:
    return Run(["dcode"], stdout, stderr, exit_code, 0.0, 0.1, 0.2, list(leftovers))


def success(content: bytes = b"", structured: bytes = b"") -> Run:
    return run_of(HEAD + SUCCESS % (content, structured), exit_code=0)


def test_a_failure_is_one() -> None:
    run_of(TIMEOUT).expect("timeout").ended_between(0.1, 0.3).prompt_after(0.0)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (run_of(b""), "standard output is not one line"),
        (run_of(TIMEOUT[:-1]), "standard output is not one line"),
        (run_of(TIMEOUT + TIMEOUT), "standard output is not one line"),
        (run_of(TIMEOUT, stderr=b"x"), "standard error is not empty"),
        (run_of(TIMEOUT, leftovers=("process 7 (sleep)",)), r"left behind: process 7 \(sleep\)"),
        (run_of(b" " * (MAX_DOCUMENT_BYTES + 1) + b"\n"), "standard output has 131073 bytes"),
        (run_of(TIMEOUT.replace(b"command", b"Command")), "standard output is not the envelope"),
        (run_of(TIMEOUT[:-2] + b"\n"), "not one JSON document"),
        (run_of(TIMEOUT.replace(b'"ok":false', b'"ok":false,"ok":false')), "duplicate member"),
        (run_of(TIMEOUT.replace(b"}}\n", b'},"more":1}\n')), "members"),
        (run_of(TIMEOUT.replace(b"}}\n", b',"more":1}}\n')), "members"),
        (run_of(TIMEOUT.replace(b'"ok":false', b'"ok": false')), "white space between tokens"),
        (run_of(TIMEOUT.replace(b"limit.", b"limit")), "not the constant envelope"),
        (run_of(TIMEOUT, exit_code=2), "exit status 2"),
        (run_of(failure_document("tool_failed")), "expected timeout, got tool_failed"),
        (success(), "expected timeout, got ok"),
    ],
)
def test_what_is_no_failure_is_noticed(run: Run, why: str) -> None:
    with pytest.raises(Broken, match=why):
        run.expect("timeout")


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (success('{"type":"text","text":"é"}'.encode()), "not ASCII outside structured_content"),
        (success(rb'{"type":"text","text":"\u00E9"}'), "upper-case escape"),
        (success(b"1, 2"), "white space between tokens"),
        (success(b"", b',"structured_content":[]'), "structured_content is not an object"),
        (success(b"", b',"more":1'), "members"),
        (run_of(HEAD + SUCCESS % (b"", b"")), "exit status 1"),
        (run_of(TIMEOUT), "expected ok, got timeout"),
    ],
)
def test_what_is_no_success_is_noticed(run: Run, why: str) -> None:
    with pytest.raises(Broken, match=why):
        run.expect_ok("a_b")


def test_a_success_is_the_tools() -> None:
    with pytest.raises(Broken, match="not a success of a_c"):
        success().expect_ok("a_c")


@pytest.mark.parametrize("structured", [b"{}", '{"é": 1.10, "b":"\\u00E9"}'.encode()])
def test_structured_content_is_the_servers(structured: bytes) -> None:
    content = rb'{"type":"text","text":"\u00e9 \\u00E9"}'
    run = success(content, b',"structured_content":' + structured)
    assert run.expect_ok("a_b")["tool"] == "a_b"
    assert run.structured() == structured


def test_without_structured_content() -> None:
    with pytest.raises(Broken, match="no structured content"):
        success().structured()


def test_a_helper(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Helper([sys.executable, "-I", "-c", HELPER, str(log)], log) as helper:
        assert helper.ports == [7, 8]
        assert helper.entries() == [{"one": 1}, {"two": "2\n"}]
        entries, behind = helper.read()
        assert len(entries) == 2
        with log.open("a") as more:
            more.write("3}\n")
        assert helper.entries(behind) == [{"half": 3}]
    helper.stop()


def test_a_helper_that_says_nothing() -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        Helper([sys.executable, "-I", "-c", ""])


def test_a_helper_ends_with_its_parent() -> None:
    held = "from deepagents_ro.qualify.lab import helper; helper.hold(); helper.announce(1)"
    command = [sys.executable, "-I", "-c", f"import threading; {held}; threading.Event().wait()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _out, _ = process.communicate(timeout=30)  # closes standard input
    assert process.returncode == 0
