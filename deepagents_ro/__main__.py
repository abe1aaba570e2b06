"""`python -I -m deepagents_ro TOOL --json`: the call without DCode's console script.

`audit` as the first word, which no tool's full name is, makes it the audit.
"""

from __future__ import annotations

import sys

from deepagents_ro.early_failure import run

if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["audit"]:
        run("audit-read-only", words[1:])
    run("call-read-only", words)
