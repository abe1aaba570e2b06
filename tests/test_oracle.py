"""The product prints what the oracle says; `test_docs.py` holds the documents to the oracle."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from deepagents_ro import _mcpro, command
from deepagents_ro.qualify.lab import oracle

LIMITS = Path(__file__).resolve().parent.parent / "csrc" / "core" / "limits.h"


def test_the_codes_and_their_order() -> None:
    assert list(oracle.MESSAGES) == list(_mcpro.ENVELOPE_CODES)


@pytest.mark.parametrize("code", oracle.MESSAGES)
def test_a_failure(code: str) -> None:
    document = oracle.failure_document(code)
    assert _mcpro.envelope_error(code) + b"\n" == document
    assert _mcpro.envelope_exit(code) == oracle.EXITS[code]
    data = {"ok": False, "status": "error", "code": code, "message": oracle.MESSAGES[code]}
    envelope = {"schema_version": 1, "command": oracle.COMMAND, "data": data}
    assert document == json.dumps(envelope, separators=(",", ":")).encode() + b"\n"


def test_a_success_begins_as_the_oracle_says() -> None:
    document = _mcpro.envelope_ok("a_b", b"[]", None)
    assert document == oracle.HEAD + b'"ok":true,"status":"ok","tool":"a_b","content":[]}}'


def test_the_bounds() -> None:
    limits = LIMITS.read_text(encoding="utf-8")
    bounds = dict(re.findall(r"^#define (RO_\w+) (\d+)u?$", limits, re.MULTILINE))
    assert int(bounds["RO_MAX_STDIN"]) == command.MAX_INPUT_BYTES == oracle.MAX_INPUT_BYTES
    assert int(bounds["RO_MAX_STDOUT"]) == oracle.MAX_DOCUMENT_BYTES
