"""No public call of the extension leaks, and none is forgotten here."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepagents_ro import _mcpro

LOOPS = Path(__file__).parent / "leak_loops.py"
BYTES_A_ROUND = 4
"""A lost block has at least 16 bytes and its head."""
SLACK = 4_096
"""Bytes that a loop may grow: caches, a thread's own heap."""


@pytest.fixture(scope="module")
def grown() -> dict[str, list[int]]:
    """Heap growth and rounds by call."""
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", CODE.format(path=str(LOOPS)), str(writer)],
            pass_fds=[writer],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
        )
    finally:
        os.close(writer)
    with open(reader) as report:
        text = report.read()
    assert text, done.stderr.decode()
    return json.loads(text)


# PYTHONMALLOC is one of the variables that -I leaves aside.
CODE = """
import os, sys
if os.environ.get("RO_LEAK_CHILD") != "1":
    environment = {{**os.environ, "RO_LEAK_CHILD": "1", "PYTHONMALLOC": "malloc"}}
    os.execve(sys.executable, [sys.executable, "-P", {path!r}, sys.argv[1]], environment)
"""


def public() -> set[str]:
    names = set()
    for name, value in vars(_mcpro).items():
        if name.startswith("_") or not callable(value):  # a bound, a table
            continue
        names.add(name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            names |= {f"{name}.{member}" for member in vars(value) if not member.startswith("_")}
    return names


@pytest.mark.thorough
def test_every_public_call_is_looped(grown: dict[str, list[int]]) -> None:
    assert set(grown) == public()


@pytest.mark.thorough
def test_nothing_grows(grown: dict[str, list[int]]) -> None:
    leaking = {
        name: (size, rounds)
        for name, (size, rounds) in grown.items()
        if size > SLACK + rounds * BYTES_A_ROUND
    }
    assert not leaking


def test_a_leak_would_show() -> None:
    assert SLACK + 200 * BYTES_A_ROUND < 200 * 48
