"""The start-up shortcuts: nothing changes but time, and nothing that was removed comes back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.dcode import Dcode
from servers.fastmcp_server import FastMCPServer
from servers.raw_server import RawServer, answer, error_message, http

from deepagents_ro import call, host, startup
from deepagents_ro.command import Command

Make = Callable[..., RawServer]

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "bench"
LOCK = ROOT / "requirements" / "dcode-0.1.55.txt"
TOOL = "worker-broker_worker_task_context"
# The packages that one call with a header, over Streamable HTTP, is made with. `jsonschema` and
# what it needs come on top when the tool has an output schema.
NEEDED = {
    "annotated_types", "anyio", "deepagents_code", "deepagents_ro", "dotenv", "filelock", "httpx",
    "httpcore", "h11", "certifi", "httpx_sse", "idna", "langchain_core", "langchain_mcp_adapters",
    "mcp", "packaging", "pydantic", "pydantic_core", "sniffio", "tomli_w", "typing_extensions",
    "typing_inspection", "uuid_utils", "zstandard",
}  # fmt: skip
FOR_OUTPUT_SCHEMAS = {
    "attr", "attrs", "jsonpointer", "jsonschema", "jsonschema_specifications", "referencing",
    "rpds",
}  # fmt: skip
REPLACED = (
    "filelock._async_read_write",
    "httpx._main",
    "mcp.server",
    "pydantic.v1",
    "sqlite3",
    *startup.ROOTS,
)


def python(code: str, *arguments: str) -> str:
    """Standard output of isolated Python code that has to succeed."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported(dcode: Dcode, sink: Path, tool: str) -> set[str]:
    """Every module that one successful call finds in a file and runs."""
    script = sink.with_suffix(".py")
    script.write_text("from deepagents_ro.command import module_main\nmodule_main()\n")
    command = [sys.executable, str(BENCH / "imports.py"), "--child", str(sink), str(script)]
    done = subprocess.run(
        [*command, tool, "--json"],
        input=b'{"task_id":"worker.1"}',
        capture_output=True,
        env=dcode.env,
        cwd=dcode.project,
        check=False,
    )
    assert b'"ok":true' in done.stdout, done.stdout + done.stderr
    return {line.split(" ", 1)[1] for line in sink.read_text().splitlines()}


def third_party(modules: set[str]) -> set[str]:
    """Their packages, without the standard library."""
    tops = {name.split(".", 1)[0] for name in modules}
    return {top for top in tops if top not in sys.stdlib_module_names and not top.startswith("_")}


class TestBudget:
    def test_a_plain_call_imports_what_it_needs(
        self, dcode: Dcode, raw: Make, tmp_path: Path
    ) -> None:
        dcode.serve(raw=raw())
        modules = imported(dcode, tmp_path / "imports", "raw_look")
        assert third_party(modules) <= NEEDED
        back = {name for name in modules for gone in REPLACED if is_in(name, gone)}
        assert not back
        assert len(modules) <= 520, "the plain stack runs more than 1,200 modules"

    def test_an_output_schema_brings_its_validator(
        self, dcode: Dcode, fastmcp: FastMCPServer, tmp_path: Path
    ) -> None:
        dcode.serve(**{"worker-broker": fastmcp.url()})
        modules = imported(dcode, tmp_path / "imports", TOOL)
        assert third_party(modules) <= NEEDED | FOR_OUTPUT_SCHEMAS
        assert "jsonschema" in modules

    @pytest.mark.parametrize(("entry", "count"), [(b'{"outputSchema":{}}', 1), (b'{"a":{}}', 0)])
    def test_the_validator_is_imported_ahead(
        self, monkeypatch: pytest.MonkeyPatch, entry: bytes, count: int
    ) -> None:
        imports: list[int] = []
        monkeypatch.setattr(host, "import_validator", lambda: imports.append(1))
        call.import_ahead(entry)
        assert len(imports) == count

    def test_the_switch_brings_everything_back(
        self, dcode: Dcode, raw: Make, tmp_path: Path
    ) -> None:
        dcode.serve(raw=raw())
        dcode.env[startup.PLAIN_VARIABLE] = "1"
        modules = imported(dcode, tmp_path / "imports", "raw_look")
        for gone in ("langsmith", "mcp.server.fastmcp", "requests", "rich", "pydantic.v1"):
            assert gone in modules, "this test no longer sees what the others forbid"

    def test_plugins_of_pydantic_are_not_looked_for(self, tmp_path: Path) -> None:
        (tmp_path / "spy.py").touch()
        information = tmp_path / "spy-1.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1\n")
        (information / "entry_points.txt").write_text("[pydantic]\nspy = spy:nothing\n")
        code = """
import os, sys
sys.path.insert(0, sys.argv[1])
from deepagents_ro import host
host.prepare_package()
host.load_environment()
if sys.argv[2] == "with":
    del os.environ["PYDANTIC_DISABLE_PLUGINS"]
import mcp.types
print("spy" in sys.modules)
"""
        assert python(code, str(tmp_path), "without") == "False\n"
        assert python(code, str(tmp_path), "with") == "True\n"


