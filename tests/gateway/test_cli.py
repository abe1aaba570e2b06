"""`deepagents-ro gateway ...` as a process, and the parts that need none."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest import mock
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.schemas import check_output

from deepagents_ro import _mcpro, terminal
from deepagents_ro.gateway import (
    Allocation,
    Audit,
    ToolSettings,
    audit,
    cli,
    document,
    load_gateway_tools,
    measure,
    picture,
    tables,
)
from deepagents_ro.gateway.latency import Sample, nearest_rank

from .conftest import Gateway, stand_in_config
from .reverse_proxy import API_KEY
from .stand_in import StandIn, entry

ENTRY = "import sys; from deepagents_ro.gateway.cli import main; sys.exit(main(sys.argv[1:]))"


def process(
    gateway: Gateway, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        env={**os.environ, **gateway.environment(), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def run(gateway: Gateway, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in this process: its output and its exit status."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {**gateway.environment(), **environment}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        status = cli.main(list(arguments))
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), errors.getvalue())


def data(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The `data` of the one envelope, checked for its form."""
    assert done.stderr == ""
    assert done.stdout.endswith("\n")
    assert done.stdout.count("\n") == 1
    assert done.stdout.isascii()
    assert API_KEY not in done.stdout
    check_output(done.stdout.encode())
    envelope = json.loads(done.stdout)
    assert list(envelope) == ["schema_version", "command", "data"]
    return envelope["data"]


def test_list(gateway: Gateway) -> None:
    found = data(process(gateway, "list", "--json"))
    tools = {agent["name"]: [tool["name"] for tool in agent["tools"]] for agent in found["agents"]}
    assert len(tools["main"]) == 3
    assert len(tools["value-resolver"]) == 4
    assert tools["schema-scout"] == tools["result-verifier"] == []


def test_audit_says_why_and_calls_nothing(gateway: Gateway) -> None:
    doubled = '{"name":"other__geo_create_buffer","inputSchema":{"type":"object"}}'
    gateway.mode(
        lack=["geo_validate_geometry"],
        annotations={"text_normalize": {"readOnlyHint": "yes"}},
        raw_entries=[doubled, '{"name":"utils__bad","inputSchema":7}'],
    )
    done = run(gateway, "audit", "--json")
    assert done.returncode == 1
    found = data(done)
    assert found["gateway"]["reachable"] is True
    assert found["gateway"]["authentication"] == "sent"
    assert found["gateway"]["url"].endswith("/mcp/global/")
    reasons = {tool["name"]: (tool["reason"], tool["detail"]) for tool in found["tools"]}
    assert reasons["utils__text_normalize"] == ("malformed_hints", "read_only_not_boolean")
    assert reasons["utils__trino_run_query"][0] == "sql"
    assert reasons["utils__registry_delete"] == ("write", "read_only_not_true")
    assert reasons["utils__weather_now"][0] == "not_listed"
    assert reasons["utils__geo_create_buffer"][0] == "ambiguous_name"
    assert reasons["other__geo_create_buffer"][0] == "ambiguous_name"
    assert reasons["utils__bad"][0] == "broken_definition"
    assert "inputSchema" in reasons["utils__bad"][1]
    assert reasons["utils__trino_validate_spatial_expression"][0] == "exposed"
    assert found["missing"] == [{"name": "geo_validate_geometry", "agents": ["value-resolver"]}]
    assert gateway.calls() == []


def test_audit_of_a_gateway_that_hangs(gateway: Gateway) -> None:
    gateway.mode(hang_s=20)
    done = run(gateway, "audit", "--json", UTILS_MCP_TIMEOUT_S="1")
    assert done.returncode == 2
    found = data(done)
    assert found["gateway"]["state"] == "timeout"
    assert found["gateway"]["elapsed_ms"] < 2500
    assert len(found["missing"]) == 5


