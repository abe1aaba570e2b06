"""The qualification: it passes on what keeps the contract, and notices what does not."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from servers.dcode import BIN, DCODE, processes_of
from servers.managed import EditedImage, PublicNetwork

from deepagents_ro.patch.install import locate
from deepagents_ro.qualify import cases
from deepagents_ro.qualify.lab.oracle import MESSAGES, failure_document
from deepagents_ro.qualify.lab.runs import Broken, Run
from deepagents_ro.qualify.prove import is_routed, verdict
from deepagents_ro.qualify.report import Proof, Report
from deepagents_ro.qualify.runner import Runner, Stopped, entries_of, write_private
from deepagents_ro.qualify.scripted import PLACEHOLDER
from deepagents_ro.qualify.servers import Lab
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


@pytest.mark.thorough
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
        assert all(15.0 <= row["seconds"] <= 18.5 for row in hanging)
    assert printed["promises"] == written["promises"]
    assert list(tmp_path.iterdir()) == [report]


def test_every_state_is_among_the_promises() -> None:
    expected = {case.expect for case in PROVED.values()}
    assert expected == {"ok", *MESSAGES}
    denied = [case for case in PROVED.values() if case.expect == "tool_not_read_only"]
    assert len(denied) >= 9
    assert all(case.calls == 0 for case in denied)


@pytest.mark.thorough
def test_upstream_on_what_has_no_such_command(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = qualify("--upstream", "--report", str(report))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "has no such command of its own: deepagents-ro is needed" in done.stdout
    document = json.loads(report.read_text())
    assert document["upstream"] is True
    assert document["ok"] is False
    assert [row["kept"] for row in document["promises"]] == [False]


@pytest.mark.thorough
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


@pytest.mark.sample(3)
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
    lab.journal.issued(outcome.name, "one-more")
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
    report = tmp_path / "report.json"
    done = qualify("--dcode", str(script), "--report", str(report))
    assert done.returncode == 1
    assert "NOT qualified" in done.stdout
    assert "BROKEN" in done.stdout
    names = {row["name"] for row in json.loads(report.read_text())["promises"]}
    assert "hanging" not in names, "it waited for the runs that hang"


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


@pytest.mark.parametrize(
    ("answered", "seconds", "kept"),
    [
        (14.9999, 15.2, False),
        (15.0, 15.2, True),
        (15.5, 18.5, True),
        (15.5001, 15.6, False),
        (15.1, 18.5001, False),
    ],
)
def test_both_ends_of_the_deadline(lab: Lab, answered: float, seconds: float, kept: bool) -> None:
    class Finished:
        def __init__(self) -> None:
            self.lab = lab

        def run(self, _world: object, _mode: str) -> Run:
            document = failure_document("timeout")
            return Run([], document, b"", 1, 0.0, answered, seconds, [], name="none")

    case = replace(PROVED["hanging"], calls=0, also=())
    if kept:
        case.prove(Finished(), "direct")  # type: ignore[arg-type]
        return
    with pytest.raises(Broken, match=r"not 15"):
        case.prove(Finished(), "direct")  # type: ignore[arg-type]


def test_the_entries_of_a_managed_runtime() -> None:
    """Exactly the allowed form; the run stands in the path, without a header of its own."""
    servers = {
        "a": cases.http("https://192.0.2.1:7/json/mcp", Authorization="Bearer x"),
        "b": cases.http("https://host.invalid/mcp"),
    }
    entries = entries_of(servers, "run-0001", managed=True)
    assert entries == {
        "a": {
            "type": "http",
            "url": "https://192.0.2.1:7/run-0001/json/mcp",
            "headers": {"Authorization": PLACEHOLDER},
        },
        "b": {
            "type": "http",
            "url": "https://host.invalid/run-0001/mcp",
            "headers": {"Authorization": PLACEHOLDER},
        },
    }
    child = {"command": "x", "args": []}
    plain = entries_of({**servers, "c": child}, "run-0001", managed=False)
    assert plain["a"]["headers"] == {"Authorization": "Bearer x"}
    assert plain["b"]["headers"] == {}
    assert plain["c"] == child


def test_what_a_managed_runtime_rules_out_is_left_out() -> None:
    left = {case.name for case in cases.cases(managed=True)}
    assert PROVED.keys() - left == {"cleanup"}
    with Lab("127.0.0.1", managed=True) as managed:
        for case in cases.cases(managed=True):
            world = case.task(managed)
            assert all("command" not in entry for entry in world.servers.values())
            for name, value in world.env.items():
                assert not name.endswith(("KEY", "TOKEN", "SECRET")) or len(value) < 10, name
                assert not name.endswith("ENDPOINT"), name


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_the_managed_configuration_file(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "new" / "managed.json"
    path.parent.mkdir()
    old = os.umask(umask)
    try:
        write_private(path, "{}")
    finally:
        os.umask(old)
    state = path.lstat()
    assert stat.S_ISREG(state.st_mode)
    assert (stat.S_IMODE(state.st_mode), state.st_nlink, state.st_uid) == (0o600, 1, os.geteuid())
    assert path.read_text() == "{}"
    with pytest.raises(FileExistsError):
        write_private(path, "{}")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "link", "{}")


@pytest.mark.parametrize(
    ("host", "routed"),
    [
        ("34.117.10.10", True),
        ("127.0.0.1", False),
        ("10.0.0.1", True),
        ("100.64.0.1", True),
        ("172.17.0.2", True),
        ("192.168.1.1", True),
        ("169.254.1.1", False),
        ("192.0.2.1", False),
        ("localhost", False),
        ("2606:4700::1111", False),
    ],
)
def test_a_routed_address(host: str, routed: bool) -> None:
    assert is_routed(host) is routed


def test_a_missing_package_is_one_line() -> None:
    code = "import sys; sys.modules[sys.argv.pop(1)] = None\n"
    code += "from deepagents_ro.qualify.__main__ import run; sys.exit(run([]))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "uvicorn"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "deepagents-ro: the qualification needs uvicorn\n"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> EditedImage:
    return EditedImage(tmp_path_factory.mktemp("edited") / "image")


def test_a_managed_image_needs_a_file_and_an_address(image: EditedImage, tmp_path: Path) -> None:
    done = qualify(python=str(image.python))
    assert done.returncode == 2
    assert "--managed-config FILE" in done.stderr
    done = qualify("--managed-config", str(tmp_path / "new"), python=str(image.python))
    assert done.returncode == 2
    assert "refuses servers on 127.0.0.1; name a routed IPv4 address" in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.needs("network namespaces")
@pytest.mark.thorough
def test_in_a_managed_image(image: EditedImage, tmp_path: Path) -> None:
    """On a public address, with the entries, the file and the environment that it allows."""
    home = tmp_path / "home"
    config = home / ".deepagents" / ".nemoclaw-mcp.json"
    launcher = tmp_path / "launcher"
    launcher.write_text(
        f"#!/bin/sh\nHOME={home}\nexport HOME\n"
        f'exec {image.python} -I -m deepagents_code --sandbox none --no-mcp "$@"\n'
    )
    launcher.chmod(0o755)

    def prove() -> None:
        with Lab(PublicNetwork.ADDRESS, managed=True) as public:
            runner = Runner(public, [str(launcher)], config)
            for name in (
                "allowed",
                "allowed, no sessions",
                "self-signed",
                "oversized credential",
                "credential reflection",
                "ambiguous",
                "placeholder",
                "no model",
            ):
                PROVED[name].prove(runner, "progressive")
                assert not config.exists()
            cases.tripwire_untouched(public)

    with PublicNetwork() as network:
        network.run(prove)


@pytest.mark.thorough
def test_nothing_is_left_behind(lab: Lab, runner: Runner) -> None:
    outcome = PROVED["cleanup"].prove(runner, "direct")
    assert processes_of(lab.root / outcome.name) == []
