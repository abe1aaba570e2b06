"""One JSON document on standard output, for every command but the call, whose envelope C writes.

The form is the call's: `schema_version`, `command`, `data`; ASCII, no white space, one newline,
members in the order in which they are given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping


def success(command: str, data: Mapping[str, object]) -> str:
    """The document of a command that did what it was asked."""
    return _dump(command, {"ok": True, "status": "ok", **data})


def failure(command: str, code: str, message: str, more: Mapping[str, object]) -> str:
    """The document of a command that could not; `more` stands behind the message."""
    data = {"ok": False, "status": "error", "code": code, "message": message}
    return _dump(command, {**data, **more})


def fits(document: str) -> bool:
    """Whether it is at most `_mcpro.MAX_STDOUT` bytes before its newline."""
    from deepagents_ro import _mcpro  # which `doctor` says is missing where it is

    return len(document) <= _mcpro.MAX_STDOUT + 1


def _dump(command: str, data: Mapping[str, object]) -> str:
    envelope = {"schema_version": 1, "command": command, "data": data}
    return json.dumps(envelope, separators=(",", ":"), allow_nan=False) + "\n"
