"""Which gateway tool an allowed name means.

A gateway puts its own prefix in front of a tool's name: `utils__text_normalize`,
`registry.text_normalize`, `team/text-normalize`. Case counts in ASCII only: a letter that merely
looks like one never helps a name to match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SEPARATORS = ("__", ".", "/", ":", "-")
"""What a prefix may end in."""

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_OTHER = re.compile(r"[^a-z0-9]+")


def normalise(name: str) -> str:
    """`name` in lower case with every run of other characters as one `_`."""
    return _OTHER.sub("_", name.translate(_LOWER))


def matches(gateway_name: str, allowed_name: str) -> bool:
    """Whether the gateway's tool is the allowed one, with or without a prefix."""
    wanted = normalise(allowed_name)
    if not normalise(gateway_name).endswith(wanted):
        return False
    if normalise(gateway_name) == wanted:
        return True
    return any(
        gateway_name[:start].endswith(SEPARATORS) and normalise(gateway_name[start:]) == wanted
        for start in range(1, len(gateway_name))
    )


def match_all(gateway_names: Iterable[str], allowed_names: Iterable[str]) -> dict[str, list[str]]:
    """For every allowed name the gateway's names that match it, each as often as it is listed."""
    listed = list(gateway_names)
    return {
        allowed: [name for name in listed if matches(name, allowed)] for allowed in allowed_names
    }


def runs_sql(name: str) -> bool:
    """Whether `name` is any form of `trino_run_query`; such a tool is never exposed."""
    return "trinorunquery" in normalise(name).replace("_", "")
