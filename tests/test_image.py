"""The managed image: built by buildah from its Dockerfile, it is what it promises, and it runs.

`make image-test` builds wheel, base and image, each twice, and sets the variable; without it only
what needs no root is tested. What runs here runs in the built image as its user, on a root that is
read-only, in namespaces of its own with no network but loopback.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from machine import ACTIONLINT

ROOT = Path(__file__).parent.parent
IMAGE = ROOT / "image"
PLAY = IMAGE / "play.yaml"
WORKFLOW = ROOT / ".github" / "workflows" / "image.yml"
LAYOUT_VARIABLE = "DEEPAGENTS_RO_IMAGE_LAYOUT"
VERSION = "0.1.0"
USER = "10001:10001"
# Of the image without its base, uncompressed.
OWN_BYTES_LIMIT = 400_000_000
LABELS = {"title", "description", "source", "revision", "version", "licenses"}


def instructions(text: str) -> list[tuple[str, str]]:
    """Name and arguments of each instruction; continued lines joined, comments left out."""
    joined = re.sub(r"(?m)^\s*#.*\n", "", text + "\n")
    joined = re.sub(r"\s*\\\n\s*", " ", joined)
    split = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(name.upper(), rest.strip()) for name, _, rest in split]


STEPS = instructions((IMAGE / "Dockerfile").read_text())


# What needs no root.


def test_the_dockerfile_pins_what_it_takes() -> None:
    assert [rest for name, rest in STEPS if name == "ARG"] == ["BASE_IMAGE"], "a base by default"
    sources = [rest.split()[0] for name, rest in STEPS if name == "FROM"]
    assert sources == ["${BASE_IMAGE}", "${BASE_IMAGE}", "image", "image"]
    installs = [rest for name, rest in STEPS if name == "RUN" and " install " in rest]
    assert len(installs) == 3
    assert all("--require-hashes" in rest or "--no-index" in rest for rest in installs)
    assert all("--only-binary=:all:" in rest or "--no-deps" in rest for rest in installs)
    assert all("--no-compile" in rest and "--no-cache-dir" in rest for rest in installs)


def test_no_image_without_the_proof() -> None:
    """The last stage takes a file that only the qualification, run as the user, makes."""
    names = [name for name, _ in STEPS]
    proof = STEPS.index(("FROM", "image AS proof"))
    user = max(i for i, step in enumerate(STEPS[:proof]) if step[0] == "USER")
    assert STEPS[user][1] == USER
    assert any("deepagents_ro.qualify" in rest for _, rest in STEPS[proof:])
    assert "USER" not in names[proof:]
    assert STEPS[-2] == ("FROM", "image")
    assert STEPS[-1][0] == "COPY"
    assert STEPS[-1][1].startswith("--from=proof ")


def test_instructions_are_read_as_docker_reads_them() -> None:
    text = "# c\nFROM x AS y\nRUN a && \\\n    # inside\n    b\n\nENV A=b c\nrun last"
    assert instructions(text) == [
        ("FROM", "x AS y"), ("RUN", "a && b"), ("ENV", "A=b c"), ("RUN", "last"),
    ]  # fmt: skip


@pytest.mark.parametrize("script", sorted(IMAGE.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_sound(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_nothing_names_a_registry() -> None:
    for file in [*IMAGE.iterdir(), WORKFLOW]:
        if file.is_file():
            found = re.findall(r"\b(?:docker\.io|ghcr\.io|quay\.io|[a-z]+\.pkg\.dev)\b",
                               file.read_text())  # fmt: skip
            assert not found, file


def test_the_workflow_does_what_is_done_here() -> None:
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    text = {name: json.dumps(job["steps"]) for name, job in jobs.items()}
    for name in ("wheel", "image"):
        arches = {one["arch"] for one in jobs[name]["strategy"]["matrix"]["include"]}
        assert arches == {"amd64", "arm64"}
    assert "scripts/audit_lock.py" in text["audit"]
    assert "cmp " in text["wheel"]
    assert jobs["image"]["steps"][-2]["env"]["TWICE"] == "1"
    assert "image/build.sh" in text["image"]
    assert jobs["push"]["if"].startswith("startsWith(github.ref, 'refs/tags/")
    assert set(jobs["push"]["needs"]) == {"audit", "image"}


@pytest.mark.needs("actionlint")
def test_actionlint() -> None:
    words = [str(ACTIONLINT), str(WORKFLOW)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def attach_sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("attach_sbom", IMAGE / "attach_sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["attach_sbom"] = module
    spec.loader.exec_module(module)
    return module


def small_layout(attach_sbom: ModuleType, directory: Path) -> Any:
    """A layout of one image of two layers, in a nested index and under a tag of its own."""
    (directory / "blobs" / "sha256").mkdir(parents=True)
    layout = attach_sbom.Layout(directory)
    metadata = "usr/lib/python3/site-packages/{}.dist-info/METADATA"
    layers = []
    for files in (
        {
            "var/lib/dpkg/status": "Package: a\nStatus: install ok installed\nVersion: 1:2+b1\n"
            "Architecture: arm64\n\nPackage: b\nStatus: deinstall ok config-files\nVersion: 1\n",
            metadata.format("X_y-1"): "Name: X_y\nVersion: 1\n\nName: not-this\n",
        },
        {metadata.format("X_y-1"): "Name: X_y\nVersion: 2\n", "usr/METADATA": "Name: no\n"},
    ):
        archive = directory / "layer.tar"
        with tarfile.open(archive, "w:gz") as tar:
            for name, text in files.items():
                place = directory / "file"
                place.write_text(text)
                tar.add(place, name)
        layers.append(layout.add("application/vnd.oci.image.layer.v1.tar+gzip",
                                 archive.read_bytes()))  # fmt: skip
    config = {"architecture": "arm64", "created": "2026-01-01T00:00:00Z", "config": {}}
    manifest = {
        "schemaVersion": 2,
        "config": layout.add("c", json.dumps(config).encode()),
        "layers": layers,
    }
    image = layout.add(attach_sbom.MANIFEST, json.dumps(manifest).encode())
    nested = layout.add(attach_sbom.INDEX, json.dumps({"manifests": [image]}).encode())
    index = {"schemaVersion": 2, "manifests": [nested, image]}
    (directory / "index.json").write_text(json.dumps(index))
    return layout


def test_an_sbom_is_attached_to_each_image_once(attach_sbom: ModuleType, tmp_path: Path) -> None:
    layout = small_layout(attach_sbom, tmp_path)
    (image,) = layout.images()
    attach_sbom.attach(layout)
    assert list(layout.images()) == [image], "an artifact is no image"
    (entry,) = [one for one in layout.index["manifests"] if "artifactType" in one]
    artifact = layout.read(entry)
    assert artifact["subject"]["digest"] == image["digest"]
    document = layout.read(artifact["layers"][0])
    assert {one["purl"] for one in document["components"]} == {
        "pkg:deb/debian/a@1%3A2%2Bb1?arch=arm64",
        "pkg:pypi/x-y@2",
    }
    assert document["metadata"]["component"]["bom-ref"] == image["digest"]


# What needs the built image.

BUILT = pytest.mark.needs("image", "root")


@dataclass(frozen=True)
class Built:
    """The built image: its root directory, its configuration, its OCI layout."""

    root: Path
    config: dict[str, Any]
    layout: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, attach_sbom: ModuleType) -> Iterator[Built]:
    layout = os.environ[LAYOUT_VARIABLE]
    oci = attach_sbom.Layout(Path(layout))
    arch = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    (image,) = [one for one in oci.images() if config_of(oci, one)["architecture"] == arch]
    root = tmp_path_factory.mktemp("image") / "root"
    root.mkdir()
    for layer in oci.read(image)["layers"]:
        unpack(oci.path(layer["digest"]), root)
    yield Built(root, config_of(oci, image), Path(layout))
    subprocess.run(["rm", "-rf", str(root)], check=True)


def config_of(oci: Any, image: dict[str, Any]) -> dict[str, Any]:
    return oci.read(oci.read(image)["config"])


def unpack(layer: Path, root: Path) -> None:
    """One layer on top of what is there; a `.wh.` file takes its neighbour away."""
    subprocess.run(
        ["tar", "-xzf", str(layer), "-C", str(root), "--numeric-owner", "--exclude=.wh.*"],
        check=True,
    )
    with tarfile.open(layer) as archive:
        for name in archive.getnames():
            place = root / name
            if place.name.startswith(".wh."):
                gone = place.with_name(place.name.removeprefix(".wh."))
                subprocess.run(["rm", "-rf", str(gone)], check=True)


# Run as root of the machine, in new namespaces: loopback up, the image as a read-only root, an
# empty /tmp, no way to more privileges.
ENTER = """
set -eu
"$1" -c 'import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x41))'
root=$2 user=$3 directory=$4
shift 4
mount --make-rprivate /
mount --bind "$root" "$root"
for pair in $RO_BINDS; do
    mkdir -p "$root/${pair#*=}"
    mount --bind "${pair%%=*}" "$root/${pair#*=}"
