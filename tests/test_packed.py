"""Packed modules: what Python would load, from where it would, and nothing that is out of date."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode as Mode
from typing import Any

import pytest
from isolated import python

from deepagents_ro import packed
from deepagents_ro.patch import store

TEXT = "VALUE = 1\n"
SECONDS = 1_700_000_000


class Tree:
    """A package of two modules, compiled, in a pack."""

    def __init__(self, root: Path, mode: Mode) -> None:
        self.root = root
        self.package, self.sources = root / "house", {}
        self.package.mkdir()
        for name, path in (("house", "__init__.py"), ("house.room", "room.py")):
            source = self.package / path
            source.write_text(TEXT)
            os.utime(source, (SECONDS, SECONDS))
            py_compile.compile(str(source), invalidation_mode=mode, doraise=True)
            self.sources[name] = source

    def modules(self) -> list[packed.Module]:
        """What a pack is made of."""
        return [
            packed.Module(
                name,
                str(source),
                importlib.util.cache_from_source(str(source)),
                source.name == "__init__.py",
                Path(importlib.util.cache_from_source(str(source))).read_bytes(),
            )
            for name, source in self.sources.items()
        ]

    def pack(self) -> packed.Pack:
        """The pack, written and read."""
        file = self.root / "pack"
        file.write_bytes(packed.content(self.modules()))
        found = packed.read(str(file))
        assert found is not None
        return found


@pytest.fixture(params=[Mode.TIMESTAMP, Mode.UNCHECKED_HASH])
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Tree:
    return Tree(tmp_path, request.param)


def loaded(spec: importlib.machinery.ModuleSpec | None) -> Any:
    """The module of a spec, run."""
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["house", "house.room"])
def test_the_same_module(tree: Tree, name: str) -> None:
    place = [str(tree.package if "." in name else tree.root)]
    spec = tree.pack().find(name, place)
    plain = importlib.machinery.PathFinder.find_spec(name, place)
    assert spec is not None
    assert plain is not None
    for attribute in (
        *("name", "origin", "cached", "has_location", "parent", "submodule_search_locations"),
    ):
        assert getattr(spec, attribute) == getattr(plain, attribute), attribute
    ours, theirs = loaded(spec), loaded(plain)
    assert ours.VALUE == theirs.VALUE == 1
    for attribute in ("__name__", "__file__", "__cached__", "__package__"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    assert getattr(ours, "__path__", None) == getattr(theirs, "__path__", None)
    assert ours.__loader__.get_source(name) == TEXT
    assert ours.__loader__.get_resource_reader(name) is not None


def test_the_code_is_the_packs(tree: Tree) -> None:
    """The `.pyc` file's code is not read again."""
    pack = tree.pack()
    spec = pack.find("house.room", [str(tree.package)])
    pyc = Path(importlib.util.cache_from_source(str(tree.sources["house.room"])))
    pyc.write_bytes(pyc.read_bytes()[: packed.HEADER])
    assert loaded(spec).VALUE == 1


def test_a_module_that_was_found_elsewhere(tree: Tree) -> None:
    pack = tree.pack()
    spec = importlib.machinery.PathFinder.find_spec("house", [str(tree.root)])
    assert spec is not None
    assert type(pack.settle(spec).loader) is packed.PackedLoader
    assert loaded(spec).VALUE == 1


def test_of_the_same_name_in_another_place(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "other" / "house").mkdir(parents=True)
    (tmp_path / "other" / "house" / "__init__.py").write_text("VALUE = 2\n")
    place = [str(tmp_path / "other")]
    spec = importlib.machinery.PathFinder.find_spec("house", place)
    assert spec is not None
    assert tree.pack().find("house", place) is None
    assert type(tree.pack().settle(spec).loader) is importlib.machinery.SourceFileLoader


@pytest.mark.parametrize("path", [None, [], ["{}", "{}"], ["{}/"]])
def test_a_package_that_does_not_lie_where_it_lay(tree: Tree, path: list[str] | None) -> None:
    place = None if path is None else [each.format(tree.package) for each in path]
    assert tree.pack().find("house.room", place) is None
    assert tree.pack().find("house.room", [str(tree.package)]) is not None


def test_dcodes_own_modules_are_found_as_ever(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Mode.TIMESTAMP)
    tree.sources = {"deepagents_code.room": tree.sources["house.room"]}
    assert tree.pack().find("deepagents_code.room", [str(tree.package)]) is None


