"""`deepagents-ro explain`: which word of a command line is misplaced, where input is no object.

The envelope's messages for both are constants. What is said here names positions, codes and words
of this package; it repeats nothing that was given.
"""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import dataclass

from deepagents_ro import _mcpro
from deepagents_ro.command import MAX_INPUT_BYTES
from deepagents_ro.command_line import (
    CALL,
    FLAGS,
    TOOL_NAME,
    VALUED,
    options,
    parse_call,
    refusal,
)

HELP = """\
Usage: deepagents-ro explain [WORD...]

Say which word of a command line of `dcode tools call-read-only` is misplaced,
and where standard input is not one strict JSON object. WORD... is the command
line, with or without `dcode`; without words only standard input is looked at.
What was rejected is never repeated. Exit status: 0 nothing is wrong, 1
something is, 2 nothing was given.

  printf '%s' '{"name":1,}' | deepagents-ro explain tools call-read-only clock_zone --json
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong: the envelope's code, where, and why."""

    code: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.code}: {self.where}: {self.why}"


def main(words: list[str]) -> int:
    """Explain `words` and standard input; the exit status."""
    if words in (["-h"], ["--help"]):
        print(HELP, end="")
        return 0
    if not words and os.isatty(0):
        print(HELP, end="", file=sys.stderr)
        return 2
    faults = []
    if words:
        faults.append(of_words(words[1:] if words[0] == "dcode" else words, managed=is_managed()))
    if not os.isatty(0):
        faults.append(of_input(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)))
    found = [str(fault) for fault in faults if fault is not None]
    print("\n".join(found) or "nothing is wrong")
    return 1 if found else 0


def is_managed() -> bool:
    """Whether a managed runtime is installed beside DCode."""
    from deepagents_ro import host, managed
    from deepagents_ro.refusal import HostError

    try:
        host.prepare_package()
    except HostError:
        return False  # no DCode, no runtime beside it
    return managed.is_installed()


def of_words(words: list[str], *, managed: bool) -> Fault | None:
    """The first thing that keeps a command line from being a call; `None` for a good one."""
    command = parse_call(words, managed=managed)
    if command is None:
        return _misplaced(words, managed=managed)
    if command.help or TOOL_NAME.match(command.tool) is not None:
        return None
    return Fault("invalid_tool_name", "TOOL", _bad_name(command.tool))


def _bad_name(tool: str) -> str:
    if not tool:
        return "it is empty"
    for at, character in enumerate(tool):
        if TOOL_NAME.match(character if at == 0 else f"a{character}") is None:
            return f"character {at + 1} is not allowed there (letters, digits, then also _ and -)"
    return f"it has {len(tool)} characters; 128 are allowed"


def _misplaced(words: list[str], *, managed: bool) -> Fault:
    at = next((i for i, pair in enumerate(itertools.pairwise(words)) if pair == CALL), None)
    if at is None and set(CALL) & set(words):
        return Fault("invalid_command", "the words", f"{' '.join(CALL)} is not there side by side")
    end = _options(words if at is None else words[:at], managed=managed)
    if isinstance(end, Fault):
        return end
    if at is None:
        return _behind(words[end:], end)
    if end < at:
        return _fault(end, "only options stand before `tools`, each spelled out")
    return _behind(words[at + 2 :], at + 2)


def _options(words: list[str], *, managed: bool) -> int | Fault:
    """How many words are good options, or what is wrong with one of them."""
    end = 0
    for option in options(words):
        why = refusal(option, managed=managed)
        if why:
            return _fault(option.at, why)
        end = option.end
    return end


def _behind(rest: list[str], first: int) -> Fault:
    """What is wrong behind the two words: TOOL and `--json`, in either order, and nothing else."""
    for number, word in enumerate(rest):
        if word.partition("=")[0] in (*VALUED, *FLAGS):
            return _fault(first + number, f"{word.partition('=')[0]} stands before `tools`")
        if word in ("-h", "--help"):
            return _fault(first + number, f"{word} stands alone")
        if word.startswith("--") and word != "--json":
            return _fault(first + number, "no option of this command")
    if "--json" not in rest:
        return Fault("invalid_command", "the end", "--json is missing")
    if rest.count("--json") > 1:
        return _fault(first + len(rest) - 1 - rest[::-1].index("--json"), "--json stands twice")
    tools = [number for number, word in enumerate(rest) if word != "--json"]
    if not tools:
        return Fault("invalid_command", "the end", "TOOL is missing")
    return _fault(first + tools[-1], "one word too many: TOOL and --json are all")


def _fault(at: int, why: str) -> Fault:
    return Fault("invalid_command", f"word {at + 1}", why)


def of_input(data: bytes) -> Fault | None:
    """The first byte that keeps standard input from being the arguments; `None` for good ones."""
    if not data:
        return Fault("input_required", "byte 0", "standard input is empty; {} has no arguments")
    if len(data) > MAX_INPUT_BYTES:
        why = f"more than {MAX_INPUT_BYTES:,} bytes"
        return Fault("input_too_large", f"byte {MAX_INPUT_BYTES}", why)
    try:
        _mcpro.json_check(data)
    except _mcpro.JSONError as error:
        why = str(error).rstrip(".")
        return Fault("invalid_input", _place(data, error.position), f"{why} ({error.code})")
    start = len(data) - len(data.lstrip(b" \t\r\n"))
    if data[start : start + 1] != b"{":
        return Fault("invalid_input", _place(data, start), "The value is no object (not_object)")
    return None


def _place(data: bytes, position: int) -> str:
    before = data[:position]
    line = before.count(b"\n") + 1
    column = position - before.rfind(b"\n")
    return f"byte {position} (line {line}, byte {column})"
