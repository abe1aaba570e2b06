"""The README's programs and commands print what it shows of them."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.dcode import Dcode

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
PORT = "8765"


def blocks(page: str) -> list[str]:
    return [
        "".join(line[4:] or "\n" for line in block.splitlines(keepends=True)).strip("\n") + "\n"
        for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.MULTILINE)
    ]


def block(beginning: str, page: str = README) -> str:
    (found,) = [text for text in blocks(page) if text.startswith(beginning)]
    return found


def shown() -> dict[str, str]:
    """Each command that the README shows with what it prints, to its output."""
    found: dict[str, str] = {}
    for text in blocks(README):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            found[line] = output
    return found


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The README's server, on a free port."""
    directory = tmp_path_factory.mktemp("readme")
    program = block("from mcp.server.fastmcp")
    assert program.count(f"port={PORT}") == 1
    script = directory / "server.py"
    script.write_text(program.replace(f"port={PORT}", "port=0"))
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-I", str(script)], stdout=log, stderr=subprocess.PIPE
        )
    try:
        assert server.stderr is not None
        lines = (line.decode() for line in server.stderr)
        yield next(m.group(1) for m in (re.search(r"127\.0\.0\.1:(\d+)", li) for li in lines) if m)
    finally:
        server.terminate()
        server.communicate(timeout=30)


def without_end(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def test_the_first_call(dcode: Dcode, port: str) -> None:
    configuration = block('{"mcpServers"')
    assert configuration.count(PORT) == 1
    (dcode.home / ".deepagents" / ".mcp.json").write_text(configuration.replace(PORT, port))
    commands = shown()
    assert len(commands) == 3
    for line, output in commands.items():
        given, _, rest = line.rpartition(" | ")
        stdin = shlex.split(given)[-1].encode() if given else None
        run = dcode.run(None, argv=shlex.split(rest)[1:], stdin=stdin)
        assert without_end(run.stdout.decode()) == without_end(output), line
        assert run.exit_code == (1 if "tool_not_read_only" in output else 0)


def shell(dcode: Dcode, script: str) -> tuple[int, bytes]:
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=dcode.env, cwd=dcode.project, capture_output=True
    )
    assert done.stderr == b""
    return done.returncode, done.stdout


def test_the_scripts_of_operations(dcode: Dcode, port: str) -> None:
    dcode.serve(clock=f"http://127.0.0.1:{port}/mcp")
    call = 'arguments=\'{"name":"UTC"}\' tool=clock_zone\n' + block("if answer=", OPERATIONS)
    assert shell(dcode, call) == (0, b"{'name': 'UTC', 'offset': '+02:00'}\n")
    health = block("dcode tools audit-read-only --json |", OPERATIONS)
    assert shell(dcode, health) == (0, b"")
    dcode.serve(clock="http://127.0.0.1:9/mcp")
    assert shell(dcode, health) == (1, b"")


def test_the_example_of_explain(dcode: Dcode) -> None:
    line, _, output = block("$ printf", OPERATIONS).removeprefix("$ ").partition("\n")
    assert shell(dcode, line) == (1, output.encode())


async def test_the_transport_in_any_client(port: str) -> None:
    program = block("import httpx").replace("https://example.com/", f"http://127.0.0.1:{port}/")
    code = compile(program, "README", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed: list[Any] = []
    done = eval(code, {"print": printed.append})
    assert inspect.iscoroutine(done)
    await asyncio.wait_for(done, 30)
    assert printed == [404]
