"""The start-up shortcuts: nothing changes but time, and nothing that was removed comes back."""

from __future__ import annotations

import asyncio
import importlib.metadata
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from isolated import python
from servers.dcode import Dcode

from deepagents_ro import _mcpro, call, host, startup
from deepagents_ro.command_line import Command
from deepagents_ro.exchange import Exchanges, SessionClient
from deepagents_ro.plan import Plan
from deepagents_ro.qualify.lab.raw_server import (
    RawServer,
    Request,
    Wire,
    answer,
    error_message,
    event,
    http,
)
from deepagents_ro.qualify.lab.sdk_server import SDKServer
from deepagents_ro.versions import BELOW, DISTRIBUTION, PACKAGE, QUALIFIED, RELEASES

Make = Callable[..., RawServer]

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "bench"
LOCKS = ROOT / "requirements"
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


def imported(dcode: Dcode, sink: Path, tool: str) -> set[str]:
    """Every module that one successful call finds in a file and runs."""
    script = sink.with_suffix(".py")
    script.write_text("import runpy\nrunpy.run_module('deepagents_ro', run_name='__main__')\n")
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
        assert len(modules) <= 470, "the plain stack runs more than 1,200 modules"

    def test_an_output_schema_brings_its_validator(
        self, dcode: Dcode, fastmcp: SDKServer, tmp_path: Path
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

    @pytest.mark.thorough
    def test_the_switch_brings_everything_back(
        self, dcode: Dcode, raw: Make, tmp_path: Path
    ) -> None:
        dcode.serve(raw=raw())
        dcode.env[startup.PLAIN_VARIABLE] = "1"
        modules = imported(dcode, tmp_path / "imports", "raw_look")
        for gone in ("langsmith", "mcp.server.fastmcp", "requests", "rich", "pydantic.v1"):
            assert gone in modules, "this test no longer sees what the others forbid"

    @pytest.mark.thorough
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
host.load_environment(trust_project=False)
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
# Each costs a run on the whole stack: `make test` does one of a kind.
THOROUGH = pytest.mark.thorough
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


def in_a_stream(
    handler: Callable[[Request, Wire], bytes] | None,
) -> Callable[[Request, Wire], None]:
    """What the handler (None: the server by itself) says, as an event stream; b"" is no event.

    A log message, progress and a ping of the server stand in front.
    """
    ahead = (
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d"}}',
        '{"jsonrpc":"2.0","method":"notifications/progress",'
        '"params":{"progressToken":1,"progress":0.5}}',
        '{"jsonrpc":"2.0","id":"p","method":"ping"}',
    )

    def stream(request: Request, wire: Wire) -> None:
        reply = (handler or wire.server.default)(request, wire)
        wire.chunked_head()
        for message in (*ahead, reply.partition(b"\r\n\r\n")[2]):
            if message:
                wire.chunk(event(message))
        wire.end()

    return stream


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

    @pytest.mark.parametrize(
        "kind",
        [
            pytest.param(kind, marks=[] if kind in ("structured", "audio") else THOROUGH)
            for kind in RESULTS
        ],
    )
    def test_results(self, same: Callable[..., str], kind: str) -> None:
        code = same(**{"tools/call": answer(RESULTS[kind])})
        assert code == {
            "audio": "runtime_failure",
            "tool error": "tool_failed",
            "unknown block": "malformed_result",
            "no content": "malformed_result",
        }.get(kind, "ok")

    @pytest.mark.parametrize(
        "tool",
        [pytest.param(WITH_SCHEMA, marks=THOROUGH), WITH_REFERENCE],
        ids=["own", "reference"],
    )
    @pytest.mark.parametrize(
        ("value", "code"),
        [pytest.param("1", "ok", marks=THOROUGH), ('"1"', "malformed_result")],
    )
    def test_output_schemas(
        self, same: Callable[..., str], tool: str, value: str, code: str
    ) -> None:
        result = f'{{"content":[],"structuredContent":{{"n":{value}}}}}'
        assert same(tool, **{"tools/call": answer(result)}) == code

    @pytest.mark.parametrize(
        ("tool", "result", "code"),
        [
            (None, RESULTS["structured"], "ok"),
            pytest.param(WITH_SCHEMA, RESULTS["tool error"], "tool_failed", marks=THOROUGH),
            pytest.param(None, RESULTS["audio"], "runtime_failure", marks=THOROUGH),
            pytest.param(None, RESULTS["unknown block"], "malformed_result", marks=THOROUGH),
        ],
        ids=["structured", "tool error", "audio", "unknown block"],
    )
    def test_event_streams(
        self, same: Callable[..., str], tool: str | None, result: str, code: str
    ) -> None:
        listed = answer(f'{{"tools":[{tool or f"{{{LOOK}}}"}]}}')
        handlers = {
            "initialize": in_a_stream(None),
            "tools/list": in_a_stream(listed),
            "tools/call": in_a_stream(answer(result)),
        }
        assert same(**handlers) == code

    @THOROUGH
    def test_an_event_stream_that_ends_early(self, same: Callable[..., str]) -> None:
        assert same(**{"tools/call": in_a_stream(lambda _request, _wire: b"")}) == "runtime_failure"

    def test_input_schemas(self, same: Callable[..., str]) -> None:
        assert same(WITH_ARGUMENTS) == "ok"

    @THOROUGH
    def test_a_tool_that_is_not_read_only(self, same: Callable[..., str]) -> None:
        tool = '{"name":"look","inputSchema":{"type":"object"}}'
        assert same(tool) == "tool_not_read_only"

    @THOROUGH
    def test_a_tool_that_is_not_there(self, same: Callable[..., str]) -> None:
        assert same("") == "tool_not_found"

    @THOROUGH
    def test_a_tool_that_the_model_refuses(self, same: Callable[..., str]) -> None:
        assert same('{"name":"look","inputSchema":[]}') == "tool_not_found"

    @THOROUGH
    def test_an_error_answer(self, same: Callable[..., str]) -> None:
        call_handler = lambda request, wire: http(200, error_message(request))  # noqa: E731
        assert same(**{"tools/call": call_handler}) == "tool_failed"

    @THOROUGH
    def test_a_failed_request(self, same: Callable[..., str]) -> None:
        assert same(**{"tools/call": http(500)}) == "runtime_failure"

    @THOROUGH
    def test_a_login_that_is_needed(self, same: Callable[..., str]) -> None:
        assert same(initialize=http(401)) == "tool_not_found"

    @THOROUGH
    def test_a_server_that_cannot_be_reached(self, same: Callable[..., str]) -> None:
        entry = {"type": "http", "url": "http://127.0.0.1:1/mcp"}
        assert same(options=entry) == "tool_not_found"

    @pytest.mark.thorough
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


ROWS = [(release, stack) for release in RELEASES for stack in range(len(QUALIFIED))]
# One result with a block of every kind that is converted, and an output schema to check it with.
EVERYTHING = (
    f'{{"content":[{TEXT},{{"type":"image","data":"AAAA","mimeType":"image/png"}},'
    '{"type":"resource_link","uri":"https://example.invalid/a","name":"a"},'
    '{"type":"resource","resource":{"uri":"a:b","text":"x"}}],"structuredContent":{"n":1}}'
)


@pytest.fixture(scope="session")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str]], list[Path]]:
    """Directories with what of a row is not installed here, each of one distribution."""
    ready: dict[tuple[str, str], Path] = {}

    def get(row: dict[str, str]) -> list[Path]:
        missing = [
            (name, version)
            for name, version in row.items()
            if importlib.metadata.version(name) != version
        ]
        for name, version in missing:
            if (name, version) in ready:
                continue
            ready[name, version] = tmp_path_factory.mktemp(name)
            pip = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "install"]
            pip += ["--quiet", "--no-deps", "--no-compile", "--target", str(ready[name, version])]
            subprocess.run([*pip, f"{name}=={version}"], check=True)
        return [ready[each] for each in missing]

    return get


