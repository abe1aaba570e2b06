"""`deepagents-ro explain`: it finds a fault exactly where the call does, and repeats nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepagents_ro import _mcpro
from deepagents_ro.command import MAX_INPUT_BYTES
from deepagents_ro.command_line import TOOL_NAME, parse_call
from deepagents_ro.explain import of_input, of_words

GOOD = ["tools", "call-read-only", "a_b", "--json"]
WORDS = (
    "tools", "call-read-only", "--json", "--no-mcp", "--trust-project-mcp", "--mcp-config", "-",
    "--mcp-config=x", "--sandbox", "--sandbox=none", "--sandbox=x", "none", "-h", "--help", "a_b",
    "--secret", "-x", "",
)  # fmt: skip


@given(words=st.lists(st.sampled_from(WORDS), max_size=8), managed=st.booleans())
def test_a_fault_is_found_where_the_call_finds_one(words: list[str], managed: bool) -> None:
    fault = of_words(words, managed=managed)
    command = parse_call(words, managed=managed)
    if command is None:
        assert fault is not None
        assert fault.code == "invalid_command"
    elif command.help or TOOL_NAME.match(command.tool):
        assert fault is None
    else:
        assert fault is not None
        assert fault.code == "invalid_tool_name"
    assert "secret" not in str(fault)


@pytest.mark.parametrize(
    ("words", "where", "why"),
    [
        (["tools", "call-read-only", "a_b"], "the end", "--json is missing"),
        (["tools", "call-read-only", "--json"], "the end", "TOOL is missing"),
        ([*GOOD, "more"], "word 5", "one word too many"),
        ([*GOOD, "--json"], "word 5", "--json stands twice"),
        ([*GOOD[:3], "--no-mcp", "--json"], "word 4", "--no-mcp stands before `tools`"),
        ([*GOOD, "--help"], "word 5", "--help stands alone"),
        ([*GOOD, "--yaml"], "word 5", "no option of this command"),
        (["--mcp-config", "--no-mcp", *GOOD], "word 1", "--mcp-config needs a value"),
        (["-v", *GOOD], "word 1", "only options stand before `tools`"),
        (["--sandbox", "none", *GOOD], "word 1", "--sandbox is for managed runtimes"),
        (["call-read-only", "a_b", "--json"], "the words", "side by side"),
    ],
)
def test_what_is_misplaced(words: list[str], where: str, why: str) -> None:
    fault = of_words(words, managed=False)
    assert fault is not None
    assert (fault.code, fault.where) == ("invalid_command", where)
    assert why in fault.why


def test_what_a_managed_runtime_refuses() -> None:
    assert of_words(["--sandbox", "none", "--no-mcp", *GOOD], managed=True) is None
    refused = of_words(["--no-mcp", "--trust-project-mcp", *GOOD], managed=True)
    assert refused is not None
    assert (refused.where, refused.why) == (
        "word 2",
        "a managed runtime refuses --trust-project-mcp",
    )


@pytest.mark.parametrize(
    ("tool", "why"),
    [("a b", "character 2 "), ("_a", "character 1 "), ("a" * 129, "129 characters"), ("", "empty")],
)
def test_a_name_that_is_none(tool: str, why: str) -> None:
    fault = of_words(["tools", "call-read-only", tool, "--json"], managed=False)
    assert fault is not None
    assert why in str(fault)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "input_required: byte 0: "),
        (b" " * (MAX_INPUT_BYTES + 1), f"input_too_large: byte {MAX_INPUT_BYTES}: "),
        (b'{"a":1,\n "a":2}', "invalid_input: byte 9 (line 2, byte 2): "),
        (b" [1]", "invalid_input: byte 1 (line 1, byte 2): The value is no object"),
        (b'{"secret":NaN}', "invalid_input: byte 10 (line 1, byte 11): "),
        (b"{} secret", "invalid_input: byte 3 "),
    ],
)
def test_where_input_is_wrong(data: bytes, text: str) -> None:
    fault = of_input(data)
    assert fault is not None
    assert str(fault).startswith(text)
    assert "secret" not in str(fault)


@given(st.binary(max_size=12) | st.text(alphabet='{}[]":,1 a\n', max_size=12).map(str.encode))
def test_input_is_wrong_where_the_call_says_so(data: bytes) -> None:
    try:
        _mcpro.json_check(data)
        good = data.lstrip(b" \t\r\n").startswith(b"{")
    except _mcpro.JSONError:
        good = False
    assert (of_input(data) is None) == good


def explain(*words: str, stdin: bytes) -> tuple[int, str]:
    program = "import sys; from deepagents_ro.console import main; sys.exit(main())"
    command = [sys.executable, "-I", "-c", program, "explain", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60)
    assert done.stderr == b""
    return done.returncode, done.stdout.decode()


def test_the_command() -> None:
    assert explain("dcode", *GOOD, stdin=b"{}") == (0, "nothing is wrong\n")
    status, text = explain(*GOOD[:3], stdin=b"[]")
    assert status == 1
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "invalid_command",
        "invalid_input",
    ]
    assert explain(stdin=b"{} x")[0] == 1
