"""`python -m deepagents_ro.patch apply|check|revert [--site DIR]`."""

from __future__ import annotations

import argparse
import os
import py_compile
import subprocess
import sys
import tempfile
from pathlib import Path

from deepagents_ro import packed, startup, stored
from deepagents_ro.versions import DISTRIBUTION, PACKAGE, RELEASES

from . import patcher
from .install import Install, PatchError, locate


def main(arguments: list[str]) -> int:
    """Do what `arguments` say; the exit status. Never raises for a state of the disk."""
    parser = argparse.ArgumentParser(
        prog="python -m deepagents_ro.patch",
        description=f"Adds `dcode tools call-read-only` to an installed {DISTRIBUTION} "
        f"({', '.join(RELEASES)}), and takes it out again.",
    )
    parser.add_argument("action", choices=["apply", "check", "revert"])
    parser.add_argument(
        "--site",
        metavar="DIR",
        help=f"the directory that holds {DISTRIBUTION} (default: this interpreter's site-packages)",
    )
    options = parser.parse_args(arguments)
    try:
        return _run(options.action, locate(options.site))
    except PatchError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename or options.site or sys.prefix}: {error.strerror or error}"
    except py_compile.PyCompileError as error:
        reason = f"{error.file} cannot be compiled: {error.msg.strip()}"
    print(f"deepagents-ro: {reason}", file=sys.stderr)
    return 1


def _run(action: str, install: Install) -> int:
    what = f"{DISTRIBUTION} {install.version} in {install.site}"
    if action == "apply":
        for warning in patcher.apply(install):
            print(f"deepagents-ro: warning: {warning}", file=sys.stderr)
        if _is_ours(install):
            _keep_code()
        print(f"{what}: applied")
        return 0
    if action == "revert":
        others = patcher.revert(install)
        if _is_ours(install):
            _drop_code()
        if others is None:
            print(f"{what}: reverted; no RECORD says whether the rest is as published")
            return 0
        for name in others:
            print(f"{install.path(name)} is not as published; another program changed it")
        print(f"{what}: {'reverted' if others else 'as published'}")
        return 0
    findings = patcher.check(install)
    for finding in findings:
        print(f"deepagents-ro: {finding}")
    if not findings:
        print(f"{what}: applied, verified and qualified")
    return 1 if findings else 0


def _is_ours(install: Install) -> bool:
    """Whether `install` is the DCode that this interpreter imports."""
    place = startup.place_of(PACKAGE)
    return place is not None and Path(place).resolve() == install.site


def _keep_code() -> None:
    """Have the stack's code kept in one file, and what it compiles at each start in another.

    A call does without them, too.
    """
    with tempfile.TemporaryDirectory(prefix="deepagents-ro-") as home:
        subprocess.run(
            [sys.executable, "-I", "-m", f"{__package__}.store"],
            cwd=home,
            env={**os.environ, "HOME": home},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def _drop_code() -> None:
    """Remove what `_keep_code` has written."""
    for file in (stored.FILE, packed.FILE):
        Path(file).unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
