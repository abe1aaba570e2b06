"""Apply, check and revert: what they find, in which order they change it, what they say."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from enum import Enum

from deepagents_ro.versions import DISTRIBUTION, QUALIFIED, RELEASES, nearest

from . import relied_on, text
from .install import Install, PatchError
from .replace import compiled_copies, leftovers, replace, settle_copies

LOCK_SECONDS = 30.0

# Where a release of DCode that has the command itself would make it one.
UPSTREAM_FILES = ("main.py", "ui.py", "client/commands/tools.py")
UPSTREAM_COMMAND = "call-read-only"


class State(Enum):
    """What an edited file holds."""

    ORIGINAL = "as published"
    APPLIED = "patched"
    OLDER = "patched by another version of deepagents-ro"
    OTHER = "other content"


def apply(install: Install) -> list[str]:
    """Patch every file that is not yet patched. Returns one line per warning.

    Nothing is written unless every file is known. Raises `PatchError`, `OSError`.
    """
    with _locked(install, fcntl.LOCK_EX):
        own = upstream(install)
        if own is not None:
            raise PatchError(own)
        release = _release(install)
        originals = _originals(install, release)
        patched = {name: _patched(install, name, originals[name]) for name in originals}
        _write(install, patched)
        return [*relied_on.drift(install), *_stack(install)]


def revert(install: Install) -> list[str] | None:
    """Give every patched file its published bytes back. Raises `PatchError`, `OSError`.

    Returns the files of the package that are still not as published, as other programs left them;
    None when the package has no record of what was published.
    """
    with _locked(install, fcntl.LOCK_EX):
        _write(install, _originals(install, _release(install)))
        return install.not_as_published()


def check(install: Install) -> list[str]:
    """One line per finding; none when the patch is applied, verified and qualified."""
    with _locked(install, fcntl.LOCK_SH):
        findings: list[str] = []
        own = upstream(install)
        if own is not None:
            findings.append(own)
        release = RELEASES.get(install.version)
        if release is None:
            findings.append(_not_verified(install))
        else:
            findings += _edited(install, release)
            findings += relied_on.drift(install)
        return [*findings, *_stack(install)]


def upstream(install: Install) -> str | None:
    """Advice when this DCode has the command itself, else None."""
    for name in UPSTREAM_FILES:
        if not install.path(name).is_file():
            continue
        if _makes_command(text.remove(install.read(name))):
            return (
                f"{install.path(name)}: {DISTRIBUTION} {install.version} has a command "
                f"`{UPSTREAM_COMMAND}` of its own; the patch must not hide it. "
                "See whether it keeps the contract (python -m deepagents_ro.qualify --upstream), "
                "then remove deepagents-ro (pip uninstall deepagents-ro)"
            )
    return None


def _makes_command(content: bytes) -> bool:
    """Whether a call in `content` makes a parser or a command of that name.

    The word in a list of what another program lets through, in a comparison, in a text or in a
    comment makes no command. A file that is not Python makes none either; `check` names it.
    """
    if UPSTREAM_COMMAND.encode() not in content:
        return False
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        return False
    return any(_makes(node) for node in nodes if isinstance(node, ast.Call))


def _makes(call: ast.Call) -> bool:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        called = call.func.id
    words = [*call.args, *(item.value for item in call.keywords)]
    named = any(isinstance(word, ast.Constant) and word.value == UPSTREAM_COMMAND for word in words)
    return named and ("parser" in called.lower() or "command" in called.lower())


def state(name: str, content: bytes, published: str) -> State:
    """What `content` of the edited file `name` is, given the SHA-256 of the published file."""
    if _sha256(content) == published:
        return State.ORIGINAL
    original = text.remove(content)
    if _sha256(original) != published:
        return State.OTHER
    return State.APPLIED if content == text.add(name, original) else State.OLDER


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _not_verified(install: Install) -> str:
    return (
        f"{DISTRIBUTION} {install.version} in {install.site} is not a verified version "
        f"({', '.join(RELEASES)}): {install.path('__init__.py')} has SHA-256 "
        f"{_sha256(install.read('__init__.py'))}"
    )


def _release(install: Install) -> dict[str, str]:
    release = RELEASES.get(install.version)
    if release is None:
        raise PatchError(_not_verified(install))
    return release


def _foreign(install: Install, name: str, content: bytes, published: str) -> str:
    return (
        f"{install.path(name)} is not the file of {DISTRIBUTION} {install.version}: "
        f"SHA-256 {_sha256(content)}, expected {published}"
    )


def _originals(install: Install, release: dict[str, str]) -> dict[str, bytes]:
    """The published bytes of every edited file. Raises `PatchError` when one is not known."""
    originals: dict[str, bytes] = {}
    for name, published in release.items():
        content = install.read(name)
        if state(name, content, published) is State.OTHER:
            raise PatchError(_foreign(install, name, content, published))
        originals[name] = content if _sha256(content) == published else text.remove(content)
    return originals


def _patched(install: Install, name: str, original: bytes) -> bytes:
    try:
        return text.add(name, original)
    except text.AnchorError as error:
        raise PatchError(
            f"{install.path(name)} of {DISTRIBUTION} {install.version} has no place for the patch"
        ) from error


def _write(install: Install, wanted: dict[str, bytes]) -> None:
    """Bring the files and their compiled copies to `wanted`, each file in one step."""
    for name in sorted(wanted, reverse=True):
        path = install.path(name)
        for item in leftovers(path):
            item.unlink(missing_ok=True)
        if install.read(name) != wanted[name]:
            replace(path, wanted[name])
        settle_copies(path)


def _edited(install: Install, release: dict[str, str]) -> list[str]:
    findings: list[str] = []
    states: dict[str, State] = {}
    for name, published in release.items():
        path = install.path(name)
        try:
            content = install.read(name)
        except PatchError as error:
            findings.append(str(error))
            continue
        states[name] = found = state(name, content, published)
        if found is State.OTHER:
            findings.append(_foreign(install, name, content, published))
            continue
        if found is not State.APPLIED:
            findings.append(
                f"{path} of {DISTRIBUTION} {install.version} is {found.value}: "
                "run python -I -m deepagents_ro.patch apply"
            )
        findings += [
            f"{copy.path} hides {path}: it was compiled from other content"
            for copy in compiled_copies(path)
            if copy.hides()
        ]
        findings += [
            f"{item} was left by a run that did not end; apply or revert again"
            for item in leftovers(path)
        ]
    if len(states) == len(release) and len(set(states.values())) > 1:
        findings.append(
            f"the patch of {DISTRIBUTION} {install.version} in {install.site} is half applied ("
            + ", ".join(f"{name}: {found.value}" for name, found in states.items())
            + "); apply or revert again"
        )
    return findings


def _stack(install: Install) -> list[str]:
    """What is not of the verified combination that comes nearest."""
    findings: list[str] = []
    found = {name: install.stack_version(name) for row in QUALIFIED for name in row}
    row = nearest(found)
    for distribution, qualified in row.items():
        version = found[distribution]
        if version is None:
            findings.append(f"{distribution} is not installed beside {install.package}")
        elif version != qualified:
            others = [f"{name} {row[name]}" for name in row if name != distribution]
            findings.append(
                f"{distribution} {version} beside {install.package} is not a qualified version "
                f"({qualified} is, with {', '.join(others)})"
            )
    return findings


@contextlib.contextmanager
def _locked(install: Install, kind: int) -> Iterator[None]:
    """Hold the package directory itself as lock, so that none is left behind.

    Raises `PatchError` when another run still holds it after `LOCK_SECONDS`.
    """
    directory = os.open(install.package, os.O_RDONLY | os.O_DIRECTORY)
    try:
        last = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(directory, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > last:
                    raise PatchError(f"another run holds {install.package}") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(directory)
