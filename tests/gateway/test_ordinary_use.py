"""An agent per request, sync calls, many loops, forks; and what nobody may see of them."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool as as_tool
from langgraph.checkpoint.memory import InMemorySaver

from deepagents_ro.gateway import (
    Allocation,
    GatewayConfig,
    audit,
    load_gateway_tools,
    sessions,
)

from .agents import acreate_deep_agent, create_deep_agent
from .conftest import stand_in_config
from .scripted_model import ScriptedModel, calls, says
from .stand_in import KEY, StandIn, entry

TABLE = Allocation.of({"main": ["text_normalize"]})
QUESTION = {"messages": [{"role": "user", "content": "?"}]}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def settled(condition: Any) -> None:
    """Wait for what another thread does about what nobody refers to; fails after 10 s."""
    async with asyncio.timeout(10):
        while not condition():  # another thread does it
            await asyncio.sleep(0.05)
            gc.collect()  # the loop's own last callbacks referred to it until now


async def one_agent(server: StandIn) -> None:
    """An agent that lives as long as a request."""
    model = ScriptedModel(script=[calls("text_normalize", n=1), says("done")])
    agent = await acreate_deep_agent(model, config=stand_in_config(server), allocation=TABLE)
    state = await agent.ainvoke(QUESTION)
    assert json.loads(state["messages"][-2].content)["ok"]


async def test_an_agent_per_request_leaves_nothing(stand_in: StandIn) -> None:
    await one_agent(stand_in)
    await settled(lambda: not stand_in.sessions)
    before = descriptors(), len(asyncio.all_tasks())
    for _request in range(5):
        await one_agent(stand_in)
    await settled(lambda: not stand_in.sessions)
    assert stand_in.counts["delete"] == stand_in.counts["initialize"] == 6
    await settled(lambda: descriptors() <= before[0] + 2)
    assert len(asyncio.all_tasks()) == before[1]


async def test_one_tool_keeps_the_session_open(stand_in: StandIn) -> None:
    gateway = await load_gateway_tools(stand_in_config(stand_in), allocation=TABLE)
    tool = gateway.tools["text_normalize"]
    del gateway
    gc.collect()
    assert (await tool.ainvoke({"n": 1}))["ok"]
    assert stand_in.counts["delete"] == 0
    del tool
    await settled(lambda: not stand_in.sessions)


async def test_closed_at_a_moment_of_the_callers_own(stand_in: StandIn) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        assert stand_in.sessions
    assert not stand_in.sessions
    answer = await tool.ainvoke({"n": 1})
    assert answer["error"]["message"] == "The gateway's tools were closed."
    await gateway.aclose()


def test_sync_use_of_an_agent_and_a_tool(stand_in: StandIn) -> None:
    model = ScriptedModel(
        script=[calls("text_normalize", n=1), says("a"), calls("text_normalize", n=2), says("b")]
    )
    agent = asyncio.run(
        acreate_deep_agent(model, config=stand_in_config(stand_in), allocation=TABLE)
    )
    state = agent.invoke(QUESTION)
    assert json.loads(state["messages"][-2].content)["data"] == {"n": 1}
    assert [step for step in agent.stream(QUESTION) if "tools" in step]
    assert stand_in.executed == {1: 1, 2: 1}
    assert stand_in.counts["initialize"] == 1


async def test_sync_use_beside_and_within_a_running_loop(stand_in: StandIn) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        tool = gateway.tools["text_normalize"]
        assert tool.invoke({"n": 1})["ok"]  # a notebook's cell does this
        answers = await asyncio.gather(
            *(asyncio.to_thread(tool.invoke, {"n": n}) for n in range(2, 10)),
            *(tool.ainvoke({"n": n}) for n in range(10, 18)),
        )
        assert all(answer["ok"] for answer in answers)
        failed = tool.invoke({"t": "\ud83d"})
        assert failed["error"]["code"] == "EXTERNAL_TOOL_ERROR"
    assert stand_in.counts["initialize"] == 1


def test_the_background_thread_ends(stand_in: StandIn) -> None:
    gateway = asyncio.run(load_gateway_tools(stand_in_config(stand_in), allocation=TABLE))
    assert gateway.tools["text_normalize"].invoke({"n": 1})["ok"]
    gateway.close()
    deadline = time.monotonic() + 15
    while any(thread.name == "gateway background" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not stand_in.sessions


def test_a_loop_per_request_leaves_nothing(stand_in: StandIn) -> None:
    gateway = asyncio.run(load_gateway_tools(stand_in_config(stand_in), allocation=TABLE))
    tool = gateway.tools["text_normalize"]
    asyncio.run(tool.ainvoke({"n": 1}))
    gc.collect()
    before = descriptors()
    for number in range(2, 52):
        assert asyncio.run(tool.ainvoke({"n": number}))["ok"]
    gc.collect()
    assert descriptors() <= before + 2
    assert stand_in.counts["initialize"] == stand_in.counts["tools/list"] == 1
    gateway.close()


def test_what_is_open_at_exit_is_closed(stand_in: StandIn) -> None:
    gateway = asyncio.run(load_gateway_tools(stand_in_config(stand_in), allocation=TABLE))
    assert stand_in.sessions
    sessions._at_exit()
    assert not stand_in.sessions
    assert gateway.tools["text_normalize"].invoke({"n": 1})["error"]["message"] == (
        "The gateway's tools were closed."
    )


def test_a_forked_child_makes_its_own(stand_in: StandIn) -> None:
    gateway = asyncio.run(load_gateway_tools(stand_in_config(stand_in), allocation=TABLE))
    tool = gateway.tools["text_normalize"]
    assert tool.invoke({"n": 1})["ok"]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            both = asyncio.run(tool.ainvoke({"n": 2})), tool.invoke({"n": 3})
            status = 0 if all(answer["ok"] for answer in both) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert stand_in.counts["initialize"] == 2
    assert tool.invoke({"n": 4})["ok"]
    assert stand_in.counts["initialize"] == 2
    gateway.close()
    assert stand_in.executed == {1: 1, 2: 1, 3: 1, 4: 1}


@pytest.mark.parametrize("key", [KEY, "k3y-s", "q7"])
async def test_the_key_is_nowhere(
    stand_in: StandIn, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    encoded = base64.b64encode(key.encode()).decode()
    reflected = f"sent: ApiKey {key}, {key} and {encoded}"
    stand_in.entries[0]["description"] = reflected
    stand_in.entries[0]["inputSchema"]["description"] = reflected

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        if message["params"]["arguments"].get("fail"):
            return {"error": {"code": -32000, "message": reflected}}
        structured = {"echo": reflected, "list": [reflected, {"deep": reflected}]}
        return {
            "result": {
                "content": [{"type": "text", "text": reflected}],
                "structuredContent": structured,
            }
        }

    stand_in.call_answer = answer
    saver = InMemorySaver()
    model = ScriptedModel(
        script=[calls("text_normalize", n=1), calls("text_normalize", fail=True), says("done")]
    )
    config = stand_in_config(stand_in, api_key=key)
    with caplog.at_level(logging.DEBUG):
        gateway = await load_gateway_tools(config, allocation=TABLE)
        agent = create_deep_agent(model, gateway=gateway, checkpointer=saver)
        thread = {"configurable": {"thread_id": "1"}}
        state = await agent.ainvoke(QUESTION, thread)
        await gateway.aclose()
    good, failed = (m for m in state["messages"] if isinstance(m, ToolMessage))
    assert good.artifact["structured_content"]["echo"].startswith("sent: ")
    assert (good.status, failed.status) == ("success", "error")
    tool = gateway.tools["text_normalize"]
    texts = [
        good.model_dump_json(),
        failed.model_dump_json(),
        repr([config, gateway, tool, tool.metadata]),
        json.dumps(tool.args_schema) + tool.description,
        caplog.text,
        repr(list(saver.list(thread))),
    ]
    for text in texts:
        assert key not in text
        assert encoded not in text


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([entry("admin__text_normalize", annotations={"readOnlyHint": False})], "exposed"),
        ([entry("admin__text_normalize", annotations={"readOnlyHint": "yes"})], "exposed"),
        ([entry("admin__text_normalize")], "ambiguous_name"),
        ([entry("admin__text_normalize", annotations=None)], "ambiguous_name"),
        ([entry("utils__text_normalize", annotations={"readOnlyHint": False})], "ambiguous_name"),
    ],
    ids=["write", "malformed", "allowed", "silent", "same-name"],
)
async def test_what_is_refused_is_no_rival(
    stand_in: StandIn, others: list[dict[str, Any]], reason: str
) -> None:
    stand_in.entries += others
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        assert gateway.findings[0].reason == reason
        assert ("text_normalize" in gateway.tools) == (reason == "exposed")


def schema(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": {"type": "integer"}}, **members}


@pytest.mark.parametrize(
    "bad",
    [
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"$ref": "https://schemas.example/a.json"}}},
        {"properties": {"a": {"type": "nonsense"}}},
        {"properties": {"a": {"items": {"$ref": "other.json#/a"}}}},
    ],
    ids=["dangling", "remote", "type", "relative"],
)
async def test_a_schema_that_a_model_cannot_be_given_costs_that_tool(
    stand_in: StandIn, bad: dict[str, Any]
) -> None:
    stand_in.entries.append(entry("utils__weather_now", inputSchema={"type": "object", **bad}))
    table = Allocation.of({"main": ["text_normalize", "weather_now"]})
    model = ScriptedModel(script=[calls("text_normalize", n=1), says("done")])
    async with load_gateway_tools(stand_in_config(stand_in), allocation=table) as gateway:
        assert list(gateway.tools) == ["text_normalize"]
        finding = next(f for f in gateway.findings if f.name == "utils__weather_now")
        assert finding.reason == "unusable_schema"
        assert finding.detail.startswith("inputSchema: ")
        agent = create_deep_agent(model, gateway=gateway)
        state = await agent.ainvoke(QUESTION)
        assert state["messages"][-1].content == "done"


async def test_a_local_reference_is_fine(stand_in: StandIn) -> None:
    defs = {"$defs": {"a": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/a"}}}
    stand_in.entries[0]["inputSchema"] = {"type": "object", **defs}
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        assert (await gateway.tools["text_normalize"].ainvoke({"n": 1}))["ok"]


async def test_annotations_null_are_none(stand_in: StandIn) -> None:
    stand_in.entries[0]["annotations"] = None
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        assert gateway.findings[0].exposed
        assert not gateway.findings[0].annotated
    async with load_gateway_tools(
        stand_in_config(stand_in), allocation=TABLE, require_hints=True
    ) as gateway:
        assert gateway.findings[0].reason == "no_hints"


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_eight_megabytes_do_not_stall_the_loop(stand_in: StandIn, stream: bool) -> None:
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        call = asyncio.create_task(
            gateway.tools["text_normalize"].ainvoke({"n": 1, "text": 8_000_000, "stream": stream})
        )
        longest, before = 0.0, time.thread_time()
        while not call.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now
        answer = await call
    assert len(answer["data"]) == 8_000_000
    assert longest < 0.25  # seconds of this thread's processor time in one turn of the loop


async def test_extra_tools_beside_the_gateways(stand_in: StandIn) -> None:
    @as_tool
    def mine(text: str) -> str:
        """Of the user's own."""
        return text

    model = ScriptedModel(script=[says("done")])
    agent = await acreate_deep_agent(
        model, config=stand_in_config(stand_in), allocation=TABLE, extra_tools={"main": [mine]}
    )
    await agent.ainvoke(QUESTION)
    assert {"mine", "text_normalize"} <= set(model.offered[0])


