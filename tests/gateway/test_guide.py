"""The guide says what is so: its program runs, its table is one, its words are the code's."""

from __future__ import annotations

import os
import re
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from deepagents_ro.gateway import Allocation
from deepagents_ro.gateway.cli import parser

from .scripted_model import ScriptedModel, calls, says
from .stand_in import KEY, StandIn

GUIDE = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
BLOCKS = [
    "".join(line[4:] or "\n" for line in block.splitlines(keepends=True))
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", GUIDE, re.MULTILINE)
]


def block(beginning: str) -> str:
    return next(text.lstrip("\n") for text in BLOCKS if text.lstrip("\n").startswith(beginning))


def test_the_program_runs(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    program = block("import asyncio")
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    model = ScriptedModel(script=[calls("text_normalize", n=1), says("it is a b")])
    program = program.replace('"anthropic:claude-sonnet-4-5"', "MODEL")
    with mock.patch.dict(os.environ, {"JARVIS_GATEWAY_URL": stand_in.url, "JARVIS_API_KEY": KEY}):
        exec(compile(program, "guide", "exec"), {"MODEL": model})
    assert capsys.readouterr().out == "it is a b\n"
    assert stand_in.executed == {1: 1}
    assert stand_in.sessions == set()


def test_the_model_that_follows_a_script(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    script = block("from langchain_core").replace('{"text": "  a   b "}', '{"n": 1}')
    names: dict[str, Any] = {}
    exec(compile(script, "guide", "exec"), names)
    program = block("import asyncio").replace('"anthropic:claude-sonnet-4-5"', "model")
    with mock.patch.dict(os.environ, {"JARVIS_GATEWAY_URL": stand_in.url, "JARVIS_API_KEY": KEY}):
        exec(compile(program, "guide", "exec"), {"model": names["model"]})
    assert capsys.readouterr().out == "It is 'a b'.\n"
    assert stand_in.executed == {1: 1}


def test_the_table_is_one() -> None:
    table = Allocation.parse(block("[agents.main]"))
    assert table.settings("geo_create_buffer").gateway_name == "geo/make-buffer"


def test_every_command_is_one() -> None:
    named = set(re.findall(r"`deepagents-ro gateway (\w+)", GUIDE))
    assert named == {"list", "audit", "latency", "demo"}
    for action in named:
        parser().parse_args([action])
    parser().parse_args(["audit", "--json", "--agent", "main", "--refused", "--page", "2"])


def test_every_log_line_is_logged() -> None:
    section = GUIDE.split("## Log lines", 1)[1].split("\n## ", 1)[0]
    lines = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    package = resources.files("deepagents_ro.gateway")
    sources = "".join(
        package.joinpath(name).read_text("utf-8") for name in ("agent.py", "load.py", "tool.py")
    )
    assert len(lines) == 8
    for line in lines:
        pattern: Any = re.sub(r"\\ \b[XYN]\b|\bX\\ |\\ REASON|\\\.\\\.\\\.", ".*", re.escape(line))
        assert re.search(pattern.strip(), sources), line
