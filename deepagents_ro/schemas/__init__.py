"""JSON Schemas (2020-12) of the envelopes: `deepagents-ro schema NAME` prints one."""

from __future__ import annotations

from pathlib import Path

NAMES = ("call", "audit", "gateway")


def text_of(name: str) -> str:
    """The schema of one of `NAMES`, as it is shipped."""
    return (Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8")


def name_for(command: object) -> str:
    """Which of `NAMES` describes an envelope whose member `command` is this; '' for none."""
    words = str(command).split()
    if words[:1] == ["gateway"]:
        return "gateway"
    return {"tools call-read-only": "call", "tools audit-read-only": "audit"}.get(str(command), "")
