"""Stored code: the same classes as without it, and nothing of the standard library is touched."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import marshal
import sys
from pathlib import Path
from typing import Any

import pytest
from isolated import python

from deepagents_ro import startup, stored
from deepagents_ro.patch import __main__ as patch
from deepagents_ro.patch import store

TEXT = "def __create_fn__(a):\n def f(self, b=a):\n  return b\n return f"

OPTIONS: list[dict[str, Any]] = [
    {},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"order": True},
    {"eq": False},
    {"unsafe_hash": True},
    {"kw_only": True, "repr": False},
    {"frozen": True, "eq": False, "match_args": False},
]


def make(module: Any, **options: Any) -> Any:
    """A dataclass with fields of every kind, by `module`'s decorator."""

    class Point:
        x: int
        y: int = 2
        names: list[str] = module.field(default_factory=list, compare=False)
        hidden: str = module.field(default="", repr=False, kw_only=True)

        def __post_init__(self) -> None:
            """Nothing."""

    return module.dataclass(**options)(Point)


def methods(made: Any) -> dict[str, Any]:
    """The generated functions of a class."""
    return {name: value for name, value in vars(made).items() if inspect.isfunction(value)}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_class(options: dict[str, Any], is_known: bool) -> None:
    recorder = store.Recorder({})
    made = make(stored.copy_of_dataclasses(recorder), **options)
    assert recorder.codes
    if is_known:
        made = make(stored.copy_of_dataclasses(stored.Store(recorder.codes)), **options)
    plain = make(dataclasses, **options)
    assert vars(made).keys() == vars(plain).keys()
    assert inspect.signature(made) == inspect.signature(plain)
    assert methods(made).keys() == methods(plain).keys()
    for name, method in methods(made).items():
        twin = methods(plain)[name]
        assert (method.__qualname__, method.__code__) == (twin.__qualname__, twin.__code__)
        assert (method.__annotations__, method.__defaults__) == (
            twin.__annotations__,
            twin.__defaults__,
        )
    assert dataclasses.is_dataclass(made)
    assert dataclasses.asdict(made(x=1)) == dataclasses.asdict(plain(x=1))
    assert repr(dataclasses.fields(made)) == repr(dataclasses.fields(plain))
    assert made.__doc__ == plain.__doc__
    one, other = made(x=1), made(x=1)
    assert (one == other) is options.get("eq", True)
    assert repr(dataclasses.replace(one, x=1)) == repr(one) or not options.get("repr", True)
    if options.get("frozen"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.x = 3
        assert options.get("eq", True) is (hash(one) == hash(other))


def test_one_derives_from_the_other() -> None:
    copy: Any = stored.copy_of_dataclasses(stored.Store({}))
    for first, second in ((copy, dataclasses), (dataclasses, copy)):
        more = {"__annotations__": {"z": "int"}, "z": 3}
        derived = second.dataclass(type("Derived", (make(first),), more))
        names = [field.name for field in dataclasses.fields(derived)]
        assert names == ["x", "y", "names", "hidden", "z"]


class TestFile:
    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        recorder = store.Recorder({})
        code = recorder.code(TEXT)
        (tmp_path / "a").write_bytes(recorder.content())
        found = stored.read(str(tmp_path / "a"))
        assert found is not None
        assert found.codes.keys() == {TEXT}
        assert found.code(TEXT) == code == compile(TEXT, "<string>", "exec", dont_inherit=True)

    def test_a_text_that_is_not_there_is_compiled(self) -> None:
        assert stored.Store({}).code(TEXT) == stored.compiled(TEXT)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\x00\x00\x0d\x0a" + marshal.dumps({}),
            importlib.util.MAGIC_NUMBER,
            importlib.util.MAGIC_NUMBER + marshal.dumps({"a": b"b"})[:-3],
            importlib.util.MAGIC_NUMBER + marshal.dumps(["a"]),
        ],
    )
    def test_what_is_not_a_store_is_none(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "a").write_bytes(content)
        assert stored.read(str(tmp_path / "a")) is None
        assert stored.read(str(tmp_path / "missing")) is None

    def test_apply_has_written_it_and_would_again(self, tmp_path: Path) -> None:
        code = "import sys; from deepagents_ro.patch import store; print(store.write(sys.argv[1]))"
        count = python(code, str(tmp_path / "new" / "store"))
        assert int(count) > 300
        assert (tmp_path / "new" / "store").read_bytes() == Path(stored.FILE).read_bytes()

    def test_none_for_a_stack_that_is_not_verified(self, tmp_path: Path) -> None:
        code = """
import sys
from deepagents_ro import startup
from deepagents_ro.patch import store
startup.BELOW["pydantic"] = "0"
print(store.write(sys.argv[1]))
"""
        assert python(code, str(tmp_path / "store")) == "0\n"
        assert not list(tmp_path.iterdir())


IMPORTS = """
import builtins, dataclasses, sys
from deepagents_ro import host, startup, stored
before = {name: dict(vars(module)) for name, module in sys.modules.items()}
misses = []
stored.compiled = lambda text: misses.append(text) or compile(text, "<string>", "exec")
finder = startup.put_in_front(startup.verified())
host.prepare_package()
from deepagents_code import mcp_tools
startup.install(startup.verified(), ())
host.import_stack(startup.verified())
"""


class TestModules:
    def test_no_text_of_a_call_is_compiled(self) -> None:
        assert python(IMPORTS + "print(misses)") == "[]\n"

    def test_no_loaded_module_is_touched(self) -> None:
        code = """
for name in ("builtins", "dataclasses", "sys"):
    now = vars(sys.modules[name])
    assert all(now[key] is value for key, value in before[name].items() if key != "modules"), name
    assert now.keys() <= before[name].keys() | {"last_exc"}, name
own = [name for name, module in sys.modules.items()
       if vars(module).get("__builtins__") not in (builtins, vars(builtins), None)]
assert own and {name.partition(".")[0] for name in own} <= stored.PACKAGES, own
import pydantic.types, typing
assert not {name.partition(".")[0] for name in own} & set(sys.stdlib_module_names)
assert dataclasses.is_dataclass(pydantic.types.Strict)
assert pydantic.types.__loader__.get_source("pydantic.types").startswith('"')
"""
        python(IMPORTS + code)

    def test_without_a_store_modules_are_loaded_as_ever(self) -> None:
        code = """
stored.read = lambda: None
exec(IMPORTS)
import pydantic.types
print(vars(pydantic.types)["__builtins__"] in (builtins, vars(builtins)))
"""
        head = f"IMPORTS = {IMPORTS!r}\nfrom deepagents_ro import stored\n"
        assert python(head + code) == "True\n"


class TestPatch:
    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        commands: list[list[str]] = []
        monkeypatch.setattr(
            patch.subprocess, "run", lambda command, **_options: commands.append(command)
        )
        return commands

    def test_apply_keeps_the_code_of_this_interpreters_dcode(
        self, started: list[list[str]]
    ) -> None:
        assert patch.main(["apply"]) == 0
        assert started == [[sys.executable, "-I", "-m", "deepagents_ro.patch.store"]]

    def test_and_of_no_other(
        self, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(startup, "place_of", lambda _package: "/")
        assert patch.main(["apply"]) == 0
        assert started == []
