"""Whole runs in the stand-in of the public managed image: its edits, its rules, its launcher."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.managed import (
    EditedImage,
    PublicNetwork,
    as_owner,
    managed_entry,
    write_config,
)

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.raw_server import RawServer

TOOL = "worker-broker_look"
OWNER = "worker-broker"
REFUSE = Path(__file__).parent / "servers" / "refuse.py"
# The user's policy denies the owner's name: a layer would be filtered by it, a file is not.
DENIED = {"DEEPAGENTS_CODE_DISABLED_PROJECT_MCP_SERVERS": OWNER}


def refusing(error: str, *what: str) -> list[str]:
    """Words that run a command with anonymous files refused."""
    return [sys.executable, "-I", str(REFUSE), error, *what, "--"]


@pytest.fixture(scope="module")
def image() -> Iterator[EditedImage]:
    """In a directory that any user may enter, which pytest's own are not."""
    place = Path(tempfile.mkdtemp(prefix="managed-image-"))
    place.chmod(0o755)
    yield EditedImage(place / "image")
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def network() -> Iterator[PublicNetwork]:
    """A public address, in a network namespace; whoever asks for it needs "network namespaces"."""
    with PublicNetwork() as made:
        yield made


class World:
    """One test's home, and servers on the public address."""

    def __init__(self, image: EditedImage, network: PublicNetwork | None, home: Path) -> None:
        self.image = image
        self.network = network
        self.home = home
        home.mkdir()
        self.env: dict[str, str] = {}
        self.servers: list[RawServer] = []
        if network is not None:
            leaf = Authority.self_signed(home, network.ADDRESS)
            self.context = leaf.server_context()
            self.env = {"SSL_CERT_FILE": str(leaf.ca_file), "NO_PROXY": network.ADDRESS}

    def serve(self, **options: Any) -> RawServer:
        """A server that the rules accept."""
        assert self.network is not None
        address = self.network.ADDRESS
        server = self.network.run(
            lambda: RawServer(self.context, host=address, **options).__enter__()
        )
        self.servers.append(server)
        return server

    def run(self, tool: str = TOOL, **options: Any) -> Any:
        env = {**self.env, **options.pop("env", {})}
        options.setdefault("launcher", "isolated")

        def call() -> Any:
            return self.image.run(tool, self.home, env, **options)

        return call() if self.network is None else self.network.run(call)

    def audit(self, **options: Any) -> dict[str, Any]:
        """The audit's `data`, in the same place as the call."""
        run = self.run(argv=["tools", "audit-read-only", "--json"], **options).clean()
        return json.loads(run.stdout)["data"]


@pytest.fixture
def world(image: EditedImage, network: PublicNetwork, tmp_path: Path) -> Iterator[World]:
    made = World(image, network, tmp_path / "home")
    yield made
    for server in made.servers:
        server.stop()


@pytest.fixture
def alone(image: EditedImage, tmp_path: Path) -> World:
    """For what ends before any server is asked."""
    return World(image, None, tmp_path / "home")


@pytest.mark.parametrize("launcher", ["isolated", "ours"])
def test_one_owner_among_64(world: World, launcher: str) -> None:
    """Stateless, a self-signed leaf as the trusted root; nobody else is contacted."""
    server, other = world.serve(), world.serve()
    servers = {f"s{number}": managed_entry(other.url) for number in range(63)}
    write_config(world.home, {**servers, OWNER: managed_entry(server.url)})
    world.run(launcher=launcher).expect_ok(TOOL)
    assert server.count("tools/call") == 1
    assert other.connections == []


@pytest.mark.parametrize(("error", "env"), [("EACCES", {}), ("EPERM", DENIED), ("ENOSYS", DENIED)])
def test_memory_files_refused(world: World, error: str, env: dict[str, str]) -> None:
    server = world.serve()
    write_config(world.home, {OWNER: managed_entry(server.url)})
    world.run(env=env, before=refusing(error, "memfd")).expect_ok(TOOL)
    assert server.count("tools/call") == 1


