"""What has been verified, as data: releases of DCode, and the stacks below them.

The one table of versions: the patcher, the start-up shortcuts and the locks in `requirements/` go
by it. A release is listed once its wheel has been read and the end-to-end tests have passed on it;
a stack once every call gave the same envelopes on it with the start-up shortcuts and without.
"""

from __future__ import annotations

DISTRIBUTION = "deepagents-code"
PACKAGE = "deepagents_code"

_INIT = "1f92b2f6f8c468700ab6b5cbcc19c9e3488337ae8ccc7a50e3fca0299013bed6"
_UI = "3b5561718b3372dfe8fea8995d5b15c86d927015e43e928804cde26de335b85c"

# Release -> what the patch changes: file below `deepagents_code/` -> SHA-256 as it was published.
# What the call is built on and does not change is in `patch/relied_on.txt`.
RELEASES: dict[str, dict[str, str]] = {
    "0.1.55": {"__init__.py": _INIT, "ui.py": _UI},
    "0.1.56": {"__init__.py": _INIT, "ui.py": _UI},
    "0.1.57": {
        "__init__.py": _INIT,
        "ui.py": "1af6d81ace513333661b70906a02c2342bbe76df7b969d30d863d35fa962c82d",
    },
}

# What the contract has been measured on, one combination a row: the locks' own, and the one that
# managed images of DCode ship.
QUALIFIED: tuple[dict[str, str], ...] = (
    {
        "mcp": "1.30.0",
        "langchain-mcp-adapters": "0.3.2",
        "langchain-core": "1.8.3",
        "httpx": "0.28.1",
    },
    {
        "mcp": "1.28.1",
        "langchain-mcp-adapters": "0.3.0",
        "langchain-core": "1.5.3",
        "httpx": "0.28.1",
    },
)

# What else the tables of the start-up shortcuts were verified with, the same for every row.
BELOW: dict[str, str] = {
    "attrs": "26.1.0",
    "filelock": "3.29.7",
    "filetype": "1.2.0",
    "httpcore": "1.0.9",
    "jsonpatch": "1.48",
    "jsonschema": "4.26.0",
    "langgraph": "1.2.24",
    "langsmith": "0.15.1",
    "pydantic": "2.13.5",
    "referencing": "0.37.0",
    "requests": "2.34.2",
    "tenacity": "9.1.4",
}


def nearest(found: dict[str, str | None]) -> dict[str, str]:
    """The row of `QUALIFIED` that most of the versions in `found` are of, the first of equals."""
    return max(QUALIFIED, key=lambda row: sum(found.get(name) == row[name] for name in row))
