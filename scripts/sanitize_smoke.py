"""The whole command on an extension that was built with sanitizers, against a real server.

python scripts/sanitize_smoke.py DIRECTORY     DIRECTORY/deepagents_ro is that build

The command closes standard error, so the sanitizers report into files; one report is a failure.
Run by sanitize_extension.sh, which says what has to be preloaded (RO_PRELOAD).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from servers.fastmcp_server import FastMCPServer
from servers.tls import Authority

PREFIX = "worker-broker_"
SECONDS = 60.0
# tool below PREFIX, standard input, the code that is expected ("ok" for a success)
CALLS = [
    ("worker_task_context", '{"task_id":"worker.1"}', "ok"),
    ("mutating", "{}", "tool_not_read_only"),
    ("contradictory", "{}", "tool_not_read_only"),
    ("failing", "{}", "tool_failed"),
    ("image", "{}", "ok"),
    ("audio", "{}", "runtime_failure"),
    ("absent", "{}", "tool_not_found"),
    ("worker_task_context", "[1,", "invalid_input"),
]


def main(build: Path) -> int:
    """The exit status: 1 for a report or an envelope that is not the expected one."""
    dcode = Path(sys.executable).parent / "dcode"
    command = [sys.executable, "-P", str(dcode), "tools", "call-read-only"]
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="deepagents-ro-sanitize-") as name:
        directory = Path(name)
        reports = directory / "reports"
        reports.mkdir()
        authority = Authority(directory / "authority")
        home = directory / "home"
        configuration = home / ".deepagents" / ".mcp.json"
        configuration.parent.mkdir(parents=True)
        with FastMCPServer(
            authority.cert_file, authority.key_file, directory / "requests.log"
        ) as server:
            servers = {"worker-broker": {"type": "http", "url": server.url()}}
            configuration.write_text(json.dumps({"mcpServers": servers}))
            for tool, text, expected in CALLS:
                done = subprocess.run(
                    [*command, PREFIX + tool, "--json"],
                    input=text.encode(),
                    capture_output=True,
                    timeout=SECONDS,
                    cwd=home,
                    env={
                        "PATH": "/usr/bin:/bin",
                        "HOME": str(home),
                        "PYTHONPATH": str(build),
                        "PYTHONMALLOC": "malloc",
                        "SSL_CERT_FILE": str(authority.ca_file),
                        "LD_PRELOAD": os.environ["RO_PRELOAD"],
                        "ASAN_OPTIONS": f"detect_leaks=0:log_path={reports}/asan",
                        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}/ubsan",
                    },
                    check=False,
                )
                try:
                    data = json.loads(done.stdout)["data"]
                    found = "ok" if data["ok"] else data["code"]
                except (ValueError, KeyError, TypeError):
                    found = f"exit {done.returncode}, {done.stdout!r}"
                print(f"sanitized {tool}: {found}", flush=True)
                if found != expected:
                    failures.append(f"{tool}: expected {expected}, got {found}")
        failures += [path.read_text(errors="replace") for path in sorted(reports.iterdir())]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