def change(tree: Tree, how: str) -> None:
    """Change what the module's entry was made of."""
    source = tree.sources["house.room"]
    pyc = Path(importlib.util.cache_from_source(str(source)))
    if how == "another size":
        source.write_text(TEXT + "\n")
        os.utime(source, (SECONDS, SECONDS))
    elif how == "another time":
        os.utime(source, (SECONDS + 1, SECONDS + 1))
    elif how == "no source":
        source.unlink()
    elif how == "compiled anew":
        source.write_text(TEXT.replace("1", "2"))
        py_compile.compile(str(source), invalidation_mode=Mode.UNCHECKED_HASH)
    elif how == "not compiled":
        pyc.unlink()


@pytest.mark.parametrize(
    ("mode", "how", "stale"),
    [
        (Mode.TIMESTAMP, "another size", True),
        (Mode.TIMESTAMP, "another time", True),
        (Mode.TIMESTAMP, "no source", True),
        (Mode.TIMESTAMP, "not compiled", False),
        (Mode.UNCHECKED_HASH, "compiled anew", True),
        (Mode.UNCHECKED_HASH, "not compiled", True),
        (Mode.UNCHECKED_HASH, "another time", False),
        (Mode.UNCHECKED_HASH, "another size", False),
    ],
)
def test_what_python_would_not_take(tmp_path: Path, mode: Mode, how: str, stale: bool) -> None:
    tree = Tree(tmp_path, mode)
    pack = tree.pack()
    change(tree, how)
    assert (pack.find("house.room", [str(tree.package)]) is None) is stale


class TestFile:
    def test_a_cut_file_gives_way_to_the_source(self, tree: Tree) -> None:
        pack = tree.pack()
        spec = pack.find("house.room", [str(tree.package)])
        file = tree.root / "pack"
        os.truncate(file, file.stat().st_size - 2)
        assert loaded(spec).VALUE == 1

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\x00\x00\x0d\x0a" + bytes(8),
            importlib.util.MAGIC_NUMBER,
            importlib.util.MAGIC_NUMBER + b"\xff\x00\x00\x00{",
            importlib.util.MAGIC_NUMBER + b"\x05\x00\x00\x00[\x00\x00\x00\x00",
        ],
    )
    def test_what_is_not_a_pack_is_none(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "a").write_bytes(content)
        before = len(os.listdir("/proc/self/fd"))
        assert packed.read(str(tmp_path / "a")) is None
        assert packed.read(str(tmp_path / "missing")) is None
        assert len(os.listdir("/proc/self/fd")) == before

    @pytest.mark.parametrize(
        ("options", "there"),
        [(["-B"], True), (["-O"], False), (["--check-hash-based-pycs", "always"], False)],
    )
    def test_for_an_interpreter_as_it_was_made_for(self, options: list[str], there: bool) -> None:
        code = "from deepagents_ro import packed; print(packed.read() is not None)"
        command = [sys.executable, *options, "-I", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == f"{there}\n"

    def test_kinds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What Python checks against the source's text is not kept."""
        for number, mode in enumerate(Mode):
            (tmp_path / str(number)).mkdir()
            tree = Tree(tmp_path / str(number), mode)
            spec = importlib.machinery.PathFinder.find_spec("house", [str(tree.root)])
            monkeypatch.setitem(sys.modules, "house", loaded(spec))
            kept = [module.name for module in store.compiled(["house"])]
            assert kept == ([] if mode is Mode.CHECKED_HASH else ["house"])

    def test_apply_has_written_it_and_would_again(self, tmp_path: Path) -> None:
        code = "import sys; from deepagents_ro.patch import store; store.write(*sys.argv[1:])"
        files = [str(tmp_path / "stored"), str(tmp_path / "packed")]
        python(code, *files)
        assert Path(files[1]).read_bytes() == Path(packed.FILE).read_bytes()

    def test_a_call_takes_from_it(self) -> None:
        code = """
import sys
from deepagents_ro import host, packed, startup
startup.prepare(())
host.prepare_package()
host.import_readers()
host.import_stack(startup.verified())
specs = [getattr(module, "__spec__", None) for module in sys.modules.values()]
print(sum(spec is not None and type(spec.loader) is packed.PackedLoader for spec in specs))
"""
        assert int(python(code)) > 250
