"""`python -I -m deepagents_ro TOOL --json`: the call without DCode's console script."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

# What a call is worth whose own parts are missing or will not start.
FAILED = (
    b'{"schema_version":1,"command":"tools call-read-only","data":{"ok":false,"status":"error",'
    b'"code":"runtime_failure","message":"The managed MCP tool call failed."}}\n'
)
INTERRUPTED = (
    b'{"schema_version":1,"command":"tools call-read-only","data":{"ok":false,"status":"error",'
    b'"code":"interrupted","message":"The MCP tool call was interrupted."}}\n'
)


def run() -> NoReturn:
    """Run the command; before its guard stands, print one of two constants for any failure."""
    status, document = 1, FAILED
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
        from deepagents_ro.command import module_main

        module_main()
    except KeyboardInterrupt:
        status, document = 130, INTERRUPTED
    except BaseException:  # noqa: BLE001 - one envelope is owed for anything at all
        pass
    try:
        while document:
            document = document[os.write(1, document) :]
    except OSError:
        status = 1  # the reader is gone
    os._exit(status)


if __name__ == "__main__":
    run()
