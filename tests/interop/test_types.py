"""A user's program in the eyes of pyright; `tests/gateway/test_api.py` has mypy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .conftest import Tools

PROGRAM = Path(__file__).parent.parent / "data" / "users_program.py"
WRONG = "from deepagents_ro.gateway import GatewayConfig\nGatewayConfig(url=1)\n"


def test_pyright_takes_a_users_program(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_bytes(PROGRAM.read_bytes())
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [tools.node, tools.pyright, "--outputjson", "--pythonpath", sys.executable, tmp_path],
        capture_output=True,
        cwd=tmp_path,
        timeout=300,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert [(Path(each["file"]).name, each["severity"]) for each in found] == [
        ("wrong.py", "error")
    ], found