done
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
unset RO_BINDS
exec setpriv --no-new-privs /usr/sbin/chroot --userspec="$user" --groups= "$root" \
    /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$directory" "$@"
"""


def inside(
    built: Built,
    *words: str,
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
    binds: dict[Path, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """`words` in the image, with the user, environment and directory that it is configured with."""
    config = built.config["config"]
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    environment["RO_BINDS"] = " ".join(f"{a}={b}" for a, b in (binds or {}).items())
    return subprocess.run(
        [
            *("unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child"),
            *("/bin/sh", "-c", ENTER, "sh", sys.executable, str(built.root)),
            *(config["User"], config["WorkingDir"], *words),
        ],
        input=stdin,
        capture_output=True,
        env={**environment, **(env or {})},
        timeout=120,
    )


@BUILT
def test_the_configuration(built: Built) -> None:
    config = built.config["config"]
    assert config["User"] == USER
    assert config["Entrypoint"] == ["/usr/local/bin/dcode"]
    assert config["WorkingDir"] == "/home/dcode"
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    assert environment == {
        "PATH": "/usr/local/bin:/opt/dcode/bin:/usr/bin:/bin",
        "HOME": "/home/dcode",
    }
    assert not config.get("Cmd")
    assert not config.get("Volumes")
    assert not config.get("ExposedPorts")
    prefix = "org.opencontainers.image."
    pairs = config["Labels"].items()  # and those that the base came with
    labels = {name.removeprefix(prefix): text for name, text in pairs if name.startswith(prefix)}
    assert set(labels) == LABELS
    assert labels["version"] == VERSION
    assert labels["licenses"] == "MIT"
    assert re.fullmatch(r"[0-9a-f]{40}", labels["revision"])
    assert ":" in labels["source"]


@BUILT
def test_the_image_has_been_qualified(built: Built) -> None:
    report = json.loads((built.root / "home/dcode/qualification.json").read_text())
    assert report["ok"] is True
    assert report["complete"] is True
    assert report["versions"]["deepagents-code"] == "0.1.55"


@BUILT
def test_its_user_can_write_nothing_of_it(built: Built) -> None:
    """By the permissions alone, as on a root that is not read-only."""
    user, group = USER.split(":")
    own = ("-uid", user, "-o", "-gid", group, "-perm", "-0020", "-o", "-perm", "-0002")
    find = ["find", str(built.root), "-not", "-type", "l", "(", *own, ")"]
    found = subprocess.check_output(find, text=True).splitlines()
    names = {str(Path(name).relative_to(built.root)) for name in found}
    kept = {name for name in names if not name.startswith(("home/dcode", "dev/"))}
    assert kept <= {"tmp", "var/tmp", "run/lock"}
    assert "tmp" in kept, "this test sees what can be written to"
    assert "home/dcode/qualification.json" not in names
    assert inside(built, "id", "-u").stdout == b"10001\n"
    assert inside(built, "touch", "/home/dcode/x").returncode != 0, "the root is read-only"


@BUILT
def test_there_is_nothing_that_is_not_needed(built: Built) -> None:
    for name in ("gcc", "cc", "g++", "clang", "make", "ld", "as", "git", "curl", "wget"):
        assert not (built.root / "usr/bin" / name).exists(), name
    for name in ("build", "root/.cache", "home/dcode/.cache", "home/dcode/.deepagents"):
        assert not (built.root / name).exists(), name
    assert not list(built.root.glob("etc/pip.conf"))
    own = subprocess.check_output(["du", "-sb", str(built.root / "opt/dcode")])
    assert int(own.split()[0]) < OWN_BYTES_LIMIT


@BUILT
def test_byte_code_is_there_and_knows_no_time(built: Built) -> None:
    (package,) = built.root.glob("opt/dcode/lib/python3*/site-packages/deepagents_code")
    compiled = list(package.glob("__pycache__/*.pyc"))
    assert len(compiled) >= len(list(package.glob("*.py")))
    for file in compiled:
        assert file.read_bytes()[4:8] == b"\x01\0\0\0", "hash-based, unchecked"


@BUILT
def test_a_call_takes_its_code_from_two_files(built: Built) -> None:
    code = """
