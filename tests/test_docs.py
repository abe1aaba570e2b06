"""The documents say what is so: links, commands, targets and tables are those of the code."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from deepagents_ro import __version__, _mcpro, command, console
from deepagents_ro.gateway import cli as gateway
from deepagents_ro.patch import patcher
from deepagents_ro.patch import text as patch_text
from deepagents_ro.qualify.lab import oracle
from deepagents_ro.reasons import STATES, Reason, ToolReason

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "csrc").glob("*.md")),
    ROOT / "bench" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
EVERYTHING = "\n".join(TEXTS.values())


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#{1,6} (.+?)\s*$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^()\s]+)\)", text)


def rows(name: str, head: str) -> list[list[str]]:
    """The cells of the table of a page whose first line begins with `head`."""
    lines = iter(TEXTS[name].splitlines())
    assert any(line.startswith(head) for line in lines), f"{name} has no table {head}"
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def words(name: str, head: str) -> list[str]:
    """The code words of a table's first column."""
    return [word for row in rows(name, head) for word in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_somewhere(name: str) -> None:
    broken = []
    for link in links(TEXTS[name]):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent.joinpath(path).resolve() if path else ROOT / name
        known = target.exists()
        if not known or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert not broken


def test_what_an_anchor_is() -> None:
    text = "# A `code_word`, and more\n## Who is it?\ntext\n# not#one"
    assert anchors(text) == {"a-code_word-and-more", "who-is-it", "notone"}
    assert links("[a](b.md#c) ![d](e.svg) (f)") == ["b.md#c", "e.svg"]


def test_every_page_is_linked_from_the_first() -> None:
    seen, ahead = set(), ["README.md"]
    while ahead:
        name = ahead.pop()
        seen.add(name)
        for link in links(TEXTS[name]):
            target = (ROOT / name).parent.joinpath(link.partition("#")[0]).resolve()
            if target.is_relative_to(ROOT) and target.suffix == ".md":
                found = target.relative_to(ROOT).as_posix()
                ahead += [found] if found in TEXTS and found not in seen else []
    assert seen == set(TEXTS)


def test_every_target_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z][a-z-]*)", EVERYTHING, re.MULTILINE))
    assert len(named) >= 10
    assert named <= targets


