"""What each entry point prints when the command fails before its output guard stands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deepagents_ro import _mcpro, early_failure
from deepagents_ro.patch import text

PACKAGE = Path(early_failure.__file__).parent
# Code that begins as the entry point does, behind `sys.argv = [program, *words]`.
CALL, AUDIT = ["tools", "call-read-only"], ["tools", "audit-read-only"]
DCODE = text.EDITS["__init__.py"][1].decode()
MODULE = "import runpy; runpy.run_module('deepagents_ro', run_name='__main__')"
CONSOLE = "from deepagents_ro.console import main; sys.exit(main())"
ENTRY_POINTS = {
    "dcode call": (DCODE, CALL, "call-read-only"),
    "dcode audit": (DCODE, AUDIT, "audit-read-only"),
    "python -m deepagents_ro": (MODULE, [], "call-read-only"),
    "deepagents-ro call": (CONSOLE, ["call"], "call-read-only"),
    "deepagents-ro audit": (CONSOLE, ["audit"], "audit-read-only"),
}
STARTS = {
    "raise ImportError": "runtime_failure",
    "def main(": "runtime_failure",
    "raise SystemExit(0)": "runtime_failure",
    "def main(words): print('lost')": "runtime_failure",
    "raise KeyboardInterrupt": "interrupted",
    "import os; os.kill(os.getpid(), 15); input()": "interrupted",
}


FAILED = "The managed MCP tool call failed."
MISSING = (
    "deepagents-ro is not installed beside this DCode, or was built for another Python: "
    "install its wheel again."
)


def expected(command: str, code: str, start: str) -> bytes:
    """The call's own envelope; the audit, which people read, says what an ImportError means."""
    document = _mcpro.envelope_error(code).decode() + "\n"
    if command == "audit-read-only" and start == "raise ImportError":
        assert FAILED in document
        document = document.replace(FAILED, MISSING)
    return document.replace("call-read-only", command).encode()


def run(directory: Path, entry: str, words: list[str], stdout: int = subprocess.PIPE) -> bytes:
    """The exit status as ASCII, a space and standard output of one run; nothing on the other."""
    code, before, _command = ENTRY_POINTS[entry]
    argv = ["program", *before, *words]
    head = f"import sys; sys.path.insert(0, {str(directory)!r}); sys.argv = {argv!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", head + code],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=20,
    )
    assert done.stderr == b""
    return b"%d %b" % (done.returncode, done.stdout or b"")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A `deepagents_ro` of nothing but what an entry point runs before the command."""
    made = tmp_path / "deepagents_ro"
    made.mkdir()
    for name in ("__init__", "__main__", "_dispatch", "console", "early_failure"):
        shutil.copy(PACKAGE / f"{name}.py", made)
    return made


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("entry", ENTRY_POINTS)
def test_a_command_that_does_not_start(package: Path, entry: str, start: str) -> None:
    for name in ("command", "audit_command"):
        (package / f"{name}.py").write_text(start)
    code = STARTS[start]
    document = expected(ENTRY_POINTS[entry][2], code, start)
    ended = run(package.parent, entry, ["a_b", "--json"])
    assert ended == b"%d %b" % (_mcpro.envelope_exit(code), document)


@pytest.mark.parametrize("entry", ENTRY_POINTS)
def test_a_command_that_starts_has_the_last_word_itself(package: Path, entry: str) -> None:
    echo = "import os\ndef main(words):\n os.write(1, ' '.join(words).encode())\n os._exit(7)"
    for name in ("command", "audit_command"):
        (package / f"{name}.py").write_text(echo)
    words = [*ENTRY_POINTS[entry][1], "a_b"] if entry.startswith("dcode") else ["a_b"]
    assert run(package.parent, entry, ["a_b"]) == b"7 " + " ".join(words).encode()


@pytest.mark.parametrize("entry", ENTRY_POINTS)
def test_a_reader_that_is_gone(package: Path, entry: str) -> None:
    for name in ("command", "audit_command"):
        (package / f"{name}.py").write_text("raise KeyboardInterrupt")
    with open("/dev/full", "wb") as full:
        assert run(package.parent, entry, [], stdout=full.fileno()) == b"1 "


def test_the_other_words_of_the_console() -> None:
    for words, status in ((["--help"], 0), ([], 2), (["call-read-only"], 2)):
        code = f"import sys; sys.argv = ['x', *{words!r}]\n{CONSOLE}"
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, timeout=20)
        assert done.returncode == status
        assert b"deepagents-ro call" in (done.stderr if status else done.stdout)
