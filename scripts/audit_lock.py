"""Asks the database of known vulnerabilities about locks, and says when it did not answer.

    python scripts/audit_lock.py LOCK... [--pip-audit PROGRAM]

`pip-audit` skips a package that its service does not know and still ends with "No known
vulnerabilities found", which is what comes of a registry that has no vulnerability data at all. So
its JSON is read here. Exit status: 0 everything audited and nothing found, 1 a vulnerability is
known, 2 something was not audited.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SECONDS = 600
PIN = re.compile(r"^[A-Za-z0-9._-]+==\S+ \\\n(?:    .*\n)+", re.MULTILINE)


def ask(program: str, lock: Path) -> list[dict[str, Any]] | str:
    """What pip-audit says of each package of a lock, or why it says nothing."""
    command = [program, "--format", "json", "--progress-spinner", "off", "--require-hashes",
               "--disable-pip", "--requirement", str(lock)]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        return json.loads(done.stdout)["dependencies"]
    except FileNotFoundError:
        return f"{program} is not installed"
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} s"
    except (ValueError, KeyError, TypeError):
        return (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]


def audit(program: str, lock: Path) -> tuple[int, list[str]]:
    """The exit status for one lock, and the lines that explain it."""
    first = PIN.search(lock.read_text())
    if first is None:
        return 2, [f"{lock}: NOT AUDITED: it pins nothing"]
    with tempfile.TemporaryDirectory() as directory:
        # One question first: where the database is not there, the others are not asked.
        probe = Path(directory) / "probe.txt"
        probe.write_text(first.group())
        answer = ask(program, probe)
        if not isinstance(answer, str) and all("skip_reason" not in one for one in answer):
            answer = ask(program, lock)
    if isinstance(answer, str):
        return 2, [f"{lock}: NOT AUDITED: {answer}"]
    skipped = [one for one in answer if "skip_reason" in one]
    lines = [
        f"{one['name']} {one['version']}: {found['id']}, fixed in "
        + (", ".join(found["fix_versions"]) or "no version")
        for one in answer
        for found in one.get("vulns", ())
    ]
    if lines:
        return 1, [*lines, f"{lock}: {len(lines)} known vulnerabilities"]
    if skipped:
        lines = [f"{one['name']}: {one['skip_reason']}" for one in skipped]
        return 2, [*lines, f"{lock}: NOT AUDITED: no answer about {len(skipped)} of it"]
    return 0, [f"{lock}: {len(answer)} packages audited, nothing known"]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("locks", nargs="+", type=Path, metavar="LOCK")
    parser.add_argument("--pip-audit", default="pip-audit", metavar="PROGRAM")
    chosen = parser.parse_args(arguments)
    worst = 0
    for lock in chosen.locks:
        status, lines = audit(chosen.pip_audit, lock)
        print("\n".join(lines), flush=True)
        worst = status if worst == 0 or status == 1 else worst
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
