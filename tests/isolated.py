"""Python code in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys


def python(code: str, *arguments: str) -> str:
    """Standard output of isolated Python code that has to succeed."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
