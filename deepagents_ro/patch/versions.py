"""What has been verified, as data: DCode's files by SHA-256, and the stack below DCode.

A release is listed once its wheel has been read and the end-to-end tests have passed on it.
"""

from __future__ import annotations

from dataclasses import dataclass

DISTRIBUTION = "deepagents-code"
PACKAGE = "deepagents_code"


@dataclass(frozen=True)
class Release:
    """One verified release: file below `deepagents_code/` -> SHA-256 as its publisher made it."""

    edited: dict[str, str]  # what the patch changes
    relied_on: dict[str, str]  # what the call is built on; never changed


_INIT = "1f92b2f6f8c468700ab6b5cbcc19c9e3488337ae8ccc7a50e3fca0299013bed6"
_TOOLS = "6d02a3d42a4c897b8d2f64c6c7f6f2f875a091cc14885b8eab73e03f96b4ecc9"
_MCP_TOOLS = "cdb68af35c0e6177f337dfd57ab25fd1a246dba45ff19334ad7dfcfd75e91113"

RELEASES: dict[str, Release] = {
    "0.1.55": Release(
        edited={
            "__init__.py": _INIT,
            "ui.py": "3b5561718b3372dfe8fea8995d5b15c86d927015e43e928804cde26de335b85c",
        },
        relied_on={
            "client/commands/tools.py": _TOOLS,
            "main.py": "5101193c0754676da6a5d900378244a59b91c3035af8118714b2fe3ee83b2041",
            "mcp_tools.py": _MCP_TOOLS,
        },
    ),
    "0.1.56": Release(
        edited={
            "__init__.py": _INIT,
            "ui.py": "3b5561718b3372dfe8fea8995d5b15c86d927015e43e928804cde26de335b85c",
        },
        relied_on={
            "client/commands/tools.py": _TOOLS,
            "main.py": "0c434171db5c61e679641ecdea71b903d6b60a60f343f1157063edaa6a078c53",
            "mcp_tools.py": _MCP_TOOLS,
        },
    ),
    "0.1.57": Release(
        edited={
            "__init__.py": _INIT,
            "ui.py": "1af6d81ace513333661b70906a02c2342bbe76df7b969d30d863d35fa962c82d",
        },
        relied_on={
            "client/commands/tools.py": _TOOLS,
            "main.py": "c2378733eee5c79cda025f295d66bd1047c1f562dd9aab83d62b1b291d3d2a23",
            "mcp_tools.py": _MCP_TOOLS,
        },
    ),
}

# The two functions whose answer the C verdict must imply (their module is too heavy to import for
# a call): name in auto_mode.py -> SHA-256 of its source segment. The same in every release above.
HELPERS_FILE = "auto_mode.py"
HELPERS: dict[str, str] = {
    "is_mcp_tool": "6cd921aead19ef8c619ed17d935774215cb6b2005c4ea3662e9f77b82b8fe00d",
    "mcp_tool_is_coherently_read_only": (
        "b2df84c37fbf269a285f82d26763dfe7455e0c47b5b289c6810d2c0b3a6e67ea"
    ),
}

# Distribution -> the versions that the contract has been measured on.
QUALIFIED: dict[str, tuple[str, ...]] = {
    "mcp": ("1.30.0",),
    "langchain-mcp-adapters": ("0.3.2",),
    "langchain-core": ("1.8.3",),
    "httpx": ("0.28.1",),
}

# Where a release of DCode that has the command itself would show its name.
UPSTREAM_FILES = ("main.py", "ui.py", "client/commands/tools.py")
UPSTREAM_COMMAND = b"call-read-only"