from deepagents_ro import packed, stored
rows = packed.read()._rows
stale = [name for name, row in rows.items() if not packed.Entry(*row).is_fresh()]
print(len(stored.read().codes), len(rows), stale)
"""
    said = inside(built, "/opt/dcode/bin/python", "-I", "-c", code).stdout.decode()
    texts, modules, stale = said.split(maxsplit=2)
    assert int(texts) > 300
    assert int(modules) > 300
    assert stale == "[]\n"


@BUILT
def test_the_network_is_loopback_alone(built: Built) -> None:
    shown = inside(built, "cat", "/proc/net/dev").stdout.decode().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in shown] == ["lo"]


@BUILT
def test_the_command_in_the_image(built: Built) -> None:
    (entry,) = built.config["config"]["Entrypoint"]
    run = inside(built, entry, "tools", "call-read-only", "absent_tool", "--json", stdin=b"{}")
    assert (run.returncode, run.stderr) == (1, b"")
    assert json.loads(run.stdout)["data"]["code"] == "tool_not_found"
    assert b"0.1.55" in inside(built, entry, "--version").stdout


@BUILT
def test_each_image_has_its_sbom(built: Built, attach_sbom: ModuleType) -> None:
    oci = attach_sbom.Layout(built.layout)
    artifacts = [one for one in oci.index["manifests"] if "artifactType" in one]
    subjects = {oci.read(one)["subject"]["digest"] for one in artifacts}
    assert subjects == {image["digest"] for image in oci.images()}
    for one in artifacts:
        document = oci.read(oci.read(one)["layers"][0])
        assert document["bomFormat"] == "CycloneDX"
        purls = {part["purl"] for part in document["components"]}
        assert {"pkg:pypi/deepagents-code@0.1.55", f"pkg:pypi/deepagents-ro@{VERSION}"} <= purls
        assert any(purl.startswith("pkg:deb/debian/libc6@") for purl in purls)
    for blob in (built.layout / "blobs" / "sha256").iterdir():
        with blob.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == blob.name


def play() -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The files and the containers of image/play.yaml."""
    files, pod = yaml.safe_load_all(PLAY.read_text())
    return files["data"], pod["spec"]["containers"]


