"""What the SDK's validator does with a pattern of the ECMA dialect: why such a result is refused.

csrc/README.md draws the conclusion. When the SDK or jsonschema changes here, it can be drawn again.
"""

from __future__ import annotations

import re

import jsonschema
import pytest
from referencing import Registry


@pytest.mark.parametrize("pattern", [r"^\p{L}+$", r"^(?<year>\d{4})$"])
@pytest.mark.parametrize("instance", [{"a": "2026"}, {}])
def test_a_schema_with_an_ecma_pattern_is_refused_as_a_whole(
    pattern: str, instance: dict[str, str]
) -> None:
    """Whatever the instance is: the metaschema asks that a pattern is one of Python's `re`."""
    with pytest.raises(re.error):
        re.compile(pattern)
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    with pytest.raises(jsonschema.SchemaError, match="is not a 'regex'"):
        jsonschema.validate(instance, schema, registry=Registry())


def test_a_pattern_of_both_dialects_is_checked() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^\d{4}$"}}}
    jsonschema.validate({"a": "2026"}, schema, registry=Registry())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"a": "x"}, schema, registry=Registry())
