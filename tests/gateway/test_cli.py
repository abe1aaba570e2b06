"""`deepagents-ro gateway ...` as a process, and the parts that need none."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepagents_ro.gateway import document, picture
from deepagents_ro.gateway.latency import Sample, nearest_rank

from .conftest import Gateway
from .reverse_proxy import API_KEY

ENTRY = "import sys; from deepagents_ro.gateway.cli import main; sys.exit(main(sys.argv[1:]))"


def run(gateway: Gateway, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        env={**os.environ, **gateway.environment(), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def data(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The `data` of the one envelope, checked for its form."""
    assert done.stderr == ""
    assert done.stdout.endswith("\n")
    assert done.stdout.count("\n") == 1
    assert done.stdout.isascii()
    assert API_KEY not in done.stdout
    envelope = json.loads(done.stdout)
    assert list(envelope) == ["schema_version", "command", "data"]
    return envelope["data"]


def test_list(gateway: Gateway) -> None:
    found = data(run(gateway, "list", "--json"))
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
    found = data(run(gateway, "audit", "--json"))
    assert found["gateway"]["reachable"] is True
    assert found["gateway"]["authentication"] == "accepted"
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
    started = time.monotonic()
    found = data(run(gateway, "audit", "--json", UTILS_MCP_TIMEOUT_S="1"))
    assert time.monotonic() - started < 15
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
    assert "utils__trino_run_query" in done.stdout
    assert "guarded path" in done.stdout


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
    assert "arguments" in skipped["geo_create_buffer"]
    assert len(gateway.calls()) == 24
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
    text = document.success("gateway audit", {"tools": "x" * document.MAX_BYTES})
    assert json.loads(text)["data"]["code"] == "result_too_large"
    assert len(text) <= document.MAX_BYTES + 1


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
