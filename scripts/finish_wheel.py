"""Adds to a repaired wheel what it owes for the libraries inside it, and makes it reproducible.

    python scripts/finish_wheel.py WHEEL PREFIX OUTPUT_DIRECTORY

PREFIX is what `wheel_libraries.sh` made. Added: the licence of each bundled library, its SPDX
expression in the metadata, and a CycloneDX SBOM (`*.dist-info/sboms/`, PEP 770; also beside the
wheel). The files of the new wheel are in a fixed order, with the time SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import sys
import time
import uuid
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

# SPDX identifier and home of each library that may be inside.
KNOWN = {
    "curl": ("curl", "https://curl.se/"),
    "cjson": ("MIT", "https://github.com/DaveGamble/cJSON"),
    "openssl": ("Apache-2.0", "https://www.openssl.org/"),
    "zlib": ("Zlib", "https://zlib.net/"),
    "brotli": ("MIT", "https://github.com/google/brotli"),
}
EARLIEST = (1980, 1, 1, 0, 0, 0)  # what a ZIP file can hold


@dataclass(frozen=True)
class Bundled:
    """One library inside the wheel, as Debian packages its source."""

    name: str
    version: str
    licence: str

    @property
    def purl(self) -> PackageURL:
        return PackageURL("deb", "debian", self.name, self.version, {"arch": "source"})


def read_bundled(prefix: Path) -> list[Bundled]:
    with (prefix / "bundled.tsv").open() as table:
        rows = [line.rstrip("\n").split("\t") for line in table]
    rebuilt = re.compile(r"\+b\d+\Z")  # Debian compiled the same source once more
    return [
        Bundled(name, rebuilt.sub("", version), KNOWN[name][0]) for name, version in sorted(rows)
    ]


def sbom(name: str, version: str, wheel: str, bundled: list[Bundled], epoch: int) -> str:
    """The SBOM as JSON; the same bytes for the same arguments.

    Raises:
        ValueError: it does not keep the CycloneDX schema.
    """
    factory = LicenseFactory()
    root = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"pkg:pypi/{name}@{version}",
        purl=PackageURL("pypi", None, name, version),
        licenses=[factory.make_from_string("MIT")],
        description=wheel,
    )
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{name}/{wheel}/{epoch}"))
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = root
    parts = []
    for library in bundled:
        part = Component(
            name=library.name,
            version=library.version,
            type=ComponentType.LIBRARY,
            bom_ref=str(library.purl),
            purl=library.purl,
            licenses=[factory.make_from_string(library.licence)],
            external_references=[
                ExternalReference(
                    type=ExternalReferenceType.WEBSITE, url=XsUri(KNOWN[library.name][1])
                )
            ],
        )
        parts.append(part)
        bom.components.add(part)
    bom.register_dependency(root, parts)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        raise ValueError(f"the SBOM breaks its schema: {error}")
    return text + "\n"


def with_licences(metadata: str, bundled: list[Bundled]) -> str:
    """The core metadata with the bundled libraries' licences in it."""
    expressions = list(dict.fromkeys(["MIT", *(library.licence for library in bundled)]))
    files = "".join(f"License-File: bundled/{library.name}.txt\n" for library in bundled)
    metadata, count = re.subn(
        r"(?m)^License-Expression: MIT$",
        "License-Expression: " + " AND ".join(expressions),
        metadata,
    )
    if count != 1:
        raise ValueError("the metadata has no License-Expression: MIT")
    return re.sub(r"(?m)^(License-File: LICENSE\n)", lambda m: m[1] + files, metadata, count=1)


def record(files: dict[str, bytes], name: str) -> bytes:
    """The RECORD of `files`."""
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        writer.writerow((path, f"sha256={digest.decode()}", len(content)))
    writer.writerow((name, "", ""))
    return rows.getvalue().encode()


def write(path: Path, files: dict[str, bytes], epoch: int) -> None:
    moment = max(EARLIEST, time.gmtime(epoch)[:6])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, moment)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            mode = 0o100755 if name.endswith(".so") else 0o100644
            info.external_attr = mode << 16
            archive.writestr(info, content)


def main(source: str, prefix: str, output: str) -> None:
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    wheel = Path(source)
    bundled = read_bundled(Path(prefix))
    name, version = wheel.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        files = {entry: archive.read(entry) for entry in archive.namelist() if entry[-1] != "/"}
    del files[f"{info}/RECORD"]
    metadata = files[f"{info}/METADATA"].decode()
    files[f"{info}/METADATA"] = with_licences(metadata, bundled).encode()
    for library in bundled:
        text = (Path(prefix) / "licenses" / f"{library.name}.txt").read_bytes()
        files[f"{info}/licenses/bundled/{library.name}.txt"] = text
    document = sbom(name.replace("_", "-"), version, wheel.name, bundled, epoch)
    files[f"{info}/sboms/deepagents-ro.cdx.json"] = document.encode()
    # Packages first and the metadata last, as the format advises.
    files = dict(sorted(files.items(), key=lambda item: (info in item[0], item[0])))
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    target = Path(output) / wheel.name
    write(target, files, epoch)
    target.with_suffix(".cdx.json").write_text(document, encoding="utf-8")
    print(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
