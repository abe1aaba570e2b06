"""The patcher on the real releases: states, compiled copies, links, crashes, refusals."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import marshal
import os
import pwd
import py_compile
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from releases import (
    SDK_FILE,
    STACK,
    VERSIONS,
    fresh,
    put_distribution,
    put_managed,
    released,
    remove_distribution,
)

from deepagents_ro import host
from deepagents_ro._dispatch import INTERRUPTING, settle_home
from deepagents_ro.patch import relied_on, text
from deepagents_ro.patch.__main__ import main
from deepagents_ro.versions import QUALIFIED, RELEASES

__all__ = ["fresh", "released"]

Fresh = Callable[..., Path]
EDITED = ("__init__.py", "ui.py")
SCRIPT = Path(__file__).parent.parent / "scripts" / "relied_on.py"
MODES = tuple(py_compile.PycInvalidationMode)
ENVELOPE = (
    '{{"schema_version":1,"command":"tools {}","data":{{"ok":false,"status":"error",'
    '"code":"{}","message":"{}"}}}}\n'
)
MISSING = (
    "deepagents-ro is not installed beside this DCode, or was built for another Python: "
    "install its wheel again."
)
FAILED = ENVELOPE.format(
    "call-read-only", "runtime_failure", "The managed MCP tool call failed."
).encode()


def patch(action: str, site: Path) -> tuple[int, str, str]:
    """Status, standard output and standard error of one run."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([action, "--site", str(site)])
    return status, out.getvalue(), err.getvalue()


def good(action: str, site: Path) -> None:
    assert patch(action, site)[0::2] == (0, ""), patch(action, site)


