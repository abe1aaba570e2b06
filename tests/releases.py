"""The verified releases of DCode as pip installs them, once for a test session."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deepagents_ro.patch.versions import QUALIFIED, RELEASES

VERSIONS = tuple(RELEASES)


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """version -> a directory that pip installed it into, never to be changed."""
    ready: dict[str, Path] = {}

    def get(version: str) -> Path:
        if version not in ready:
            site = tmp_path_factory.mktemp("released") / version
            subprocess.run(
                [
                    *(sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "install"),
                    *("--quiet", "--no-deps", "--target", str(site)),
                    f"deepagents-code=={version}",
                ],
                check=True,
            )
            for distribution, (qualified, *_) in QUALIFIED.items():
                put_distribution(site, distribution, qualified)
            ready[version] = site
        return ready[version]

    return get


@pytest.fixture
def fresh(released: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """version -> a copy of that release for one test."""

    def get(version: str = VERSIONS[0]) -> Path:
        site = tmp_path / f"site-{version}"
        shutil.copytree(released(version), site, symlinks=True)
        return site

    return get


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