@pytest.fixture
def row(
    request: pytest.FixtureRequest,
    overlay: Callable[[dict[str, str]], list[Path]],
    tmp_path: Path,
) -> Path:
    """The interpreter of an environment of one row; what the rows share is this environment's."""
    release, stack = request.param
    directory = tmp_path / "row"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
    (site,) = directory.glob("lib/*/site-packages")
    places = overlay({DISTRIBUTION: release, **QUALIFIED[stack]})
    places += [Path(sysconfig.get_path("purelib")), Path(host.__file__).parent.parent]
    (site / "rest.pth").write_text("".join(f"{place}\n" for place in dict.fromkeys(places)))
    return directory / "bin" / "python3"


@pytest.mark.thorough
class TestRows:
    """Every release on every qualified stack: the shortcuts hold, and change nothing."""

    @pytest.mark.parametrize("row", ROWS, indirect=True, ids=str)
    def test_the_same_envelopes(self, row: Path, dcode: Dcode, raw: Make) -> None:
        script = """
import sys
from deepagents_ro import startup
from deepagents_ro.command import main
assert startup.verified()
main(sys.argv[1:])
"""
        server = raw(
            handlers={
                "tools/list": answer(f'{{"tools":[{WITH_SCHEMA}]}}'),
                "tools/call": answer(EVERYTHING),
            }
        )
        dcode.serve(raw=server)
        fast, plain = (
            subprocess.run(
                [str(row), "-I", "-c", script, "raw_look", "--json"],
                input=b"{}",
                capture_output=True,
                env={**dcode.env, **({startup.PLAIN_VARIABLE: "1"} if slow else {})},
                cwd=dcode.project,
                check=False,
            )
            for slow in (False, True)
        )
        assert b'"ok":true' in fast.stdout, fast.stdout + fast.stderr
        assert (fast.stdout, fast.returncode) == (plain.stdout, plain.returncode)
        # what ran ahead was what this SDK says: nothing was asked twice
        assert server.labels()[0] == "initialize"
        assert (server.count("initialize"), server.count("tools/list")) == (4, 2)