def tree(site: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file but compiled ones: bytes, mode, time of last change in nanoseconds."""
    found = {}
    for path in sorted(site.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            state = path.stat()
            found[str(path.relative_to(site))] = (
                path.read_bytes(),
                stat.S_IMODE(state.st_mode),
                state.st_mtime_ns,
            )
    return found


def compiled(site: Path, name: str, level: int = 0, tag: str = "") -> Path:
    stem = name.removesuffix(".py")
    suffix = f".opt-{level}" if level else ""
    tag = tag or str(sys.implementation.cache_tag)
    return site / "deepagents_code" / "__pycache__" / f"{stem}.{tag}{suffix}.pyc"


def make_compiled(
    site: Path, name: str, mode: py_compile.PycInvalidationMode, level: int = 0, tag: str = ""
) -> Path:
    path = compiled(site, name, level, tag)
    source = str(site / "deepagents_code" / name)
    py_compile.compile(source, str(path), doraise=True, optimize=level, invalidation_mode=mode)
    return path


def run_import(site: Path, *words: str, before: str = "") -> tuple[int, bytes]:
    """Status and standard output of a process that imports DCode with `words` as its arguments.

    It sees `site` and the standard library alone. Nothing may be on standard error.
    """
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r}); sys.argv = ['dcode', *{list(words)!r}]\n"
        f"{before}\nimport deepagents_code\nprint(sorted(vars(deepagents_code)))"
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-c", program], capture_output=True, timeout=60, check=False
    )
    assert done.stderr == b""
    return done.returncode, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.thorough
def test_each_release_there_and_back(fresh: Fresh, version: str) -> None:
    site = fresh(version)
    before = tree(site)
    status, out, _ = patch("check", site)
    assert status == 1
    assert len(out.splitlines()) == len(EDITED)
    for line in out.splitlines():
        assert f"deepagents-code {version} is as published: run " in line
        assert line.endswith("deepagents_ro.patch apply")
    good("apply", site)
    after = tree(site)
    assert {name for name in before if before[name] != after[name]} == {
        f"deepagents_code/{name}" for name in EDITED
    }
    assert before.keys() == after.keys()
    good("check", site)
    good("apply", site)
    assert tree(site) == after
    good("revert", site)
    assert tree(site) == before
    good("revert", site)
    assert tree(site) == before
    assert patch("check", site)[0] == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tables_are_of_the_published_wheels(
    released: Callable[[str], Path], version: str
) -> None:
    for name, expected in RELEASES[version].items():
        content = (released(version) / "deepagents_code" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == expected


@pytest.mark.sample(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", EDITED)
def test_a_compiled_copy_keeps_its_mode(
    fresh: Fresh, name: str, level: int, mode: py_compile.PycInvalidationMode
) -> None:
    site = fresh()
    path = make_compiled(site, name, mode, level)
    path.chmod(0o640)
    published = path.read_bytes()
    for action in ("apply", "revert"):
        good(action, site)
        data = path.read_bytes()
        assert data[4:8] == published[4:8]
        source = (site / "deepagents_code" / name).read_bytes()
        expected = compile(source, name, "exec", dont_inherit=True, optimize=level)
        assert marshal.loads(data[16:]) == expected
        if mode is not py_compile.PycInvalidationMode.TIMESTAMP:
            assert data[8:16] == importlib.util.source_hash(source)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        stamp = path.stat().st_mtime_ns
        good(action, site)
        assert path.stat().st_mtime_ns == stamp, "a current copy was compiled again"
    assert path.read_bytes()[:16] == published[:16]


@pytest.mark.parametrize("mode", MODES)
def test_the_command_is_there_whatever_the_copies_were(
    fresh: Fresh, mode: py_compile.PycInvalidationMode
) -> None:
    site = fresh()
    for name in EDITED:
        make_compiled(site, name, mode)
    good("apply", site)
    assert run_import(site, "tools", "call-read-only", "x") == (1, FAILED)
    good("revert", site)
    assert b"__version__" in run_import(site, "tools", "call-read-only", "x")[1]


def test_a_copy_that_hides_the_edit_is_named_and_repaired(fresh: Fresh) -> None:
    site = fresh()
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    old = make_compiled(site, "__init__.py", mode)
    hidden = old.read_bytes()
    good("apply", site)
    old.write_bytes(hidden)
    assert b"__version__" in run_import(site, "tools", "call-read-only", "x")[1]
    status, out, _ = patch("check", site)
    assert status == 1
    assert out.count("\n") == 1
    assert f"{old} hides" in out
    good("apply", site)
    good("check", site)
    assert run_import(site, "tools", "call-read-only", "x") == (1, FAILED)


def test_a_forged_copy_with_a_fitting_header_is_named(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    path = make_compiled(site, "ui.py", py_compile.PycInvalidationMode.TIMESTAMP)
    path.write_bytes(path.read_bytes()[:16] + marshal.dumps(compile("x = 1", "ui.py", "exec")))
    status, out, _ = patch("check", site)
    assert (status, out.count("\n")) == (1, 1)
    assert "ui.py: it was compiled from other content" in out
    good("apply", site)
    good("check", site)


def test_another_interpreters_copies(fresh: Fresh) -> None:
    site = fresh()
    unread = make_compiled(
        site, "__init__.py", py_compile.PycInvalidationMode.UNCHECKED_HASH, 1, "cpython-399"
    )
    timed = make_compiled(
        site, "__init__.py", py_compile.PycInvalidationMode.TIMESTAMP, 0, "cpython-399"
    )
    good("apply", site)
    assert not unread.exists()
    assert timed.exists()
    good("check", site)
    source = site / "deepagents_code" / "__init__.py"
    size = int.from_bytes(timed.read_bytes()[12:16], "little")
    assert size != source.stat().st_size


@pytest.mark.parametrize("data", [b"", b"\0" * 15, b"\0" * 40, importlib.util.MAGIC_NUMBER])
def test_a_broken_copy_is_no_obstacle(fresh: Fresh, data: bytes) -> None:
    site = fresh()
    compiled(site, "ui.py").write_bytes(data)
    good("apply", site)
    good("check", site)
    good("revert", site)


def test_without_any_compiled_copies(fresh: Fresh) -> None:
    site = fresh()
    shutil.rmtree(site / "deepagents_code" / "__pycache__")
    good("apply", site)
    good("check", site)
    assert not (site / "deepagents_code" / "__pycache__").exists()


@pytest.mark.parametrize("kind", ["hard link", "symbolic link"])
def test_a_linked_file_is_left_alone(fresh: Fresh, tmp_path: Path, kind: str) -> None:
    site = fresh()
    cache = tmp_path / "cache"
    cache.mkdir()
    pairs = []
    for path in [
        *(site / "deepagents_code" / name for name in EDITED),
        *(compiled(site, name) for name in EDITED),
    ]:
        other = cache / path.name
        if kind == "hard link":
            os.link(path, other)
        else:
            path.rename(other)
            path.symlink_to(other)
        pairs.append((other, other.read_bytes()))
    good("apply", site)
    good("check", site)
    good("revert", site)
    assert all(other.read_bytes() == content for other, content in pairs)


def test_mode_and_owner_stay(fresh: Fresh) -> None:
    site = fresh()
    path = site / "deepagents_code" / "ui.py"
    path.chmod(0o604)
    owner = (65534, 65534) if os.getuid() == 0 else (os.getuid(), os.getgid())
    os.chown(path, *owner)
    for action in ("apply", "revert"):
        good(action, site)
        state = path.stat()
        assert (stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid) == (0o604, *owner)


@pytest.mark.parametrize("name", EDITED)
@pytest.mark.parametrize("action", ["apply", "revert"])
@pytest.mark.parametrize("applied", [False, True])
def test_other_content_is_refused(fresh: Fresh, name: str, action: str, applied: bool) -> None:
    site = fresh()
    if applied:
        good("apply", site)
    path = site / "deepagents_code" / name
    path.write_bytes(path.read_bytes() + b"# mine\n")
    before = tree(site)
    status, out, err = patch(action, site)
    assert (status, out) == (1, "")
    assert str(path) in err
    assert "deepagents-code 0.1.55" in err
    assert RELEASES["0.1.55"][name] in err
    assert err.count("\n") == 1
    assert tree(site) == before
    status, out, _ = patch("check", site)
    assert status == 1
    assert str(path) in out


def test_a_patched_text_of_another_version_of_this_package(fresh: Fresh) -> None:
    site = fresh()
    before = tree(site)
    good("apply", site)
    after = tree(site)
    for action, expected in (("revert", before), ("apply", after)):
        good("apply", site)
        path = site / "deepagents_code" / "__init__.py"
        path.write_bytes(path.read_bytes().replace(b"    import sys\n", b"    import sys, re\n"))
        status, out, _ = patch("check", site)
        assert status == 1
        assert "patched by another version of deepagents-ro" in out
        good(action, site)
        assert {name: item[0] for name, item in tree(site).items()} == {
            name: item[0] for name, item in expected.items()
        }


@pytest.mark.parametrize("repair", ["apply", "revert"])
@pytest.mark.parametrize("start", ["apply", "revert"])
@pytest.mark.thorough
def test_a_crash_at_every_rename(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch, start: str, repair: str
) -> None:
    site = fresh()
    for name in EDITED:
        make_compiled(site, name, py_compile.PycInvalidationMode.UNCHECKED_HASH)
    published = tree(site)
    real = os.replace
    for at in range(1, 10):
        if start == "revert":
            good("apply", site)
        seen = 0

        def failing(source: str, target: str, at: int = at) -> None:
            nonlocal seen
            seen += 1
            if seen == at:
                raise OSError(28, "No space left on device", str(target))
            real(source, target)

        monkeypatch.setattr(os, "replace", failing)
        status, _, err = patch(start, site)
        monkeypatch.setattr(os, "replace", real)
        if seen < at:
            assert status == 0
            break
        assert status == 1
        assert "No space left on device" in err
        assert err.count("\n") == 1
        status, out, _ = patch("check", site)
        # The first of a revert leaves the patch as it was, whole.
        assert (status == 0) == (start == "revert" and at == 1), out
        good(repair, site)
        assert patch("check", site)[0] == (0 if repair == "apply" else 1)
        good("revert", site)
        assert tree(site) == published
    else:
        pytest.fail("never came to an end")
    assert at == 5, "two files and their two compiled copies"


def test_a_half_applied_patch_is_named(fresh: Fresh) -> None:
    site = fresh()
    path = site / "deepagents_code" / "ui.py"
    published = path.read_bytes()
    good("apply", site)
    path.write_bytes(published)
    status, out, _ = patch("check", site)
    assert status == 1
    assert re.search(r"half applied \(__init__.py: patched, ui.py: as published\)", out)


def test_what_a_killed_run_left_is_named_and_removed(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    left = [
        site / "deepagents_code" / ".ui.py.abcdefgh.new",
        compiled(site, "ui.py").parent / f".{compiled(site, 'ui.py').name}.12345678.new",
    ]
    for path in left:
        path.write_bytes(b"half")
    status, out, _ = patch("check", site)
    assert status == 1
    assert all(str(path) in out for path in left)
    good("apply", site)
    assert not any(path.exists() for path in left)


@pytest.mark.thorough
def test_two_at_once(fresh: Fresh) -> None:
    site = fresh()
    before = tree(site)
    command = [sys.executable, "-I", "-m", "deepagents_ro.patch"]

    def run(action: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, action, "--site", str(site)], capture_output=True, text=True, check=False
        )

    for actions, expected in ((["apply"] * 4, 0), (["apply", "revert"] * 2, None)):
        with ThreadPoolExecutor(4) as pool:
            for done in pool.map(run, actions):
                assert (done.returncode, done.stderr) == (0, "")
        if expected is not None:
            assert patch("check", site)[0] == expected
    good("revert", site)
    assert tree(site) == before


@pytest.mark.parametrize("distribution", STACK)
@pytest.mark.parametrize("version", ["0.0.1", None])
def test_a_stack_that_is_not_qualified(
    fresh: Fresh, distribution: str, version: str | None
) -> None:
    site = fresh()
    put_distribution(site, distribution, version or "1")
    if version is None:
        remove_distribution(site, distribution)
    status, out, err = patch("apply", site)
    assert status == 0
    assert err.startswith(f"deepagents-ro: warning: {distribution} ")
    assert err.count("\n") == 1
    status, out, _ = patch("check", site)
    assert (status, out.count("\n")) == (1, 1)
    assert (version or "not installed") in out


def test_each_qualified_stack_and_no_mixture(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    for row in QUALIFIED:
        for distribution, version in row.items():
            put_distribution(site, distribution, version)
        good("check", site)
    put_distribution(site, "mcp", QUALIFIED[0]["mcp"])
    status, out, _ = patch("check", site)
    assert (status, out.count("\n")) == (1, 1)
    assert "mcp 1.30.0 beside" in out
    assert "(1.28.1 is, with langchain-mcp-adapters 0.3.0, langchain-core 1.5.3" in out


# What the call is built on.


def change(site: Path, file: str, old: str, new: str) -> None:
    path = site / file
    source = path.read_text()
    assert source.count(old) == 1
    path.write_text(source.replace(old, new))


DRIFT = [
    ("deepagents_code/auto_mode.py", "is not True\n    )", "is True\n    )",
     "mcp_tool_is_coherently_read_only has changed"),
    ("deepagents_code/auto_mode.py", "def is_mcp_tool(", "def was_mcp_tool(",
     "is_mcp_tool has changed: SHA-256 nothing"),
    ("deepagents_code/auto_mode.py", "def is_mcp_tool(", "@id\ndef is_mcp_tool(",
     "is_mcp_tool has changed"),
    ("deepagents_code/auto_mode.py", "def is_mcp_tool(", "async def is_mcp_tool(",
     "is_mcp_tool has changed"),
    ("deepagents_code/auto_mode.py", "def is_mcp_tool(", "def is_mcp_tool(:", "cannot be parsed"),
    ("deepagents_code/mcp_tools.py", '"streamable-http": "http"}', '"streamable-http": "sse"}',
     "_TRANSPORT_ALIASES has changed"),
    ("deepagents_code/mcp_tools.py", "def _drop_invalid", "def _drop_no_invalid",
     "_drop_invalid_mcp_config_servers has changed"),
    ("deepagents_code/config.py", "def _ensure_bootstrap() -> None:",
     "def _ensure_bootstrap(x: int = 0) -> None:", "_ensure_bootstrap has changed"),
    ("deepagents_code/plugins/adapters/mcp.py", "_MCP_NAME_PART_LENGTH = 48",
     "_MCP_NAME_PART_LENGTH = 49", "_MCP_NAME_PART_LENGTH has changed"),
    (SDK_FILE, "next_request.method != sent.method", "False", "next_request_within_origin has"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "named"), DRIFT)
def test_drift_below_the_call(fresh: Fresh, file: str, old: str, new: str, named: str) -> None:
    site = fresh()
    change(site, file, old, new)
    status, _, err = patch("apply", site)
    assert status == 0
    assert err.startswith(f"deepagents-ro: warning: {site / file} of ")
    status, out, _ = patch("check", site)
    assert (status, out.count("\n")) == (1, 1)
    assert named in out


@pytest.mark.parametrize(
    ("file", "added", "named"),
    [
        ("mcp_tools.py", "load_mcp_config = print", "load_mcp_config"),
        ("mcp_tools.py", "def load_mcp_config(path):\n    return {}", "load_mcp_config"),
        ("mcp_tools.py", "from builtins import print as load_mcp_config", "load_mcp_config"),
        ("mcp_tools.py", "MCPSessionManager.configure = print", "MCPSessionManager"),
        ("mcp_tools.py", "_TRANSPORT_ALIASES['stdio'] = 'http'", "_TRANSPORT_ALIASES"),
        ("mcp_tools.py", "del discover_mcp_configs", "discover_mcp_configs"),
        ("mcp_tools.py", "if True:\n    load_mcp_config = print", "load_mcp_config"),
        ("mcp_tools.py", "globals().update(load_mcp_config=print)", "(statements)"),
        ("mcp_tools.py", "json = None", "(imports:"),
        ("config.py", "def _load_dotenv(**names):\n    return True", "_load_dotenv"),
        ("model_config.py", "McpServerTrustLists.allow = None", "McpServerTrustLists"),
        ("mcp_auth.py", "FileTokenStorage.get_tokens = None", "FileTokenStorage"),
    ],
)
def test_a_later_line_that_changes_what_a_name_is(
    fresh: Fresh, file: str, added: str, named: str
) -> None:
    site = fresh()
    good("apply", site)
    path = site / "deepagents_code" / file
    path.write_text(f"{path.read_text()}\n{added}\n")
    status, out, _ = patch("check", site)
    assert (status, out.count("\n")) == (1, 1)
    assert f"{path} of deepagents-code 0.1.55: {named}" in out


def test_an_unrelated_edit_is_no_drift(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    for name in ("mcp_tools.py", "config.py", "auto_mode.py", "main.py", "model_config.py"):
        path = site / "deepagents_code" / name
        added = "import zlib\n\n\n# elsewhere\ndef _elsewhere():\n    return zlib\n"
        path.write_text(f"{path.read_text()}\n{added}")
    good("check", site)
    change(site, "deepagents_code/mcp_tools.py", "import json\n", "import json, zlib\n")
    good("check", site)
    (site / "deepagents_code" / "mcp_disabled.py").unlink()
    status, out, _ = patch("check", site)
    assert status == 1
    assert "mcp_disabled.py of deepagents-code 0.1.55 cannot be read: No such file" in out


def test_a_managed_images_text_counts_beside_a_managed_runtime(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = fresh()
    good("apply", site)
    added = "def discover_mcp_configs(**_names):\n    return []"
    path = site / "deepagents_code" / "mcp_tools.py"
    path.write_text(f"{path.read_text()}\n{added}\n")
    put_managed(site)
    name = "deepagents_code/mcp_tools.py"
    digest = relied_on.source.read(path.read_bytes()).digest("discover_mcp_configs")
    assert "discover_mcp_configs has changed" in patch("check", site)[1]
    entry = relied_on.Entry(name, "discover_mcp_configs", "managed", ("0.1.55",), digest)
    known = (*relied_on.table(), entry)
    monkeypatch.setattr(relied_on, "table", lambda: known)
    good("check", site)
    good("revert", site)
    good("apply", site)
    good("check", site)
    (site / "deepagents_code" / relied_on.MANAGED_MODULE).unlink()
    status, out, _ = patch("check", site)
    assert (status, out.count("\n")) == (1, 1)
    assert "no managed runtime is installed beside it" in out


def test_the_public_edits_are_known_by_their_texts() -> None:
    known = {(each.file, each.name) for each in relied_on.table() if each.form == "managed"}
    assert known == {
        ("deepagents_code/auth_store.py", "load_credentials"),
        ("deepagents_code/config.py", "_load_dotenv"),
        ("deepagents_code/config.py", "_tracing_enabled"),
        ("deepagents_code/mcp_tools.py", "_load_mcp_config_json"),
        ("deepagents_code/mcp_tools.py", "discover_mcp_configs"),
        ("deepagents_code/mcp_tools.py", "resolve_and_load_mcp_tools"),
    }


@pytest.fixture
def deriver(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`scripts/relied_on.py`, which reads what is used from our own sources."""
    spec = importlib.util.spec_from_file_location("deriver", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "deriver", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.thorough
def test_the_table_has_everything_that_is_used(
    deriver: ModuleType, released: Callable[[str], Path]
) -> None:
    entries = [each for each in relied_on.table() if each.form == "published"]
    for version in VERSIONS:
        derived = set(deriver.derive(released(version)))
        held = {
            (each.file, each.name, each.digest)
            for each in entries
            if {version, STACK["mcp"]} & {*each.versions}
        }
        assert derived == held, "scripts/relied_on.py writes the table again"


def test_what_is_used_is_found_in_our_sources(deriver: ModuleType, tmp_path: Path) -> None:
    used = deriver.used()
    for module, name in [
        ("deepagents_code.config", "_ensure_bootstrap"),
        ("deepagents_code.mcp_tools", "_load_mcp_config_top_level_with_error"),
        ("deepagents_code.mcp_tools", "_resolve_server_type"),
        ("deepagents_code.mcp_tools", "_apply_tool_filter"),
        ("deepagents_code.mcp_disabled", "get_disabled_servers"),
        ("deepagents_code.project_utils", "ProjectContext"),
        ("deepagents_code.plugins.adapters.mcp", "discover_plugin_mcp_configs"),
        ("deepagents_code.mcp_config", "resolve_mcp_server_env"),
        ("deepagents_code", "mcp_auth"),
        ("mcp.shared._httpx_utils", "next_request_within_origin"),
    ]:
        assert (module, name) in used
    (tmp_path / "more.py").write_text(
        "def f():\n    from deepagents_code import config as c\n    return c._new_name()\n"
        "from mcp.types import Tool\n"
    )
    assert deriver.used(tmp_path) == {
        ("deepagents_code", "config"),
        ("deepagents_code.config", "_new_name"),
    }


def test_the_words_that_we_compare_with_are_in_the_texts_that_are_held(
    released: Callable[[str], Path],
) -> None:
    """DCode's marker and status words: literals, which no import shows."""
    held = {each.name for each in relied_on.table() if each.file.endswith("/mcp_tools.py")}
    content = (released(VERSIONS[0]) / "deepagents_code" / "mcp_tools.py").read_bytes()
    found = relied_on.source.read(content)
    texts = [found._segment(node, name) for name in held for node in found.nodes.get(name, ())]
    for word in (host.MARKER, host.SERVER_MARKER, "ok", "disabled", "unauthenticated", "unknown"):
        assert any(f'"{word}"' in text for text in texts), word


# A command of the same name in DCode itself.

OWN = [
    "parser.add_parser('call-read-only')",
    "sub.add_parser(name='call-read-only')",
    "@app.command('call-read-only')\ndef run(): ...",
    "add_command('call-read-only', print)",
]
NOT_OWN = [
    "# parser.add_parser('call-read-only')",
    "ALLOWED = frozenset({'list', 'help', 'call-read-only'})",
    "if name not in (None, 'list', 'call-read-only'): raise SystemExit(2)",
    "parser.error('tools call-read-only is disabled')",
    "allowed('call-read-only')",
]


@pytest.mark.parametrize("version", [VERSIONS[0], "9.9.9"])
@pytest.mark.parametrize("line", OWN)
def test_a_command_of_the_same_name_upstream(fresh: Fresh, line: str, version: str) -> None:
    name = ("main.py", "ui.py", "client/commands/tools.py")[OWN.index(line) % 3]
    site = fresh()
    put_distribution(site, "deepagents-code", version)
    path = site / "deepagents_code" / name
    path.write_bytes(path.read_bytes() + f"\n{line}\n".encode())
    before = tree(site)
    status, out, err = patch("apply", site)
    assert (status, out) == (1, "")
    assert f"deepagents-code {version} has a command `call-read-only` of its own" in err
    assert "pip uninstall deepagents-ro" in err
    assert tree(site) == before
    status, out, _ = patch("check", site)
    assert status == 1
    assert "of its own" in out


def test_the_word_in_another_programs_list_is_no_command(fresh: Fresh) -> None:
    site = fresh()
    for name in ("main.py", "client/commands/tools.py"):
        path = site / "deepagents_code" / name
        added = "\n".join(NOT_OWN)
        path.write_text(f"{path.read_text()}\ndef _more(name, parser, allowed):\n")
        path.write_text(f"{path.read_text()}    {added.replace(chr(10), chr(10) + '    ')}\n")
    good("apply", site)
    good("check", site)


def test_revert_names_what_is_not_as_published(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    put_managed(site)
    for name in ("main.py", "plugins/store.py"):
        path = site / "deepagents_code" / name
        path.write_text(f"{path.read_text()}\n# theirs\n")
    (site / "deepagents_code" / "doctor.py").unlink()
    status, out, err = patch("revert", site)
    assert (status, err) == (0, "")
    named = re.findall(r"deepagents_code/(\S+) is not as published", out)
    assert named == ["_nemoclaw_managed.py", "doctor.py", "main.py", "plugins/store.py"]
    assert out.endswith(": reverted\n")
    next(site.glob("deepagents_code-*.dist-info")).joinpath("RECORD").unlink()
    assert "no RECORD says" in patch("revert", site)[1]


@pytest.mark.parametrize("action", ["apply", "check", "revert"])
def test_a_version_that_is_not_verified(fresh: Fresh, action: str) -> None:
    site = fresh()
    put_distribution(site, "deepagents-code", "0.1.54")
    before = tree(site)
    status, out, err = patch(action, site)
    assert status == 1
    assert "deepagents-code 0.1.54" in out + err
    assert "0.1.55, 0.1.56, 0.1.57" in out + err
    assert "deepagents_code/__init__.py has SHA-256" in out + err
    assert tree(site) == before


def test_a_wrong_version_in_the_metadata(fresh: Fresh) -> None:
    site = fresh("0.1.57")
    put_distribution(site, "deepagents-code", "0.1.55")
    status, _, err = patch("apply", site)
    assert status == 1
    assert "ui.py is not the file of deepagents-code 0.1.55" in err


def _unreadable(site: Path) -> None:
    (site / "deepagents_code" / "ui.py").unlink()


def _editable(site: Path) -> None:
    shutil.rmtree(site / "deepagents_code")
    folder = next(site.glob("deepagents_code-*.dist-info"))
    origin = {"url": "file:///src", "dir_info": {"editable": True}}
    (folder / "direct_url.json").write_text(json.dumps(origin))


def _linked_package(site: Path) -> None:
    (site / "deepagents_code").rename(site / "elsewhere")
    (site / "deepagents_code").symlink_to("elsewhere")


def _two(site: Path) -> None:
    old = next(site.glob("deepagents_code-*.dist-info"))
    shutil.copytree(old, site / "deepagents_code-0.1.50.dist-info")
    metadata = site / "deepagents_code-0.1.50.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 0.1.55", "Version: 0.1.50"))


def _no_metadata(site: Path) -> None:
    remove_distribution(site, "deepagents-code")


def _no_package(site: Path) -> None:
    shutil.rmtree(site / "deepagents_code")


def _nothing(site: Path) -> None:
    _no_package(site)
    _no_metadata(site)


def _no_site(site: Path) -> None:
    shutil.rmtree(site)


@pytest.mark.parametrize("action", ["apply", "check", "revert"])
@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_unreadable, "ui.py of deepagents-code 0.1.55 cannot be read: No such file"),
        (_editable, "is an editable install"),
        (_linked_package, "is a link to a directory"),
        (_two, "more than one deepagents-code (0.1.50, 0.1.55)"),
        (_no_metadata, "has no deepagents-code metadata"),
        (_no_package, "deepagents_code of deepagents-code 0.1.55 is missing"),
        (_nothing, "does not hold deepagents-code"),
        (_no_site, "is not a directory"),
    ],
)
def test_an_installation_that_cannot_be_patched(
    fresh: Fresh, damage: Callable[[Path], None], named: str, action: str
) -> None:
    site = fresh()
    damage(site)
    status, out, err = patch(action, site)
    assert status == 1
    assert named in out + err
    assert (out + err).count("\n") in (1, 2)


