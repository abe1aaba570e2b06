"""`deepagents-ro doctor [OPTIONS] [--json]`: what a call here depends on, in one table.

Nothing is contacted. No value of a variable, a header or a URL's path is shown: of a proxy and of
a server its scheme, host and port. Exit status: 0 a call can work, 1 it cannot, 2 wrong command
line.
"""

from __future__ import annotations

import os
import platform
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import deepagents_ro
from deepagents_ro import command_line, document, managed
from deepagents_ro.refusal import HostError
from deepagents_ro.versions import RELEASES

if TYPE_CHECKING:
    from deepagents_ro.command_line import Command

HELP = """\
Usage: deepagents-ro doctor [--mcp-config FILE] [--trust-project-mcp] [--no-mcp] [--json]

Show in one table what a call here depends on: versions, the patch, Python,
libcurl and OpenSSL, trusted roots, memory files, namespaces, and for every
configured server the way to it. Nothing is contacted, no secret is shown.
Exit status: 0 a call can work, 1 it cannot, 2 wrong command line.
"""
PROBE_SECONDS = 20
# What another environment's Python is asked: whether it has this package, and where DCode is.
PROBE = (
    "import importlib.util as u; s = u.find_spec('deepagents_code'); "
    "print(u.find_spec('deepagents_ro') is not None, s.origin if s else '')"
)


@dataclass(frozen=True, slots=True)
class Check:
    """One line: what was looked at, what was found, and what to do when it is not good."""

    name: str
    value: str
    state: str = "ok"
    """`ok`, `warning`, or `broken`: a call cannot work."""
    advice: str = ""


def main(words: list[str]) -> int:
    """Print the table; the exit status."""
    if words in (["-h"], ["--help"]):
        print(HELP, end="")
        return 0
    command = command_line.parse_audit(words, managed=False)
    if command is None or command.tool:
        print(HELP, end="", file=sys.stderr)
        return 2
    checks = list(examine(command))
    works = all(check.state != "broken" for check in checks)
    if command.as_json:
        data = {"works": works, "checks": [asdict(check) for check in checks]}
        print(document.success("doctor", data), end="")
    else:
        show(checks)
    return 0 if works else 1


def examine(command: Command) -> Iterator[Check]:
    """Every check; one that fails in a way that nobody foresaw is a line of its own."""
    groups: tuple[Callable[[], Iterator[Check]], ...] = (
        of_python,
        of_libraries,
        of_dcode,
        of_command,
        of_system,
        of_trust,
    )
    for group in groups:
        yield from guarded(group.__name__.removeprefix("of_"), group)
    yield from guarded("configuration", lambda: of_configuration(command))


def guarded(name: str, group: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """The lines of one group; what it raises is a line too."""
    try:
        yield from group()
    except Exception as error:  # noqa: BLE001 - the other lines are of use; the text may be secret
        yield Check(name, f"could not be examined ({type(error).__name__})", "broken")


def of_python() -> Iterator[Check]:
    """This package and its interpreter."""
    place = Path(deepagents_ro.__file__).parent
    yield Check("deepagents-ro", f"{deepagents_ro.__version__} in {place}")
    yield Check("Python", f"{platform.python_version()}, {sys.executable}")


def of_libraries() -> Iterator[Check]:
    """The libraries that the extension and Python use."""
    try:
        from deepagents_ro import _mcpro
    except ImportError:
        advice = "install the wheel for this Python and machine"
        yield Check("extension", "cannot be imported", "broken", advice)
        return
    curl, *below = _mcpro.net_library().split()
    tls = next((word for word in below if "SSL" in word.upper()), "no TLS library")
    yield Check("libcurl in use", curl.replace("/", " "))
    yield Check("OpenSSL in use", tls.replace("/", " "))
    yield Check("OpenSSL of Python", ssl.OPENSSL_VERSION)


def of_dcode() -> Iterator[Check]:
    """DCode beside this Python, and the patch."""
    from deepagents_ro.patch import patcher
    from deepagents_ro.patch.install import PatchError, locate

    try:
        install = locate(None)
    except PatchError:
        advice = "install deepagents-ro into the environment of DCode"
        yield Check("DCode", "not installed beside this Python", "broken", advice)
        return
    known = install.version in RELEASES
    advice = "" if known else f"verified versions: {', '.join(RELEASES)}"
    yield Check(
        "DCode", f"{install.version} in {install.site}", "ok" if known else "warning", advice
    )
    release = RELEASES.get(install.version, {})
    states = {patcher.state(n, install.read(n), digest) for n, digest in release.items()}
    applied = states == {patcher.State.APPLIED}
    findings = patcher.check(install)
    if applied:
        state = "warning" if findings else "ok"
        yield Check("patch", "applied", state, "; ".join(findings))
    else:
        advice = "python -I -m deepagents_ro.patch apply" if release else ""
        yield Check("patch", "not applied", "broken", advice)


def of_command() -> Iterator[Check]:
    """The `dcode` that the shell finds: is it of this environment, and is this package there?"""
    import shutil

    found = shutil.which("dcode")
    if found is None:
        yield Check("dcode command", "not on PATH", "warning", "add its directory to PATH")
        return
    python = interpreter_of(Path(found))
    here = Path(sys.prefix) / "bin"
    if python is None or python.parent == here:
        yield Check("dcode command", found)
        return
    words = [str(python), "-I", "-c", PROBE]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PROBE_SECONDS)
    has_package, _, origin = done.stdout.strip().partition(" ")
    if has_package == "True":
        advice = f"it is of another environment: {python.parent}/deepagents-ro doctor"
        yield Check("dcode command", found, "warning", advice)
        return
    patched = bool(origin) and b"deepagents-ro: begin" in Path(origin).read_bytes()
    value = f"{found}, {'patched, ' if patched else ''}without deepagents-ro"
    advice = f"deepagents-ro is not installed for {python}: install its wheel there"
    yield Check("dcode command", value, "broken" if patched else "warning", advice)


