"""The Python API: tables and configurations built in Python, exports, types in a user's code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_mcp_adapters.callbacks import CallbackContext, Callbacks

from deepagents_ro import gateway as package
from deepagents_ro.gateway import (
    AgentEntry,
    Allocation,
    AllocationError,
    ConfigError,
    GatewayConfig,
    ToolSettings,
    load_gateway_tools,
)

from .conftest import stand_in_config
from .stand_in import StandIn, entry

PROGRAM = Path(__file__).parent.parent / "data" / "users_program.py"

SETTINGS = """
[mypy]
strict = true
cache_dir = cache

[mypy-deepagents.*,httpx.*,langchain.*,langchain_core.*,langchain_mcp_adapters.*,langgraph.*,mcp.*]
follow_imports = skip
follow_imports_for_stubs = true
"""


@pytest.mark.thorough
def test_types_in_a_users_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_bytes(PROGRAM.read_bytes())
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from deepagents_ro.gateway import GatewayConfig\nGatewayConfig(url=1)\n", encoding="utf-8"
    )
    (tmp_path / "mypy.ini").write_text(SETTINGS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-m", "mypy", "--config-file", "mypy.ini", program, wrong],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[0] for line in lines] == ["wrong.py"], done.stdout


def test_everything_is_exported() -> None:
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name).__name__ == name, name


@pytest.mark.parametrize(
    "values",
    [
        {"url": "gateway.example"},
        {"url": "https://user:pw@gateway.example"},
        {"url": "https://gateway.example?q=1"},
        {"url": 7},
        {"url": "https://gateway.example", "namespace": " "},
        {"url": "https://gateway.example", "api_key": "two\nlines"},
        {"url": "https://gateway.example", "timeout_s": 0},
        {"url": "https://gateway.example", "timeout_s": float("inf")},
        {"url": "https://gateway.example", "timeout_s": "5"},
    ],
)
def test_a_configuration_is_checked(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        GatewayConfig(**values)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AgentEntry("", ()), "no name"),
        (lambda: AgentEntry("main", "text_normalize"), "list of names"),  # type: ignore[arg-type]
        (lambda: AgentEntry("main", ("__",)), "empty name"),
        (lambda: AgentEntry("main", ("x" * 65,)), "64 characters"),
        (lambda: ToolSettings("x", timeout_s=-1), "timeout_s"),
        (lambda: ToolSettings("x", timeout_s=True), "timeout_s"),
        (lambda: ToolSettings("x", sample=[1]), "sample"),  # type: ignore[arg-type]
        (lambda: Allocation.of({}), "no agents"),
        (lambda: Allocation.of([AgentEntry("a"), AgentEntry("a")]), "twice"),
        (lambda: Allocation.of({"a": ["x"]}, tools=[ToolSettings("y")]), "no agent lists"),
        (lambda: Allocation.parse("[agents.main]\ntool = []"), "unknown key: tool"),
        (lambda: Allocation.parse("[agents.main]\n[agent.x]"), "unknown key: agent"),
        (lambda: Allocation.parse('[agents.a]\ntools=["x"]\n[tools.x]\nlimit=1'), "unknown key"),
    ],
)
def test_a_table_is_checked(make: Any, words: str) -> None:
    with pytest.raises(AllocationError, match=words):
        make()


def test_a_table_in_python_is_the_same_as_in_toml() -> None:
    text = '[agents.main]\ntools = ["Text-Normalize"]\n[tools.text_normalize]\ntimeout_s = 3\n'
    built = Allocation.of(
        {"main": ["text_normalize"]}, tools=[ToolSettings("text_normalize", timeout_s=3)]
    )
    assert Allocation.parse(text) == built


async def test_an_alias_is_that_tool_and_no_other(stand_in: StandIn) -> None:
    stand_in.entries[:] = [entry("nlp/v2-normaliser"), entry("utils__text_normalize")]
    table = Allocation.of(
        {"main": ["text_normalize"]},
        tools=[ToolSettings("text_normalize", gateway_name="nlp/v2-normaliser")],
    )
    async with load_gateway_tools(stand_in_config(stand_in), allocation=table) as gateway:
        assert [f.reason for f in gateway.findings] == ["exposed", "not_listed"]
        assert (await gateway.tools["text_normalize"].ainvoke({"n": 1}))["ok"]


async def test_a_tools_own_time_limit(stand_in: StandIn) -> None:
    table = Allocation.of(
        {"main": ["text_normalize"]}, tools=[ToolSettings("text_normalize", timeout_s=0.05)]
    )
    async with load_gateway_tools(stand_in_config(stand_in), allocation=table) as gateway:
        answer = await gateway.tools["text_normalize"].ainvoke({"n": 1, "delay_s": 5})
        assert answer["error"]["message"] == "The gateway did not answer in time."
        assert answer["error"]["latency_ms"] < 4000


async def test_interceptors_and_callbacks_of_the_user(stand_in: StandIn) -> None:
    heard: list[Any] = []

    async def outer(request: Any, handler: Any) -> Any:
        heard.append((request.name, request.server_name))
        return await handler(request.override(args={**request.args, "n": 5}))

    async def on_progress(
        progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        heard.append((progress, total, message, context.tool_name))

    stand_in.progress = True
    async with load_gateway_tools(
        stand_in_config(stand_in),
        allocation=Allocation.of({"main": ["text_normalize"]}),
        interceptors=[outer],
        callbacks=Callbacks(on_progress=on_progress),
    ) as gateway:
        answer = await gateway.tools["text_normalize"].ainvoke({"stream": True})
    assert answer["data"] == {"n": 5}
    name = "utils__text_normalize"
    assert heard == [(name, "gateway"), (0.5, 1.0, "half", name)]


async def test_what_an_interceptor_makes_is_checked(stand_in: StandIn) -> None:
    async def spoil(request: Any, handler: Any) -> Any:
        return await handler(request.override(args={"t": "\ud83d"}))

    table = Allocation.of({"main": ["text_normalize"]})
    async with load_gateway_tools(
        stand_in_config(stand_in), allocation=table, interceptors=[spoil]
    ) as gateway:
        answer = await gateway.tools["text_normalize"].ainvoke({})
    assert "Unicode" in answer["error"]["message"]
    assert stand_in.executed == {}


def test_elicitation_is_refused() -> None:
    async def ask(*_arguments: Any) -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="on_elicitation"):
        load_gateway_tools(callbacks=Callbacks(on_elicitation=ask))
