"""What the patch adds to each release, held line by line: this much, there, and nothing else."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from pathlib import Path

import pytest
from releases import VERSIONS, released

from deepagents_ro._dispatch import COMMANDS, run
from deepagents_ro.patch import text
from deepagents_ro.versions import RELEASES

__all__ = ["released"]

DISPATCH = """\
# deepagents-ro: begin
def _deepagents_ro_dispatch() -> None:
    import sys

    words = list(getattr(sys, "argv", ()))[1:]
    commands = ("call-read-only", "audit-read-only")
    pairs = zip(words, words[1:])
    command = next((b for a, b in pairs if a == "tools" and b in commands), None)
    if command is None:
        return
    import os

    status, code, message = 1, "runtime_failure", "The managed MCP tool call failed."
    try:
        try:
            from deepagents_ro._dispatch import run

            run(command, words)
        except KeyboardInterrupt:
            status, code = 130, "interrupted"
            message = "The MCP tool call was interrupted."
        except ImportError:
            if command == "audit-read-only":
                message = (
                    "deepagents-ro is not installed beside this DCode, or was built for "
                    "another Python: install its wheel again."
                )
        except BaseException:
            pass
        answer = (
            '{"schema_version":1,"command":"tools %s","data":{"ok":false,'
            '"status":"error","code":"%s","message":"%s"}}\\n'
        ) % (command, code, message)
        left = answer.encode()
        while left:
            left = left[os.write(1, left) :]
    except OSError:
        status = 1
    finally:
        os._exit(status)


_deepagents_ro_dispatch()
del _deepagents_ro_dispatch
# deepagents-ro: end

"""
HELP = """\
    # deepagents-ro: begin
    console.print("  call-read-only    Call one exact read-only MCP tool, without a model")
    console.print("  audit-read-only   Say why an MCP tool can or cannot be called so")
    # deepagents-ro: end
"""
ADDED = {"__init__.py": DISPATCH, "ui.py": HELP}


@pytest.fixture(params=[(version, name) for version in VERSIONS for name in ADDED], ids=str)
def pair(request: pytest.FixtureRequest, released: Callable[[str], Path]) -> tuple[str, str, str]:
    """The name of an edited file, its published and its patched source."""
    version, name = request.param
    published = (released(version) / "deepagents_code" / name).read_bytes()
    return name, published.decode(), text.add(name, published).decode()


def test_every_edited_file_is_held() -> None:
    for release in RELEASES.values():
        assert release.keys() == text.EDITS.keys() == ADDED.keys()


def test_the_added_text_and_nothing_else(pair: tuple[str, str, str]) -> None:
    name, published, patched = pair
    difference = list(
        difflib.ndiff(published.splitlines(keepends=True), patched.splitlines(keepends=True))
    )
    assert not [line for line in difference if line[0] in "-?"]
    at = patched.index("deepagents-ro: begin")
    start = patched.rindex("\n", 0, at) + 1
    assert patched[start : start + len(ADDED[name])] == ADDED[name]
    assert patched[:start] + patched[start + len(ADDED[name]) :] == published
    assert text.remove(patched.encode()).decode() == published


def test_the_dispatch_comes_before_every_import(pair: tuple[str, str, str]) -> None:
    name, published, patched = pair
    if name != "__init__.py":
        return
    kinds = [type(node).__name__ for node in ast.parse(patched).body]
    before = [type(node).__name__ for node in ast.parse(published).body]
    assert kinds[:2] == before[:2] == ["Expr", "ImportFrom"]
    assert kinds[2:5] == ["FunctionDef", "Expr", "Delete"]
    assert kinds[5:] == before[2:]


def test_the_help_is_in_its_own_function(pair: tuple[str, str, str]) -> None:
    name, _, patched = pair
    if name != "ui.py":
        return
    (function,) = [
        node
        for node in ast.parse(patched).body
        if isinstance(node, ast.FunctionDef) and node.name == "show_tools_help"
    ]
    segment = ast.get_source_segment(patched, function)
    assert segment is not None
    assert HELP in segment
    lines = [line for line in segment.splitlines() if 'console.print("  ' in line]
    described = {line.index(line.split()[2]) for line in lines[1:5]}
    assert len(described) == 1, "the descriptions stand in one column"
    assert all(len(line.split('"')[1]) <= 79 for line in lines)


def test_the_dispatch_knows_the_commands_of_the_text() -> None:
    assert f"commands = {COMMANDS!r}".replace("'", '"') in DISPATCH
    assert callable(run)


@pytest.mark.parametrize("name", ADDED)
def test_no_place_or_two_places_is_an_error(name: str) -> None:
    anchor = text.EDITS[name][0]
    assert text.add(name, anchor).startswith(anchor)
    for source in (b"", anchor * 2, anchor[:-1]):
        with pytest.raises(text.AnchorError):
            text.add(name, source)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"x\r\ny\rz",
        b"# deepagents-ro: begin\nx\n",
        b"# deepagents-ro: end\n",
        b"  # deepagents-ro: begin\n# deepagents-ro: end\n",
        b"# deepagents-ro: begin",
    ],
)
def test_what_is_no_whole_block_stays(source: bytes) -> None:
    assert text.remove(source) == source