@pytest.mark.thorough
def test_without_permission(fresh: Fresh) -> None:
    site = fresh()
    package = site / "deepagents_code"
    parents = [site, *site.parents]
    modes = [(path, path.stat().st_mode) for path in parents if path.stat().st_uid == os.getuid()]
    program = (
        "import os, sys\n"
        "from deepagents_ro.patch.__main__ import main\n"
        "main(['check', *sys.argv[2:]])\n"  # imports all that it needs
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    before = tree(site)
    try:
        for path, mode in modes:
            path.chmod(mode | 0o555)
        package.chmod(0o555)
        for action in ("apply", "revert", "check"):
            done = subprocess.run(
                [sys.executable, "-I", "-c", program, action, "--site", str(site)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Traceback" not in done.stderr
            if action == "apply":
                assert done.returncode == 1
                assert done.stderr.count("\n") == 1
                assert "Permission denied" in done.stderr
                assert str(package) in done.stderr
    finally:
        for path, mode in modes:
            path.chmod(mode)
    assert tree(site) == before


@pytest.mark.thorough
def test_record_stays_the_publishers_and_pip_can_remove_all(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    pip = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check"]
    pip += ["--python", str(environment / "bin" / "python")]
    subprocess.run([*pip, "install", "-q", "--no-deps", "deepagents-code==0.1.55"], check=True)
    (package,) = environment.glob("lib/python*/site-packages/deepagents_code")
    site = package.parent
    record = site / "deepagents_code-0.1.55.dist-info" / "RECORD"
    published = record.read_bytes()
    check = subprocess.run([*pip, "check"], capture_output=True, check=False).stdout
    assert patch("apply", site)[0] == 0
    assert record.read_bytes() == published
    assert subprocess.run([*pip, "check"], capture_output=True, check=False).stdout == check
    subprocess.run([*pip, "uninstall", "-q", "-y", "deepagents-code"], check=True)
    assert [path.name for path in site.iterdir()] == []


def test_the_default_is_this_interpreters_site() -> None:
    command = [sys.executable, "-I", "-m", "deepagents_ro.patch", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert str(Path(sys.prefix).resolve()) in done.stdout


def test_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["undo"], ["apply", "here"], ["check", "--site"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


# What the added text does.


def put_stand_in(site: Path, **files: str) -> None:
    """A `deepagents_ro` in `site` whose modules are `files`; the dispatch is the real one."""
    package = site / "deepagents_ro"
    package.mkdir()
    (package / "__init__.py").write_text("")
    real = Path(importlib.util.find_spec("deepagents_ro").origin).parent  # type: ignore[union-attr, arg-type]
    shutil.copy(real / "_dispatch.py", package)
    for name, source in files.items():
        (package / f"{name}.py").write_text(source)


@pytest.mark.parametrize(
    "words",
    [
        ["tools", "call-read-only", "x", "--json"],
        ["--no-mcp", "tools", "call-read-only"],
        ["-p", "tools", "call-read-only", "tools", "audit-read-only"],
        ["tools", "tools", "call-read-only"],
    ],
)
def test_the_constant_envelope_without_the_package(fresh: Fresh, words: list[str]) -> None:
    site = fresh()
    good("apply", site)
    assert run_import(site, *words) == (1, FAILED)


def test_the_constant_envelope_of_the_audit(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    assert run_import(site, "tools", "audit-read-only") == (
        1,
        ENVELOPE.format("audit-read-only", "runtime_failure", MISSING).encode(),
    )


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("source", "code", "status"),
    [
        ("import deepagents_ro._mcpro", "runtime_failure", 1),
        ("raise SystemExit(0)", "runtime_failure", 1),
        ("raise MemoryError", "runtime_failure", 1),
        ("def main(", "runtime_failure", 1),
        ("main = 1", "runtime_failure", 1),
        ("def main(words): return 0", "runtime_failure", 1),
        ("raise KeyboardInterrupt", "interrupted", 130),
        *(
            (f"import os; os.kill(os.getpid(), {number}); input()", "interrupted", 130)
            for number in sorted(INTERRUPTING)
        ),
    ],
)
def test_the_constant_envelope_for_a_broken_command(
    fresh: Fresh, source: str, code: str, status: int
) -> None:
    site = fresh()
    good("apply", site)
    put_stand_in(site, command=source)
    message = (
        "The MCP tool call was interrupted."
        if status == 130
        else "The managed MCP tool call failed."
    )
    expected = ENVELOPE.format("call-read-only", code, message).encode()
    assert run_import(site, "tools", "call-read-only", "x") == (status, expected)


def test_a_blocked_signal_is_not_held_back(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    put_stand_in(site, command="import time; time.sleep(10)")
    before = (
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n"
        "os.kill(os.getpid(), signal.SIGTERM)"
    )
    expected = ENVELOPE.format(
        "call-read-only", "interrupted", "The MCP tool call was interrupted."
    )
    assert run_import(site, "tools", "call-read-only", "x", before=before) == (
        130,
        expected.encode(),
    )


def test_an_ignored_signal_stays_ignored(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    numbers = [int(number) for number in INTERRUPTING]
    put_stand_in(site, command=f"import os\nfor n in {numbers}: os.kill(os.getpid(), n)\nmain = 1")
    before = f"import signal\nfor n in {numbers}: signal.signal(n, signal.SIG_IGN)"
    assert run_import(site, "tools", "call-read-only", "x", before=before) == (1, FAILED)


def test_the_command_gets_the_words_and_a_package_that_threads_can_use(fresh: Fresh) -> None:
    site = fresh()
    good("apply", site)
    source = """
import os, sys, threading
def main(words):
    found = []
    def work():
        from deepagents_code import _version
        import deepagents_code
        found.append(_version.__version__)
        found.append(os.path.basename(os.path.dirname(deepagents_code.__file__)))
        found.append("_debug_buffer" in vars(deepagents_code))
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    os.write(1, repr((words, found)).encode())
    os._exit(7)
"""
    put_stand_in(site, command=source, audit_command=source)
    for name in ("call-read-only", "audit-read-only"):
        words = ["--no-mcp", "tools", name, "x"]
        expected = repr((words, ["0.1.55", "deepagents_code", False])).encode()
        assert run_import(site, *words) == (7, expected)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["tools"],
        ["call-read-only"],
        ["call-read-only", "tools"],
        ["tools", "list", "call-read-only"],
        ["tools", "call-read-only-x"],
        ["tools call-read-only"],
        ["tools", "CALL-READ-ONLY"],
    ],
)
def test_any_other_command_line_is_not_ours(fresh: Fresh, words: list[str]) -> None:
    site = fresh()
    published = run_import(site, *words)
    good("apply", site)
    assert run_import(site, *words) == published
    assert published[0] == 0
    assert b"__version__" in published[1]
    before = "del sys.argv"
    assert run_import(site, before=before) == published


# The commands whose output the two edited files have a part in, and one of each other kind. The
# files of 0.1.55 and 0.1.56 are the same.
HELP = (["tools"], ["tools", "--help"])
COMMANDS = {
    "0.1.55": (
        *HELP,
        ["--version"],
        ["--help"],
        ["tools", "list", "--help"],
        ["tools", "nothing"],
    ),
    "0.1.57": (["--version"], *HELP),
}


def run_dcode(site: Path, home: Path, words: list[str]) -> tuple[int, bytes, bytes]:
    """One real command of the DCode in `site`, with the stack of this interpreter."""
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r}); sys.argv = ['dcode', *{words!r}]\n"
        "from deepagents_code import cli_main\nsys.exit(cli_main())"
    )
    ripgrep = home / "bin" / "rg"
    ripgrep.parent.mkdir(parents=True, exist_ok=True)
    ripgrep.write_text("#!/bin/sh\necho ripgrep 15.1.0\n")
    ripgrep.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=home,
        env={"HOME": str(home), "PATH": f"{ripgrep.parent}:/usr/bin:/bin", "COLUMNS": "100"},
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_releases_with_other_texts_are_run() -> None:
    kinds = {tuple(files.items()) for files in RELEASES.values()}
    assert {tuple(RELEASES[version].items()) for version in COMMANDS} == kinds


@pytest.mark.thorough
@pytest.mark.parametrize("version", ["0.1.55", "0.1.57"])
def test_the_other_commands_give_the_same_bytes(fresh: Fresh, tmp_path: Path, version: str) -> None:
    site = fresh(version)
    shutil.rmtree(site / "mcp")  # this interpreter's own counts
    for distribution in STACK:
        remove_distribution(site, distribution)
    home = tmp_path / "home"

    def run_all() -> list[tuple[int, bytes, bytes]]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda words: run_dcode(site, home, words), COMMANDS[version]))

    run_dcode(site, home, ["--version"])  # makes what a first run makes
    published = run_all()
    assert patch("apply", site)[0] == 0
    help_lines = text.EDITS["ui.py"][1].decode().splitlines()[1:-1]
    added = [json.loads(line.strip()[len("console.print(") : -1]) for line in help_lines]
    assert len(added) == 2
    for words, (status, out, err), found in zip(
        COMMANDS[version], published, run_all(), strict=True
    ):
        if words in HELP:
            lines = found[1].decode().splitlines(keepends=True)
            assert [line.rstrip("\n") for line in lines if line.rstrip("\n") in added] == added
            rest = "".join(line for line in lines if line.rstrip("\n") not in added)
            found = (found[0], rest.encode(), found[2])
        assert found == (status, out, err), words
        assert status in (0, 2), words


@pytest.mark.parametrize(
    ("home", "known", "expected"),
    [(None, False, "/"), (None, True, None), ("/elsewhere", False, "/elsewhere"), ("", False, "")],
    ids=["none at all", "in the user table", "in HOME", "an empty HOME"],
)
def test_the_home_of_a_user_who_has_none(
    monkeypatch: pytest.MonkeyPatch, home: str | None, known: bool, expected: str | None
) -> None:
    entry = pwd.getpwuid(os.getuid())

    def look_up(_uid: int) -> pwd.struct_passwd:
        if not known:
            raise KeyError
        return entry

    monkeypatch.setattr(pwd, "getpwuid", look_up)
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    settle_home()
    assert os.environ.get("HOME") == expected