def test_audit_of_a_refused_key(gateway: Gateway) -> None:
    found = data(run(gateway, "audit", "--json", JARVIS_API_KEY="wrong-key-wrong-key"))
    assert found["gateway"]["authentication"] == "refused"
    assert "wrong-key-wrong-key" not in json.dumps(found)


def test_the_table(gateway: Gateway) -> None:
    done = run(gateway, "audit")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    who, others = done.stdout.splitlines()[:2]
    assert who.startswith("Access: main has 3 of 3; value-resolver has 4 of 4;")
    assert others.startswith("Not used: 4 of 9 tools (")
    assert "utils__trino_run_query" in done.stdout
    assert "guarded path" in done.stdout


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("action", ["audit", "list"])
def test_nothing_is_cut_in_a_narrow_table(gateway: Gateway, action: str, columns: int) -> None:
    with mock.patch.object(terminal, "PIPE_WIDTH", columns):
        lines = run(gateway, action).stdout.splitlines()
    assert "…" not in "".join(lines)
    assert columns - 40 < max(map(len, lines)) <= columns


def test_a_pipe_gets_whole_names(gateway: Gateway) -> None:
    name = "utils__" + "a_long_name_" * 20
    gateway.mode(raw_entries=[f'{{"name":"{name}","inputSchema":{{"type":"object"}}}}'])
    assert name in run(gateway, "audit").stdout


def test_a_name_cannot_steer_the_terminal(gateway: Gateway) -> None:
    name = json.dumps("utils__\x1b]0;owned\x07")
    gateway.mode(raw_entries=[f'{{"name":{name},"inputSchema":{{"type":"object"}}}}'])
    assert "\x1b" not in run(gateway, "audit").stdout


def test_colour_on_a_terminal(gateway: Gateway) -> None:
    parent, child = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, "audit"],
        env={**os.environ, **gateway.environment(), "TERM": "xterm-256color"},
        stdout=child,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(child)
    assert done.returncode == 0
    assert b"\x1b[" in os.read(parent, 65536)
    os.close(parent)


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        ([], "invalid_command", 2),
        (["nonsense"], "invalid_command", 2),
        (["latency", "-n", "0"], "invalid_command", 2),
        (["latency", "-a", "text_normalize"], "invalid_arguments", 2),
        (["latency", "-a", "text_normalize=[]"], "invalid_arguments", 2),
        (["list", "--allocation", "/nonexistent"], "invalid_allocation", 1),
        (["audit", "--agent", "nobody"], "unknown_agent", 2),
    ],
)
def test_errors(gateway: Gateway, arguments: list[str], code: str, exit_code: int) -> None:
    done = run(gateway, *arguments, "--json")
    found = data(done)
    assert list(found) == ["ok", "status", "code", "message"]
    assert found["code"] == code
    assert done.returncode == exit_code


def test_the_gateway_is_not_there(gateway: Gateway) -> None:
    done = run(gateway, "list", "--json", JARVIS_GATEWAY_URL="https://127.0.0.1:9")
    assert data(done)["code"] == "gateway_unavailable"
    assert done.returncode == 1