def test_templates_and_hooks_name_what_is_there() -> None:
    paths = [ROOT / ".pre-commit-config.yaml", *(ROOT / ".github").rglob("*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"make ([a-z]+)", text))
    assert {"lint", "test"} <= named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    files = set(re.findall(r"`((?:docs|csrc|scripts|deepagents_ro)/[\w./-]*)`", text))
    assert files
    assert all((ROOT / name).exists() for name in files)
    assert "entry: make lint\n" in text


def test_every_file_of_ours_exists() -> None:
    places = "csrc|deepagents_ro|docs|scripts|tests|bench|image|fuzz|requirements|[.]github"
    named = set(re.findall(rf"(?<![\w/.-])((?:{places})/[\w./-]*\w)", EVERYTHING))
    made = {"bench/results", "fuzz/work"}
    missing = {
        name
        for name in named
        if not (ROOT / name).exists() and not name.startswith(tuple(made)) and "VERSION" not in name
    }
    assert len(named) > 50
    assert not missing


def test_every_file_of_the_c_side_has_its_row() -> None:
    layers = "core|net|mcp|guard|py"
    for name in TEXTS:
        if name.startswith("csrc/"):
            named = set(re.findall(rf"`((?:{layers})/\w+\.[ch])`", TEXTS[name]))
            assert len(named) >= 5
            assert not {file for file in named if not (ROOT / "csrc" / file).exists()}, name
    table = TEXTS["csrc/README.md"].split("## Which rule is in which file\n", 1)[1]
    listed = re.findall(rf"`((?:{layers})/\w+\.[ch])`", table.split("\n## ", 1)[0])
    sources = {f"{path.parent.name}/{path.name}" for path in (ROOT / "csrc").glob("*/*.c")}
    assert len(listed) == len(set(listed))
    assert not sources - set(listed), "a rule that a newcomer cannot find"


def test_every_module_can_be_run() -> None:
    named = set(re.findall(r"-m (deepagents_ro(?:\.\w+)*)", EVERYTHING))
    assert {"deepagents_ro", "deepagents_ro.patch", "deepagents_ro.qualify"} <= named
    for name in named:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        if spec.submodule_search_locations:
            assert importlib.util.find_spec(f"{name}.__main__") is not None


def test_every_action_of_the_patch_is_one() -> None:
    named = set(re.findall(r"deepagents_ro\.patch (\w+)", EVERYTHING))
    assert named == {"apply", "check", "revert"}
    assert all(callable(getattr(patcher, action)) for action in named)


def test_every_word_of_the_console_script_is_one() -> None:
    named = set(re.findall(r"(?<![\w-])deepagents-ro ([a-z]+)", EVERYTHING))
    assert {"call", "audit", "gateway"} <= named
    assert set(console.COMMANDS) <= named
    assert all(f"deepagents-ro {name} " in console.USAGE for name in named)
    below = set(re.findall(r"deepagents-ro gateway (\w+)", EVERYTHING)) - {"audit"}
    assert {"list", "latency", "demo"} <= below
    for action in below:
        gateway.parser().parse_args([action])


def test_every_command_of_ours_below_tools_is_one() -> None:
    named = set(re.findall(r"dcode (?:\[.*\] )?tools ([a-z-]+)", EVERYTHING)) - {"list"}
    assert {"call-read-only", "audit-read-only"} <= named
    patched = patch_text.add("__init__.py", patch_text.EDITS["__init__.py"][0]).decode()
    assert all(f'"{name}"' in patched for name in named)


def test_the_tables_of_codes() -> None:
    codes = list(oracle.EXITS)
    table = rows("README.md", "| code | exit |")
    assert [(row[0].strip("`"), int(row[1])) for row in table] == list(oracle.EXITS.items())
    assert words("docs/troubleshooting.md", "| code | what it means |") == codes
    repeated = words("docs/operations.md", "| code | did the server get the call? |")
    assert sorted(repeated) == sorted(codes)


def test_the_tables_of_the_audit() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "reasons_page.py"))["page"]()
    assert TEXTS["docs/reasons.md"] == page, "run scripts/reasons_page.py with this Python"
    assert words("docs/troubleshooting.md", "| state |") == list(STATES)
    quoted = set(re.findall(r"`(\w+)`", TEXTS["docs/troubleshooting.md"]))
    assert {cause.word for cause in ToolReason if cause.code == "ambiguous_tool"} <= quoted
    assert {cause.state for cause in Reason} <= quoted


def test_bounds_and_versions() -> None:
    limits = (ROOT / "csrc" / "core" / "limits.h").read_text(encoding="utf-8")
    bounds = dict(re.findall(r"^#define (RO_\w+) (\d+)u?$", limits, re.MULTILINE))
    assert int(bounds["RO_MAX_STDIN"]) == command.MAX_INPUT_BYTES == _mcpro.MAX_STDIN
    assert int(bounds["RO_MAX_STDOUT"]) == _mcpro.MAX_STDOUT
    assert str(command.MAX_INPUT_BYTES) in command.HELP
    assert TEXTS["README.md"].count(f"{command.MAX_INPUT_BYTES:,}") == 3
    assert f"{int(bounds['RO_MAX_STDOUT']):,} bytes" in TEXTS["docs/operations.md"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{__version__}"\n' in project


def test_every_figure_is_one_of_the_benchmarks() -> None:
    speed = TEXTS["README.md"].split("## Speed\n", 1)[1].split("\n## ", 1)[0]
    named = re.findall(r"\d+\.\d+", speed + TEXTS["docs/performance.md"])
    measured = set(re.findall(r"\d+\.\d+", TEXTS["bench/README.md"]))
    assert len(named) > 40
    assert not set(named) - measured, "docs and README say other figures than bench/README.md"


@pytest.mark.parametrize("file", ["picture.svg", "threads.svg"])
def test_the_picture_is_for_light_and_dark(file: str) -> None:
    picture = (ROOT / "docs" / file).read_text(encoding="utf-8")
    light, dark = picture.split("prefers-color-scheme: dark", 1)
    for name in set(re.findall(r'class="(\w+)"', picture)):
        assert f".{name} {{" in light
        assert f".{name} {{" in dark
    assert "<title" in picture


def test_the_page_of_reasons_is_what_the_command_prints() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "deepagents_ro.reasons"], capture_output=True, check=True
    )
    assert TEXTS["docs/reasons.md"].endswith(done.stdout.decode())
