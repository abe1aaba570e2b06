"""The sources' rules and what the built extension shows to the outside."""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import platform
import re
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
from hardening import missing

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wconversion"]
FLAGS += ["-Wstrict-prototypes", "-Werror", "-fvisibility=hidden", "-fPIC"]
# What setup.py adds, as far as the compiler takes it: checked functions have warnings of their own.
FLAGS += ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
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
        ("net/a.c", '#include "mcp/session.h"', "of another layer"),
        ("core/a.c", '#include "mcp/rpc.h"', "of another layer"),
        ("mcp/rpc.c", "#include <curl/curl.h>", "belongs to csrc/net"),
        ("mcp/post.c", '#include "mcp/session.h"', "which stands above it"),
        ("mcp/post.h", "void ro_session_end(int);", "which post.c does not define"),
        ("mcp/a.c", "", "in no place of the order"),
        ("core/a.c", "x = strcpy (a, b);", "a.c:1: calls strcpy"),
        ("core/a.c", "int n = sprintf(a, b);", "calls sprintf"),
        ("net/a.c", "PyGILState_Ensure();", "calls PyGILState_Ensure"),
        ("net/a.c", "x = malloc(1);", "calls malloc"),
        ("core/a.c", "free(x);", "calls free"),
        ("py/a.c", "return PyErr_NoMemory();", "a.c:1: calls PyErr_NoMemory, which belongs to"),
        ("py/a.c", "PyErr_SetString(a, b);", "calls PyErr_SetString, which belongs to"),
        ("core/a.c", "\n" * 5000, "two concerns"),
        ("core/a.c", "#define MAX_ITEMS 64u", "a.c:1: defines MAX_ITEMS; a limit belongs to"),
        ("mcp/post.c", "# define WAIT_MS (-5)", "defines WAIT_MS; a limit belongs to"),
        ("net/a.c", "ro_buf_init(&buf, 65536u);", "a.c:1: has a number without a name"),
        ("core/buf.c", "", "defines no FIRST_CAP"),
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


def test_limits_and_the_guards_schedule_may_have_numbers(
    findings: Findings, tmp_path: Path
) -> None:
    for name in ("core/limits.h", "guard/guard.h"):
        path = tmp_path / "csrc" / name
        path.parent.mkdir(parents=True)
        path.write_text("#define RO_MAX_ITEMS 65536u\n")
    assert list(findings(tmp_path)) == []


@pytest.mark.parametrize(
    "line",
    [
        "/* strcpy(a, b) */",
        'x = "free(x)";',
        "ro_free(x);",
        "list->free(x);",
        '#include "core/json.h"',
        "n = snprintf(a, 1, b);",
        "if (PyErr_Occurred() || PyErr_ExceptionMatches(a)) { PyErr_Clear(); }",
        "#define PUT(x) (1 + (x))",
        "#define ROOM RO_MAX_STDIN",
        "seconds = now / 1000000;",
        "x = buf123456; /* 65536 bytes */",
    ],
)
def test_what_is_no_breach(findings: Findings, tmp_path: Path, line: str) -> None:
    path = tmp_path / "csrc" / "core" / "a.c"
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    assert list(findings(tmp_path)) == []


def package_of(directory: Path, modules: dict[str, str]) -> Path:
    """A tree whose Python package has these files."""
    for name, content in modules.items():
        path = directory / "deepagents_ro" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return directory


@pytest.mark.parametrize(
    ("modules", "circle"),
    [
        (
            {"a.py": "from deepagents_ro.b import x", "b.py": "def f():\n    from . import a"},
            "deepagents_ro.a -> deepagents_ro.b -> deepagents_ro.a",
        ),
        (
            {
                "a.py": "import deepagents_ro.b",
                "b.py": "from deepagents_ro.c import x",
                "c.py": "if TYPE_CHECKING:\n    from deepagents_ro.a import X",
            },
            "deepagents_ro.a -> deepagents_ro.b -> deepagents_ro.c -> deepagents_ro.a",
        ),
        (
            {"p/__init__.py": "from .a import x", "p/a.py": "from deepagents_ro.p import y"},
            "deepagents_ro.p.__init__ -> deepagents_ro.p.a -> deepagents_ro.p.__init__",
        ),
    ],
)
def test_a_circle_of_imports_is_found(
    findings: Findings, tmp_path: Path, modules: dict[str, str], circle: str
) -> None:
    (found,) = findings(package_of(tmp_path, modules))
    names = circle.split(" -> ")[:-1]
    turned = [" -> ".join([*names[n:], *names[:n], names[n]]) for n in range(len(names))]
    assert found.removeprefix("deepagents_ro: imports in a circle: ") in turned