@pytest.mark.parametrize("has_its_own", [True, False])
async def test_a_redirect_with_an_sdk_of_either_stack(
    monkeypatch: pytest.MonkeyPatch, has_its_own: bool
) -> None:
    """The older SDK leaves redirects to its client; the call then refuses them, and is answered."""
    from mcp.shared import _httpx_utils

    if not has_its_own:
        monkeypatch.delattr(_httpx_utils, "next_request_within_origin")
    exchanges = Exchanges(_mcpro.Worker("a_b"), asyncio.get_running_loop())
    moved = httpx.MockTransport(lambda _request: httpx.Response(307, headers={"location": "/b"}))
    async with SessionClient(exchanges, "a", transport=moved) as client:
        answer = await client.post("https://192.0.2.1/a", content=b'{"jsonrpc":"2.0","id":7}')
    if has_its_own:
        assert (answer.status_code, answer.headers["location"]) == (307, "/b")
        return
    assert answer.status_code == 200
    assert answer.json()["id"] == 7
    assert "error" in answer.json()


HTTP = {"type": "http", "url": "https://example.invalid/"}


class TestNeeded:
    """What most calls do without is there for a server that needs it."""

    @pytest.mark.parametrize(
        ("entry", "tokens", "needed"),
        [
            (HTTP, "", ()),
            ({"type": "sse", "url": HTTP["url"]}, "other.json", ()),
            (HTTP, "raw.json", startup.FOR_LOGIN),
            (HTTP, "raw-0123456789abcdef.json", startup.FOR_LOGIN),
            ({**HTTP, "auth": "oauth"}, "", startup.FOR_LOGIN),
            ({"command": "true"}, "", startup.FOR_COMMANDS),
            ("an entry that is no object", "", (*startup.FOR_LOGIN, *startup.FOR_COMMANDS)),
        ],
    )
    def test_by_entry_and_stored_tokens(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        entry: object,
        tokens: str,
        needed: tuple[str, ...],
    ) -> None:
        monkeypatch.setattr("deepagents_code.model_config.DEFAULT_STATE_DIR", tmp_path)
        (tmp_path / "mcp-tokens").mkdir()
        if tokens:
            (tmp_path / "mcp-tokens" / tokens).touch()
        plan = Plan("raw_look", frozenset({"raw"}), raw={"raw": [HTTP, entry]})
        assert host.needed_modules(plan) == list(needed)

    def test_the_modules_are_the_packages_own(self) -> None:
        code = """
from deepagents_ro import startup
assert startup.install(startup.verified())
import filelock, mcp.client.auth, mcp.client.stdio, mcp.shared.auth, mcp.client.sse
own = (filelock, mcp.client.auth, mcp.client.stdio, mcp.shared.auth)
assert not any(isinstance(module, startup.StandIn) for module in own)
assert isinstance(mcp.client.sse, startup.StandIn)
"""
        python(code)


