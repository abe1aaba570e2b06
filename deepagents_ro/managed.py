"""The managed runtime that an image installs beside DCode: its check and its configuration.

The module is the image's; whatever it raises, names or returns ends here as a path or a
`HostError`. The path may be `/proc/self/fd/N` of a descriptor that the runtime holds open: it is
read by DCode's own loader alone, which an image edits to ask the runtime for the bytes.
"""

from __future__ import annotations

import importlib
import importlib.util
import os

from deepagents_ro.refusal import HostError, check_reason, config_reason

MODULE = "deepagents_code._nemoclaw_managed"


def is_installed() -> bool:
    """Whether a managed runtime is installed beside DCode (`host.prepare_package` comes first)."""
    return importlib.util.find_spec(MODULE) is not None


def check() -> None:
    """The managed runtime's own safety check, before anything that a user can write is read.

    Raises:
        HostError: the runtime says that it is unsafe, or fails to say.
    """
    try:
        importlib.import_module(MODULE).assert_safe_runtime()
    except BaseException as error:
        raise HostError(check_reason(error)) from error


def config_path() -> str | None:
    """The managed runtime's own configuration file; `None` for no server at all.

    Raises:
        HostError: the runtime does not name one.
    """
    try:
        path = importlib.import_module(MODULE).managed_mcp_config_path()
    except BaseException as error:
        raise HostError(config_reason(error)) from error
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise HostError("runtime_answer")
    try:
        named = os.fspath(path)
    except BaseException as error:
        raise HostError("runtime_answer") from error
    if not isinstance(named, str) or not named:
        raise HostError("runtime_answer")
    return named
