"""Builds the C extension; everything declarative is in pyproject.toml."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

DEBIAN_PACKAGES = {"libcurl": "libcurl4-openssl-dev", "libcjson": "libcjson-dev"}
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def pkg_config(package: str, option: str) -> list[str]:
    """Flags that pkg-config gives for `package`, or one clear message."""
    tool = os.environ.get("PKG_CONFIG", "pkg-config")
    try:
        done = subprocess.run(
            [tool, option, package], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        sys.exit("deepagents-ro: pkg-config is missing (Debian package: pkg-config)")
    except subprocess.CalledProcessError:
        sys.exit(
            f"deepagents-ro: the library {package} is missing "
            f"(Debian package: {DEBIAN_PACKAGES[package]})"
        )
    return shlex.split(done.stdout)


def extension() -> Extension:
    root = Path(__file__).parent
    sources = sorted(str(path.relative_to(root)) for path in root.glob("csrc/*/*.c"))
    headers = sorted(str(path.relative_to(root)) for path in root.glob("csrc/*/*.h"))
    cflags = ["-std=c11", "-fvisibility=hidden"]
    ldflags: list[str] = []
    macros: list[tuple[str, str | None]] = [("_GNU_SOURCE", None)]
    if os.environ.get("DEEPAGENTS_RO_WERROR") == "1":
        cflags += WARNINGS
    sanitize = os.environ.get("DEEPAGENTS_RO_SANITIZE")
    if sanitize:
        cflags += [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", "-g"]
        ldflags += [f"-fsanitize={sanitize}"]
    if not FREE_THREADED:
        macros.append(("Py_LIMITED_API", "0x030B0000"))
    for package in DEBIAN_PACKAGES:
        cflags += pkg_config(package, "--cflags")
        ldflags += pkg_config(package, "--libs")
    return Extension(
        "deepagents_ro._mcpro",
        sources=sources,
        depends=headers,
        include_dirs=["csrc"],
        define_macros=macros,
        extra_compile_args=cflags,
        extra_link_args=[*ldflags, "-pthread"],
        py_limited_api=not FREE_THREADED,
    )


setup(
    ext_modules=[extension()],
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
