"""Attaches a CycloneDX SBOM to each image of an OCI layout.

    python3 image/attach_sbom.py LAYOUT

What is inside an image is read from its layers: Debian's packages from dpkg's status file, Python's
from their metadata. The SBOM becomes a blob, and an artifact whose `subject` is the image's
manifest stands for it in `index.json`, which is where tools look for referrers. The same layers
give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tarfile
import uuid
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
SBOM = "application/vnd.cyclonedx+json"
DPKG_STATUS = "var/lib/dpkg/status"
METADATA = re.compile(r".*/site-packages/[^/]+\.dist-info/METADATA\Z")

Json = dict[str, Any]


class Layout:
    """An OCI image layout on disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def index(self) -> Json:
        return json.loads((self.directory / "index.json").read_bytes())

    def path(self, digest: str) -> Path:
        algorithm, _, value = digest.partition(":")
        return self.directory / "blobs" / algorithm / value

    def read(self, descriptor: Json) -> Json:
        return json.loads(self.path(descriptor["digest"]).read_bytes())

    def add(self, media_type: str, data: bytes) -> Json:
        """Store a blob; its descriptor."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.path(digest).write_bytes(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def images(self) -> Iterator[Json]:
        """The descriptors of all images, through nested indexes, each once; artifacts are none."""
        seen: set[str] = set()
        waiting = list(self.index["manifests"])
        while waiting:
            descriptor = waiting.pop(0)
            if descriptor["mediaType"] == INDEX:
                waiting += self.read(descriptor)["manifests"]
            elif descriptor["digest"] not in seen and "artifactType" not in descriptor:
                seen.add(descriptor["digest"])
                yield descriptor


def packages(layout: Layout, manifest: Json) -> Iterator[Json]:
    """The CycloneDX components of an image; an upper layer's file hides a lower one's."""
    found: dict[str, str] = {}
    for layer in manifest["layers"]:
        with tarfile.open(layout.path(layer["digest"])) as archive:
            for member in archive:
                name = member.name.removeprefix("./").lstrip("/")
                if member.isfile() and (name == DPKG_STATUS or METADATA.match(name)):
                    file = archive.extractfile(member)
                    assert file is not None
                    found[name] = file.read().decode("utf-8", "replace")
    for name in sorted(found):
        if name == DPKG_STATUS:
            for paragraph in found[name].split("\n\n"):
                fields = HeaderParser().parsestr(paragraph)
                if "Package" in fields and fields["Status"].endswith(" installed"):
                    yield component("deb/debian", fields["Package"], fields["Version"],
                                    f"?arch={fields['Architecture']}")  # fmt: skip
        else:
            fields = HeaderParser().parsestr(found[name].partition("\n\n")[0])
            plain = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
            yield component("pypi", plain, fields["Version"])


def component(kind: str, name: str, version: str, qualifiers: str = "") -> Json:
    purl = f"pkg:{kind}/{quote(name)}@{quote(version)}{qualifiers}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def sbom(layout: Layout, descriptor: Json) -> bytes:
    """The SBOM of one image, the same bytes for the same image."""
    manifest = layout.read(descriptor)
    config = layout.read(manifest["config"])
    labels = config["config"].get("Labels") or {}
    root = {
        "type": "container",
        "bom-ref": descriptor["digest"],
        "name": labels.get("org.opencontainers.image.title", "image"),
        "version": labels.get("org.opencontainers.image.version", ""),
        "purl": f"pkg:oci/dcode@{quote(descriptor['digest'])}?arch={config['architecture']}",
    }
    components = {one["bom-ref"]: one for one in packages(layout, manifest)}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, descriptor['digest'])}",
        "version": 1,
        "metadata": {"timestamp": config["created"], "component": root},
        "components": [components[name] for name in sorted(components)],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def attach(layout: Layout) -> None:
    """Add one artifact an image, and to `index.json` what leads to it."""
    index = layout.index
    empty = layout.add(EMPTY, b"{}")
    for image in list(layout.images()):
        subject = {name: image[name] for name in ("mediaType", "digest", "size")}
        blob = layout.add(SBOM, sbom(layout, image))
        artifact = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": SBOM,
            "config": empty,
            "layers": [blob],
            "subject": subject,
        }
        entry = layout.add(MANIFEST, json.dumps(artifact).encode())
        index["manifests"].append({**entry, "artifactType": SBOM})
    (layout.directory / "index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    attach(Layout(Path(sys.argv[1])))
