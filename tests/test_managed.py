"""The managed runtime: its own servers and no others, its safety check, its launchers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.dcode import entry
from servers.managed import ManagedImage, sealed_file

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, http, result_message

Make = Callable[..., RawServer]
TOOL = "raw_look"
LAUNCHERS = ("script", "launcher", "wrapper", "module", "isolated", "ours")

# A stand-in: notes each call, then does what its two lines say.
RUNTIME = """\
import os
from pathlib import Path

def note(what):
    with open({log!r}, "a") as log:
        log.write(what + "\\n")

def assert_safe_runtime():
    note("assert")
    {check}

def managed_mcp_config_path():
    note("path")
    {path}
"""

# Holds its configuration open in a sealed file in memory from the moment it is imported.
SEALED_AT_IMPORT = """\
import fcntl
import os

_CONTENT = {content!r}
_FD = os.memfd_create("managed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.write(_FD, _CONTENT)
fcntl.fcntl(_FD, fcntl.F_ADD_SEALS,
            fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)

def assert_safe_runtime():
    assert os.pread(_FD, 1 << 20, 0) == _CONTENT

def managed_mcp_config_path():
    return f"/proc/self/fd/{{_FD}}"
"""

# The same with an unlinked file, where sealed ones cannot be had.
UNLINKED = """\
import os

_FD = os.open({directory!r}, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
os.write(_FD, {content!r})

def assert_safe_runtime():
    pass

def managed_mcp_config_path():
    return f"/proc/self/fd/{{_FD}}"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> ManagedImage:
    return ManagedImage(tmp_path_factory.mktemp("managed") / "image")


class World:
    """One test's home, its servers' configuration, and the managed runtime's log."""

    def __init__(self, image: ManagedImage, home: Path, authority: Authority) -> None:
        self.image = image
        self.home = home
        self.log = home / "runtime.log"
        self.config = home / "managed.json"
        self.env = {"SSL_CERT_FILE": str(authority.ca_file), "NO_PROXY": "127.0.0.1"}
        (home / ".deepagents").mkdir(parents=True)

    def runtime(self, *, check: str = "pass", path: str | None = None) -> None:
        """The stand-in whose two functions end with the statements `check` and `path`."""
        answer = f"return {str(self.config)!r}" if path is None else path
        self.image.runtime(RUNTIME.format(log=str(self.log), check=check, path=answer))

    def serve(self, **servers: Any) -> None:
        """What the managed runtime configures."""
        self.config.write_bytes(document(servers))

    def user(self, **servers: Any) -> None:
        """What stands in the user's own configuration."""
        (self.home / ".deepagents" / ".mcp.json").write_bytes(document(servers))

    def project(self, **servers: Any) -> None:
        """What stands in the working directory's configuration."""
        (self.home / ".mcp.json").write_bytes(document(servers))

    def called(self) -> list[str]:
        """What the stand-in noted."""
        return self.log.read_text().split() if self.log.exists() else []

    def run(self, tool: str = TOOL, **kwargs: Any) -> Any:
        env = {**self.env, **kwargs.pop("env", {})}
        return self.image.run(tool, self.home, env, **kwargs)


@pytest.fixture
def world(image: ManagedImage, tmp_path: Path, authority: Authority) -> Iterator[World]:
    made = World(image, tmp_path / "home", authority)
    made.runtime()
    yield made
    image.runtime(None)


def document(servers: dict[str, Any]) -> bytes:
    return json.dumps(
        {"mcpServers": {name: entry(value) for name, value in servers.items()}}
    ).encode()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_reaches_the_managed_server_once(
    world: World, raw: Make, launcher: str
) -> None:
    server = raw()
    world.serve(raw=server)
    world.run(launcher=launcher).expect_ok(TOOL)
    assert server.count("tools/call") == 1
    assert world.called() == ["assert", "path"]


@pytest.mark.parametrize("disclosure", ["progressive", "direct"])
def test_a_launchers_environment(world: World, raw: Make, disclosure: str) -> None:
    server = raw()
    world.serve(raw=server)
    dead = "http://127.0.0.1:9"
    run = world.run(
        launcher="wrapper",
        env={
            "NEMOCLAW_TOOL_DISCLOSURE": disclosure,
            "HTTP_PROXY": dead,
            "HTTPS_PROXY": dead,
            "https_proxy": dead,
            "no_proxy": "localhost,127.0.0.1,::1",
            "DEEPAGENTS_CODE_NO_UPDATE_CHECK": "1",
            "DEEPAGENTS_CODE_OPENAI_API_KEY": "managed-inference",
        },
    )
    run.expect_ok(TOOL)
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("launcher", ["launcher", "ours"])
def test_servers_beside_it_are_not_seen(world: World, raw: Make, launcher: str) -> None:
    user, project = raw(), raw()
    world.serve(other=raw())
    world.user(raw=user)
    world.project(raw=project)
    world.run(launcher=launcher).expect("tool_not_found")
    assert user.connections == []
    assert project.connections == []


def test_the_managed_entry_wins_over_the_same_name(world: World, raw: Make) -> None:
    managed, user, project = raw(), raw(), raw()
    world.serve(raw=managed)
    world.user(raw=user)
    world.project(raw=project)
    world.run().expect_ok(TOOL)
    assert managed.count("tools/call") == 1
    assert user.connections == []
    assert project.connections == []


def test_a_server_beside_it_cannot_make_the_name_ambiguous(world: World, raw: Make) -> None:
    tool = '{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
    managed, user = raw(tools=[tool % "c"]), raw(tools=[tool % "b_c"])
    world.serve(a_b=managed)
    world.user(a=user)
    world.run("a_b_c").expect_ok("a_b_c")
    assert managed.count("tools/call") == 1
    assert user.connections == []


def test_managed_servers_can_be_ambiguous(world: World, raw: Make) -> None:
    tool = '{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
    one, other = raw(tools=[tool % "c"]), raw(tools=[tool % "b_c"])
    world.serve(a_b=one, a=other)
    world.run("a_b_c").expect("ambiguous_tool")
    assert one.count("tools/call") + other.count("tools/call") == 0


def test_a_broken_file_beside_it_is_not_in_the_way(world: World, raw: Make) -> None:
    world.serve(raw=raw())
    (world.home / ".deepagents" / ".mcp.json").write_text("{")
    (world.home / ".mcp.json").write_text("[]")
    world.run().expect_ok(TOOL)


def test_a_command_beside_it_is_not_started(world: World, raw: Make) -> None:
    mark = world.home / "started"
    world.serve(other=raw())
    stdio = {"command": "/bin/sh", "args": ["-c", f"touch {mark}; exec sleep 30"]}
    world.user(raw=stdio)
    world.run().expect("tool_not_found")
    assert not mark.exists()


def test_none_means_no_server(world: World, raw: Make) -> None:
    user = raw()
    world.user(raw=user)
    world.runtime(path="return None")
    world.run(launcher="launcher").expect("tool_not_found")
    assert user.connections == []
    world.run("read_file").expect("not_mcp_tool")


def test_a_path_object(world: World, raw: Make) -> None:
    world.serve(raw=raw())
    world.runtime(path=f"return Path({str(world.config)!r})")
    world.run().expect_ok(TOOL)


@pytest.mark.parametrize("launcher", ["launcher", "wrapper", "ours"])
def test_a_sealed_file_of_the_runtime(world: World, raw: Make, launcher: str) -> None:
    server = raw()
    content = document({"raw": server})
    world.image.runtime(SEALED_AT_IMPORT.format(content=content))
    world.run(launcher=launcher).expect_ok(TOOL)
    assert server.count("tools/call") == 1


def test_an_unlinked_file_of_the_runtime(world: World, raw: Make, tmp_path: Path) -> None:
    content = document({"raw": raw()})
    world.image.runtime(UNLINKED.format(directory=str(tmp_path), content=content))
    world.run().expect_ok(TOOL)


@pytest.mark.parametrize("number", [77, 200, 1000])
def test_a_sealed_file_that_the_launcher_hands_down(world: World, raw: Make, number: int) -> None:
    server = raw()
    sealed = sealed_file(document({"raw": server}))
    try:
        world.runtime(path=f"return '/proc/self/fd/{number}'")
        run = world.run(
            launcher="launcher", pass_fds=[sealed], redirect=f"{number}<&{sealed} {sealed}<&-"
        )
    finally:
        os.close(sealed)
    run.expect_ok(TOOL)
    assert server.count("tools/call") == 1


@pytest.mark.parametrize(
    "check",
    [
        "raise RuntimeError('unsafe: /secret/path')",
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "print('unsafe', flush=True); os.write(2, b'unsafe'); raise ValueError",
        "return 1 / 0",
    ],
)
def test_an_unsafe_runtime(world: World, raw: Make, check: str) -> None:
    server = raw()
    world.serve(raw=server)
    world.runtime(check=check)
    world.run().expect("runtime_failure")
    assert server.connections == []
    assert world.called() == ["assert"]


@pytest.mark.parametrize(
    "path",
    [
        "raise RuntimeError('no')",
        "return 7",
        "return '/nowhere/managed.json'",
        "return '/proc/self/fd/999'",
        "return '/'",
        "return ''",
    ],
)
def test_a_runtime_without_a_usable_file(world: World, raw: Make, path: str) -> None:
    user = raw()
    world.user(raw=user)
    world.runtime(path=path)
    world.run().expect("runtime_failure")
    assert user.connections == []


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"mcpServers":[]}', b"\xff"])
def test_a_runtimes_file_that_cannot_be_read(world: World, text: bytes) -> None:
    world.config.write_bytes(text)
    world.run().expect("runtime_failure")


def test_a_runtime_that_cannot_be_imported(world: World, raw: Make) -> None:
    user = raw()
    world.user(raw=user)
    world.image.runtime("import nothing_of_that_name\n")
    world.run().expect("runtime_failure")
    assert user.connections == []


def test_the_check_comes_before_everything_that_the_user_can_write(world: World, raw: Make) -> None:
    """The runtime sees its own environment, not what a dotenv file makes of it."""
    world.serve(raw=raw())
    (world.home / ".deepagents" / ".env").write_text("FROM_DOTENV=1\n")
    (world.home / ".env").write_text("FROM_DOTENV=1\n")
    world.runtime(check="assert 'FROM_DOTENV' not in os.environ")
    world.run().expect_ok(TOOL)


def test_what_the_runtime_prints_is_not_seen(world: World, raw: Make) -> None:
    world.serve(raw=raw())
    world.runtime(check="print('noise', flush=True); os.write(1, b'noise'); os.write(2, b'noise')")
    world.run().expect_ok(TOOL)


def test_stdin_is_judged_before_the_runtime_is_asked(world: World) -> None:
    world.runtime(check="raise RuntimeError('unsafe')")
    world.run(stdin=b"").expect("input_required")
    world.run(stdin=b"[]").expect("invalid_input")
    world.run(stdin=b" " * 131_073).expect("input_too_large")
    assert world.called() == []


@pytest.mark.parametrize("launcher", ["script", "module"])
@pytest.mark.parametrize(
    "options",
    [
        ["--mcp-config", "{explicit}"],
        ["--mcp-config={explicit}"],
        ["--trust-project-mcp"],
        ["--sandbox", "docker"],
        ["--sandbox=docker"],
        ["--sandbox"],
        ["--sandbox-id", "none"],
    ],
)
def test_options_that_are_refused(
    world: World, raw: Make, launcher: str, options: list[str]
) -> None:
    server, explicit = raw(), raw()
    world.serve(raw=server)
    file = world.home / "explicit.json"
    file.write_bytes(document({"raw": explicit}))
    words = [option.format(explicit=file) for option in options]
    argv = [*words, "tools", "call-read-only", TOOL, "--json"]
    world.run(launcher=launcher, argv=argv).expect("invalid_command")
    assert server.connections == []
    assert explicit.connections == []
    assert world.called() == []


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--no-mcp"],
        ["--sandbox", "none"],
        ["--sandbox=none"],
        ["--no-mcp", "--sandbox", "none"],
        ["--sandbox", "none", "--no-mcp"],
        ["--no-mcp", "--no-mcp", "--sandbox=none"],
    ],
)
def test_options_that_are_ignored(world: World, raw: Make, options: list[str]) -> None:
    server = raw()
    world.serve(raw=server)
    world.run(argv=[*options, "tools", "call-read-only", TOOL, "--json"]).expect_ok(TOOL)
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("option", ["--no-mcp", "--sandbox", "--sandbox=none", "none"])
def test_nothing_of_it_after_the_command(world: World, option: str) -> None:
    argv = ["tools", "call-read-only", TOOL, "--json", option]
    world.run(argv=argv).expect("invalid_command")


