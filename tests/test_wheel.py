"""The wheel that carries its libraries: what is in it, and that it is enough.

`make wheel-test` builds it and sets DEEPAGENTS_RO_WHEEL; without it only the scripts are tested.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from hardening import missing

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements" / "dcode-0.1.55.txt"
WHEEL_VARIABLE = "DEEPAGENTS_RO_WHEEL"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# What glibc and the kernel bring; everything else has to be inside.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
INSTALL_SECONDS = 420
QUALIFY_SECONDS = 240

pytestmark = pytest.mark.needs("wheel")


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The built amd64 wheel."""
    path = Path(os.environ[WHEEL_VARIABLE])
    assert path.is_file(), f"{WHEEL_VARIABLE} names no file"
    return path


@pytest.fixture(scope="module")
def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def of(content: dict[str, bytes], ending: str) -> bytes:
    (name,) = [name for name in content if name.endswith(ending)]
    return content[name]


def python_of(version: str) -> str | None:
    """An interpreter of that minor version, on the PATH or where pyenv puts them."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    for python in [shutil.which(f"python{version}"), *map(str, found)]:
        if python is not None and works(python):
            return python
    return None


def works(python: str) -> bool:
    check = "import venv, ensurepip, ssl"
    return subprocess.run([python, "-I", "-c", check], capture_output=True).returncode == 0


def test_scripts_are_sound() -> None:
    for script in ("build_wheels.sh", "wheel_libraries.sh", "emulate_arm64.sh"):
        done = subprocess.run(["bash", "-n", str(ROOT / "scripts" / script)], capture_output=True)
        assert done.returncode == 0, done.stderr


def test_sources_are_pinned() -> None:
    lines = (ROOT / "scripts" / "wheel_sources.txt").read_text().splitlines()
    pinned = [line.split() for line in lines if not line.startswith("#")]
    assert len(pinned) == 4
    for digest, path in pinned:
        assert re.fullmatch(r"[0-9a-f]{64}", digest)
        assert re.fullmatch(r"pool/main/[a-z0-9/._+~-]+\.(orig|debian)\.tar\.(gz|xz)", path)


def test_its_name_says_what_it_needs(wheel: Path) -> None:
    assert re.fullmatch(r"deepagents_ro-[0-9.]+-cp311-abi3-manylinux_2_\d+_x86_64\.whl", wheel.name)
    glibc = int(wheel.name.partition("manylinux_2_")[2].partition("_")[0])
    assert glibc <= 36, "newer than Debian 12"


def test_its_record_is_right(content: dict[str, bytes]) -> None:
    rows = list(csv.reader(io.StringIO(of(content, ".dist-info/RECORD").decode())))
    assert {row[0] for row in rows} == set(content)
    for name, digest, size in rows:
        if digest:
            expected = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest())
            assert digest == "sha256=" + expected.rstrip(b"=").decode()
            assert int(size) == len(content[name])


def test_the_libraries_are_inside(content: dict[str, bytes], tmp_path: Path) -> None:
    extension = tmp_path / "_mcpro.abi3.so"
    extension.write_bytes(of(content, "_mcpro.abi3.so"))
    dynamic = subprocess.run(
        ["readelf", "-dW", str(extension)], capture_output=True, text=True, check=True
    ).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed <= SYSTEM_LIBRARIES
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(extension)], capture_output=True, text=True, check=True
    ).stdout
    assert symbols.split()[2:] == ["PyInit__mcpro"]
    for place in (str(ROOT), str(Path.home())):
        assert place.encode() not in extension.read_bytes()


def test_it_is_compiled_with_protection(content: dict[str, bytes], tmp_path: Path) -> None:
    extension = tmp_path / "_mcpro.abi3.so"
    extension.write_bytes(of(content, "_mcpro.abi3.so"))
    assert missing(extension) == []


def test_licences_and_sbom(content: dict[str, bytes], wheel: Path) -> None:
    bom = json.loads(of(content, ".cdx.json"))
    assert bom["bomFormat"] == "CycloneDX"
    inside = {part["name"]: part for part in bom["components"]}
    assert {"curl", "cjson", "openssl", "zlib", "brotli"} <= set(inside)
    metadata = of(content, ".dist-info/METADATA").decode()
    for name, part in inside.items():
        assert part["purl"].startswith(f"pkg:deb/debian/{name}@")
        assert len(of(content, f"/licenses/bundled/{name}.txt")) > 500
        assert f"License-File: bundled/{name}.txt" in metadata
        assert part["licenses"][0]["license"]["id"] in metadata
    beside = wheel.with_suffix(".cdx.json")
    assert json.loads(beside.read_text()) == bom


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_enough(wheel: Path, tmp_path: Path, version: str) -> None:
    """Clean environment, no compiler, no headers: the pinned DCode, the wheel, the whole proof."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"there is no Python {version} with venv and ssl on this machine")
    environment = tmp_path / "venv"
    subprocess.run([python, "-I", "-m", "venv", str(environment)], check=True)
    own = environment / "bin" / "python"
    tools = tmp_path / "tools"
    tools.mkdir()
    env = {"PATH": str(tools), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    pip = [str(own), "-I", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    # One requirement is published as source alone: pure Python, made a wheel without a compiler.
    setuptools = tmp_path / "setuptools.txt"
    (pinned,) = re.findall(r"(?m)^setuptools==(?:.*\\\n)+.*\n", LOCK.read_text())
    setuptools.write_text(pinned)
    source = ["--no-binary=forbiddenfruit", "--no-build-isolation"]
    for what in (
        ["--require-hashes", "-r", str(setuptools)],
        [*source, "--require-hashes", "-r", str(LOCK)],
        ["--no-deps", str(wheel)],
    ):
        subprocess.run(
            [*pip, "--only-binary=:all:", *what], check=True, env=env, timeout=INSTALL_SECONDS
        )
    patch = [str(own), "-I", "-m", "deepagents_ro.patch"]
    for action in ("apply", "check"):
        subprocess.run([*patch, action], check=True, env=env)
    done = subprocess.run(
        [str(own), "-I", "-m", "deepagents_ro.qualify", "--json"],
        capture_output=True,
        text=True,
        env=env,
        timeout=QUALIFY_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["python"].startswith(f"{version}.")
    assert report["ok"] is True
