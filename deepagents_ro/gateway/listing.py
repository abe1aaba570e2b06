"""The gateway's tool list, as it was sent: entries judged on their bytes, before a typed model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mcp.types import Tool
from pydantic import ValidationError

from deepagents_ro import _mcpro

STANDARD_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool as the gateway listed it.

    `allowed` and `reason` are the verdict on its hints; `broken` says what the SDK's model does
    not accept. `raw` is the entry as JSON.
    """

    name: str
    allowed: bool
    reason: str
    annotated: bool
    broken: str = ""
    raw: bytes = b""

    def tool(self) -> Tool:
        """The SDK's model of an entry that is not broken."""
        return Tool.model_validate_json(self.raw)


def page(body: bytes) -> tuple[list[bytes], str | None]:
    """The raw entries of one `tools/list` answer and the cursor of the next page.

    Raises:
        ValueError: it is no such answer.
    """
    _message, entries = _mcpro.reduce_tool_list(body, "", "")
    # With no tool kept, what is left of the answer is small.
    rest, _none = _mcpro.reduce_tool_list(body, "", "\n")
    cursor = json.loads(rest)["result"].get("nextCursor")
    return entries, cursor if isinstance(cursor, str) else None


def judge_entry(raw: bytes) -> Entry:
    """The verdict on one raw entry of a tool list."""
    allowed, reason = _mcpro.hint_verdict(raw)
    broken = ""
    try:
        name = Tool.model_validate_json(raw).name
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "entry"
        broken = f"{place}: {first['msg']}"
        name = _name_of(raw)
    return Entry(name, allowed, reason, _says_anything(raw, reason), broken, raw)


def twice(entries: Iterable[Entry]) -> set[str]:
    """The names that the list has more than once: a call could not say which is meant."""
    counted = Counter(entry.name for entry in entries)
    return {name for name, times in counted.items() if times > 1}


def _says_anything(raw: bytes, reason: str) -> bool:
    """Whether the entry carries any hint; a bare title, null or no annotations carry none."""
    if reason == "annotations_missing":
        return False
    if reason not in ("read_only_missing", "annotations_not_object"):
        return True
    annotations = json.loads(raw).get("annotations")
    if annotations is None:
        return False  # the SDK's model says so: null is the same as absent
    return not isinstance(annotations, dict) or any(hint in annotations for hint in STANDARD_HINTS)


def _name_of(raw: bytes) -> str:
    """The name of a broken entry for the report; empty when it has no usable one."""
    name = json.loads(raw).get("name")
    return name if isinstance(name, str) else ""
