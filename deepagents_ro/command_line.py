"""The words behind the program's name: what they ask for, or that they have no meaning here.

Pure functions of a list of words; nothing else of this package is imported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
CALL = ("tools", "call-read-only")
AUDIT = ("tools", "audit-read-only")

# What may stand before `tools`: with a value behind it or behind its `=`, and alone.
VALUED = ("--mcp-config", "--sandbox")
FLAGS = ("--trust-project-mcp", "--no-mcp")

_HELP = (["-h"], ["--help"])


class Option(NamedTuple):
    """An option as it is spelled at position `at`; what it means is not judged yet."""

    at: int
    words: int
    """How many words it is."""
    name: str
    value: str | None = None
    """What stands behind it or behind its `=`; `None` for a flag, or when nothing does."""

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.at + self.words


class Command:
    """A command line of the right shape; `tool` is not checked yet."""

    def __init__(self, tool: str = "") -> None:
        self.tool = tool
        """Full name; '' for an audit of every tool."""
        self.as_json = False
        self.help = False
        self.mcp_config: str | None = None
        self.trust_project_mcp = False
        self.no_mcp = False


def parse_call(argv: list[str], *, managed: bool) -> Command | None:
    """`[options] tools call-read-only TOOL --json`; `None` for a wrong shape.

    Args:
        argv: behind the program's name; without the two words, as `python -m deepagents_ro` takes
            it, they are put behind the options.
        managed: a managed runtime is installed: `--mcp-config` and `--trust-project-mcp` are
            refused, the `--no-mcp` and `--sandbox none` that launchers put first are ignored.
    """
    command, rest = _split(argv, CALL, managed=managed)
    if command is None or command.help:
        return command
    if len(rest) != 2 or rest.count("--json") != 1:
        return None
    command.as_json = True
    command.tool = rest[1] if rest[0] == "--json" else rest[0]
    return command if _may_be_tool(command.tool) or not command.tool else None


def parse_audit(argv: list[str], *, managed: bool) -> Command | None:
    """`[options] tools audit-read-only [TOOL] [--json]`; see `parse_call`."""
    command, rest = _split(argv, AUDIT, managed=managed)
    if command is None or command.help:
        return command
    tools = [word for word in rest if word != "--json"]
    if len(tools) > 1 or rest.count("--json") > 1 or not all(map(_may_be_tool, tools)):
        return None
    command.as_json = "--json" in rest
    command.tool = "".join(tools)
    return command


def _may_be_tool(word: str) -> bool:
    """Whether a word is meant as a name; what it holds is not checked."""
    return bool(word) and word != "-h" and not word.startswith("--")


def _split(
    argv: list[str], words: tuple[str, str], *, managed: bool
) -> tuple[Command | None, list[str]]:
    """The options before `words` as a command, and what stands behind them."""
    at = next((i for i in range(len(argv) - 1) if tuple(argv[i : i + 2]) == words), None)
    behind = 2
    if at is None:
        at, behind = max((option.end for option in options(argv)), default=0), 0
    command = _options(argv[:at], managed=managed)
    rest = argv[at + behind :]
    if command is not None:
        command.help = rest in _HELP
    return command, rest


def options(words: list[str]) -> Iterator[Option]:
    """The options that `words` begin with."""
    at = 0
    while at < len(words):
        name, inline, value = words[at].partition("=")
        if words[at] in FLAGS:
            option = Option(at, 1, name)
        elif name in VALUED and inline:
            option = Option(at, 1, name, value)
        elif name in VALUED:
            option = Option(at, 2, name, words[at + 1] if at + 1 < len(words) else None)
        else:
            return
        yield option
        at = option.end


def refusal(option: Option, *, managed: bool) -> str:
    """Why an option may not stand there, or ''."""
    name, value = option.name, option.value
    if option.words == 2 and (value is None or (value.startswith("-") and value != "-")):
        return f"{name} needs a value"
    if managed and name in ("--mcp-config", "--trust-project-mcp"):
        return f"a managed runtime refuses {name}"
    if name == "--sandbox" and not managed:
        return "--sandbox is for managed runtimes"
    if name == "--sandbox" and value != "none":
        return "--sandbox takes none"
    return ""


def _options(before: list[str], *, managed: bool) -> Command | None:
    """A command with the options that may stand before `tools`."""
    command = Command()
    end = 0
    for option in options(before):
        if refusal(option, managed=managed):
            return None
        if option.name == "--no-mcp":
            command.no_mcp = not managed
        elif option.name == "--trust-project-mcp":
            command.trust_project_mcp = True
        elif option.name == "--mcp-config":
            command.mcp_config = option.value
        end = option.end
    return command if end == len(before) else None
