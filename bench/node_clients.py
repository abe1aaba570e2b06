"""Two MCP clients on Node that make the same call: `mcporter` and the inspector's command line.

They and the Node that they need (npm package `node`) are installed, in the versions below, into a
directory with the system's `npm`, unless they are there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import results
import turns
from sandbox import ARGUMENTS, EXPECTED, HERE, TOKEN, Run, Sandbox

PACKAGES = {
    "node": "24.21.0",
    "mcporter": "0.12.3",
    "@modelcontextprotocol/inspector": "2.12.0",
}
MCPORTER = "mcporter/dist/cli.js"
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
NODE = "node/bin/node"
INSTALL_LIMIT_S = 300
WORK = HERE.parent / "build" / "bench-node"
NAME = "worker_task_context"
NAMES = ("mcporter", "inspector --cli")


def install(work: Path = WORK) -> Path | None:
    """The `node_modules` directory with exactly `PACKAGES` in it; None without npm."""
    modules = work / "node_modules"
    if installed(modules) == PACKAGES:
        return modules
    npm = shutil.which("npm")
    if npm is None:
        results.say("npm is missing (Debian package: npm): no clients on Node\n")
        return None
    work.mkdir(parents=True, exist_ok=True)
    (work / "package.json").write_text(json.dumps({"private": True}), encoding="utf-8")
    results.say(f"installing {', '.join(PACKAGES)} into {work.name}/")
    subprocess.run(
        [
            npm,
            "install",
            "--no-audit",
            "--no-fund",
            "--save-exact",
            "--loglevel=error",
            *(f"{name}@{version}" for name, version in PACKAGES.items()),
        ],
        cwd=work,
        check=True,
        timeout=INSTALL_LIMIT_S,
        stdout=subprocess.DEVNULL,
    )
    return modules


def installed(modules: Path) -> dict[str, str]:
    """The versions of `PACKAGES` that are there."""
    found = {}
    for name in PACKAGES:
        manifest = modules / name / "package.json"
        if manifest.is_file():
            found[name] = str(json.loads(manifest.read_text(encoding="utf-8"))["version"])
    return found


def contenders(sandbox: Sandbox, modules: Path, port: int) -> dict[str, turns.Contender]:
    """Each client with its command line for the one call to the server at `port`."""
    node = str(modules / NODE)
    arguments = json.loads(ARGUMENTS)
    trust = {"NODE_EXTRA_CA_CERTS": str(sandbox.root / "ca.pem")}
    lines = {
        "mcporter": [
            *(node, str(modules / MCPORTER)),
            *("--config", str(sandbox.home / ".deepagents" / ".mcp.json")),
            *("call", f"worker-broker.{NAME}", "--args", ARGUMENTS.decode(), "--output", "json"),
        ],
        "inspector --cli": [
            *(node, str(modules / INSPECTOR), "--cli", f"https://127.0.0.1:{port}/mcp"),
            *("--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"),
            *("--method", "tools/call", "--tool-name", NAME),
            *("--tool-arg", f"task_id={arguments['task_id']}"),
        ],
    }
    return {name: turns.Contender(line, trust, printed_answer) for name, line in lines.items()}


def printed_answer(run: Run) -> bool:
    """Whether a client printed what the server answered."""
    try:
        printed = json.loads(run.stdout)
    except ValueError:
        return False
    return run.exit_code == 0 and EXPECTED in (printed, printed.get("structuredContent"))
