"""The same call by two MCP clients on Node, beside ours.

    python bench/node_bench.py [--runs 9] [--round-trip-ms 50] [--work DIRECTORY]

Installs `mcporter` and `@modelcontextprotocol/inspector`, in the versions below, and the Node that
they need (npm package `node`) into DIRECTORY (build/bench-node) with the system's `npm`, unless
they are there. All clients take turns against one server, with no delay and through the proxy. A
run counts only if the client printed the structured content that the server sent and the server
logged exactly one `tools/call`. Prints tables and writes bench/results/node.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import results
import turns
from sandbox import ARGUMENTS, COMMANDS, EXPECTED, HERE, TOKEN, Run, Sandbox

PACKAGES = {
    "node": "24.21.0",
    "mcporter": "0.12.3",
    "@modelcontextprotocol/inspector": "2.12.0",
}
MCPORTER = "mcporter/dist/cli.js"
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
NODE = "node/bin/node"
OURS = "ours"
INSTALL_LIMIT_S = 300
NAME = "worker_task_context"


def install(work: Path) -> Path:
    """The `node_modules` directory with exactly `PACKAGES` in it."""
    modules = work / "node_modules"
    if installed(modules) == PACKAGES:
        return modules
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is missing (Debian package: npm)")
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
    return {
        **{name: turns.Contender(line, trust, printed_answer) for name, line in lines.items()},
        OURS: turns.Contender(COMMANDS["ours"]),
    }


def printed_answer(run: Run) -> bool:
    """Whether a client printed what the server answered."""
    try:
        printed = json.loads(run.stdout)
    except ValueError:
        return False
    return run.exit_code == 0 and EXPECTED in (printed, printed.get("structuredContent"))


def main() -> int:
    """Measure both conditions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--round-trip-ms", type=float, default=50.0)
    parser.add_argument("--work", type=Path, default=HERE.parent / "build" / "bench-node")
    options = parser.parse_args()
    modules = install(options.work.resolve())
    report: dict[str, Any] = {"runs": options.runs, "versions": PACKAGES, "conditions": {}}
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", "--json")
        far = sandbox.proxy(server.port, options.round_trip_ms)
        for round_trip_ms, port in ((0.0, server.port), (options.round_trip_ms, far.port)):
            condition = f"{round_trip_ms:g} ms round trip" if round_trip_ms else "no delay"
            sandbox.configure(port)
            clients = contenders(sandbox, modules, port)
            rows = turns.measure(sandbox, server, clients, options.runs)
            found = {name: turns.medians(each) for name, each in rows.items()}
            report["conditions"][condition] = {"medians": found, "runs": rows}
            results.say(f"{condition}, median of {options.runs}")
            turns.show(found, {})
            slower = max(row["wall_s"] for name, row in found.items() if name != OURS)
            verdict = "below" if found[OURS]["wall_s"] < slower else "NOT below"
            results.say(f"  ours is {verdict} the slower of the two ({slower:.3f} s)\n")
    results.write("node", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