def test_what_is_no_circle_of_imports(findings: Findings, tmp_path: Path) -> None:
    modules = {
        "__init__.py": "def f():\n    from .a import x",
        "a.py": "from deepagents_ro import c, b\nfrom . import c",
        "b.py": "import os\nfrom .p import d",
        "c.pyi": "",
        "p/__init__.py": "from .d import x",
        "p/d.py": "from ..c import x",
    }
    assert list(findings(package_of(tmp_path, modules))) == []


def test_a_file_may_include_and_define_what_stands_below(
    findings: Findings, tmp_path: Path
) -> None:
    folder = tmp_path / "csrc" / "mcp"
    folder.mkdir(parents=True)
    (folder / "http.c").write_text('#include "mcp/post.h"\n#include "mcp/http.h"\n')
    (folder / "post.h").write_text("void ro_post_send(int);\n")
    (folder / "post.c").write_text("void\nro_post_send(int a)\n{\n}\n")
    assert list(findings(tmp_path)) == []


def compiled(command: list[str], to: Path) -> str:
    """What the compiler says of every source, each built into an object below `to`."""
    flags = subprocess.check_output(["pkg-config", "--cflags", "libcurl", "libcjson"], text=True)
    python = [f"-I{ROOT / 'csrc'}", f"-I{sysconfig.get_path('include')}"]
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        python += ["-DPy_LIMITED_API=0x030B0000"]

    def build(source: Path) -> str:
        built = to / f"{source.parent.name}-{source.stem}.o"
        done = subprocess.run(
            [*command, *flags.split(), *python, "-c", str(source), "-o", str(built)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr if done.returncode or done.stderr else ""

    with ThreadPoolExecutor(2) as pool:
        return "".join(pool.map(build, SOURCES))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "compiler", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("gcc", "clang")]
)
def test_no_warning(compiler: str, tmp_path: Path) -> None:
    assert compiled([compiler, *FLAGS], tmp_path) == ""


