"""Whether a tool's schemas can be used by those who have to: a model's client, a validator."""

from __future__ import annotations

from collections.abc import Iterator

from jsonschema import SchemaError
from jsonschema.validators import validator_for
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp.types import Tool
from referencing import Registry
from referencing.exceptions import Unresolvable

from .document import Document

_LOCAL_ONLY: Registry[object] = Registry()


class Checker:
    """A schema, ready to be held against values; references resolve within it alone."""

    def __init__(self, schema: Document) -> None:
        self._validator = validator_for(schema)(schema, registry=_LOCAL_ONLY)

    def fits(self, value: object) -> bool:
        """Whether the value is as the schema says; nothing is when the schema is broken."""
        try:
            return bool(self._validator.is_valid(value))
        except (SchemaError, Unresolvable, RecursionError):
            return False

    def complaint(self, value: object) -> str:
        """The first thing in the value that is not as the schema says; empty for none."""
        try:
            found = next(self._validator.iter_errors(value), None)
        except (SchemaError, Unresolvable, RecursionError):
            return "the schema cannot be used"
        return "" if found is None else str(found.message)


def fault(tool: Tool) -> str:
    """What makes the tool unusable; empty when nothing does."""
    for name, schema in (("inputSchema", tool.inputSchema), ("outputSchema", tool.outputSchema)):
        if schema is None:
            continue
        why = _fault(schema)
        if why:
            return f"{name}: {why}"
    try:
        convert_to_openai_tool(
            {"title": tool.name, "description": tool.description or "", **_plain(tool.inputSchema)}
        )
    except Exception as error:  # noqa: BLE001 - whatever it is would end the agent's turn
        return f"inputSchema: a model's client cannot convert it ({type(error).__name__})"
    return ""


def _plain(schema: Document) -> Document:
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


def _fault(schema: Document) -> str:
    for reference in _references(schema):
        if not reference.startswith("#"):
            return "a $ref leads out of it"
        if not _resolves(schema, reference):
            return "a $ref leads nowhere"
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(part) for part in error.path)
        return f"no valid JSON Schema at /{place}"
    return ""


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(member, str):
                yield member
            else:
                yield from _references(member)
    elif isinstance(value, list):
        for member in value:
            yield from _references(member)


def _resolves(schema: Document, reference: str) -> bool:
    """Whether a JSON pointer leads to something; anchors are not used by models' clients."""
    value: object = schema
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return False
    return reference == "#" or reference.startswith("#/")
