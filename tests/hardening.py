"""What a compiled extension's bytes say about how it was compiled."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# The first instruction of a function that an indirect call may reach, by ELF machine.
LANDING_PADS = {
    "Advanced Micro Devices X86-64": (bytes.fromhex("f30f1efa"),),  # endbr64
    "AArch64": (bytes.fromhex("3f2303d5"), bytes.fromhex("5f2403d5")),  # paciasp, bti c
}
ENTRY = "PyInit__mcpro"


def missing(extension: Path) -> list[str]:
    """The protections that `extension`, an ELF shared object with `ENTRY`, does not have.

    The mark of the whole file (`.note.gnu.property`) is not asked for: the linker drops it when one
    object has none, and the C library's own start files of some distributions have none.
    """
    header = _readelf("-hW", extension)
    segments = _readelf("-lW", extension)
    dynamic = _readelf("-dW", extension)
    imports = set(re.findall(r" UND (\w+)", _readelf("--dyn-syms", "-W", extension)))
    machine = re.search(r"Machine:\s+(.*)", header)
    address = re.search(
        rf"([0-9a-f]{{16}})\s.*\s{ENTRY}$", _readelf("-sW", extension), re.MULTILINE
    )
    assert machine is not None
    assert address is not None
    checks = {
        "stack protector": "__stack_chk_fail" in imports,
        "fortified functions": bool(re.search(r"__(memcpy|snprintf)_chk", " ".join(imports))),
        "landing pads": _code_at(segments, extension, int(address[1], 16)).startswith(
            LANDING_PADS[machine[1].strip()]
        ),
        "RELRO": "GNU_RELRO" in segments,
        "BIND_NOW": bool(re.search(r"FLAGS.*\bNOW\b", dynamic)),
        "a stack that is no code": re.search(r"GNU_STACK.* RW ", segments) is not None,
        "no segment both written and run": " RWE " not in segments,
    }
    return [name for name, there in checks.items() if not there]


def _readelf(*arguments: str | Path) -> str:
    done = subprocess.run(["readelf", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def _code_at(segments: str, extension: Path, address: int) -> bytes:
    """Sixteen bytes of the file that are loaded at `address`."""
    for line in segments.splitlines():
        if (fields := line.split())[:1] == ["LOAD"]:
            offset, start, _, size = (int(field, 16) for field in fields[1:5])
            if start <= address < start + size:
                return extension.read_bytes()[address - start + offset :][:16]
    raise ValueError(f"no segment of {extension} holds {address:#x}")