def test_without_a_managed_runtime_sandbox_is_refused(world: World, raw: Make) -> None:
    user = raw()
    world.user(raw=user)
    world.image.runtime(None)
    world.run(launcher="launcher").expect("invalid_command")
    assert user.connections == []
    world.run().expect_ok(TOOL)


def test_the_deadline_cannot_be_lowered(world: World, raw: Make) -> None:
    def late(request: Request, wire: Wire) -> bytes:
        wire.sleep(2.0)
        return http(200, result_message(request, '{"content":[]}'))

    world.serve(raw=raw(handlers={"tools/call": late}))
    run = world.run(env={"DEEPAGENTS_RO_DEADLINE_MS": "500"})
    run.expect_ok(TOOL)
    assert run.seconds > 2.0


def test_the_full_deadline(world: World, raw: Make) -> None:
    server = raw(handlers={"tools/call": lambda request, wire: wire.stall(30)})
    world.serve(raw=server)
    run = world.run(launcher="launcher", env={"DEEPAGENTS_RO_DEADLINE_MS": "500"})
    # by 15.5 s on an idle machine; before the last stop at 18 s on any
    run.expect("timeout").ended_between(15.0, 17.9)
    assert server.count("tools/call") == 1


def test_the_audit_sees_the_managed_servers_alone(world: World, raw: Make) -> None:
    server, user = raw(), raw()
    world.serve(raw=server)
    world.user(mine=user)
    run = world.run(launcher="launcher", argv=["tools", "audit-read-only", "--json"]).clean()
    assert run.exit_code == 0
    assert [row["name"] for row in json.loads(run.stdout)["data"]["servers"]] == ["raw"]
    assert user.connections == []


def test_help(world: World) -> None:
    run = world.run(launcher="launcher", argv=["tools", "call-read-only", "--help"]).clean()
    assert run.exit_code == 0
    assert run.stdout.startswith(b"Usage: dcode ")
    assert world.called() == []