@pytest.mark.thorough
@pytest.mark.needs("gcc")
def test_no_function_is_unreachable(tmp_path: Path) -> None:
    """From the extension's one symbol, as the linker sees it; -O0, so that none is inlined."""
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O0", "-fvisibility=hidden", "-fPIC"]
    assert compiled([*command, "-ffunction-sections"], tmp_path) == ""
    libraries = subprocess.check_output(["pkg-config", "--libs", "libcurl", "libcjson"], text=True)
    done = subprocess.run(
        [
            *("gcc", "-shared", "-pthread", "-Wl,--gc-sections,--print-gc-sections"),
            *("-o", str(tmp_path / "extension.so"), *map(str, tmp_path.glob("*.o"))),
            *libraries.split(),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    unreachable = re.findall(r"section '\.text\.(ro_\w+)'", done.stderr)
    assert unreachable == ["ro_shapes_prefix"]  # a test reads the table by it


def test_it_is_compiled_with_protection(extension: ModuleType) -> None:
    assert extension.__file__ is not None
    assert missing(Path(extension.__file__)) == []


def test_a_build_without_protection_is_found(tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("int PyInit__mcpro(void); int PyInit__mcpro(void) { return 0; }\n")
    built = tmp_path / "plain.so"
    bare = ["-fno-stack-protector", "-fcf-protection=none", "-Wl,-z,lazy,-z,norelro"]
    if platform.machine() != "x86_64":
        bare[1] = "-mbranch-protection=none"
    subprocess.run(["gcc", *bare, "-shared", "-fPIC", source, "-o", built], check=True)
    assert missing(built) == [
        "stack protector",
        "fortified functions",
        "landing pads",
        "RELRO",
        "BIND_NOW",
    ]


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


LOOKED_AT = {"ENVELOPE_CODES", "hand_up", "degraded", "ms_left", "stopping"}
"""Names that only tests and fuzzers use: what else they could not look at."""


def test_the_package_uses_every_name() -> None:
    nodes = [node for node in ast.walk(stub()) if isinstance(node, ast.FunctionDef)]
    names = {node.name for node in nodes if not node.name.startswith("__")}
    names |= {node.target.id for node in stub().body if isinstance(node, ast.AnnAssign)}
    package = "\n".join(path.read_text() for path in ROOT.glob("deepagents_ro/**/*.py"))
    unused = {name for name in names if not re.search(rf"\.{name}\b", package)}
    assert names > LOOKED_AT
    assert not unused - LOOKED_AT


@pytest.mark.thorough
def test_the_stub_says_the_same(extension: ModuleType) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "mypy.stubtest", "--concise", "deepagents_ro._mcpro"],
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


def limit(name: str) -> int:
    """A number of `csrc/core/limits.h`."""
    text = (ROOT / "csrc" / "core" / "limits.h").read_text(encoding="utf-8")
    found = re.search(rf"^#define {name} \(?([\du* ]+)\)?$", text, re.MULTILINE)
    assert found is not None
    return math.prod(int(factor) for factor in found[1].replace("u", "").split("*"))


@pytest.mark.parametrize(
    ("function", "defaults"),
    [
        ("json_check", {"max_bytes": "RO_MAX_STDIN", "max_depth": "RO_MAX_DEPTH"}),
        ("json_raw", {"max_bytes": "RO_MAX_STDIN", "max_depth": "RO_MAX_DEPTH"}),
        ("hint_verdict", {"max_depth": "RO_MAX_DEPTH"}),
        ("sse_events", {"max_bytes": "RO_MAX_ANSWER"}),
        ("Engine.submit", {"max_headers": "RO_MAX_HEADERS"}),
        ("Guard.start", {"deadline_ms": "RO_DEADLINE_MS", "grace_ms": "RO_DEADLINE_GRACE_MS"}),
    ],
)
def test_defaults_are_the_limits(function: str, defaults: dict[str, str]) -> None:
    """As the stub has them, which stubtest holds to the signatures of the extension."""
    tree = ast.parse((ROOT / "deepagents_ro" / "_mcpro.pyi").read_text(encoding="utf-8"))
    for name in function.split("."):
        (tree,) = (each for each in tree.body if getattr(each, "name", "") == name)
    written = {}
    arguments = tree.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, value in [
        *zip(positional[::-1], arguments.defaults[::-1], strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]:
        written[argument.arg] = getattr(value, "value", None)
    assert {name: written[name] for name in defaults} == {
        name: limit(value) for name, value in defaults.items()
    }
    numbers = {name for name, value in written.items() if type(value) is int and value}
    assert numbers <= {*defaults, "wait_ms"}, "a limit that is held to no constant"


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


def test_a_wheel_names_all_that_is_missing_at_once(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for command in ("bash", "dirname", "realpath"):
        found = shutil.which(command)
        assert found is not None
        (tmp_path / "bin" / command).symlink_to(found)
    done = subprocess.run(
        [str(tmp_path / "bin" / "bash"), str(ROOT / "scripts" / "build_wheels.sh"), "arm64"],
        env={"PATH": str(tmp_path / "bin"), "DIST": str(tmp_path / "dist")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    named = {"gcc", "patch", "pkg-config", "curl", "xz-utils", "mmdebstrap"}
    assert named <= set(re.findall(r"Debian package: ([\w-]+)", done.stderr))
    assert "set PYTHON to one" in done.stderr
    assert "set DEBIAN_MIRROR to the URL" in done.stderr
    assert not (tmp_path / "dist").exists()
