"""What `deepagents-ro gateway ... --json` prints: one document within the bound of the call's."""

from __future__ import annotations

from typing import Any, TypeAlias

from deepagents_ro import document

Document: TypeAlias = dict[str, Any]  # type: ignore[explicit-any]
"""A JSON object, whose members a reader takes as what they are said to be."""

MESSAGES = {
    "invalid_command": "Use: deepagents-ro gateway list|audit|latency|demo [OPTIONS]; see --help.",
    "invalid_allocation": "The allocation table cannot be used.",
    "invalid_arguments": "Tool arguments must be given as TOOL=JSON_OBJECT.",
    "unknown_agent": "The table has no such agent.",
    "interrupted": "The gateway command was interrupted.",
    "gateway_unavailable": "The gateway's tools cannot be loaded; see gateway audit.",
    "port_taken": "The port cannot be had.",
    "picture_not_written": "The picture cannot be written.",
    "result_too_large": "The result exceeds the managed size limit.",
    "runtime_failure": "The gateway command failed.",
}


def success(command: str, data: Document) -> str:
    """The envelope of a command that did what it was asked; too large a one is a failure."""
    text = document.success(command, data)
    return text if document.fits(text) else failure(command, "result_too_large")


def failure(command: str, code: str) -> str:
    """The envelope of a command that could not; `code` is a key of MESSAGES."""
    return document.failure(command, code, MESSAGES[code], {})
