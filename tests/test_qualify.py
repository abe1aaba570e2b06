"""The qualification: it passes on what keeps the contract, and notices what does not."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from servers.dcode import BIN, DCODE, processes_of
from servers.managed import ManagedImage

from deepagents_ro.patch.install import locate
from deepagents_ro.qualify import cases
from deepagents_ro.qualify.__main__ import verdict
from deepagents_ro.qualify.lab import Lab
from deepagents_ro.qualify.report import Proof, Report
from deepagents_ro.qualify.runner import MESSAGES, Broken, Runner, Stopped
from deepagents_ro.qualify.unpatched import is_patched, make_unpatched

QUALIFY = [sys.executable, "-I", "-m", "deepagents_ro.qualify"]
# Two modes, a full deadline in each; twice what a loaded machine of two processors takes.
LIMIT_SECONDS = 240
PROVED = {case.name: case for case in cases.cases()}


def qualify(*arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *QUALIFY[1:], *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab("127.0.0.1") as started:
        yield started


@pytest.fixture
def runner(lab: Lab) -> Runner:
    return Runner(lab, [str(DCODE)], None)


@pytest.fixture
def liar(lab: Lab, tmp_path: Path) -> Any:
    """Makes a runner of a shell script; `$DCODE` is the real command."""

    def make(text: str) -> Runner:
        script = tmp_path / "dcode"
        script.write_text(f"#!/bin/bash\nDCODE={DCODE}\n{text}\n")
        script.chmod(0o755)
        return Runner(lab, [str(script)], None)

    return make


def test_the_whole_proof(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = qualify("--json", "--report", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    printed, written = json.loads(done.stdout), json.loads(report.read_text())
    for document in (printed, written):
        assert document["ok"] is True
        assert document["complete"] is True
        assert document["versions"]["deepagents-code"] == locate(None).version
        proved = {(row["name"], row["mode"]) for row in document["promises"] if row["kept"]}
        assert proved >= {(name, mode) for name in PROVED for mode in ("progressive", "direct")}
        assert proved >= {("patch", ""), ("same outcome", ""), ("nobody else", "")}
        hanging = [row for row in document["promises"] if row["name"] == "hanging"]
        assert all(14.9 <= row["seconds"] <= 18.5 for row in hanging)
    assert printed["promises"] == written["promises"]
    assert list(tmp_path.iterdir()) == [report]


def test_every_state_is_among_the_promises() -> None:
    expected = {case.expect for case in PROVED.values()}
    assert expected == {"ok", *MESSAGES}
    denied = [case for case in PROVED.values() if case.expect == "tool_not_read_only"]
    assert len(denied) >= 9
    assert all(case.calls == 0 for case in denied)


def test_upstream_on_what_has_no_such_command(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = qualify("--upstream", "--report", str(report))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "has no such command of its own: deepagents-ro is needed" in done.stdout
    document = json.loads(report.read_text())
    assert document["upstream"] is True
    assert document["ok"] is False
    assert [row["kept"] for row in document["promises"]] == [False]


def test_upstream_proves_an_unpatched_copy(tmp_path: Path) -> None:
    install = locate(None)
    assert is_patched(install)
    command = make_unpatched(install, tmp_path / "copy")
    assert is_patched(locate(None))
    copy = locate(str(next(tmp_path.glob("copy/lib/*/site-packages"))))
    assert not is_patched(copy)
    shown = [
        subprocess.run([*words, "--version"], capture_output=True, text=True, cwd=tmp_path,
                       env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
        for words in (command, [str(DCODE)])
    ]  # fmt: skip
    assert shown[0].returncode == 0, shown[0].stderr
    assert shown[0].stdout == shown[1].stdout


def test_progress_on_a_terminal() -> None:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*QUALIFY, "--upstream"],
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            data = os.read(controller, 65536)
        except OSError:  # the terminal is gone with its last user
            break
        if not data:
            break
        shown += data
    os.close(controller)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors == b""
    assert b"proving" in shown
    assert b"BROKEN" in shown


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("allowed", 'exec "$DCODE" "$@" 2>&1; ', None),
        ("allowed", 'exit 0', "not one line"),
        ("allowed", 'echo hello', "not the envelope"),
        ("allowed", '"$DCODE" "$@"; echo noise >&2', "standard error is not empty"),
        ("allowed", '"$DCODE" "$@"; echo', "not one line"),
        ("allowed", '"$DCODE" "$@"; exit 3', "exit status 3"),
        ("allowed", '"$DCODE" "$@" <<<"{}" >/dev/null; exec "$DCODE" "$@"', "got the calls"),
        ("allowed", '"$DCODE" "$@" | sed s/qualification-nonce/other/', "content is"),
        ("allowed", '"$DCODE" "$@"; touch "$TMPDIR/left"', "left behind: left"),
        ("allowed", '"$DCODE" "$@"; setsid sleep 5 >/dev/null 2>&1 </dev/null &',
         "left behind: process"),
        ("lossless", '"$DCODE" "$@" | sed s/1.10/1.1/', "not what was sent"),
        ("unannotated", '"$DCODE" "$@" | sed s/not_read_only/not_found/', "expected tool_not_read"),
        ("absent", '"$DCODE" "$@" | sed "s/exact MCP/MCP/"', "not the constant envelope"),
        ("absent", '"$DCODE" "$@" | sed "s/,/, /"', "not the"),
        ("tool name", '"$DCODE" "$@"; exit 1', "exit status 1"),
        ("oversized input", '"$DCODE" "$@"; "$DCODE" tools call-read-only '
         "worker-broker_absent --json <<<'{}' >/dev/null; exit 1", "a server was contacted"),
        ("credential reflection", '"$DCODE" "$@" | sed "s/<redacted-secret>/x/"', "not redacted"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_noticed(liar: Any, name: str, text: str, why: str | None) -> None:
    runner = liar(text)
    if why is None:
        PROVED[name].prove(runner, "direct")
        return
    with pytest.raises(Broken, match=why):
        PROVED[name].prove(runner, "direct")


def test_a_late_end_is_noticed(liar: Any) -> None:
    case = replace(PROVED["tool name"], seconds=(0.0, 1.5))
    with pytest.raises(Broken, match="took"):
        case.prove(liar('"$DCODE" "$@"; status=$?; sleep 1.6; exit $status'), "direct")


def test_an_undeleted_session_is_noticed(lab: Lab, runner: Runner) -> None:
    case = PROVED["allowed"]
    outcome = case.prove(runner, "direct")
    lab.journal.issued(outcome.run, "one-more")
    with pytest.raises(Broken, match="3 sessions were opened, 2 deleted"):
        cases.sessions_deleted(lab, outcome)


def test_contact_with_others_is_noticed(liar: Any, lab: Lab) -> None:
    cases.tripwire_untouched(lab)
    url = "http://telemetry.invalid/v1"
    fetch = f"import urllib.request as u; u.urlopen({url!r})"
    runner = liar(f'{sys.executable} -c "{fetch}" 2>/dev/null; exec "$DCODE" "$@"')
    try:
        PROVED["built in"].prove(runner, "direct")
        with pytest.raises(Broken, match=r"telemetry\.invalid"):
            cases.tripwire_untouched(lab)
    finally:
        lab.tripwire.targets.clear()


def test_the_outcome_must_not_depend_on_mode_or_model() -> None:
    names = ["allowed", "no model"]
    same = {(name, mode): b"x" for name in names for mode in cases.MODES}
    cases.same_bytes(same, names)
    with pytest.raises(Broken, match="the two modes differ"):
        cases.same_bytes({**same, ("allowed", "direct"): b"y"}, names)
    other = {**same, ("no model", "direct"): b"y", ("no model", "progressive"): b"y"}
    with pytest.raises(Broken, match="depends on model settings"):
        cases.same_bytes(other, names)


def test_the_first_broken_promise_ends_it(tmp_path: Path) -> None:
    script = tmp_path / "dcode"
    script.write_text(f'#!/bin/bash\n"{DCODE}" "$@"\nstatus=$?\necho noise >&2\nexit $status\n')
    script.chmod(0o755)
    started = time.monotonic()
    done = qualify("--dcode", str(script))
    assert done.returncode == 1
    assert "NOT qualified" in done.stdout
    assert "BROKEN" in done.stdout
    assert time.monotonic() - started < 14, "it waited for the runs that hang"


def test_stop(runner: Runner) -> None:
    runner.stop()
    with pytest.raises(Stopped):
        PROVED["built in"].prove(runner, "direct")


def test_verdicts() -> None:
    install = locate(None)
    kept = Proof("a", "direct", "a is so", None, 0.1)
    lost = Proof("b", "direct", "b is so", "it is not", 0.1)

    def of(*proofs: Proof, upstream: bool, complete: bool = True) -> tuple[bool, str]:
        report = Report(upstream, ["dcode"], list(proofs), complete=complete)
        return report.ok, verdict(report, install)

    assert of(kept, kept, upstream=False)[0]
    ok, text = of(kept, lost, upstream=False)
    assert not ok
    assert "NOT qualified. Broken: b." in text
    ok, text = of(kept, kept, upstream=True)
    assert ok
    assert "can be removed" in text
    ok, text = of(kept, lost, upstream=True)
    assert not ok
    assert "breaks 1 of 2 promises" in text
    assert not of(kept, upstream=False, complete=False)[0]


def test_what_cannot_begin(tmp_path: Path) -> None:
    existing = tmp_path / "managed.json"
    existing.write_text("{}")
    done = qualify("--managed-config", str(existing))
    assert done.returncode == 2
    assert "is not overwritten" in done.stderr
    assert existing.read_text() == "{}"
    done = qualify("--upstream", "--dcode", str(BIN / "dcode"))
    assert done.returncode == 2
    done = qualify("--host", "192.0.2.1")
    assert done.returncode == 2
    assert done.stderr.startswith("deepagents-ro: ")


def test_in_a_managed_image(lab: Lab, tmp_path: Path) -> None:
    image = ManagedImage(tmp_path / "image")
    config = tmp_path / "managed.json"
    image.runtime(
        "def assert_safe_runtime():\n    pass\n\n"
        f"def managed_mcp_config_path():\n    return {str(config)!r}\n"
    )
    done = qualify(python=str(image.python))
    assert done.returncode == 2
    assert "--managed-config FILE" in done.stderr
    runner = Runner(lab, [str(image.dcode), "--sandbox", "none", "--no-mcp"], config)
    for name in ("allowed", "absent", "mutating", "hint text", "placeholder"):
        PROVED[name].prove(runner, "progressive")
        assert not config.exists()


def test_nothing_is_left_behind(lab: Lab, runner: Runner) -> None:
    outcome = PROVED["cleanup"].prove(runner, "direct")
    assert processes_of(lab.root / outcome.run) == []
