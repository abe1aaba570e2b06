"""The nameless file that hands DCode's loader a configuration, where the kernel refuses it too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepagents_ro import anonymous
from deepagents_ro.refusal import HostError

REFUSE = Path(__file__).parent / "servers" / "refuse.py"
SERVERS = {"raw": {"type": "http", "url": "https://192.0.2.1/mcp"}}
# Prints what the file is: where its path leads, how many names it has, what a reader reads.
LOOK = """
import json, os
from deepagents_ro.anonymous import config_file
with config_file({"raw": {"type": "http", "url": "https://192.0.2.1/mcp"}}) as path:
    found = os.stat(path)
    print(json.dumps([path.startswith("/proc/self/fd/"), os.readlink(path), found.st_nlink,
                      found.st_mode & 0o077, json.load(open(path))]))
print(os.path.exists(path))
"""


def look(*refused: str) -> tuple[list[object], str]:
    """What LOOK prints, with `refused` (an errno's name and what it is for) refused."""
    command = [sys.executable, "-I", "-c", LOOK]
    if refused:
        command = [sys.executable, "-I", str(REFUSE), *refused, "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, last = done.stdout.splitlines()
    return json.loads(first), last


def test_it_is_in_memory() -> None:
    (own, target, _links, _others, document), left = look()
    assert own is False  # a managed runtime's loader refuses such a path
    assert str(target).startswith("/memfd:")
    assert document == {"mcpServers": SERVERS}
    assert left == "False"


@pytest.mark.parametrize("error", ["EACCES", "EPERM", "ENOSYS"])
def test_memory_files_refused(error: str) -> None:
    (own, target, links, others, document), left = look(error, "memfd")
    assert own is False
    assert not str(target).startswith("/memfd:")
    assert str(target).endswith("(deleted)")
    assert (links, others) == (0, 0)
    assert document == {"mcpServers": SERVERS}
    assert left == "False"


def test_a_file_system_without_unlinked_files(tmp_path: Path) -> None:
    """Then the file has a name for a moment; nothing is there afterwards."""
    os.environ["TMPDIR"] = str(tmp_path)
    try:
        (_own, target, links, others, document), _left = look("EOPNOTSUPP", "memfd", "tmpfile")
    finally:
        del os.environ["TMPDIR"]
    assert str(target).startswith(str(tmp_path))
    assert (links, others) == (0, 0)
    assert document == {"mcpServers": SERVERS}
    assert list(tmp_path.iterdir()) == []


def test_no_file_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(content: bytes) -> int:
        raise OSError(28, "no space")

    monkeypatch.setattr(anonymous, "anonymous_file", refused)
    with pytest.raises(HostError) as caught, anonymous.config_file(SERVERS):
        pass
    assert caught.value.reason == "loader_no_file"


def test_no_server_needs_no_file() -> None:
    before = os.listdir("/proc/self/fd")
    with anonymous.config_file({}) as path:
        assert path is None
        assert os.listdir("/proc/self/fd") == before


def test_the_descriptor_is_closed() -> None:
    with anonymous.config_file(SERVERS) as path:
        assert path is not None
        number = int(Path(path).name)
        assert Path(path).read_bytes() == json.dumps({"mcpServers": SERVERS}).encode()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
