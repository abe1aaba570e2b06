"""`deepagents-ro`: what this package offers beside `dcode tools call-read-only`."""

from __future__ import annotations

import sys

USAGE = """\
Usage: deepagents-ro gateway list|audit|latency [options]   curated gateway tools
       deepagents-ro call TOOL --json                       the read-only call, without dcode
       deepagents-ro audit [--json]                         why a tool can or cannot be called
"""


def main() -> int:
    """Entry point of the console script; returns the exit status."""
    argv = sys.argv[1:]
    if argv[:1] == ["gateway"]:
        from deepagents_ro.gateway.cli import main as gateway

        return gateway(argv[1:])
    if argv[:1] == ["call"]:
        from deepagents_ro.command import main as call

        call(["tools", "call-read-only", *argv[1:]])
    if argv[:1] == ["audit"]:
        from deepagents_ro.audit_command import main as audit

        audit(["tools", "audit-read-only", *argv[1:]])
    asked = argv in (["-h"], ["--help"])
    print(USAGE, end="", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
