"""A private DCode with a managed runtime in it: a stand-in for the module that an image adds.

`ManagedImage` is an environment of its own whose `deepagents_code` is a copy of the patched one;
everything else comes from the environment that runs the tests. `runtime` writes the stand-in,
`run` starts the command the way launchers do: minimal `PATH`, `python -I`, their own options first.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

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
        limit: float = 30.0,
    ) -> Run:
        """One run to its end; `argv` replaces what comes after the launcher's words.

        `redirect` is bash's, such as `9<&5`.
        """
        words = [] if launcher == "ours" else ["tools", "call-read-only"]
        command = self.command(launcher)
        command += [*words, tool, "--json"] if argv is None else list(argv)
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
        running = Running(process, command, started_at, home, None)
        return running.begin(stdin).finish(limit)


def sealed_file(content: bytes) -> int:
    """An anonymous file in memory that nobody can change; the descriptor is the caller's."""
    import fcntl

    descriptor = os.memfd_create("managed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, content)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor
