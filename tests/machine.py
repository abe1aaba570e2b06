"""What a test may need of a machine, and why this one has it not.

A test says `@pytest.mark.needs("root", ...)`. Tests whose needs are not met are left out; the run
names each need that is not met, and the reason, before the first test.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CAP_SYS_RESOURCE = 24
ACTIONLINT = Path(__file__).parent.parent / "build" / "actionlint" / "actionlint"


def _compiler(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"{name} is not installed"


def _root() -> str:
    return "" if os.geteuid() == 0 else "the tests do not run as root"


def _unshare(*options: str) -> str:
    try:
        done = subprocess.run(["unshare", *options, "true"], capture_output=True, check=False)
    except OSError:
        return "unshare is not installed"
    return "" if done.returncode == 0 else f"unshare {' '.join(options)} is not permitted"


def _ipv6() -> str:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return "there is no IPv6 loopback"
    return ""


def _ipv6_localhost() -> str:
    if reason := lacks("ipv6"):
        return reason
    try:
        socket.getaddrinfo("localhost", 1, socket.AF_INET6)
    except OSError:
        return "localhost has no IPv6 address"
    return ""


def _open_stack() -> str:
    import deepagents_ro

    for directory in Path(deepagents_ro.__file__).parents:
        if not directory.stat().st_mode & stat.S_IXOTH:
            return f"{directory}, where the packages are, is closed to other users"
    return ""


def _network_namespaces() -> str:
    if shutil.which("ip") is None:
        return "ip (Debian's iproute2) is not installed"
    return _root() or _unshare("--net")


def _variable(name: str, target: str) -> Callable[[], str]:
    return lambda: "" if name in os.environ else f"`make {target}` makes what they need"


def _podman() -> str:
    """Podman's runtime sets the limits of its containers, above those that a container has."""
    if shutil.which("podman") is None:
        return "podman is not installed"
    status = Path("/proc/self/status").read_text()
    (held,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return "" if int(held, 16) >> CAP_SYS_RESOURCE & 1 else "podman needs CAP_SYS_RESOURCE"


def _actionlint() -> str:
    return "" if ACTIONLINT.exists() else "`make image-test` installs actionlint"


NEEDS: dict[str, Callable[[], str]] = {
    "gcc": _compiler("gcc"),
    "clang": _compiler("clang"),
    "root": _root,
    "ipv6": _ipv6,
    "ipv6 localhost": _ipv6_localhost,
    "pid namespaces": lambda: _unshare("--pid", "--fork", "--mount-proc"),
    "mount namespaces": lambda: _unshare("--mount", "--map-root-user"),
    "open stack": _open_stack,
    "network namespaces": _network_namespaces,
    "python 3.12": lambda: "" if sys.version_info >= (3, 12) else "this is an older Python",
    "wheel": _variable("DEEPAGENTS_RO_WHEEL", "wheel-test"),
    "image": _variable("DEEPAGENTS_RO_IMAGE_LAYOUT", "image-test"),
    "podman": _podman,
    "actionlint": _actionlint,
}


@functools.cache
def lacks(need: str) -> str:
    """Why this machine has not what is needed; empty when it has."""
    return NEEDS[need]()