@pytest.mark.needs("open stack")
@pytest.mark.parametrize(
    ("refused", "env"),
    [((), {}), (("memfd",), {}), (("memfd",), DENIED)],
    ids=["memory", "unlinked", "both unlinked"],
)
def test_an_unprivileged_owner(
    image: EditedImage, network: PublicNetwork, refused: tuple[str, ...], env: dict[str, str]
) -> None:
    """Who may open nothing by being root: not the runtime's file of mode 0, nor a file of ours."""
    home = Path(tempfile.mkdtemp(dir=image.directory.parent))
    world = World(image, network, home / "home")
    home.chmod(0o755)
    server = world.serve()
    write_config(world.home, {OWNER: managed_entry(server.url)})
    before = [*as_owner(world.home), *(refusing("EPERM", *refused) if refused else [])]
    world.run(env=env, before=before).expect_ok(TOOL)
    assert server.count("tools/call") == 1
    server.stop()


def test_ambiguous(world: World) -> None:
    tool = '{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
    one, other = world.serve(tools=[tool % "c"]), world.serve(tools=[tool % "b_c"])
    write_config(world.home, {"a_b": managed_entry(one.url), "a": managed_entry(other.url)})
    world.run("a_b_c").expect("ambiguous_tool")
    assert one.count("tools/call") + other.count("tools/call") == 0


def test_the_audit_tells_the_truth(world: World) -> None:
    server = world.serve()
    dead = f"https://{PublicNetwork.ADDRESS}:9/mcp"
    write_config(world.home, {OWNER: managed_entry(server.url), "dead": managed_entry(dead)})
    found = {row["name"]: row for row in world.audit()["servers"]}
    assert found["dead"]["state"] == "unreachable"
    assert found[OWNER]["state"] == "reachable"
    assert [tool["callable"] for tool in found[OWNER]["tools"]] == [True]


def unsafe_variable(world: World) -> dict[str, Any]:
    write_config(world.home, {OWNER: managed_entry("https://mcp.example.com/mcp")})
    return {"env": {"MY_API_KEY": "0123456789"}}


def wrong_mode(world: World) -> dict[str, Any]:
    write_config(world.home, {OWNER: managed_entry("https://mcp.example.com/mcp")}, mode=0o644)
    return {}


def refused_entry(world: World) -> dict[str, Any]:
    write_config(world.home, {OWNER: managed_entry("https://127.0.0.1/mcp")})
    return {}


def no_anonymous_file(world: World) -> dict[str, Any]:
    write_config(world.home, {OWNER: managed_entry("https://mcp.example.com/mcp")})
    return {"before": refusing("EPERM", "memfd", "tmpfile")}


def stored_login(world: World) -> dict[str, Any]:
    write_config(world.home, {OWNER: managed_entry("https://mcp.example.com/mcp")})
    state = world.home / ".deepagents" / ".state"
    state.mkdir()
    (state / "auth.json").write_text('{"credentials":{"openai":"x"}}')
    return {}


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (unsafe_variable, "runtime_environment"),
        (wrong_mode, "runtime_file"),
        (refused_entry, "runtime_entry"),
        (no_anonymous_file, "runtime_memory"),
        (stored_login, "runtime_state"),
    ],
)
def test_a_failure_is_explained_by_the_audit(
    alone: World, prepare: Callable[[World], dict[str, Any]], reason: str
) -> None:
    options = prepare(alone)
    alone.run(**options).expect("runtime_failure")
    data = alone.audit(**options)
    assert (data["code"], data["reason"]) == ("runtime_failure", reason)


def test_nobody_else_is_configured(alone: World) -> None:
    """No file of the user or the project counts, and no file at all is no server."""
    for place in (alone.home / ".mcp.json", alone.home / ".deepagents" / ".mcp.json"):
        place.parent.mkdir(exist_ok=True)
        entry = {"type": "http", "url": "https://127.0.0.1:9/mcp"}
        place.write_text(json.dumps({"mcpServers": {OWNER: entry}}))
    alone.run().expect("tool_not_found")
    assert alone.audit()["servers"] == []
