"""`deepagents-ro doctor`: what a call here depends on, without a secret or a connection."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers.dcode import BIN, Dcode
from servers.inside import surroundings

from deepagents_ro import doctor

SECRET = "hunter2-hunter2"


def run(dcode: Dcode, *words: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(BIN / "deepagents-ro"), "doctor", *words],
        cwd=dcode.project,
        env={**dcode.env, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == "" or done.returncode == 2
    assert SECRET not in done.stdout + done.stderr
    return done.returncode, done.stdout


@pytest.fixture
def here(dcode: Dcode, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """As `run`, in this process."""

    def run_here(*words: str, **env: str) -> tuple[int, str]:
        with surroundings(dcode, env):
            status = doctor.main(list(words))
        out, err = capsys.readouterr()
        assert err == "" or status == 2
        return status, out

    return run_here


def checks(output: str) -> dict[str, dict[str, Any]]:
    document = json.loads(output)
    assert document["command"] == "doctor"
    return {check["name"]: check for check in document["data"]["checks"]}


def test_what_a_call_depends_on(dcode: Dcode) -> None:
    dcode.serve(
        far={
            "url": f"https://far.test/{SECRET}?key={SECRET}",
            "headers": {"Authorization": f"Bearer {SECRET}"},
        },
        near="http://127.0.0.1:9/mcp",
        unset={"url": "https://${NOT_SET_ANYWHERE}/"},
        child={"command": "sh", "args": [SECRET]},
        lost={"command": "no-such-command-anywhere"},
    )
    (dcode.project / ".mcp.json").write_text("{")
    proxy = f"http://user:{SECRET}@proxy.test:3128"
    status, output = run(dcode, "--json", HTTPS_PROXY=proxy, NO_PROXY="127.0.0.1")
    found = checks(output)
    assert status == 0
    assert {name: found[name]["state"] for name in ("patch", "dcode command", "trusted roots")} == {
        "patch": "ok",
        "dcode command": "ok",
        "trusted roots": "ok",
    }
    assert found["libcurl in use"]["value"].startswith("libcurl ")
    assert "SSL" in found["OpenSSL in use"]["value"]
    assert {name[7:]: check["value"] for name, check in found.items() if "server " in name} == {
        "far": "https://far.test by the proxy http://proxy.test:3128",
        "near": "http://127.0.0.1:9 without a proxy",
        "unset": "needs NOT_SET_ANYWHERE",
        "child": "a command on PATH",
        "lost": "its command is not on PATH",
    }
    assert found["configuration"]["value"] == f"{dcode.project / '.mcp.json'}:1:2"


def test_what_a_call_cannot_work_with(
    dcode: Dcode, here: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    status, output = run(dcode)
    assert status == 1
    assert "\x1b" not in output
    assert "none is configured" in output
    (line,) = [line for line in output.splitlines() if line.startswith("servers")]
    assert "broken" in line
    dcode.serve(unset={"url": "https://${NOT_SET_ANYWHERE}/"})
    assert checks(here("--json")[1])["servers"]["state"] == "broken"
    dcode.serve(near="http://127.0.0.1:9/mcp")
    assert here()[0] == 0
    empty = tmp_path / "roots.pem"
    empty.write_text("")
    status, output = here("--json", SSL_CERT_FILE=str(empty))
    assert (status, checks(output)["trusted roots"]["state"]) == (1, "broken")
    status, output = here("--mcp-config", "missing.json", "--json")
    assert (status, checks(output)["configuration"]["value"]) == (1, "loader_missing")
    assert here("--yaml")[0] == 2


@pytest.mark.parametrize(
    ("has_package", "patched", "state", "text"),
    [
        (False, True, "broken", "deepagents-ro is not installed for"),
        (False, False, "warning", "deepagents-ro is not installed for"),
        (True, True, "warning", "it is of another environment"),
    ],
)
def test_a_dcode_of_another_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_package: bool,
    patched: bool,
    state: str,
    text: str,
) -> None:
    package = tmp_path / "__init__.py"
    package.write_text("# deepagents-ro: begin\n" if patched else "")
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho {has_package} {package}\n")
    dcode = tmp_path / "dcode"
    dcode.write_text(f"#!{python}\n")
    for path in (python, dcode):
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = doctor.of_command()
    assert check.state == state
    assert text in check.advice
    assert ("patched, without" in check.value) == (state == "broken")


def test_a_dcode_that_is_not_there_or_not_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = doctor.of_command()
    assert check.state == "warning"
    script = tmp_path / "dcode"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert doctor.interpreter_of(script) is None
    (check,) = doctor.of_command()
    assert (check.state, check.value) == ("ok", str(script))


def test_a_check_that_fails_is_a_line() -> None:
    def fails() -> Any:
        yield doctor.Check("first", "good")
        raise ValueError(SECRET)

    first, second = doctor.guarded("second", fails)
    assert (first.state, second.state) == ("ok", "broken")
    assert SECRET not in second.value


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h.test:8443/x?y#z", "https://h.test:8443"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("http://h/", "http://h"),
    ],
)
def test_of_a_url_the_origin_is_shown(url: str, shown: str) -> None:
    assert doctor.origin(url) == shown


def test_without_the_extension(dcode: Dcode) -> None:
    code = (
        "import sys; sys.modules['deepagents_ro._mcpro'] = None\n"
        "from deepagents_ro.doctor import main; sys.exit(main(['--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=dcode.project,
        env=dcode.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, "")
    found = checks(done.stdout)
    assert found["extension"]["state"] == "broken"
    assert "wheel" in found["extension"]["advice"]
    assert found["Python"]["state"] == found["patch"]["state"] == "ok"
