"""Carries out image/Dockerfile without a container engine, in directories and chroots.

    python image/chroot_build.py BASE CONTEXT OUTPUT

BASE is a root directory that stands for BASE_IMAGE (`image/base_root.sh` makes one), CONTEXT the
build context; OUTPUT becomes the root directory of the last stage. Needs root. Each RUN is a
process in a mount namespace of its own, with /proc and /dev, and with the environment that the
Dockerfile gives it; `PIP_*` of this process is passed on, as one would pass it as build arguments.
Of Dockerfiles this knows what ours uses, and refuses everything else.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

RUN_SECONDS = 600
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a RUN sees beside its root directory: name resolution, and the trusted roots of this machine.
BORROWED = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt")
ENTER = """\
set -eu
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
root=$1 directory=$2 user=$3
shift 3
exec /usr/sbin/chroot --userspec="$user" --groups= "$root" \
    /bin/sh -c 'cd "$1" && exec /bin/sh -ec "$2"' sh "$directory" "$@"
"""


class Unsupported(Exception):  # noqa: N818 - a refusal
    """An instruction that this does not know."""


@dataclass(slots=True)
class Stage:
    """One FROM and what has been done since."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    directory: str = "/"

    def inside(self, path: str) -> Path:
        """An absolute path of the image, on this machine."""
        return self.root / os.path.join(self.directory, path).lstrip("/")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Name and arguments of each instruction; continued lines joined, comments left out."""
    joined = re.sub(r"(?m)^\s*#.*\n", "", text + "\n")
    joined = re.sub(r"\s*\\\n\s*", " ", joined)
    for line in joined.splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest.strip()


class Build:
    """All stages of one Dockerfile."""

    def __init__(self, base: Path, context: Path, output: Path) -> None:
        self._base = base
        self._context = context
        self._output = output
        self._stages: dict[str, Stage] = {}
        self._last: Stage | None = None

    def carry_out(self, text: str) -> Stage:
        """Do everything; the last stage. Raises `Unsupported`, `CalledProcessError`, `OSError`."""
        for name, rest in instructions(text):
            started = time.monotonic()
            print(f"{name} {rest}", flush=True)
            getattr(self, f"do_{name.lower()}", self._refuse)(rest)
            print(f"    {time.monotonic() - started:.1f} s", flush=True)
        if self._last is None:
            raise Unsupported("no FROM")
        return self._last

    def _refuse(self, rest: str) -> None:
        raise Unsupported(rest)

    @property
    def stage(self) -> Stage:
        if self._last is None:
            raise Unsupported("an instruction before FROM")
        return self._last

    def do_arg(self, rest: str) -> None:
        if rest != "BASE_IMAGE":
            raise Unsupported(f"ARG {rest}")

    def do_from(self, rest: str) -> None:
        words = rest.split()
        if words[0] != "${BASE_IMAGE}" or len(words) not in (1, 3):
            raise Unsupported(f"FROM {rest}")
        name = words[2] if len(words) == 3 else "final"
        root = self._output / name
        subprocess.run(["cp", "-a", "--reflink=auto", str(self._base), str(root)], check=True)
        self._last = self._stages[name] = Stage(root, {"PATH": DEFAULT_PATH})

    def do_user(self, rest: str) -> None:
        self.stage.user = rest

    def do_env(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.stage.env[name] = value

    def do_workdir(self, rest: str) -> None:
        self.stage.directory = rest
        self.stage.inside("").mkdir(parents=True, exist_ok=True)

    def do_entrypoint(self, rest: str) -> None:
        program = json.loads(rest)[0]
        if not os.access(self.stage.root / os.readlink(self.stage.inside(program))[1:], os.X_OK):
            raise Unsupported(f"ENTRYPOINT {program} is not there")

    def do_copy(self, rest: str) -> None:
        words = shlex.split(rest)
        if words[0].startswith("--from="):
            root = self._stages[words.pop(0).partition("=")[2]].root
        else:
            root = self._context
        source, target = words
        found, place = root / source.lstrip("/"), self.stage.inside(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, place, symlinks=True)
        else:
            shutil.copy2(found, place)

    def do_run(self, rest: str) -> None:
        stage = self.stage
        borrowed = [Path(name) for name in BORROWED if Path(name).exists()]
        for path in borrowed:
            place = stage.root / str(path)[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        passed = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        subprocess.run(
            [
                *("unshare", "--mount", "--fork", "/bin/sh", "-c", ENTER, "sh"),
                *(str(stage.root), stage.directory, stage.user, rest),
            ],
            check=True,
            env={**passed, **stage.env},
            stdin=subprocess.DEVNULL,
            timeout=RUN_SECONDS,
        )


def main(base: str, context: str, output: str) -> None:
    text = (Path(context) / "image" / "Dockerfile").read_text()
    place = Path(output).resolve()
    place.mkdir(parents=True)
    stage = Build(Path(base).resolve(), Path(context).resolve(), place).carry_out(text)
    print(f"made {stage.root}")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("image/chroot_build.py needs root: it enters chroots and mounts /proc there")
    main(*sys.argv[1:])
