"""A private DCode with a managed runtime in it: a stand-in for what an image adds.

`ManagedImage` is an environment of its own whose `deepagents_code` is a copy of the patched one;
everything else comes from the environment that runs the tests. `runtime` writes any module as the
managed runtime, for what a broken one does. `EditedImage` is the stand-in of the public image: the
edits of DCode and the runtime's rules, both written for these tests. `run` starts the command the
way launchers do: minimal `PATH`, `python -I`, their own options first.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .dcode import INPUT, Run, Running

MODULE = "_nemoclaw_managed.py"
LAUNCHER_OPTIONS = ("--sandbox", "none", "--no-mcp")
WRAPPER = """\
#!/bin/sh
set -eu
PATH={bin}:/usr/bin:/bin
export PATH
exec python3 -m deepagents_code --sandbox none --no-mcp "$@"
"""


class ManagedImage:
    """The environment in `directory`, made once; see `runtime` and `start`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
        self.bin = directory / "bin"
        self.python = self.bin / "python3"
        version = f"python{sysconfig.get_python_version()}"
        site = directory / "lib" / version / "site-packages"
        distribution = importlib.metadata.distribution("deepagents-code")
        parent = Path(str(distribution.locate_file("")))
        self.package = site / "deepagents_code"
        shutil.copytree(parent / "deepagents_code", self.package)
        metadata = f"deepagents_code-{distribution.version}.dist-info"
        shutil.copytree(parent / metadata, site / metadata)
        (site / "parent.pth").write_text(f"{parent}\n")
        found = importlib.util.find_spec("deepagents_ro")
        assert found is not None
        assert found.origin is not None
        ours = Path(found.origin).parent.parent
        if ours != parent:
            (site / "ours.pth").write_text(f"{ours}\n")
        self.dcode = self.bin / "dcode"
        self.dcode.write_text(
            f"#!{self.python}\nimport sys\nfrom deepagents_code import cli_main\n"
            "if __name__ == '__main__':\n    sys.exit(cli_main())\n"
        )
        self.wrapper = self.bin / "dcode-wrapper.sh"
        self.wrapper.write_text(WRAPPER.format(bin=self.bin))
        for script in (self.dcode, self.wrapper):
            script.chmod(0o755)
        # The first import compiles what has no compiled copy here; it must not count as the call's.
        subprocess.run([self.python, "-I", "-m", "compileall", "-q", self.package], check=True)

    def runtime(self, text: str | None) -> None:
        """Install `text` as the managed runtime's module, or remove it."""
        for old in self.package.glob("__pycache__/_nemoclaw_managed.*.pyc"):
            old.unlink()
        path = self.package / MODULE
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)

    def command(self, launcher: str) -> list[str]:
        """What stands before the command's own words: `script`, `wrapper`, `module` or `ours`."""
        return {
            "script": [str(self.dcode)],
            "launcher": [str(self.dcode), *LAUNCHER_OPTIONS],
            "wrapper": [str(self.wrapper)],
            "module": [str(self.python), "-m", "deepagents_code", *LAUNCHER_OPTIONS],
            "isolated": [str(self.python), "-I", "-m", "deepagents_code", *LAUNCHER_OPTIONS],
            "ours": [str(self.python), "-I", "-m", "deepagents_ro", *LAUNCHER_OPTIONS],
        }[launcher]

    def run(
        self,
        tool: str,
        home: Path,
        env: Mapping[str, str],
        *,
        launcher: str = "script",
        argv: Sequence[str] | None = None,
        stdin: bytes = INPUT,
        pass_fds: Sequence[int] = (),
        redirect: str = "",
        before: Sequence[str] = (),
        limit: float = 30.0,
    ) -> Run:
        """One run to its end; `argv` replaces what comes after the launcher's words.

        `redirect` is bash's, such as `9<&5`; `before` are words that run the command in turn.
        """
        words = [] if launcher == "ours" else ["tools", "call-read-only"]
        command = self.command(launcher)
        command += [*words, tool, "--json"] if argv is None else list(argv)
        command = [*before, *command]
        if redirect:
            command = ["/bin/bash", "-c", f'exec "$@" {redirect}', "bash", *command]
        environment = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": f"{self.bin}:/usr/bin:/bin",
            **env,
        }
        started_at = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=environment,
            start_new_session=True,
            bufsize=0,
            pass_fds=pass_fds,
        )
        running = Running(process, command, started_at, str(home))
        return running.begin(stdin).finish(limit)


