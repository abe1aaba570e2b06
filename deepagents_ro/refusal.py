"""Why DCode or a managed runtime refuses a configuration, in static words.

A refusal arrives as an exception whose text may hold paths, names and values; none of that leaves
the process. What `tools audit-read-only` reports is a word of `REASONS`. Its first part says who
refused: `runtime_` the managed runtime, `loader_` DCode's own reader of configurations.
"""

from __future__ import annotations

import json

REASONS = {
    "dcode_missing": "deepagents-code is not installed",
    "runtime_import": "the managed runtime cannot be imported",
    "runtime_environment": "the managed runtime refuses a variable of the environment",
    "runtime_state": "the managed runtime refuses a stored login or credential",
    "runtime_image": "the managed runtime misses a file of its image, or refuses it",
    "runtime_unsafe": "the managed runtime refuses to run here",
    "runtime_file": "the managed runtime refuses its file: kind, owner, mode, links or size",
    "runtime_document": "the managed runtime refuses its file's JSON document as a whole",
    "runtime_entry": "the managed runtime refuses a server's entry",
    "runtime_memory": "the managed runtime can make neither a memory file nor an unlinked one",
    "runtime_refused": "the managed runtime refuses the configuration",
    "runtime_answer": "the managed runtime names its configuration by something that is no path",
    "loader_missing": "DCode finds no configuration file at the path",
    "loader_unreadable": "DCode cannot read the configuration file",
    "loader_json": "DCode finds no JSON document in the configuration file",
    "loader_document": "DCode refuses the configuration file's document or one of its entries",
    "loader_merged": "DCode refuses the merged configuration",
    "loader_no_file": "no anonymous file can be made to hand DCode the configuration",
}

# What a managed runtime's messages say, by phrases of theirs; the first that stands in it counts.
CHECK_PHRASES = (
    ("environment variable", "runtime_environment"),
    ("auth.json", "runtime_state"),
    ("managed inference", "runtime_image"),
    ("managed upstream", "runtime_image"),
    ("managed proxy", "runtime_image"),
    ("managed fetch", "runtime_image"),
    ("managed validation", "runtime_image"),
)
CONFIG_PHRASES = (
    ("memfd", "runtime_memory"),
    ("O_TMPFILE", "runtime_memory"),
    ("private bounded tmpfs", "runtime_memory"),
    ("snapshot", "runtime_memory"),
    ("anonymous descriptor", "runtime_memory"),
    ("ownership or mode", "runtime_file"),
    ("unreadable", "runtime_file"),
    ("changed while", "runtime_file"),
    ("malformed", "runtime_document"),
    ("duplicate JSON key", "runtime_document"),
    ("JSON constant", "runtime_document"),
    ("only mcpServers", "runtime_document"),
    ("server map", "runtime_document"),
    ("MCP server", "runtime_entry"),
    ("server name", "runtime_entry"),
)


class HostError(Exception):
    """DCode or the managed runtime refuses the configuration; `reason` is a key of `REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(REASONS[reason])
        self.reason = reason


def check_reason(error: BaseException) -> str:
    """Why a managed runtime's safety check failed with `error`."""
    return _phrase(error, CHECK_PHRASES, "runtime_unsafe")


def config_reason(error: BaseException) -> str:
    """Why a managed runtime named no configuration and raised `error`."""
    return _phrase(error, CONFIG_PHRASES, "runtime_refused")


def _phrase(error: BaseException, phrases: tuple[tuple[str, str], ...], other: str) -> str:
    if isinstance(error, ImportError):
        return "runtime_import"
    text = str(error)
    return next((reason for phrase, reason in phrases if phrase in text), other)


def reader_reason(error: BaseException, *, managed: bool) -> str:
    """Why DCode's reader of one configuration file failed with `error`.

    An image's edits make a reader of its own call the runtime, which raises `RuntimeError` for
    what it refuses; DCode's own reader raises none.
    """
    if isinstance(error, FileNotFoundError):
        return "loader_missing"
    if isinstance(error, OSError):
        return "loader_unreadable"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "loader_json"
    if managed and isinstance(error, RuntimeError | ImportError):
        return config_reason(error)
    return "loader_document"
