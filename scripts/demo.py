"""Shows the whole thing once: a real server, the real `dcode`, one call, one refusal.

Run by `make demo` with the Python of the environment in which `dcode` is
installed and patched. Exits 1 if anything comes out other than it should.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.runs import DCODE, INPUT, Broken, Run, World
from deepagents_ro.qualify.lab.sdk_server import SDKServer, task_context

GOOD = "worker-broker_worker_task_context"
DENIED = "worker-broker_mutating"


class Unexpected(Exception):
    """Something came out other than it should."""


class Show:
    """Speaks to people: with colour on a terminal, plain elsewhere."""

    def __init__(self) -> None:
        self._console: Any = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def step(self, text: str) -> None:
        """What happens next."""
        self._say("\n" + text, "bold cyan")

    def command(self, text: str) -> None:
        """A command, as one would type it."""
        self._say("  $ " + text, "green")

    def note(self, text: str) -> None:
        """Something to know about what was just shown."""
        self._say("  " + text, "dim")

    def failure(self, text: str) -> None:
        """Why the demonstration ends here."""
        self._say("\n" + text, "bold red")

    def document(self, raw: bytes) -> None:
        """One envelope: the exact line, then the same for reading."""
        print("  " + raw.decode().rstrip("\n"), flush=True)
        readable = json.dumps(json.loads(raw), indent=2)
        self._say("\n".join("    " + line for line in readable.splitlines()), "yellow")

    def _say(self, text: str, style: str) -> None:
        if self._console is None:
            print(text, flush=True)
        else:
            # the terminal breaks a long line, so that what is copied has no line end in it
            self._console.print(text, style=style, markup=False, soft_wrap=True)


def call(show: Show, tool: str, world: World) -> Run:
    """One call, shown."""
    command = ["dcode", "tools", "call-read-only", tool, "--json"]
    show.command(f"printf '%s' {shlex.quote(INPUT.decode())} | {shlex.join(command)}")
    run = world.call(tool)
    run.document()
    show.document(run.stdout)
    show.note(f"exit status {run.exit_code}")
    return run


def expect(what: str, got: Any, wanted: Any) -> None:
    """Raises unless `got` is what was wanted."""
    if got != wanted:
        raise Unexpected(f"{what}: expected {wanted!r}, got {got!r}")


def demonstrate(show: Show, directory: Path) -> None:
    """The demonstration; everything it writes is below `directory`."""
    show.step("1. A real MCP server (SDK, Streamable HTTP, TLS certificate made on the spot)")
    authority = Authority(directory / "authority")
    log = directory / "requests.log"
    with SDKServer(authority.cert_file, log) as server:
        show.note(f"listening on {server.url()}")

        show.step("2. A private configuration for dcode")
        world = World(directory / "world", authority.ca_file).serve(
            **{"worker-broker": server.url()}
        )
        config = world.home / ".deepagents" / ".mcp.json"
        show.note(f"~/.deepagents/.mcp.json: {config.read_text()}")

        show.step("3. One exact, read-only call, with no model in the loop")
        data = call(show, GOOD, world).expect_ok(GOOD)
        expect("structured content", data.get("structured_content"), task_context("worker.1"))
        expect("calls at the server", server.count("tools/call"), 1)
        show.note("the server counted exactly one tools/call")

        show.step("4. A tool that says it writes is refused, and never called")
        since = server.mark()
        call(show, DENIED, world).expect("tool_not_read_only")
        expect("calls at the server", server.count("tools/call", since), 0)
        show.note("the server counted no tools/call")

        show.step("5. Why, and what to do next")
        audit = ["dcode", "tools", "audit-read-only", DENIED]
        show.command(shlex.join(audit))
        run = world.launch([str(DCODE), *audit[1:]], stdin=None).finish().clean()
        show.note(run.stdout.decode().rstrip().replace("\n", "\n  "))
        expect("exit status", run.exit_code, 1)
        expect("calls at the server", server.count("tools/call", since), 0)


def main() -> int:
    """Returns the exit status."""
    show = Show()
    try:
        with tempfile.TemporaryDirectory(prefix="deepagents-ro-demo-") as directory:
            demonstrate(show, Path(directory))
    except (Unexpected, Broken, OSError, RuntimeError) as error:
        show.failure(f"The demonstration failed: {error}")
        return 1
    show.step("Done: one call, one refusal and its reason, nothing left behind.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
