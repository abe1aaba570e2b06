"""The managed image: its Dockerfile, carried out in a chroot, gives an image that qualifies.

`make image-test` builds the wheel and the base and sets the two variables; without them only what
needs no root is tested.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
DOCKERFILE = ROOT / "image" / "Dockerfile"
BASE_VARIABLE = "DEEPAGENTS_RO_IMAGE_BASE"
DIST_VARIABLE = "DEEPAGENTS_RO_DIST"
BUILD_SECONDS = 900
CHROOT_USER = "10001:10001"


@pytest.fixture(scope="module")
def chroot_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "chroot_build", ROOT / "image" / "chroot_build.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["chroot_build"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root directory of the built image."""
    base = os.environ.get(BASE_VARIABLE)
    if base is None:
        pytest.skip("`make image-test` makes the base and the wheel, and runs this")
    if os.geteuid() != 0:
        pytest.fail("carrying out the Dockerfile in a chroot needs root")
    directory = tmp_path_factory.mktemp("image")
    context = directory / "context"
    for name in ("requirements", "image"):
        (context / name).parent.mkdir(exist_ok=True)
        (context / name).symlink_to(ROOT / name)
    (context / "dist").symlink_to(os.environ[DIST_VARIABLE])
    subprocess.run(
        [sys.executable, ROOT / "image" / "chroot_build.py", base, context, directory / "roots"],
        check=True,
        timeout=BUILD_SECONDS,
    )
    yield directory / "roots" / "final"
    subprocess.run(["rm", "-rf", str(directory / "roots")], check=True)


def inside(image: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """`words` in the image as its user, on a root file system that is read-only."""
    enter = (
        'set -eu; root=$1; shift; mount --bind "$root" "$root"; mount -o remount,bind,ro "$root"; '
        'mount -t proc proc "$root/proc"; mount --bind /dev "$root/dev"; '
        f'exec /usr/sbin/chroot --userspec={CHROOT_USER} --groups= "$root" "$@"'
    )
    return subprocess.run(
        ["unshare", "--mount", "--fork", "/bin/sh", "-c", enter, "sh", str(image), *words],
        input=stdin,
        capture_output=True,
        env={"HOME": "/home/dcode", "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        timeout=60,
    )


def test_the_dockerfile_pins_what_it_takes(chroot_build: ModuleType) -> None:
    steps = list(chroot_build.instructions(DOCKERFILE.read_text()))
    assert [rest for name, rest in steps if name == "ARG"] == ["BASE_IMAGE"], "a base by default"
    assert {rest.split()[0] for name, rest in steps if name == "FROM"} == {"${BASE_IMAGE}"}
    installs = [rest for name, rest in steps if name == "RUN" and " install " in rest]
    assert len(installs) == 3
    assert all("--require-hashes" in rest or "--no-index" in rest for rest in installs)
    assert all("--only-binary=:all:" in rest or "--no-deps" in rest for rest in installs)


def test_the_dockerfile_ends_with_the_proof_as_a_user(chroot_build: ModuleType) -> None:
    steps = list(chroot_build.instructions(DOCKERFILE.read_text()))
    names = [name for name, _ in steps]
    last_user = max(i for i, name in enumerate(names) if name == "USER")
    assert steps[last_user][1] == CHROOT_USER
    proof = [i for i, (_, rest) in enumerate(steps) if "deepagents_ro.qualify" in rest]
    assert proof
    assert all(i > last_user for i in proof)
    assert names[-1] == "ENTRYPOINT"


def test_every_instruction_is_known(chroot_build: ModuleType) -> None:
    for name, _ in chroot_build.instructions(DOCKERFILE.read_text()):
        assert hasattr(chroot_build.Build, f"do_{name.lower()}")


def test_instructions_are_read_as_docker_reads_them(chroot_build: ModuleType) -> None:
    text = "# c\nFROM x AS y\nRUN a && \\\n    # inside\n    b\n\nENV A=b c\nrun last"
    assert list(chroot_build.instructions(text)) == [
        ("FROM", "x AS y"),
        ("RUN", "a && b"),
        ("ENV", "A=b c"),
        ("RUN", "last"),
    ]


def test_an_unknown_instruction_is_refused(chroot_build: ModuleType, tmp_path: Path) -> None:
    build = chroot_build.Build(tmp_path, tmp_path, tmp_path)
    with pytest.raises(chroot_build.Unsupported):
        build.carry_out("VOLUME /data")
    with pytest.raises(chroot_build.Unsupported):
        build.carry_out("RUN true")


def test_scripts_are_sound() -> None:
    done = subprocess.run(["bash", "-n", str(ROOT / "image" / "base_root.sh")], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_the_image_has_been_qualified(image: Path) -> None:
    report = json.loads((image / "home/dcode/qualification.json").read_text())
    assert report["ok"] is True
    assert report["complete"] is True
    assert report["versions"]["deepagents-code"] == "0.1.55"


def test_the_image_is_read_only_for_its_user(image: Path) -> None:
    found = inside(
        image,
        "find",
        "/opt/dcode",
        "-not",
        "-type",
        "l",
        "(",
        "-writable",
        "-o",
        "-perm",
        "/022",
        ")",
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == b""
    assert b"uid=10001" in inside(image, "id").stdout


def test_the_command_in_the_image(image: Path) -> None:
    tool = ("tools", "call-read-only", "worker-broker_absent", "--json")
    run = inside(image, "/usr/local/bin/dcode", *tool, stdin=b"{}")
    assert run.returncode == 1
    assert run.stderr == b""
    assert json.loads(run.stdout)["data"]["code"] == "tool_not_found"
    shown = inside(image, "/usr/local/bin/dcode", "--version")
    assert re.search(rb"0\.1\.55", shown.stdout)


def test_there_is_nothing_to_compile_with(image: Path) -> None:
    for name in ("gcc", "cc", "clang", "make"):
        assert not (image / "usr" / "bin" / name).exists()
