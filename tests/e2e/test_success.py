"""A real SDK server: what a good call prints, whichever way the server answers."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest
from servers.dcode import BIN, INPUT, Dcode
from servers.inside import Inside

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.sdk_server import MODES, PIXEL, SDKServer, task_context

TOOL = "worker-broker_worker_task_context"


@pytest.mark.parametrize("mode", MODES)
def test_each_way_of_answering(dcode: Dcode, fastmcp: SDKServer, mode: str) -> None:
    dcode.serve(**{"worker-broker": fastmcp.url(mode)})
    since = fastmcp.mark()
    run = dcode.run(TOOL)
    data = run.expect_ok(TOOL)
    assert data["structured_content"] == task_context("worker.1")
    assert [block["type"] for block in data["content"]] == ["text"]
    assert json.loads(data["content"][0]["text"]) == data["structured_content"]
    assert set(data["content"][0]) == {"type", "text"}, "no random block ids"
    assert fastmcp.count("tools/call", since) == 1
    assert fastmcp.count("tools/list", since) == 1
    assert fastmcp.count("GET", since) == 0
    assert fastmcp.count("DELETE", since) == (0 if mode.startswith("stateless") else 2)
    peers = {entry["peer"] for entry in fastmcp.requests(since) if entry["method"] != "HEAD"}
    assert len(peers) <= 2, "one connection a session"


def test_same_answer_same_bytes_by_either_command(dcode: Dcode, fastmcp: SDKServer) -> None:
    dcode.serve(**{"worker-broker": fastmcp.url()})
    first, second, module = dcode.run_all([{"tool": TOOL}, {"tool": TOOL},
                                           {"tool": TOOL, "module": True}])  # fmt: skip
    first.expect_ok(TOOL)
    assert first.stdout == second.stdout == module.stdout
    assert module.exit_code == 0


@pytest.mark.parametrize("tool", [TOOL, "worker-broker_mutating", "worker-broker_failing"])
def test_same_bytes_in_the_tests_process(
    tmp_path: Path, authority: Authority, fastmcp: SDKServer, tool: str
) -> None:
    """What stands for a process in tests that are marked `inside` prints what a process prints."""
    here = Inside(tmp_path, authority.ca_file)
    here.serve(**{"worker-broker": fastmcp.url()})
    called, started = here.call(tool, INPUT), here.start(tool).finish()
    assert (called.stdout, called.exit_code) == (started.stdout, started.exit_code)
    started.document()


@pytest.mark.parametrize(
    ("tool", "content"),
    [
        ("image", [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]),
        (
            "resource_link",
            [
                {
                    "type": "file",
                    "url": "https://example.invalid/doc.pdf",
                    "mime_type": "application/pdf",
                },
                {
                    "type": "image",
                    "url": "https://example.invalid/pixel.png",
                    "mime_type": "image/png",
                },
            ],
        ),
        (
            "embedded",
            [
                {"type": "text", "text": "note\u2028\U0001f600"},
                {"type": "file", "base64": "JVBERg==", "mime_type": "application/pdf"},
                {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
                {"type": "text", "text": "end"},
            ],
        ),
    ],
)
def test_blocks_as_the_adapter_converts_them(
    dcode: Dcode, fastmcp: SDKServer, tool: str, content: list[dict[str, str]]
) -> None:
    dcode.serve(sdk=fastmcp.url())
    data = dcode.run(f"sdk_{tool}", stdin=b"{}").expect_ok(f"sdk_{tool}")
    assert data["content"] == content
    assert "structured_content" not in data


def test_escapes_are_lower_case_ascii(dcode: Dcode, fastmcp: SDKServer) -> None:
    dcode.serve(sdk=fastmcp.url("sse"))
    text = 'q"b\\s/\b\f\n\r\t\x01\x1f\x7f\u00ab\u2028\ufeff\U0001f600'
    run = dcode.run("sdk_echo", stdin=json.dumps({"value": text}).encode())
    assert run.expect_ok("sdk_echo")["content"] == [{"type": "text", "text": text}]
    for escaped in (rb"\u0001", rb"\u001f", rb"\u00ab", rb"\u2028", rb"\ufeff", rb"\ud83d\ude00"):
        assert escaped in run.stdout
    assert run.stdout.isascii()


def test_progress_and_log_messages_are_passed_over(dcode: Dcode, fastmcp: SDKServer) -> None:
    dcode.serve(sdk=fastmcp.url("sse"))
    data = dcode.run("sdk_chatty", stdin=b"{}").expect_ok("sdk_chatty")
    assert data["content"] == [{"type": "text", "text": "said"}]


def test_output_schema_is_satisfied(dcode: Dcode, fastmcp: SDKServer) -> None:
    dcode.serve(sdk=fastmcp.url())
    since = fastmcp.mark()
    run = dcode.run("sdk_total", stdin=b'{"left":1,"right":2}')
    assert run.structured() == b'{"total":3}'
    assert fastmcp.count("tools/list", since) == 1, "the SDK's list after a call is not sent"


@pytest.mark.parametrize(
    ("tool", "code", "calls"),
    [
        ("unannotated", "tool_not_read_only", 0),
        ("mutating", "tool_not_read_only", 0),
        ("contradictory", "tool_not_read_only", 0),
        ("absent", "tool_not_found", 0),
        ("failing", "tool_failed", 1),
        ("audio", "runtime_failure", 1),
    ],
)
def test_each_refusal_of_a_real_server(
    dcode: Dcode, fastmcp: SDKServer, tool: str, code: str, calls: int
) -> None:
    dcode.serve(sdk=fastmcp.url())
    since = fastmcp.mark()
    dcode.run(f"sdk_{tool}", stdin=b"{}").expect(code)
    assert fastmcp.count("tools/call", since) == calls


def test_arguments_the_tool_refuses(dcode: Dcode, fastmcp: SDKServer) -> None:
    dcode.serve(**{"worker-broker": fastmcp.url()})
    dcode.run(TOOL, stdin=b"{}").expect("tool_failed")


def test_a_quiet_answer_inside_the_deadline(dcode: Dcode, fastmcp: SDKServer) -> None:
    dcode.serve(sdk=fastmcp.url("sse"))
    data = dcode.run("sdk_slow", stdin=b'{"seconds":4}').expect_ok("sdk_slow")
    assert data["content"] == [{"type": "text", "text": "late"}]


def test_other_commands_still_work(dcode: Dcode, fastmcp: SDKServer) -> None:
    dcode.serve(**{"worker-broker": fastmcp.url()})
    listed = dcode.run(argv=["tools", "list", "--json"])
    names = [tool["name"] for tool in json.loads(listed.stdout)["data"]["tools"]]
    assert TOOL in names
    assert listed.exit_code == 0
    version = dcode.run(argv=["--version"])
    assert version.exit_code == 0
    assert importlib.metadata.version("deepagents-code").encode() in version.stdout
    assert (BIN / "dcode").exists()
    assert sys.prefix != sys.base_prefix, "the tests run in a virtual environment"