def is_in(module: str, package: str) -> bool:
    """Whether `module` is `package` or lies in it."""
    return module == package or module.startswith(f"{package}.")


TEXT = '{"type":"text","text":"t"}'
LOOK = '"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}'
WITH_SCHEMA = (
    f'{{{LOOK},"outputSchema":{{"type":"object","properties":{{"n":{{"type":"integer"}}}},'
    '"required":["n"]}}'
)
WITH_REFERENCE = (
    f'{{{LOOK},"outputSchema":{{"type":"object","$defs":{{"n":{{"type":"integer"}}}},'
    '"properties":{"n":{"$ref":"#/$defs/n"}}}}'
)
WITH_ARGUMENTS = (
    '{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object",'
    '"properties":{"task_id":{"type":"string","format":"uri"},"config":{"type":"object"},'
    '"run_manager":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}]}},"$defs":{"a":{"type":"array"}},'
    '"required":["config"]}}'
)
RESULTS = {
    "text": f'{{"content":[{TEXT}]}}',
    "structured": f'{{"content":[{TEXT}],"structuredContent":{{"n":1.10,"m":[1E400]}}}}',
    "empty": '{"content":[]}',
    "image": '{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}',
    "audio": '{"content":[{"type":"audio","data":"UklG","mimeType":"audio/wav"}]}',
    "link": '{"content":[{"type":"resource_link","uri":"https://example.invalid/a.png",'
    '"name":"a","mimeType":"image/png"}]}',
    "embedded text": '{"content":[{"type":"resource","resource":{"uri":"a:b","text":"x"}}]}',
    "embedded blob": '{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"JVBERg==",'
    '"mimeType":"application/pdf"}}]}',
    "tool error": f'{{"isError":true,"content":[{TEXT}]}}',
    "unknown block": '{"content":[{"type":"hologram"}]}',
    "no content": "{}",
    "meta": '{"_meta":{"a":1},"content":[{"type":"text","text":"t","_meta":{}}]}',
}


