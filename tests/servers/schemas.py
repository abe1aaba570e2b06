"""Every envelope that a test sees is held to the schema that the package ships."""

from __future__ import annotations

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator

from deepagents_ro import schemas


@functools.cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads(schemas.text_of(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def problems(document: Any) -> list[str]:
    """What in an envelope is not as its schema says; nothing when it is."""
    name = schemas.name_for(document.get("command")) if isinstance(document, dict) else ""
    if not name:
        return ["no schema for such a document"]
    return [
        f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(document)
    ]


def check_output(output: bytes) -> None:
    """Hold what a run printed to its schema, if it is a whole envelope and not a part or a text."""
    if output.startswith(b'{"schema_version"') and output.endswith(b"}\n"):
        found = problems(json.loads(output, parse_int=float))
        assert not found, found