def test_extra_tools_for_nobody_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"'mian', but the agents are .*main"):
        create_deep_agent(ScriptedModel(script=[]), extra_tools={"mian": []})


async def test_skills_are_offered_without_a_gateway() -> None:
    model = ScriptedModel(
        script=[
            calls("task", description="go", subagent_type="value-resolver"),
            says("d"),
            calls("task", description="go", subagent_type="schema-scout"),
            says("d"),
            says("a"),
        ]
    )
    agent = create_deep_agent(model)
    await agent.ainvoke(QUESTION)
    offered = ["temporal-analyst" in str(messages[0].content) for messages in model.seen]
    assert offered == [True, True, True, False, True]


async def test_arguments_with_the_names_of_parameters(stand_in: StandIn) -> None:
    seen: list[dict[str, Any]] = []

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        seen.append(message["params"]["arguments"])
        return {"result": {"content": []}}

    stand_in.call_answer = answer
    names = ("config", "runtime", "run_manager", "self", "callbacks", "tool_input", "not a name")
    given = {name: None if name == "self" else name for name in names}
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        await gateway.tools["text_normalize"].ainvoke(given)
    assert seen == [given]


async def test_a_broken_output_is_a_failure(stand_in: StandIn) -> None:
    stand_in.entries[0]["outputSchema"] = schema(required=["n"])
    stand_in.call_answer = lambda _message: {
        "result": {"content": [], "structuredContent": {"n": "x"}}
    }
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        answer = await gateway.tools["text_normalize"].ainvoke({"n": 1})
        assert "output schema" in answer["error"]["message"]
        stand_in.call_answer = None
        assert (await gateway.tools["text_normalize"].ainvoke({"n": 2}))["ok"]


