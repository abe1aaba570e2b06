"""The whole command on an extension that was built with sanitizers, against a real server.

python scripts/sanitize_smoke.py DIRECTORY     DIRECTORY/deepagents_ro is that build

The command closes standard error, so the sanitizers report into files; one report is a failure.
Run by sanitize_extension.sh, which says what has to be preloaded (RO_PRELOAD).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.runs import World
from deepagents_ro.qualify.lab.sdk_server import SDKServer

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
        env = {
            "PYTHONPATH": str(build),
            "PYTHONMALLOC": "malloc",
            "LD_PRELOAD": os.environ["RO_PRELOAD"],
            "ASAN_OPTIONS": f"detect_leaks=0:log_path={reports}/asan",
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}/ubsan",
        }
        with SDKServer(authority.cert_file, directory / "requests.log") as server:
            world = World(directory / "world", authority.ca_file)
            world.serve(**{"worker-broker": server.url()})
            for tool, text, expected in CALLS:
                words = [*command, PREFIX + tool, "--json"]
                run = world.launch(words, stdin=text.encode(), env=env).finish(SECONDS)
                try:
                    data = json.loads(run.stdout)["data"]
                    found = "ok" if data["ok"] else data["code"]
                except (ValueError, KeyError, TypeError):
                    found = f"exit {run.exit_code}, {run.stdout!r}"
                print(f"sanitized {tool}: {found}", flush=True)
                if found != expected:
                    failures.append(f"{tool}: expected {expected}, got {found}")
        failures += [path.read_text(errors="replace") for path in sorted(reports.iterdir())]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