def test_the_play_is_confined() -> None:
    _, containers = play()
    for container in containers:
        assert container["image"] == f"localhost/dcode:{VERSION}"
        context = container["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == USER
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}


@BUILT
def test_the_play(built: Built, tmp_path: Path) -> None:
    """The pod's containers, both in one set of namespaces: server with TLS, one call."""
    files, (server, call) = play()
    shared, given = tmp_path / "shared", tmp_path / "files"
    shared.mkdir()
    given.mkdir()
    shared.chmod(0o777)
    tmp_path.chmod(0o755)
    for name, text in files.items():
        (given / name).write_text(text)
    script = f"{' '.join(server['command'])} >/dev/null 2>&1 &\n{' '.join(call['command'])}\n"
    run = inside(
        built, "/bin/sh", "-c", script,
        env={one["name"]: one["value"] for one in call["env"]},
        binds={given: "files", shared: "shared"},
    )  # fmt: skip
    data = json.loads(run.stdout)["data"]
    assert data["ok"] is True, run
    assert data["structured_content"] == {"task_id": "worker.1", "state": "ready"}


@BUILT
@pytest.mark.needs("podman")
def test_the_play_by_podman(built: Built) -> None:
    """The same by the program that the file is for, where it is installed."""
    store = os.environ.get("IMAGE_STORE", str(ROOT / "build" / "image-store"))
    podman = ["podman", "--root", f"{store}/root", "--runroot", f"{store}/run",
              "--storage-driver", "vfs"]  # fmt: skip
    start = [*podman, "play", "kube", "--network", "none", str(PLAY)]
    started = subprocess.run(start, capture_output=True, text=True, timeout=300)
    try:
        assert started.returncode == 0, started.stderr
        waited = subprocess.run([*podman, "wait", "worker-call"], capture_output=True, timeout=90)
        assert waited.stdout == b"0\n"
        logs = subprocess.check_output([*podman, "logs", "worker-call"])
        assert json.loads(logs)["data"]["ok"] is True
    finally:
        subprocess.run([*podman, "play", "kube", "--down", str(PLAY)], capture_output=True)