class TestSameEnvelopes:
    """Every call twice: with the shortcuts and, by the switch, without them."""

    @pytest.fixture
    def same(self, dcode: Dcode, raw: Make) -> Callable[..., str]:
        def compare(tools: str | None = None, options: object = None, **handlers: object) -> str:
            if tools is not None:
                handlers["tools/list"] = answer(f'{{"tools":[{tools}]}}')
            server = raw(handlers=handlers)
            dcode.serve(raw=options or server)
            fast, plain = dcode.run_all(
                [
                    {"tool": "raw_look", "module": True, "env": {startup.PLAIN_VARIABLE: value}}
                    for value in (None, "1")
                ]
            )
            assert fast.document() == plain.document()
            assert (fast.stdout, fast.exit_code) == (plain.stdout, plain.exit_code)
            return fast.document()["data"].get("code", "ok")

        return compare

    @pytest.mark.parametrize("kind", RESULTS)
    def test_results(self, same: Callable[..., str], kind: str) -> None:
        code = same(**{"tools/call": answer(RESULTS[kind])})
        assert code == {
            "audio": "runtime_failure",
            "tool error": "tool_failed",
            "unknown block": "malformed_result",
            "no content": "malformed_result",
        }.get(kind, "ok")

    @pytest.mark.parametrize("tool", [WITH_SCHEMA, WITH_REFERENCE])
    @pytest.mark.parametrize(("value", "code"), [("1", "ok"), ('"1"', "malformed_result")])
    def test_output_schemas(
        self, same: Callable[..., str], tool: str, value: str, code: str
    ) -> None:
        result = f'{{"content":[],"structuredContent":{{"n":{value}}}}}'
        assert same(tool, **{"tools/call": answer(result)}) == code

    def test_input_schemas(self, same: Callable[..., str]) -> None:
        assert same(WITH_ARGUMENTS) == "ok"

    def test_a_tool_that_is_not_read_only(self, same: Callable[..., str]) -> None:
        tool = '{"name":"look","inputSchema":{"type":"object"}}'
        assert same(tool) == "tool_not_read_only"

    def test_a_tool_that_is_not_there(self, same: Callable[..., str]) -> None:
        assert same("") == "tool_not_found"

    def test_a_tool_that_the_model_refuses(self, same: Callable[..., str]) -> None:
        assert same('{"name":"look","inputSchema":[]}') == "tool_not_found"

    def test_an_error_answer(self, same: Callable[..., str]) -> None:
        call_handler = lambda request, wire: http(200, error_message(request))  # noqa: E731
        assert same(**{"tools/call": call_handler}) == "tool_failed"

    def test_a_failed_request(self, same: Callable[..., str]) -> None:
        assert same(**{"tools/call": http(500)}) == "runtime_failure"

    def test_a_login_that_is_needed(self, same: Callable[..., str]) -> None:
        assert same(initialize=http(401)) == "tool_not_found"

    def test_a_server_that_cannot_be_reached(self, same: Callable[..., str]) -> None:
        entry = {"type": "http", "url": "http://127.0.0.1:1/mcp"}
        assert same(options=entry) == "tool_not_found"

    def test_a_server_on_standard_streams(self, same: Callable[..., str]) -> None:
        assert same(options=stdio(STDIO_SERVER)) == "ok"
        assert same(options=stdio("pass")) == "tool_not_found"


def stdio(script: str) -> dict[str, object]:
    """The entry of a server that is a Python script."""
    return {"command": sys.executable, "args": ["-c", script]}


STDIO_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {
        "initialize": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{
            "name": "look", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
        }]},
        "tools/call": {"content": [{"type": "text", "text": "seen"}]},
    }[message["method"]]
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class TestStepsAside:
    def test_the_pinned_versions_are_the_verified_ones(self) -> None:
        pinned = {}
        for line in LOCK.read_text().splitlines():
            name, mark, version = line.removesuffix(" \\").partition("==")
            if mark:
                pinned[name.replace("-", "_")] = version.partition(" ")[0]
        assert {name: pinned[name] for name in startup.VERIFIED} == startup.VERIFIED

    def test_for_any_other_version_of_any_package(self, tmp_path: Path) -> None:
        for package in startup.VERIFIED:
            place = tmp_path / package
            (place / package).mkdir(parents=True)
            (place / package / "__init__.py").touch()
            (place / f"{package}-99.dist-info").mkdir()
        code = """
import importlib, os, sys
from deepagents_ro import startup
before = list(sys.meta_path)
for package in startup.VERIFIED:
    sys.path.insert(0, os.path.join(sys.argv[1], package))
    importlib.invalidate_caches()
    print(package, startup.install())
    assert sys.meta_path == before
    del sys.path[0]
importlib.invalidate_caches()
print("itself", startup.install())
assert len(sys.meta_path) == len(before) + 1
assert startup.install() and len(sys.meta_path) == len(before) + 1
"""
        lines = python(code, str(tmp_path)).splitlines()
        assert lines == [*(f"{package} False" for package in startup.VERIFIED), "itself True"]

    def test_when_a_package_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(startup.VERIFIED, "no_such_package_here", "1")
        before = list(sys.meta_path)
        assert startup.install() is False
        assert sys.meta_path == before

    def test_for_what_is_loaded_already(self) -> None:
        code = """
import requests
from deepagents_ro import startup
assert startup.install()
import requests.adapters, tenacity
print(requests.Session().headers["User-Agent"], type(tenacity).__name__)
"""
        agent, kind = python(code).split()
        assert agent.startswith("python-requests/")
        assert kind == "StandIn"

    def test_for_other_commands(self) -> None:
        code = """
import sys
sys.argv = ["dcode", "tools", "list"]
import deepagents_code, deepagents_code.mcp_tools
print([name for name in sys.modules if name.startswith("deepagents_ro")])
"""
        assert python(code).strip() == "[]"


