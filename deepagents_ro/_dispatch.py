"""Where the patched `deepagents_code/__init__.py` hands a command line over.

The patched text (see `patch/text.py`) calls `run` before any other import of DCode, once it has
seen two consecutive arguments of `COMMANDS`. It also owns the constant envelope for the case that
this module, or anything that it imports, is missing. This module is imported before the output
guard stands: it imports the one command that is asked for, and writes nothing.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # the typing module is not imported for it
if TYPE_CHECKING:
    from typing import NoReturn

COMMANDS = ("call-read-only", "audit-read-only")
PACKAGE = "deepagents_code"
# The guard's table is csrc/guard/signals.c.
INTERRUPTING = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGXCPU,
    signal.SIGPWR,
    signal.SIGSTKFLT,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)


def run(command: str, arguments: list[str]) -> NoReturn:
    """Run `command`, one of `COMMANDS`, with the process's `arguments` (`sys.argv[1:]`).

    Never returns. Raises what the import of the command raises, `KeyboardInterrupt` for any of the
    signals that interrupt a call included.
    """
    take_signals()
    settle_home()
    if command == "audit-read-only":
        from deepagents_ro.audit_command import main
    else:
        from deepagents_ro.command import main
    settle_package()
    main(arguments)
    raise RuntimeError(f"deepagents_ro: {command} returned")


def take_signals() -> None:
    """Let each of `INTERRUPTING` raise `KeyboardInterrupt`, unless it is ignored.

    The guard takes them over at the start of `main`; until then they must not end the process
    without an envelope, nor be held back because a launcher had blocked them.
    """
    for number in INTERRUPTING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTING)


def settle_home() -> None:
    """Make `/` the home directory of a user who has none, neither in `HOME` nor in the user table.

    DCode cannot be imported without one. `/` is what most launchers of containers give such a user,
    and what an empty `HOME` means; nobody but root can put a configuration there.
    """
    if "HOME" in os.environ:
        return
    import pwd

    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        os.environ["HOME"] = "/"


def settle_package() -> None:
    """Replace a half-imported DCode package by a finished one that has run none of its own text.

    `run` is called from within the import of `deepagents_code`, which never ends: its import lock
    stays held by this thread, and `from deepagents_code import theme` in any other thread would
    wait for it for ever. The rest of that `__init__.py`, which opens DCode's debug log, is not run.
    Does nothing when DCode is not being imported.
    """
    half_made = sys.modules.get(PACKAGE)
    spec = getattr(half_made, "__spec__", None)
    if half_made is None or spec is None or not getattr(spec, "_initializing", False):
        return
    package = type(sys)(PACKAGE, half_made.__doc__)
    package.__file__ = half_made.__file__
    package.__package__ = PACKAGE
    package.__path__ = list(half_made.__path__)
    package.__loader__ = spec.loader
    package.__spec__ = type(spec)(PACKAGE, spec.loader, origin=spec.origin, is_package=True)
    package.__spec__.submodule_search_locations = package.__path__
    package.__spec__.has_location = True
    sys.modules[PACKAGE] = package