def test_latency(gateway: Gateway, tmp_path: Path) -> None:
    image = tmp_path / "latency.svg"
    gateway.mode(annotations={"geo_validate_geometry": None})
    found = data(
        run(
            gateway,
            "latency",
            "-n",
            "12",
            "--in-flight",
            "4",
            "-a",
            'text_normalize={"text":"x"}',
            "-a",
            'datetime_parse_relative_expression={"expression":"this week"}',
            "-a",
            'geo_validate_geometry={"geojson":{}}',
            "--svg",
            str(image),
            "--json",
        )
    )
    samples = {sample["tool"]: sample for sample in found["tools"]}
    good = samples["text_normalize"]
    assert (good["calls"], good["failures"]) == (12, 0)
    assert (
        0 < good["min_ms"] <= good["p50_ms"] <= good["p95_ms"] <= good["p99_ms"] <= good["max_ms"]
    )
    assert samples["datetime_parse_relative_expression"]["failures"] == 12
    skipped = {item["tool"]: item["reason"] for item in found["skipped"]}
    assert "read-only" in skipped["geo_validate_geometry"]
    assert samples["geo_create_buffer"]["failures"] == 0  # by the sample in the table
    assert len(gateway.calls()) == 48
    root = ET.fromstring(image.read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")


def test_a_user_table_on_the_command_line(gateway: Gateway, tmp_path: Path) -> None:
    table = tmp_path / "table.toml"
    table.write_text('[agents.main]\ntools = ["weather_now"]\n', encoding="utf-8")
    found = data(run(gateway, "list", "--allocation", str(table), "--json"))
    assert [tool["name"] for tool in found["agents"][0]["tools"]] == ["weather_now"]


def test_the_reader_goes_away(gateway: Gateway) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, "list", "--json"],
        env={**os.environ, **gateway.environment()},
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == b""


def test_too_large_a_result() -> None:
    text = document.success("gateway audit", {"tools": "x" * _mcpro.MAX_STDOUT})
    assert json.loads(text)["data"]["code"] == "result_too_large"
    assert len(text) <= _mcpro.MAX_STDOUT + 1


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.integers(1, 100))
def test_nearest_rank(times: list[float], percent: int) -> None:
    found = nearest_rank(times, percent)
    assert found in times
    assert found is not None
    assert sum(time <= found for time in times) * 100 >= percent * len(times)
    assert sum(time < found for time in times) * 100 < percent * len(times)


def test_nearest_rank_of_known_values() -> None:
    times = [float(number) for number in range(1, 101)]
    assert [nearest_rank(times, percent) for percent in (50, 95, 99)] == [50.0, 95.0, 99.0]
    assert nearest_rank([], 50) is None


def test_a_picture_is_self_contained() -> None:
    samples = [Sample("<tool>&", (1.0, 2.0, 40.0), 1), Sample("none", (), 3)]
    text = picture.svg(samples, title="<title>")
    root = ET.fromstring(text)
    assert len(root.findall("{http://www.w3.org/2000/svg}rect")) >= 4
    for word in ("<script", "href", "@import", "url("):
        assert word not in text


async def report_of(entries: list[dict[str, Any]], table: Allocation, stand_in: StandIn) -> Audit:
    stand_in.entries[:] = entries
    return await audit(stand_in_config(stand_in), allocation=table)


async def test_an_audit_names_rivals_and_near_misses(stand_in: StandIn) -> None:
    table = Allocation.of({"main": ["text_normalize", "weather_now", "geo_create_buffer"]})
    report = await report_of(
        [
            entry("a__text_normalize"),
            entry("b.text-normalize"),
            entry("utils_weather_now"),
            entry("utils__geo_create_buffer"),
        ],
        table,
        stand_in,
    )
    assert report.exit_status == 1
    absent = report.absent()
    assert "a__text_normalize: more than one" in absent["text_normalize"]
    assert "(b.text-normalize)" in absent["text_normalize"]
    assert absent["weather_now"] == (
        "the gateway lacks it; it has utils_weather_now, which does not match"
    )
    near = {item["name"]: item["near"] for item in report.as_json()["unusable"]}
    assert near["weather_now"] == ["utils_weather_now"]
    assert "geo_create_buffer" not in absent
    printed = render(tables.of_audit(report))
    assert "utils_weather_now, which does not match" in " ".join(printed.split())


