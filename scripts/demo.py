"""Shows the whole thing once: a real server, the real `dcode`, one call, one refusal.

Run by `make demo` with the Python of the environment in which `dcode` is
installed and patched. Exits 1 if anything comes out other than it should.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from servers.fastmcp_server import ATTESTATION, FastMCPServer
from servers.tls import Authority

DCODE = Path(sys.executable).parent / "dcode"
ARGUMENTS = '{"task_id":"worker.1"}'
GOOD = "worker-broker_worker_task_context"
DENIED = "worker-broker_mutating"
SECONDS = 20.0


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
            self._console.print(text, style=style, markup=False)


def call(show: Show, tool: str, home: Path, ca_file: Path) -> tuple[dict[str, Any], int]:
    """Runs one call; returns the envelope's `data` and the exit status."""
    command = ["dcode", "tools", "call-read-only", tool, "--json"]
    show.command(f"printf '%s' {shlex.quote(ARGUMENTS)} | {shlex.join(command)}")
    done = subprocess.run(
        [str(DCODE), *command[1:]],
        input=ARGUMENTS.encode(),
        capture_output=True,
        timeout=SECONDS,
        cwd=home,
        env={
            "PATH": f"{DCODE.parent}:/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "SSL_CERT_FILE": str(ca_file),
        },
    )
    if done.stderr:
        raise Unexpected("standard error is not empty:\n" + done.stderr.decode(errors="replace"))
    if done.stdout.count(b"\n") != 1 or not done.stdout.endswith(b"\n"):
        raise Unexpected(f"not one document and one newline: {done.stdout!r}")
    show.document(done.stdout)
    show.note(f"exit status {done.returncode}")
    return json.loads(done.stdout)["data"], done.returncode


def expect(what: str, got: Any, wanted: Any) -> None:
    """Raises unless `got` is what was wanted."""
    if got != wanted:
        raise Unexpected(f"{what}: expected {wanted!r}, got {got!r}")


def demonstrate(show: Show, directory: Path) -> None:
    """The demonstration; everything it writes is below `directory`."""
    show.step("1. A real MCP server (SDK, Streamable HTTP, TLS certificate made on the spot)")
    authority = Authority(directory / "authority")
    log = directory / "requests.log"
    with FastMCPServer(authority.cert_file, authority.key_file, log) as server:
        show.note(f"listening on {server.url()}")

        show.step("2. A private configuration for dcode")
        home = directory / "home"
        config = home / ".deepagents" / ".mcp.json"
        config.parent.mkdir(parents=True)
        servers = {"mcpServers": {"worker-broker": {"type": "http", "url": server.url()}}}
        config.write_text(json.dumps(servers))
        show.note(f"~/.deepagents/.mcp.json: {config.read_text()}")

        show.step("3. One exact, read-only call, with no model in the loop")
        data, status = call(show, GOOD, home, authority.ca_file)
        expect("exit status", status, 0)
        expect("tool", data.get("tool"), GOOD)
        structured = data.get("structured_content", {})
        expect("task", structured.get("task_id"), "worker.1")
        attestation = structured.get("qualification", {}).get("output_attestation")
        expect("output attestation", attestation, ATTESTATION)
        expect("calls at the server", server.count("tools/call"), 1)
        show.note("the server counted exactly one tools/call")

        show.step("4. A tool that says it writes is refused, and never called")
        since = server.mark()
        data, status = call(show, DENIED, home, authority.ca_file)
        expect("exit status", status, 1)
        expect("code", data.get("code"), "tool_not_read_only")
        expect("calls at the server", server.count("tools/call", since), 0)
        show.note("the server counted no tools/call")


def main() -> int:
    """Returns the exit status."""
    show = Show()
    try:
        with tempfile.TemporaryDirectory(prefix="deepagents-ro-demo-") as directory:
            demonstrate(show, Path(directory))
    except (Unexpected, OSError, RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
        show.failure(f"The demonstration failed: {error}")
        return 1
    show.step("Done: one call, one refusal, nothing left behind.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
