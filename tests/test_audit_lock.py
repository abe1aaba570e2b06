"""The audit of a lock says when nothing was audited."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "audit_lock.py"
LOCK = "# a lock\n" + "".join(
    f"{name}==1 \\\n    --hash=sha256:{digit * 64}\n    # via x\n" for name, digit in (("a", "0"),
                                                                                      ("b", "1"))
)  # fmt: skip
A = {"name": "a", "version": "1", "vulns": []}
B = {"name": "b", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "Dependency not found"}
BAD = {**B, "vulns": [{"id": "X-1", "fix_versions": ["2"]}, {"id": "X-2", "fix_versions": []}]}


def audit(tmp_path: Path, probe: Any, whole: Any, lock: str = LOCK) -> tuple[int, list[str]]:
    """Run on a `pip-audit` that answers `probe` about one package and `whole` about two."""
    program, file = tmp_path / "pip-audit", tmp_path / "lock.txt"
    answers = [text if isinstance(text, str) else json.dumps({"dependencies": text})
               for text in (probe, whole)]  # fmt: skip
    program.write_text(
        f"#!{sys.executable}\nimport sys\nanswers = {answers!r}\n"
        "many = open(sys.argv[-1]).read().count('==') > 1\n"
        "print(answers[many])\nprint('why not', file=sys.stderr)\n"
    )
    program.chmod(0o755)
    file.write_text(lock)
    words = [sys.executable, "-I", str(SCRIPT), str(file), "--pip-audit", str(program)]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout.replace(str(file), "LOCK").splitlines()


@pytest.mark.parametrize(
    ("probe", "whole", "status", "lines"),
    [
        ([A], [A, B], 0, ["LOCK: 2 packages audited, nothing known"]),
        ([A], [A, BAD], 1, ["b 1: X-1, fixed in 2", "b 1: X-2, fixed in no version",
                            "LOCK: 2 known vulnerabilities"]),
        ([A], [UNKNOWN, BAD], 1, ["b 1: X-1, fixed in 2", "b 1: X-2, fixed in no version",
                                  "LOCK: 2 known vulnerabilities"]),
        ([A], [A, UNKNOWN], 2, ["b: Dependency not found",
                                "LOCK: NOT AUDITED: no answer about 1 of it"]),
        ([UNKNOWN], "never asked", 2, ["b: Dependency not found",
                                       "LOCK: NOT AUDITED: no answer about 1 of it"]),
        ("no JSON", "never asked", 2, ["LOCK: NOT AUDITED: why not"]),
        ([A], "no JSON", 2, ["LOCK: NOT AUDITED: why not"]),
    ],
)  # fmt: skip
def test_answers(tmp_path: Path, probe: Any, whole: Any, status: int, lines: list[str]) -> None:
    assert audit(tmp_path, probe, whole) == (status, lines)


def test_a_lock_that_pins_nothing_and_no_program(tmp_path: Path) -> None:
    assert audit(tmp_path, [A], [A], lock="# nothing\n")[0] == 2
    words = [sys.executable, "-I", str(SCRIPT), str(tmp_path / "lock.txt")]
    (tmp_path / "lock.txt").write_text(LOCK)
    done = subprocess.run([*words, "--pip-audit", str(tmp_path / "absent")], capture_output=True)
    assert done.returncode == 2
    assert b"NOT AUDITED" in done.stdout
