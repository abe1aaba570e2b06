"""`deepagents-ro`: the two commands without `dcode`, the gateway tools, help with all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable

USAGE = """\
Usage: deepagents-ro call [OPTIONS] TOOL --json             the read-only call, without dcode
       deepagents-ro audit [OPTIONS] [TOOL] [--json]        why a tool can or cannot be called
       deepagents-ro gateway list|audit|latency|demo [...]  curated gateway tools
       deepagents-ro doctor [OPTIONS] [--json]              what a call here depends on
       deepagents-ro explain [WORD...]                      what is wrong with words or input
       deepagents-ro schema call|audit|gateway              JSON Schema of what they print
       deepagents-ro --version

OPTIONS are what stands before `tools`: see deepagents-ro call --help.
"""


def main() -> int:
    """Entry point of the console script; returns the exit status."""
    name, rest = "".join(sys.argv[1:2]), sys.argv[2:]
    if name in ("call", "audit"):
        from deepagents_ro.early_failure import run

        run(f"{name}-read-only", rest)
    if name in COMMANDS:
        return COMMANDS[name](rest)
    if sys.argv[1:] == ["--version"]:
        from deepagents_ro import __version__

        print(f"deepagents-ro {__version__}")
        return 0
    return usage(asked=sys.argv[1:] in (["-h"], ["--help"]))


def usage(*, asked: bool) -> int:
    """Print the usage, where it was asked for on standard output; the exit status."""
    print(USAGE, end="", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def gateway(words: list[str]) -> int:
    """`gateway ...`; the exit status."""
    from deepagents_ro.gateway.cli import main as run

    return run(words)


def schema(words: list[str]) -> int:
    """`schema NAME`: the schema of one kind of envelope."""
    from deepagents_ro import schemas

    if len(words) != 1 or words[0] not in schemas.NAMES:
        return usage(asked=words in (["-h"], ["--help"]))
    sys.stdout.write(schemas.text_of(words[0]))
    return 0


def doctor(words: list[str]) -> int:
    """`doctor ...`; the exit status."""
    from deepagents_ro.doctor import main as run

    return run(words)


def explain(words: list[str]) -> int:
    """`explain ...`; the exit status."""
    from deepagents_ro.explain import main as run

    return run(words)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "gateway": gateway,
    "doctor": doctor,
    "explain": explain,
    "schema": schema,
}
