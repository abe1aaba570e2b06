"""Which gateway tool an allowed name means.

A gateway puts its own prefix in front of a tool's name: `utils__text_normalize`,
`registry.text_normalize`, `team/text-normalize`. Case counts in ASCII only: a letter that merely
looks like one never helps a name to match.
"""

from __future__ import annotations

import re

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


def similar(gateway_name: str, allowed_name: str) -> bool:
    """Whether a name reads like the allowed one: the same words at its end or at its start."""
    wanted, found = normalise(allowed_name).strip("_"), normalise(gateway_name).strip("_")
    return found == wanted or found.endswith(f"_{wanted}") or found.startswith(f"{wanted}_")


def runs_sql(name: str) -> bool:
    """Whether `name` is any form of `trino_run_query`; such a tool is never exposed."""
    return "trinorunquery" in normalise(name).replace("_", "")
