"""Builds the C extension; everything declarative is in pyproject.toml.

Environment:
    DEEPAGENTS_RO_WERROR=1      warnings are errors
    DEEPAGENTS_RO_SANITIZE=...  a value for -fsanitize=
    PKG_CONFIG                  another pkg-config
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

ROOT = Path(__file__).parent
# pkg-config name -> the oldest version that is known to work, the Debian package
LIBRARIES = {
    "libcurl": ("7.88.1", "libcurl4-openssl-dev"),
    "libcjson": ("1.7.15", "libcjson-dev"),
}
# Each line is one protection: the first of its spellings that the compiler takes without a word. A
# sanitizer brings its own, and its interceptors do not know the checked functions of glibc.
HARDENING = (
    (("-fstack-protector-strong",),),
    (
        ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"),
        ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),  # an older compiler or C library
    ),
    (("-fstack-clash-protection",),),
    (("-fcf-protection=full",), ("-mbranch-protection=standard",)),  # x86, arm64
)
PROBE = "#include <string.h>\nint probe(void);\nint probe(void) { return 0; }\n"
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def pkg_config(library: str, *options: str) -> list[str]:
    """What pkg-config says of `library`. Raises `PlatformError`, one clear message."""
    oldest, package = LIBRARIES[library]
    tool = os.environ.get("PKG_CONFIG", "pkg-config")
    try:
        done = subprocess.run(
            [tool, *options, f"{library} >= {oldest}"],
            capture_output=True,
            text=True,
            check=True,
        )
    except OSError as error:
        raise PlatformError(
            f"deepagents-ro: {tool} is missing (Debian package: pkg-config)"
        ) from error
    except subprocess.CalledProcessError as error:
        raise PlatformError(
            f"deepagents-ro: the library {library}, {oldest} or newer, is missing "
            f"(Debian package: {package})"
        ) from error
    return shlex.split(done.stdout)


def hardening(compiler: list[str]) -> list[str]:
    """The options of `HARDENING` that `compiler`, a command with its own options, takes."""

    def takes(options: tuple[str, ...]) -> bool:
        command = [*compiler, *options, "-O2", "-Werror", "-x", "c", "-", "-c", "-o", os.devnull]
        return subprocess.run(command, input=PROBE.encode(), capture_output=True).returncode == 0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        spellings = [spelling for line in HARDENING for spelling in line]
        taken = dict(zip(spellings, pool.map(takes, spellings), strict=True))
    found: list[str] = []
    for line in HARDENING:
        found += next((spelling for spelling in line if taken[spelling]), ())
    return found


class BuildWithLibraries(build_ext):
    """Asks for the libraries when something is compiled, not when metadata is read.

    Compiles as many files at once as there are processors; setuptools itself would take them one
    after the other.
    """

    def build_extension(self, ext: Extension) -> None:
        for library in LIBRARIES:
            ext.extra_compile_args += pkg_config(library, "--cflags")
            ext.extra_link_args += pkg_config(library, "--libs")
        if not os.environ.get("DEEPAGENTS_RO_SANITIZE"):
            ext.extra_compile_args += hardening(self.compiler.compiler_so)
        one_by_one = self.compiler.compile

        def at_once(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: one_by_one([source], **options), sources)
                return [path for paths in objects for path in paths]

        self.compiler.compile = at_once
        super().build_extension(ext)


def extension() -> Extension:
    # -O2 whatever Python was built with: what is tested is what is built.
    cflags = ["-std=c11", "-O2", "-fvisibility=hidden", "-pthread"]
    # Hidden also where a library is linked in from an archive.
    ldflags = ["-pthread", "-Wl,--exclude-libs,ALL", "-Wl,-z,relro,-z,now,-z,noexecstack"]
    macros: list[tuple[str, str | None]] = [("_GNU_SOURCE", None)]
    if os.environ.get("DEEPAGENTS_RO_WERROR") == "1":
        cflags += WARNINGS
    sanitize = os.environ.get("DEEPAGENTS_RO_SANITIZE")
    if sanitize:
        cflags += [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", "-g"]
        ldflags += [f"-fsanitize={sanitize}"]
    if not FREE_THREADED:
        macros.append(("Py_LIMITED_API", "0x030B0000"))
    return Extension(
        "deepagents_ro._mcpro",
        sources=sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("csrc/*/*.c")),
        depends=sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("csrc/*/*.h")),
        include_dirs=["csrc"],
        define_macros=macros,
        extra_compile_args=cflags,
        extra_link_args=ldflags,
        py_limited_api=not FREE_THREADED,
    )


setup(
    ext_modules=[extension()],
    cmdclass={"build_ext": BuildWithLibraries},
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
