"""Finds the one installed DCode that is meant, and reads what it is. Changes nothing."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import site
import sys
from dataclasses import dataclass
from pathlib import Path

from deepagents_ro.versions import DISTRIBUTION, PACKAGE


class PatchError(Exception):
    """Why nothing can be done, as one line for the person who asked."""


@dataclass(frozen=True)
class Install:
    """One DCode: `site` holds the directory `package`; `search` are the paths of its stack."""

    site: Path
    package: Path
    version: str
    search: tuple[str, ...]

    def path(self, name: str) -> Path:
        """The file `name` (with `/`) of the package."""
        return self.package.joinpath(*name.split("/"))

    def read(self, name: str) -> bytes:
        """The bytes of the file `name` of the package. Raises `PatchError`."""
        path = self.path(name)
        return self.read_path(path, f"{path} of {DISTRIBUTION} {self.version}")

    def site_path(self, name: str) -> Path:
        """The file `name` (with `/`) of any package beside this DCode, where imports find it."""
        paths = [Path(entry).joinpath(*name.split("/")) for entry in self.search]
        return next((path for path in paths if path.is_file()), paths[0])

    @staticmethod
    def read_path(path: Path, what: str) -> bytes:
        """The bytes of `path`, which messages call `what`. Raises `PatchError`."""
        try:
            return path.read_bytes()
        except OSError as error:
            raise PatchError(f"{what} cannot be read: {error.strerror}") from error

    def not_as_published(self) -> list[str] | None:
        """Files of the package that are not those of its `RECORD`, sorted; None without one.

        Compiled copies do not count. Files that the publisher did not bring do.
        """
        found = importlib.metadata.Distribution.discover(name=DISTRIBUTION, path=[str(self.site)])
        recorded = next((item.files for item in found), None)
        if not recorded:
            return None
        names = {item.as_posix(): item for item in recorded}
        names = {name: item for name, item in names.items() if name.startswith(f"{PACKAGE}/")}
        present = {
            path.relative_to(self.site).as_posix()
            for path in self.package.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        changed = {name for name in names if not name.endswith(".pyc") and name not in present}
        for name in present:
            expected = names[name].hash if name in names else None
            if expected is None or _record_hash(self.site / name) != expected.value:
                changed.add(name)
        return sorted(name.removeprefix(f"{PACKAGE}/") for name in changed)

    def stack_version(self, distribution: str) -> str | None:
        """The version of a distribution beside this DCode, None when it is not installed."""
        found = importlib.metadata.Distribution.discover(name=distribution, path=list(self.search))
        return next((item.version for item in found), None)


def _record_hash(path: Path) -> str:
    """SHA-256 of a file as `RECORD` writes it."""
    digest = hashlib.sha256(path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def site_directories() -> list[Path]:
    """The running interpreter's site-packages, in the order in which it looks into them."""
    directories = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        directories.append(site.getusersitepackages())
    known = [Path(entry) for entry in directories]
    ordered = [Path(entry) for entry in sys.path if entry and Path(entry) in known]
    return list(dict.fromkeys([*ordered, *known]))


def locate(chosen: str | None) -> Install:
    """The DCode in the directory `chosen`, or in the running interpreter's site-packages.

    Raises `PatchError` when there is none, more than one, or one that must not be edited.
    """
    if chosen is None:
        candidates = site_directories()
        directory = next((entry for entry in candidates if _holds(entry)), None)
        if directory is None:
            raise PatchError(
                f"{DISTRIBUTION} is not installed for {sys.executable}; "
                "name the directory that holds it: --site DIR"
            )
    else:
        directory = Path(chosen)
        if not directory.is_dir():
            raise PatchError(f"{directory} is not a directory")
        if not _holds(directory):
            raise PatchError(f"{directory} does not hold {DISTRIBUTION}")
    directory = directory.resolve()
    version = _version(directory)
    package = directory / PACKAGE
    if package.is_symlink():
        raise PatchError(
            f"{package} is a link to a directory that other environments may use; "
            f"install {DISTRIBUTION} {version} as files"
        )
    if not package.is_dir():
        raise PatchError(f"{package} of {DISTRIBUTION} {version} is missing; install it again")
    search = [str(directory)]
    if directory in [Path(entry).resolve() for entry in sys.path if entry]:
        search += [entry for entry in sys.path if entry]
    return Install(directory, package, version, tuple(search))


def _holds(directory: Path) -> bool:
    return (directory / PACKAGE).is_dir() or bool(_distributions(directory))


def _distributions(directory: Path) -> list[importlib.metadata.Distribution]:
    found = importlib.metadata.Distribution.discover(name=DISTRIBUTION, path=[str(directory)])
    return list(found)


def _version(directory: Path) -> str:
    found = _distributions(directory)
    if not found:
        raise PatchError(
            f"{directory / PACKAGE} has no {DISTRIBUTION} metadata beside it, "
            "so its version is not known"
        )
    versions = [str(item.metadata["Version"]) for item in found]
    if len(found) > 1:
        raise PatchError(
            f"{directory} holds metadata of more than one {DISTRIBUTION} "
            f"({', '.join(sorted(versions))}); install it again"
        )
    if _editable(found[0]):
        raise PatchError(
            f"{DISTRIBUTION} {versions[0]} in {directory} is an editable install; "
            "only files that came from a wheel are patched"
        )
    return versions[0]


def _editable(distribution: importlib.metadata.Distribution) -> bool:
    text = distribution.read_text("direct_url.json")
    if not text:
        return False
    try:
        origin = json.loads(text)
    except ValueError:
        return False
    info = origin.get("dir_info") if isinstance(origin, dict) else None
    return isinstance(info, dict) and info.get("editable") is True
