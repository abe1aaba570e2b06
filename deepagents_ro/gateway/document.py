"""One JSON envelope on standard output, by the rules of the call command.

One document and one newline, ASCII, no white space, at most MAX_BYTES before the newline; members
in the order in which they are given.
"""

from __future__ import annotations

import json
from typing import Any

MAX_BYTES = 131_072
MESSAGES = {
    "invalid_command": "Use: deepagents-ro gateway list|audit|latency [OPTIONS]; see --help.",
    "invalid_allocation": "The allocation table cannot be used.",
    "invalid_arguments": "Tool arguments must be given as TOOL=JSON_OBJECT.",
    "interrupted": "The gateway command was interrupted.",
    "gateway_unavailable": "The gateway's tools cannot be loaded; see gateway audit.",
    "picture_not_written": "The picture cannot be written.",
    "result_too_large": "The result exceeds the managed size limit.",
    "runtime_failure": "The gateway command failed.",
}


def success(command: str, data: dict[str, Any]) -> str:
    """The envelope of a command that did what it was asked; too large a one is a failure."""
    text = _dump(command, {"ok": True, "status": "ok", **data})
    return text if len(text) <= MAX_BYTES + 1 else failure(command, "result_too_large")


def failure(command: str, code: str) -> str:
    """The envelope of a command that could not; `code` is a key of MESSAGES."""
    data = {"ok": False, "status": "error", "code": code, "message": MESSAGES[code]}
    return _dump(command, data)


def _dump(command: str, data: dict[str, Any]) -> str:
    envelope = {"schema_version": 1, "command": command, "data": data}
    return json.dumps(envelope, separators=(",", ":"), ensure_ascii=True, allow_nan=False) + "\n"
