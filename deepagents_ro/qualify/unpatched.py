"""DCode as its publisher made it, for `--upstream`: a copy in an environment of its own."""

from __future__ import annotations

import shutil
import sys
import venv
from pathlib import Path

from deepagents_ro.patch import text
from deepagents_ro.patch.install import Install
from deepagents_ro.versions import PACKAGE


def is_patched(install: Install) -> bool:
    """Whether any file of this DCode holds an addition of ours."""
    return any(
        text.remove(install.read(name)) != install.read(name)
        for name in text.EDITS
        if install.path(name).is_file()
    )


def make_unpatched(install: Install, directory: Path) -> list[str]:
    """An environment in `directory` that finds an unpatched copy of `install` before the original.

    Returns the words that stand for `dcode` there. Raises `OSError`.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = directory / "lib" / version / "site-packages"
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(install.package, site / PACKAGE, ignore=skipped)
    for metadata in install.site.glob(f"{PACKAGE}-*.dist-info"):
        shutil.copytree(metadata, site / metadata.name)
    for name in text.EDITS:
        path = site.joinpath(PACKAGE, *name.split("/"))
        if path.is_file():
            path.write_bytes(text.remove(path.read_bytes()))
    # Whatever else DCode needs is where it was; the copy comes first on the path.
    (site / "rest.pth").write_text(f"{install.site}\n")
    return [str(directory / "bin" / "python3"), "-I", "-m", PACKAGE]
