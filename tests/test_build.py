"""The sources' rules and what the built extension shows to the outside."""

from __future__ import annotations

import ast
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wconversion"]
FLAGS += ["-Wstrict-prototypes", "-Werror", "-fvisibility=hidden", "-fPIC"]
SOURCES = sorted(ROOT.glob("csrc/*/*.c"))

Findings = Callable[[Path], Iterator[str]]


@pytest.fixture
def findings() -> Findings:
    """What `scripts/check_sources.py` says of a tree."""
    return runpy.run_path(str(ROOT / "scripts" / "check_sources.py"))["findings"]


@pytest.fixture
def extension() -> ModuleType:
    from deepagents_ro import _mcpro

    return _mcpro


def test_the_sources_are_in_order(findings: Findings) -> None:
    assert len(SOURCES) > 20
    assert list(findings(ROOT)) == []


@pytest.mark.parametrize(
    ("name", "line", "named"),
    [
        ("core/a.c", "#include <Python.h>", "belongs to csrc/py"),
        ("guard/a.h", '#include "Python.h"', "belongs to csrc/py"),
        ("guard/a.c", "#include <curl/curl.h>", "belongs to csrc/net"),
        ("py/a.c", "# include <curl/curl.h>", "belongs to csrc/net"),
        ("py/a.c", "#include <cjson/cJSON.h>", "belongs to csrc/core"),
        ("core/a.c", '#include "guard/guard.h"', "of another layer"),
        ("guard/a.c", '#include "net/net.h"', "of another layer"),
        ("net/a.c", '#include "py/state.h"', "of another layer"),
        ("core/a.c", "x = strcpy (a, b);", "a.c:1: calls strcpy"),
        ("core/a.c", "int n = sprintf(a, b);", "calls sprintf"),
        ("net/a.c", "PyGILState_Ensure();", "calls PyGILState_Ensure"),
        ("net/a.c", "x = malloc(1);", "calls malloc"),
        ("core/a.c", "free(x);", "calls free"),
        ("core/a.c", "\n" * 5000, "two concerns"),
    ],
)
def test_a_breach_is_found(
    findings: Findings, tmp_path: Path, name: str, line: str, named: str
) -> None:
    path = tmp_path / "csrc" / name
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    (found,) = findings(tmp_path)
    assert named in found


@pytest.mark.parametrize(
    "line",
    [
        "/* strcpy(a, b) */",
        'x = "free(x)";',
        "ro_free(x);",
        "list->free(x);",
        '#include "core/json.h"',
        "n = snprintf(a, 1, b);",
    ],
)
def test_what_is_no_breach(findings: Findings, tmp_path: Path, line: str) -> None:
    path = tmp_path / "csrc" / "core" / "a.c"
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    assert list(findings(tmp_path)) == []


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warning(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    libraries = subprocess.run(
        ["pkg-config", "--cflags", "libcurl", "libcjson"],
        capture_output=True,
        text=True,
        check=True,
    )
    limited = [] if sysconfig.get_config_var("Py_GIL_DISABLED") else ["3"]
    command = [compiler, *FLAGS, *libraries.stdout.split(), f"-I{ROOT / 'csrc'}"]
    command += [f"-I{sysconfig.get_path('include')}"]
    command += ["-DPy_LIMITED_API=0x030B0000"] if limited else []

    def build(source: Path) -> str:
        done = subprocess.run(
            [*command, "-c", str(source), "-o", str(tmp_path / f"{source.stem}.o")],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr if done.returncode or done.stderr else ""

    with ThreadPoolExecutor(2) as pool:
        assert "".join(pool.map(build, SOURCES)) == ""


def test_one_symbol_is_exported(extension: ModuleType) -> None:
    assert extension.__file__ is not None
    done = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", extension.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["PyInit__mcpro"]


def test_it_is_for_every_python_from_3_11_on(extension: ModuleType) -> None:
    assert extension.__file__ is not None
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert Path(extension.__file__).name == "_mcpro.abi3.so"


def stub() -> ast.Module:
    specification = importlib.util.find_spec("deepagents_ro")
    assert specification is not None
    assert specification.origin is not None
    return ast.parse((Path(specification.origin).parent / "_mcpro.pyi").read_text())


def test_the_stub_lists_what_is_there(extension: ModuleType) -> None:
    described = set()
    for node in stub().body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            described.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            described.add(node.target.id)
    there = {name for name in vars(extension) if not name.startswith("__")}
    assert described == there


def test_the_stub_says_the_same(extension: ModuleType) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    allowed = ["--allowlist", str(ROOT / "tests" / "data" / "stubtest_allowlist.txt")]
    command = [sys.executable, "-I", "-m", "mypy.stubtest", "--concise", *allowed]
    done = subprocess.run(
        [*command, "deepagents_ro._mcpro"],
        env={**os.environ, "MYPY_CACHE_DIR": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_docstrings_begin_with_a_signature(extension: ModuleType) -> None:
    for name, value in vars(extension).items():
        if callable(value) and not isinstance(value, type):
            first = (value.__doc__ or "").splitlines()[:1]
            signed = getattr(value, "__text_signature__", None) is not None
            assert signed or (first and first[0].startswith(f"{name}(")), name


@pytest.mark.parametrize(
    ("environment", "package"),
    [
        ({"PKG_CONFIG_LIBDIR": "/nonexistent", "PKG_CONFIG_PATH": ""}, "libcurl4-openssl-dev"),
        ({"PKG_CONFIG": "/nonexistent/pkg-config"}, "Debian package: pkg-config"),
    ],
)
def test_a_missing_library_is_one_clear_message(
    tmp_path: Path, environment: dict[str, str], package: str
) -> None:
    arguments = ["--quiet", "build_ext", "--build-lib", str(tmp_path), "--build-temp"]
    done = subprocess.run(
        [sys.executable, "setup.py", *arguments, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "deepagents-ro:" in line]
    assert package in line
    assert "Traceback" not in done.stderr


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys, __future__; before = set(sys.modules); import deepagents_ro; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['deepagents_ro']\n"
