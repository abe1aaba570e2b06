"""A call's arguments, checked before anything is sent: one strict rule, the C scanner's."""

from __future__ import annotations

import json

from deepagents_ro import _mcpro

from .document import Document

MAX_BYTES = 1024 * 1024
"""Bytes of the arguments as UTF-8 JSON."""
MAX_DEPTH = 64
"""Levels of the arguments; the object itself is the first."""

REASONS = {
    "too_large": "they are larger than 1 MiB",
    "depth": "they are nested deeper than 64 levels",
    "duplicate_key": "two keys of an object are equal",
}


class ArgumentsError(ValueError):
    """Arguments that cannot be sent; the message says why and shows none of them."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The arguments were not sent: {why}.")


def check(arguments: object) -> Document:
    """`arguments`, if they are one object of strict JSON within the bounds.

    Raises:
        ArgumentsError: they are not.
    """
    if not isinstance(arguments, dict):
        raise ArgumentsError("they are no object")
    try:
        # surrogatepass: half of a pair reaches the scanner, which refuses it.
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        document = text.encode("utf-8", "surrogatepass")
        _mcpro.json_check(document, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH)
    except RecursionError:
        raise ArgumentsError(REASONS["depth"]) from None
    except _mcpro.JSONError as error:
        if error.code in REASONS:
            raise ArgumentsError(REASONS[error.code]) from None
        raise ArgumentsError("a text in them is not valid Unicode") from None
    except (TypeError, ValueError):
        raise ArgumentsError("a value in them has no JSON form") from None
    return arguments
