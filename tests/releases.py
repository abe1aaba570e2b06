"""The verified releases of DCode as pip installs them, once for all workers of a test session."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deepagents_ro.patch import text
from deepagents_ro.patch.relied_on import MANAGED_MODULE
from deepagents_ro.versions import QUALIFIED, RELEASES

VERSIONS = tuple(RELEASES)
STACK = QUALIFIED[0]
SDK_FILE = "mcp/shared/_httpx_utils.py"
# Directories of DCode in which no test changes a file in place: a copy has links to them.
LEFT_ALONE = {"built_in_skills", "hooks", "integrations", "skills", "tui"}


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """version -> a directory that pip installed it into, never to be changed."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "released"
    shared.mkdir(exist_ok=True)

    def get(version: str) -> Path:
        site = shared / version
        with (shared / f"{version}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not site.exists():
                with tempfile.TemporaryDirectory(dir=shared) as unfinished:
                    install(version, Path(unfinished) / version)
                    (Path(unfinished) / version).rename(site)
        return site

    return get


def install(version: str, site: Path) -> None:
    """That release in `site`, beside what it is verified with."""
    subprocess.run(
        [
            *(sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "install"),
            *("--quiet", "--no-deps", "--no-compile", "--target", str(site)),
            f"deepagents-code=={version}",
        ],
        check=True,
    )
    for name in text.EDITS:
        py_compile.compile(str(site / "deepagents_code" / name), doraise=True)
    for distribution, qualified in STACK.items():
        put_distribution(site, distribution, qualified)
    spec = importlib.util.find_spec("mcp")
    assert spec is not None
    assert spec.origin is not None
    (site / SDK_FILE).parent.mkdir(parents=True)
    shutil.copy(Path(spec.origin).parent.parent / SDK_FILE, site / SDK_FILE)


@pytest.fixture
def fresh(released: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """version -> a copy of that release for one test."""

    def get(version: str = VERSIONS[0]) -> Path:
        site = tmp_path / f"site-{version}"
        shutil.copytree(released(version), site, symlinks=True, copy_function=copy_or_link)
        return site

    return get


def copy_or_link(source: str, target: str) -> None:
    """Copy a file, or link it where it is in one of the directories that are left alone."""
    if LEFT_ALONE.isdisjoint(Path(source).parts):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def put_managed(site: Path) -> None:
    """A managed runtime beside the DCode in `site`; it does nothing."""
    (site / "deepagents_code" / MANAGED_MODULE).write_text("")


def put_distribution(site: Path, name: str, version: str) -> None:
    """Note `name` `version` as installed in `site`, in place of any other version of it."""
    remove_distribution(site, name)
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(text)


def remove_distribution(site: Path, name: str) -> None:
    """Forget that `name` is installed in `site`."""
    for old in site.glob(f"{name.replace('-', '_')}-*.dist-info"):
        shutil.rmtree(old)