def interpreter_of(script: Path) -> Path | None:
    """The Python of a console script's first line."""
    with script.open("rb") as file:
        first = file.readline(4096)
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if not words or "python" not in words[0]:
        return None
    return Path(words[0])


def of_system() -> Iterator[Check]:
    """What the kernel allows: memory files, unlinked files, namespaces."""
    from deepagents_ro.anonymous import anonymous_file

    try:
        descriptor = os.memfd_create("doctor", os.MFD_CLOEXEC)
    except OSError:
        descriptor, value = anonymous_file(b""), "refused; an unlinked file takes their place"
    else:
        value = "allowed"
    os.close(descriptor)
    yield Check("memory files", value)
    names = ("pid", "user", "net", "mnt")
    spaces = [
        f"{name} {os.readlink(f'/proc/self/ns/{name}').strip(name + ':[]')}" for name in names
    ]
    yield Check("namespaces", ", ".join(spaces))


def of_trust() -> Iterator[Check]:
    """Where the trusted roots come from."""
    from deepagents_ro import network

    cafile, capath = network.resolve_trust(os.environ)
    chosen = next((n for n in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(n)), "certifi")
    value = f"{cafile or capath} ({chosen})"
    advice = f"{chosen} names what cannot be read as certificates"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile or None, capath or None)
    except OSError:
        yield Check("trusted roots", value, "broken", advice)
        return
    count = len(context.get_ca_certs()) if cafile else len(os.listdir(capath))
    state = "ok" if count else "broken"
    yield Check("trusted roots", f"{value}: {count}", state, "" if count else advice)


def of_configuration(command: Command) -> Iterator[Check]:
    """Every configured server, and whether any can be asked."""
    from deepagents_ro import host
    from deepagents_ro.reasons import of_word

    try:
        host.prepare_package()
        is_managed = managed.is_installed()
        if is_managed:
            managed.check()
        host.load_environment(trust_project=command.trust_project_mcp)
        sources = host.read_configuration(command, managed=is_managed)
    except HostError as refused:
        yield Check("configuration", refused.reason, "broken", str(of_word(refused.reason).text))
        return
    yield Check("managed runtime", "installed" if is_managed else "none")
    if sources is None:
        yield Check("servers", "switched off", "broken", "no server is asked with --no-mcp")
        return
    for fault in sources.faults:
        yield Check("configuration", str(fault), "warning", "DCode leaves this file out: mend it")
    names = sources.allowed()
    if not names:
        yield Check("servers", "none is configured", "broken", "dcode mcp config shows the places")
    found = [of_server(name, sources.entries(name)[-1]) for name in names]
    yield from found
    if found and all(check.state != "ok" for check in found):
        yield Check("servers", "none of them can be asked", "broken", "mend one of them")


def of_server(name: str, entry: object) -> Check:
    """The way to one server: through which proxy, or by which command."""
    from deepagents_ro import host
    from deepagents_ro.route import route_to

    label = f"server {name}"
    unset = host.unset_variables(entry)
    if unset:
        return Check(label, f"needs {', '.join(unset)}", "warning", "the variable is not set")
    resolved = host.resolved(name, entry) if isinstance(entry, dict) else None
    if resolved is None or not host.is_valid_entry(name, entry):
        return Check(
            label, "its entry cannot be used", "warning", "dcode mcp config names the file"
        )
    if "url" not in resolved:
        return of_stdio(label, str(resolved["command"]))
    try:
        route = route_to(str(resolved["url"]), os.environ)
    except ValueError as error:
        return Check(label, "there is no way to it", "warning", str(error))
    way = f"by the proxy {origin(route.proxy)}" if route.proxy else "without a proxy"
    return Check(label, f"{origin(route.url)} {way}")


def of_stdio(label: str, command: str) -> Check:
    """Whether a server's command can be started."""
    import shutil

    if shutil.which(command) is None:
        return Check(label, "its command is not on PATH", "warning", "install it")
    return Check(label, "a command on PATH")


def origin(url: str) -> str:
    """Scheme, host and port of a URL: the rest may be secret."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    name = parts.hostname or ""
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}{port}"


def show(checks: list[Check]) -> None:
    """The table: colour and folded columns on a terminal, one line a check elsewhere."""
    from rich.table import Table
    from rich.text import Text

    from deepagents_ro.audit_table import Sheet
    from deepagents_ro.terminal import PIPE_WIDTH, visible

    terminal = sys.stdout.isatty()
    width = os.get_terminal_size(1).columns if terminal else PIPE_WIDTH
    sheet = Sheet(width, colour=terminal)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    styles = {"ok": "green", "warning": "yellow", "broken": "red"}
    for check in checks:
        found = visible(check.value) + (f" - {visible(check.advice)}" if check.advice else "")
        table.add_row(visible(check.name), Text(check.state, style=styles[check.state]), found)
    sheet.console.print(table)
    sys.stdout.write(sheet.bytes().decode())
