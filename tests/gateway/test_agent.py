"""Real deep agents with a scripted model: what each is offered, and what it does without."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from deepagents_ro.gateway import (
    Allocation,
    load_gateway_tools,
)

from .agents import acreate_deep_agent, create_deep_agent
from .conftest import Gateway
from .scripted_model import ScriptedModel, Step, calls, says

MAIN = {"datetime_parse_relative_expression", "text_normalize", "trino_validate_spatial_expression"}
RESOLVER = {
    "datetime_parse_relative_expression",
    "text_normalize",
    "geo_create_buffer",
    "geo_validate_geometry",
}
CURATED = MAIN | RESOLVER


@tool
def run_guarded_query(sql: str) -> str:
    """The agent's own guarded path to SQL."""
    return f"ran: {sql}"


def question(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def curated(names: list[str]) -> set[str]:
    """The curated tools among `names`, each of which may be offered once only."""
    assert len(names) == len(set(names))
    return set(names) & CURATED


def answers(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of the curated tools in a trace, in order."""
    return [
        json.loads(message.content)
        for message in state["messages"]
        if isinstance(message, ToolMessage) and message.name in CURATED
    ]


async def offered_to(gateway: Gateway, subagent: str) -> list[list[str]]:
    """What the main agent and then `subagent` are offered."""
    model = ScriptedModel(
        script=[
            calls("task", description="go", subagent_type=subagent),
            says("done"),
            says("answer"),
        ]
    )
    agent = await acreate_deep_agent(model, [run_guarded_query], config=gateway.config())
    await agent.ainvoke(question("?"))
    return model.offered


@pytest.mark.parametrize(
    ("subagent", "expected"),
    [
        ("value-resolver", RESOLVER),
        ("schema-scout", set()),
        ("result-verifier", set()),
        ("general-purpose", set()),
    ],
)
async def test_what_each_agent_is_offered(
    gateway: Gateway, subagent: str, expected: set[str]
) -> None:
    main, delegate, _ = await offered_to(gateway, subagent)
    assert curated(main) == MAIN
    assert curated(delegate) == expected
    for names in (main, delegate):
        assert "run_guarded_query" in names
        assert not [name for name in names if "trino_run_query" in name or "registry" in name]


async def test_the_users_own_subagents(gateway: Gateway) -> None:
    spec = {"name": "value-resolver", "description": "d", "system_prompt": "p", "tools": []}
    other = {"name": "poet", "description": "d", "system_prompt": "p"}
    model = ScriptedModel(
        script=[
            calls("task", description="go", subagent_type="value-resolver"),
            says("done"),
            calls("task", description="go", subagent_type="poet"),
            says("done"),
            says("answer"),
        ]
    )
    agent = await acreate_deep_agent(
        model, [run_guarded_query], config=gateway.config(), subagents=[spec, other]
    )
    await agent.ainvoke(question("?"))
    assert curated(model.offered[1]) == RESOLVER
    assert "run_guarded_query" not in model.offered[1]
    assert curated(model.offered[3]) == set()
    assert "run_guarded_query" in model.offered[3]


async def test_a_name_is_offered_once(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def text_normalize(text: str) -> str:
        """The caller's own."""
        return "own"

    model = ScriptedModel(script=[calls("text_normalize", text="x"), says("done")])
    with caplog.at_level(logging.WARNING, "deepagents_ro.gateway"):
        agent = await acreate_deep_agent(model, [text_normalize], config=gateway.config())
    state = await agent.ainvoke(question("?"))
    assert curated(model.offered[0]) == MAIN
    assert state["messages"][-2].content == "own"
    assert [line for line in caplog.messages if "text_normalize already" in line]


async def test_no_extra_tool_takes_a_built_in_name(gateway: Gateway) -> None:
    @tool
    def read_file(path: str) -> str:
        """Not the agent's own."""
        return "forged"

    model = ScriptedModel(script=[says("done")])
    agent = create_deep_agent(model, extra_tools=[read_file])
    await agent.ainvoke(question("?"))
    assert model.offered[0].count("read_file") == 1
    state = agent.get_graph().nodes["tools"].data.tools_by_name
    assert state["read_file"] is not read_file


async def test_without_a_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JARVIS_GATEWAY_URL", raising=False)
    model = ScriptedModel(script=[says("answer")])
    agent = await acreate_deep_agent(model, [run_guarded_query])
    state = await agent.ainvoke(question("?"))
    assert state["messages"][-1].content == "answer"
    assert curated(model.offered[0]) == set()
    assert "run_guarded_query" in model.offered[0]


def test_extra_tools_by_agent_without_a_loop() -> None:
    model = ScriptedModel(
        script=[
            calls("task", description="go", subagent_type="result-verifier"),
            says("done"),
            says("answer"),
        ]
    )
    agent = create_deep_agent(model, extra_tools={"result-verifier": [run_guarded_query]})
    agent.invoke(question("?"))
    assert "run_guarded_query" not in model.offered[0]
    assert "run_guarded_query" in model.offered[1]


async def test_extra_tools_as_a_list(gateway: Gateway) -> None:
    async with await load_gateway_tools(gateway.config()) as tools:
        plain = [*tools.tools.values(), run_guarded_query]
        model = ScriptedModel(
            script=[
                calls("task", description="go", subagent_type="value-resolver"),
                says("done"),
                says("answer"),
            ]
        )
        agent = create_deep_agent(model, extra_tools=plain)
        await agent.ainvoke(question("?"))
    assert curated(model.offered[0]) == MAIN
    assert curated(model.offered[1]) == RESOLVER
    assert "run_guarded_query" in model.offered[0]
    assert "run_guarded_query" not in model.offered[1]


async def test_a_table_with_other_agents(gateway: Gateway) -> None:
    table = Allocation.parse(
        '[agents.main]\ntools = []\n[agents.geo]\ntools = ["geo_create_buffer"]'
    )
    model = ScriptedModel(
        script=[calls("task", description="go", subagent_type="geo"), says("d"), says("a")]
    )
    agent = await acreate_deep_agent(model, config=gateway.config(), allocation=table)
    await agent.ainvoke(question("?"))
    assert curated(model.offered[0]) == set()
    assert curated(model.offered[1]) == {"geo_create_buffer"}


async def test_skills_are_offered_and_can_be_read_but_not_changed(gateway: Gateway) -> None:
    path = "/skills/gateway/temporal-analyst/SKILL.md"
    model = ScriptedModel(
        script=[
            calls("read_file", file_path=path),
            calls("edit_file", file_path=path, old_string="Sunday", new_string="Monday"),
            calls("write_file", file_path=path, content="forged"),
            says("done"),
        ]
    )
    agent = await acreate_deep_agent(model, config=gateway.config())
    state = await agent.ainvoke(question("?"))
    prompt = str(model.seen[0][0].content)
    assert "temporal-analyst" in prompt
    assert "spatial-analyst" in prompt
    read, edited, written = (m for m in state["messages"] if isinstance(m, ToolMessage))
    assert "Weeks start on **Sunday**" in read.content
    assert "cannot be changed" in edited.content
    assert "cannot be changed" in written.content


def follow(what: str) -> Step:
    """Call `what` with the text in the last tool answer; used to script a data flow."""

    def step(messages: list[Any]) -> Any:
        data = json.loads(messages[-1].content)["data"]
        return calls(what, expression=spatial_condition(data["geojson"]))(messages)

    return step


def spatial_condition(geojson: dict[str, Any]) -> str:
    """The condition of the spatial skill's example."""
    text = json.dumps(geojson, separators=(",", ":")).replace("'", "''")
    return f"ST_Contains(to_geometry(from_geojson_geometry('{text}')), ST_Point(lon, lat))"


async def test_a_temporal_question(gateway: Gateway) -> None:
    model = ScriptedModel(
        script=[
            calls("datetime_parse_relative_expression", expression="this week"),
            calls(
                "datetime_parse_relative_expression",
                expression="היום",
                reference_time="2026-11-30T12:00:00+02:00",
            ),
            calls(
                "run_guarded_query",
                sql="SELECT 1 WHERE t >= TIMESTAMP '2026-11-29 00:00:00 Asia/Jerusalem'",
            ),
            says("42"),
        ]
    )
    agent = await acreate_deep_agent(model, [run_guarded_query], config=gateway.config())
    state = await agent.ainvoke(question("How many events this week?"))
    refused, anchor = answers(state)
    assert "period, not an instant" in refused["error"]["message"]
    assert refused["error"]["code"] == "EXTERNAL_TOOL_ERROR"
    assert anchor["data"]["instant"] == "2026-11-30T00:00:00+02:00"
    assert state["messages"][-1].content == "42"
    assert gateway.executed() == ["datetime_parse_relative_expression"] * 2


async def test_a_spatial_question(gateway: Gateway) -> None:
    table = Allocation.parse(
        '[agents.main]\ntools = ["geo_create_buffer", "trino_validate_spatial_expression"]'
    )
    model = ScriptedModel(
        script=[
            calls("geo_create_buffer", longitude=35.2137, latitude=31.7683, distance_m=500),
            follow("trino_validate_spatial_expression"),
            says("valid"),
        ]
    )
    agent = await acreate_deep_agent(model, config=gateway.config(), allocation=table)
    state = await agent.ainvoke(question("Events within 500 m?"))
    assert answers(state)[1]["data"] == {"valid": True, "errors": [], "result": None}


async def test_the_gateway_dies_between_two_calls(gateway: Gateway) -> None:
    def dying(messages: list[Any]) -> Any:
        gateway.die()
        return calls("text_normalize", text="second")(messages)

    model = ScriptedModel(
        script=[calls("text_normalize", text="first"), dying, says("answered all the same")]
    )
    agent = await acreate_deep_agent(model, config=gateway.config())
    try:
        state = await agent.ainvoke(question("?"))
    finally:
        gateway.revive()
    first, second = answers(state)
    assert first["ok"]
    assert not second["ok"]
    assert second["error"]["hint"] == "continue without it"
    assert state["messages"][-1].content == "answered all the same"
