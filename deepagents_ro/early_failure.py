"""The constant document of a command that fails before its output guard stands.

It is built of nothing but these texts, since whatever else is missing may be what failed. The
patch puts the same texts into `deepagents_code/__init__.py` (`patch/text.py`), for the case that
this whole package is missing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the typing module is not imported for it
if TYPE_CHECKING:
    from typing import NoReturn

HEAD = '{"schema_version":1,"command":"tools %s","data":{"ok":false,'
TAIL = '"status":"error","code":"%s","message":"%s"}}\n'
# exit status, code, message
FAILED = (1, "runtime_failure", "The managed MCP tool call failed.")
MISSING = (
    "deepagents-ro is not installed beside this DCode, or was built for another Python: "
    "install its wheel again."
)
"""The audit's message for `FAILED` when this package cannot be imported; the call has no other."""
INTERRUPTED = (130, "interrupted", "The MCP tool call was interrupted.")


def run(command: str, arguments: list[str]) -> NoReturn:
    """Run `command`, one of `_dispatch.COMMANDS`, on the words behind the program's name.

    The process ends here, whatever happens: with what the command makes of it, or with the
    document on descriptor 1 and its exit status (1 too when the reader is gone).
    """
    status, code, message = FAILED
    try:
        from deepagents_ro._dispatch import run as dispatch

        dispatch(command, arguments)
    except KeyboardInterrupt:
        status, code, message = INTERRUPTED
    except ImportError:
        message = MISSING if command == "audit-read-only" else message
    except BaseException:  # noqa: BLE001 - one document is owed for anything at all
        pass
    left = ((HEAD + TAIL) % (command, code, message)).encode()
    try:
        while left:
            left = left[os.write(1, left) :]
    except OSError:
        status = 1
    os._exit(status)