async def test_an_audit_is_filtered_and_paged(stand_in: StandIn) -> None:
    table = Allocation.of({"main": ["text_normalize"], "geo": ["geo_create_buffer"]})
    names = ["utils__text_normalize", "utils__geo_create_buffer"]
    entries = [entry(name) for name in [*names, *(f"utils__other_{n}" for n in range(250))]]
    report = await report_of(entries, table, stand_in)
    assert report.exit_status == 0
    assert [f.name for f in report.selected(agent="geo")] == ["utils__geo_create_buffer"]
    assert len(report.selected(refused=True)) == 250
    found = report.as_json(refused=True, page=3, page_size=100)
    assert found["page"] == {"number": 3, "of": 3, "tools": 250}
    assert [tool["name"] for tool in found["tools"]] == [
        f"utils__other_{n}" for n in range(200, 250)
    ]
    assert report.unused() == ("Not used: 250 of 252 tools (250 no agent's table lists it).")


def render(table: Any) -> str:
    text = io.StringIO()
    terminal.console_of(text).print(table)
    return text.getvalue()


async def test_list_shows_arguments(stand_in: StandIn) -> None:
    async with load_gateway_tools(
        stand_in_config(stand_in), allocation=Allocation.of({"main": ["text_normalize"]})
    ) as loaded:
        assert "n?: integer" in render(tables.of_list(loaded))
        assert cli.listed(loaded)["agents"][0]["tools"][0]["arguments"]["type"] == "object"


async def test_latency_with_samples_of_the_table(stand_in: StandIn) -> None:
    names = ["text_normalize", "weather_now", "geo_create_buffer"]
    numbered = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    stand_in.entries[:] = [entry(f"utils__{name}", inputSchema=numbered) for name in names]
    table = Allocation.of(
        {"main": names},
        tools=[
            ToolSettings("text_normalize", sample={"n": 1}),
            ToolSettings("weather_now", sample={"n": "one"}),
        ],
    )
    async with load_gateway_tools(stand_in_config(stand_in), allocation=table) as loaded:
        report = await measure(loaded, calls=3)
    assert [(s.tool, len(s.times_ms)) for s in report.samples] == [("text_normalize", 3)]
    assert "do not fit its schema: 'one' is not of type 'integer'" in report.skipped["weather_now"]
    assert "-a 'geo_create_buffer={...}'" in report.skipped["geo_create_buffer"]


def readme_program() -> tuple[str, str]:
    """The README's program for the demo gateway, and what it says that it prints."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    program, _, rest = readme.partition("    import asyncio\n")[2].partition("They print:\n")
    indented = re.match(r"\n((?:    .*\n)+)", rest)
    assert indented is not None
    return "import asyncio\n" + dedent(program), dedent(indented[1])


@pytest.mark.parametrize("more", [[], ["--tls"]])
def test_the_demo_gateway(capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    served = subprocess.Popen(
        [sys.executable, "-c", ENTRY, "demo", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert served.stdout is not None
        environ = {}
        while (line := served.stdout.readline().decode()).startswith("export "):
            name, _, value = line.removeprefix("export ").strip().partition("=")
            environ[name] = value
        assert ("SSL_CERT_FILE" in environ) == bool(more)
        with mock.patch.dict(os.environ, environ):
            check_the_demo(environ, capsys)
    finally:
        served.send_signal(signal.SIGINT)
        _out, errors = served.communicate(timeout=30)
    assert b"Traceback" not in errors
    assert not Path(environ.get("SSL_CERT_FILE", "/nowhere")).exists()


def check_the_demo(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """All tools are there with the key, none without, and the README's program runs."""
    scheme = "https" if "SSL_CERT_FILE" in environ else "http"
    assert environ["JARVIS_GATEWAY_URL"].startswith(f"{scheme}://127.0.0.1:")
    report = asyncio.run(audit(environ=environ))
    assert report.exit_status == 0
    assert report.loaded.missing == []
    wrong = asyncio.run(audit(environ={**environ, "JARVIS_API_KEY": "wrong"}))
    assert wrong.loaded.state == "unauthorized"
    program, output = readme_program()
    exec(compile(program, "README", "exec"), {})
    assert capsys.readouterr().out == output