def sealed_file(content: bytes) -> int:
    """An anonymous file in memory that nobody can change; the descriptor is the caller's."""
    import fcntl

    descriptor = os.memfd_create("managed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, content)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


# Appended to the private copy of DCode, to the effect of the image's own edits: the reader asks the
# runtime first, nothing is discovered, no dotenv file and no stored credential is read.
EDITS = {
    "mcp_tools.py": """

import json as _json_of_the_image

from deepagents_code import _nemoclaw_managed as _runtime_of_the_image

_plain_reader = _load_mcp_config_json
_plain_loader = resolve_and_load_mcp_tools


def _load_mcp_config_json(config_path):
    held = _runtime_of_the_image.managed_mcp_config_bytes(config_path)
    return _plain_reader(config_path) if held is None else _json_of_the_image.loads(held)


async def resolve_and_load_mcp_tools(**arguments):
    if _runtime_of_the_image.is_managed_mcp_config_path(arguments.get("explicit_config_path")):
        arguments["project_context"] = None
    return await _plain_loader(**arguments)


def discover_mcp_configs(*, project_context=None):
    return []
""",
    "config.py": """


def _preview_dotenv_environ(*, start_path=None):
    return dict(os.environ)


def _load_dotenv(*, start_path=None, refresh_loaded=False):
    _dotenv_loaded_values.clear()
    return False


def _tracing_enabled():
    return False
""",
    "auth_store.py": """


def load_credentials():
    return {}
""",
    "model_config.py": """


ModelConfig.get_class_path = lambda self, provider_name: None
""",
}
ENTRY = "from deepagents_code.main import cli_main\n"
PARSED = "    args = parser.parse_args()\n"
RUNTIME = Path(__file__).with_name("managed_runtime.py")
OWNER = 12_345


class EditedImage(ManagedImage):
    """The stand-in of the public image: DCode edited as there, and a runtime that refuses as there.

    Its configuration is `HOME/.deepagents/.nemoclaw-mcp.json`; see `managed_runtime.py`.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        for name, text in EDITS.items():
            self.edit(name, lambda old, text=text: old + text)
        check = "from deepagents_code import _nemoclaw_managed\n_nemoclaw_managed.{}\n"
        self.edit(
            "__main__.py",
            lambda old: old.replace(ENTRY, check.format("assert_safe_runtime()") + ENTRY),
        )
        settle = "    from deepagents_code import _nemoclaw_managed\n"
        settle += "    _nemoclaw_managed.settle(parser, args)\n"
        self.edit("main.py", lambda old: old.replace(PARSED, PARSED + settle))
        share = self.package / "_managed_share"
        share.mkdir()
        (share / "inference-base-url").write_text("https://inference.local/v1\n")
        (share / "inference-base-url").chmod(0o444)
        self.runtime(RUNTIME.read_text())
        subprocess.run([self.python, "-I", "-m", "compileall", "-q", self.package], check=True)

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        """Change one file of the private copy; the change must change something."""
        path = self.package / name
        old = path.read_text()
        new = change(old)
        assert new != old, f"{name}: nothing to edit"
        path.unlink()
        path.write_text(new)


def managed_entry(url: str, variable: str = "VALIDATION_MCP_TOKEN") -> dict[str, Any]:
    """A server's entry of the one form that the runtime takes."""
    authorization = f"Bearer openshell:resolve:env:{variable}"
    return {"type": "http", "url": url, "headers": {"Authorization": authorization}}


def write_config(home: Path, servers: Mapping[str, Any], *, mode: int = 0o600) -> Path:
    """The managed configuration below `home`, as the runtime demands it unless `mode` says else."""
    path = home / ".deepagents" / ".nemoclaw-mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": dict(servers)}))
    path.chmod(mode)
    return path


def as_owner(home: Path) -> list[str]:
    """Words that run a command as an unprivileged user, who owns `home` and everything in it.

    The interpreter may live below a directory that is root's alone: a mount namespace of the
    command's own has it in an open one of the same name. Root only.
    """
    base = Path(sys.base_prefix)
    closed = next((place for place in reversed(base.parents) if not is_open(place)), None)
    script = f"chown -R {OWNER} {home}\n"
    if closed is not None:
        script += (
            f"mount --bind {base} /mnt\nmount -t tmpfs -o mode=755 none {closed}\n"
            f"mkdir -p {base}\nmount --move /mnt {base}\n"
        )
    script += f'exec setpriv --reuid {OWNER} --regid {OWNER} --clear-groups "$@"\n'
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", script, "sh"]


def is_open(directory: Path) -> bool:
    """Whether any user may enter the directory."""
    return bool(directory.stat().st_mode & 0o001)


class PublicNetwork:
    """A network namespace with one public IPv4 address and nobody else on it.

    The rules refuse loopback and private addresses. One thread lives in the namespace; `run` calls
    a function there: sockets and children that it makes are in the namespace too.
    """

    ADDRESS = "34.117.10.10"
    CLONE_NEWNET = 0x40000000

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> PublicNetwork:
        self.run(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def run(self, call: Callable[[], Any]) -> Any:
        return self._thread.submit(call).result()

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(self.CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "a network namespace of its own")
        for words in ("link set lo up", f"address add {self.ADDRESS}/32 dev lo"):
            subprocess.run(["ip", *words.split()], check=True)