REASONS: list[tuple[tuple[int, str, bytes], str, str]] = [
    ((302, "text/html", b""), "refused", "redirect"),
    ((401, "text/plain", b"no"), "unauthorized", "refused the API key"),
    ((403, "text/plain", b"no"), "forbidden", "refused access"),
    ((200, "text/html", b"<!doctype html>"), "malformed", "web page"),
    ((200, "application/json", b"<html>"), "malformed", "web page"),
    (
        (403, "application/json", b'{"error":{"code":-32001,"message":"key lacks scope geo"}}'),
        "forbidden",
        "lacks a scope that the gateway asks for. Its owner has to grant it. (HTTP 403, the"
        ' gateway says: "key lacks scope geo")',
    ),
    (
        (
            200,
            "application/json",
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"key lacks scope geo"}}',
        ),
        "forbidden",
        "lacks a scope",
    ),
]


@pytest.mark.parametrize(("answer", "state", "words"), REASONS)
async def test_each_reason_has_its_sentence_everywhere(
    stand_in: StandIn,
    answer: tuple[int, str, bytes],
    state: str,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = stand_in_config(stand_in)
    async with load_gateway_tools(config, allocation=TABLE) as gateway:
        stand_in.status["tools/call"] = answer
        failed = await gateway.tools["text_normalize"].ainvoke({"n": 1})
    assert words in failed["error"]["message"]
    stand_in.status["initialize"] = answer
    with caplog.at_level(logging.WARNING, "deepagents_ro.gateway"):
        report = await audit(config, allocation=TABLE)
    found = report.as_json()["gateway"]
    assert found["state"] == state
    sentence = found["reason"] + (f" ({found['detail']})" if found["detail"] else "")
    assert words in sentence
    assert f"no gateway tools: {sentence}" in caplog.messages


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9", "nothing accepts the connection"),
        ("http://no-such-host.invalid", "does not resolve"),
    ],
)
async def test_reasons_of_the_network(url: str, words: str) -> None:
    gateway = await load_gateway_tools(GatewayConfig(url=url), allocation=TABLE)
    assert gateway.state == "unreachable"
    assert words in gateway.reason


async def test_an_untrusted_certificate_is_named(gateway: Any, tmp_path: Path) -> None:
    config = gateway.config()
    os.environ.pop("SSL_CERT_FILE")
    found = await load_gateway_tools(config)
    assert "certificate is not trusted" in found.reason


async def test_markup_is_not_quoted(stand_in: StandIn) -> None:
    said = {"error": {"code": -32000, "message": "<script>alert(1)</script>\n\x1b[31mred"}}
    stand_in.call_answer = lambda _message: said
    async with load_gateway_tools(stand_in_config(stand_in), allocation=TABLE) as gateway:
        answer = await gateway.tools["text_normalize"].ainvoke({"n": 1})
    assert answer["error"]["message"] == "The gateway answered with an MCP error."