UNFORESEEN = [
    "import langsmith.client",
    "import mcp.server.lowlevel",
    "from requests import Session",
    "import requests; requests.get('http://127.0.0.1:1')",
    "import jsonpatch; jsonpatch.make_patch({}, {})",
    "from langsmith import Client; Client()",
    "from langsmith import RunTree; RunTree.from_headers({})",
    "from pydantic.v1 import BaseModel\nclass Model(BaseModel): pass",
    "from pydantic.v1 import ValidationError; raise ValidationError()",
    "from mcp.server.stdio import stdio_server; stdio_server()",
    "from langsmith import run_helpers; run_helpers._set_tracing_context({'parent': 1})",
]


class TestStandIns:
    @pytest.mark.parametrize("statement", UNFORESEEN)
    def test_refuse_what_nobody_is_known_to_need(self, statement: str) -> None:
        code = """
import sys
from deepagents_ro import startup
assert startup.install() and startup.used() == []
try:
    exec(sys.argv[1], {"__name__": "x"})
except startup.StandInUsed as error:
    assert startup.PLAIN_VARIABLE in str(error)
    print(len(startup.used()))
"""
        assert python(code, statement) == "1\n"

    def test_answer_introspection(self) -> None:
        code = """
import inspect, typing
from deepagents_ro import startup
startup.install()
import langsmith, requests, pydantic.v1
assert not hasattr(requests, "__wrapped__") and inspect.ismodule(requests)
assert not isinstance(5, requests.Response) and not issubclass(int, pydantic.v1.BaseModel)
assert typing.Optional[requests.Response] and (requests.Response | None)
try:
    raise ValueError
except requests.HTTPError:
    raise SystemExit("caught")
except ValueError:
    pass
from langsmith import get_tracing_context, run_helpers, utils
assert utils.tracing_is_enabled() is False
run_helpers._set_tracing_context(get_tracing_context())
assert get_tracing_context() is not get_tracing_context()
assert startup.used() == []
"""
        python(code)

    def test_the_tracing_context_is_langsmiths_own(self) -> None:
        code = """
import os, sys
from deepagents_ro import startup
if sys.argv[1] == "stand-in":
    assert startup.install()
from langsmith import utils, run_helpers, get_tracing_context
run_helpers._set_tracing_context(None)
print(type(utils).__name__ == "StandIn", file=sys.stderr)
print(get_tracing_context(), utils.tracing_is_enabled(), list(get_tracing_context()))
"""
        assert python(code, "stand-in") == python(code, "real")

    def test_a_use_ends_the_call_as_a_runtime_failure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        used: list[str] = []
        monkeypatch.setattr(startup, "_used", used)

        def attempt(*_args: object, **_kwargs: object) -> bytes:
            try:
                startup.refuse("a.b")
            except startup.StandInUsed:
                return b"{}"  # a library that swallows the exception

        monkeypatch.setattr(call, "attempt", attempt)
        code, document = call.run(Command("a_b"), b"{}", None, managed=False)  # type: ignore[arg-type]
        assert used == ["a.b"]
        assert code == 1
        assert b'"code":"runtime_failure"' in document
