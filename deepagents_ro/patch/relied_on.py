"""What the call is built on and does not change: names of DCode and of the SDK, by their text.

The table `relied_on.txt` is derived (`scripts/relied_on.py`): every name that this package uses of
DCode, whatever those names use in turn, and one function of the SDK. One line an entry:

    <file> <name> <form> <versions> <sha256>

`form` is `published`, or `managed` for the text that the public edits of a managed image leave; the
latter counts only where a managed runtime is installed beside DCode. `versions` are releases of the
distribution that the file is of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deepagents_ro.versions import DISTRIBUTION, PACKAGE

from . import source
from .install import Install, PatchError

TABLE = Path(__file__).with_name("relied_on.txt")
PUBLISHED, MANAGED = "published", "managed"
MANAGED_MODULE = "_nemoclaw_managed.py"
SDK = "mcp"


@dataclass(frozen=True)
class Entry:
    """One text that one name may have. `file` is below site-packages, with `/`."""

    file: str
    name: str
    form: str
    versions: tuple[str, ...]
    digest: str

    def line(self) -> str:
        """The line of the table."""
        return " ".join([self.file, self.name, self.form, ",".join(self.versions), self.digest])


@cache
def table() -> tuple[Entry, ...]:
    """Every entry of `relied_on.txt`."""
    return tuple(parse(TABLE.read_text(encoding="utf-8")))


def parse(text: str) -> Iterator[Entry]:
    """The entries of a table's text."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            file, name, form, versions, digest = line.split(" ")
            yield Entry(file, name, form, tuple(versions.split(",")), digest)


def is_managed(install: Install) -> bool:
    """Whether a managed runtime is installed beside this DCode."""
    return install.path(MANAGED_MODULE).is_file()


def drift(install: Install) -> list[str]:
    """One line for each name that the call is built on and that has another text than is known."""
    managed = is_managed(install)
    accepted: dict[str, dict[str, list[str]]] = {}
    refused: set[tuple[str, str]] = set()
    for entry in table():
        version = install.version
        if not entry.file.startswith(f"{PACKAGE}/"):
            version = install.stack_version(SDK) or ""
        if version not in entry.versions:
            continue
        names = accepted.setdefault(entry.file, {})
        digests = names.setdefault(entry.name, [])
        if entry.form == PUBLISHED or managed:
            digests.append(entry.digest)
        else:
            refused.add((entry.name, entry.digest))
    findings: list[str] = []
    for file, names in accepted.items():
        findings += _changed(install, file, names, refused)
    return findings


def _changed(
    install: Install, file: str, names: dict[str, list[str]], refused: set[tuple[str, str]]
) -> Iterator[str]:
    path = install.site_path(file)
    where = f"{path} of {DISTRIBUTION} {install.version}"
    if not file.startswith(f"{PACKAGE}/"):
        where = f"{path} of {SDK} {install.stack_version(SDK)}"
    try:
        found = source.read(install.read_path(path, where))
    except PatchError as error:
        yield str(error)
        return
    except (SyntaxError, ValueError) as error:
        yield f"{where} cannot be parsed: {error}"
        return
    for name, digests in names.items():
        digest = found.digest(name)
        if digest in digests:
            continue
        if (name, digest) in refused:
            digest += " (of a managed image, but no managed runtime is installed beside it)"
        expected = " or ".join(digests)
        yield f"{where}: {name} has changed: SHA-256 {digest}, expected {expected}"
