"""The client scenarios of the official conformance suite, over the stock transport and ours.

`conformance.json` says what the SDK over stock httpx passes: scenarios, each with its checks by
outcome. Ours must pass all of that; what the SDK cannot do fails on both sides alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import HERE, Tools

RECORD = json.loads((HERE / "conformance.json").read_text())
Outcome = dict[str, list[str]]


def run(tools: Tools, kind: str, scenario: str, directory: Path) -> Outcome:
    """By outcome, the checks that came out so at least once; mere information is left out."""
    client = f"{sys.executable} -I {HERE / 'conformance_client.py'} {kind}"
    command = [str(tools.node), str(tools.conformance), "client", "--command", client]
    done = subprocess.run(
        [*command, "--scenario", scenario, "-o", str(directory)],
        capture_output=True,
        text=True,
        timeout=90,
        cwd=directory,
        env={"PATH": os.defpath, "HOME": str(directory)},
    )
    reports = list(directory.rglob("checks.json"))
    assert len(reports) == 1, f"no report: {done.stderr[-2000:]}"
    found: dict[str, set[str]] = {}
    for check in json.loads(reports[0].read_text()):
        if check["status"] != "INFO":
            found.setdefault(check["status"], set()).add(check["id"])
    return {status: sorted(checks) for status, checks in sorted(found.items())}


def test_every_scenario_is_recorded(tools: Tools) -> None:
    """A new release of the suite may bring more."""
    command = [str(tools.node), str(tools.conformance), "list", "--client"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    names = [line.split()[1] for line in listed.splitlines() if line.startswith("  - ")]
    assert sorted(names) == sorted(RECORD)


@pytest.mark.parametrize("scenario", RECORD)
def test_scenario(tools: Tools, tmp_path: Path, scenario: str) -> None:
    outcomes = {}
    for kind in ("stock", "curl"):
        directory = tmp_path / kind
        directory.mkdir()
        outcomes[kind] = run(tools, kind, scenario, directory)
    missed = set(outcomes["stock"].get("SUCCESS", [])) - set(outcomes["curl"].get("SUCCESS", []))
    assert not missed
    assert outcomes["curl"] == outcomes["stock"]
    assert outcomes["stock"] == RECORD[scenario], "the record is not up to date"