class TestPlugins:
    """DCode's plugins are read only if it may have one."""

    @pytest.fixture
    def state(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setattr("deepagents_code.model_config.DEFAULT_STATE_DIR", tmp_path / "state")
        return tmp_path / "state"

    def test_the_file_is_dcodes(self, state: Path) -> None:
        from deepagents_code.plugins import discover_plugins, store

        assert store._plugin_state_path() == state / "plugin_state.json"
        assert not discover_plugins().plugins

    def test_by_that_file(self, state: Path) -> None:
        assert not host.may_have_plugins()
        state.mkdir()
        assert not host.may_have_plugins()
        (state / "plugin_state.json").touch()
        assert host.may_have_plugins()

    def test_with_any_other_release(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(startup, "is_version", lambda *_arguments: False)
        assert host.may_have_plugins()

    def test_with_the_switch(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(startup.PLAIN_VARIABLE, "1")
        assert host.may_have_plugins()

    def test_when_it_cannot_be_looked_at(self, state: Path) -> None:
        state.symlink_to(state)  # a loop, which DCode takes for no file, by itself
        assert host.may_have_plugins()


class TestStepsAside:
    @pytest.mark.parametrize("release", RELEASES)
    def test_the_locks_are_of_the_table(self, release: str) -> None:
        pinned = {}
        for line in (LOCKS / f"dcode-{release}.txt").read_text().splitlines():
            name, mark, version = line.removesuffix(" \\").partition("==")
            if mark:
                pinned[name] = version.partition(" ")[0]
        wanted = {DISTRIBUTION: release, **QUALIFIED[0], **BELOW}
        assert {name: pinned[name] for name in wanted} == wanted

    def test_for_any_other_version_of_any_package(self, tmp_path: Path) -> None:
        packages = [name.replace("-", "_") for name in (PACKAGE, *QUALIFIED[0], *BELOW)]
        for package in packages:
            place = tmp_path / package
            (place / package).mkdir(parents=True)
            (place / package / "__init__.py").touch()
            (place / f"{package}-99.dist-info").mkdir()
        code = """
import importlib, os, sys
from deepagents_ro import startup
before = list(sys.meta_path)
for package in sys.argv[2:]:
    sys.path.insert(0, os.path.join(sys.argv[1], package))
    importlib.invalidate_caches()
    print(package, startup.install(startup.verified()))
    assert sys.meta_path == before
    del sys.path[0]
importlib.invalidate_caches()
print("itself", startup.install(startup.verified()))
assert len(sys.meta_path) == len(before) + 1
assert startup.install(startup.verified()) and len(sys.meta_path) == len(before) + 1
"""
        lines = python(code, str(tmp_path), *packages).splitlines()
        assert lines == [*(f"{package} False" for package in packages), "itself True"]

    @pytest.mark.parametrize("release", [*RELEASES, "0.1.99"])
    @pytest.mark.parametrize("row", [*QUALIFIED, {**QUALIFIED[0], "mcp": QUALIFIED[1]["mcp"]}])
    def test_the_rows_and_no_mixture(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, row: dict[str, str]
    ) -> None:
        for name, version in {PACKAGE: release, **row, **BELOW}.items():
            (tmp_path / f"{name.replace('-', '_')}-{version}.dist-info").mkdir()
        monkeypatch.setattr(startup, "place_of", lambda _package: str(tmp_path))
        assert (startup.verified() is not None) is (release in RELEASES and row in QUALIFIED)

    def test_when_a_package_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(startup.BELOW, "no_such_package_here", "1")
        before = list(sys.meta_path)
        assert startup.install(startup.verified()) is False
        assert sys.meta_path == before

    def test_for_what_is_loaded_already(self) -> None:
        code = """
import requests
from deepagents_ro import startup
assert startup.install(startup.verified())
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
    "import attrs; attrs.validators.instance_of(int)",
    "from filelock import FileLock; FileLock('a')",
    "import filelock.asyncio",
    "import httpcore; httpcore.ConnectionPool()",
    "from langchain_core.tracers.langchain import LangChainTracer; LangChainTracer()",
    "from mcp.client.auth import OAuthClientProvider\nclass Own(OAuthClientProvider): pass\nOwn(1)",
    "from mcp.client.stdio import get_default_environment",
    "from mcp.shared.auth import OAuthToken; OAuthToken.model_validate({})",
]


class TestStandIns:
    @pytest.mark.parametrize("statement", UNFORESEEN)
    def test_refuse_what_nobody_is_known_to_need(self, statement: str) -> None:
        code = """
import sys
from deepagents_ro import startup
assert startup.install(startup.verified(), ()) and startup.used() == []
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
startup.install(startup.verified())
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
    assert startup.install(startup.verified())
from langsmith import utils, run_helpers, get_tracing_context
run_helpers._set_tracing_context(None)
print(type(utils).__name__ == "StandIn", file=sys.stderr)
print(get_tracing_context(), utils.tracing_is_enabled(), list(get_tracing_context()))
print(utils.get_tracer_project())
"""
        assert python(code, "stand-in") == python(code, "real")

    def test_a_use_ends_the_call_as_a_runtime_failure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        used: list[str] = []
        monkeypatch.setattr(startup, "_used", used)

        def success_of(*_args: object, **_kwargs: object) -> bytes:
            try:
                startup.refuse("a.b")
            except startup.StandInUsed:
                return b"{}"  # a library that swallows the exception

        monkeypatch.setattr(call, "success_of", success_of)
        code, document = call.run(Command("a_b"), b"{}", None, managed=False)  # type: ignore[arg-type]
        assert used == ["a.b"]
        assert code == 1
        assert b'"code":"runtime_failure"' in document
