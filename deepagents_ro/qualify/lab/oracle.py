"""What the command is promised to print, written down apart from the product.

`codes.txt` has a line for each code: the code, its exit status and its message, with tabs between.
Nothing comes from the extension. `tests/test_oracle.py` holds the extension, the documents and the
oracle together, `tests/c/test_envelope.c` the C table and the oracle.
"""

from __future__ import annotations

from pathlib import Path

COMMAND = "tools call-read-only"
HEAD = b'{"schema_version":1,"command":"tools call-read-only","data":{'
MAX_INPUT_BYTES = 131_072
MAX_DOCUMENT_BYTES = 131_072
"""Of standard output, before the newline."""

_ROWS = [
    line.split("\t")
    for line in Path(__file__).with_name("codes.txt").read_text(encoding="ascii").splitlines()
]
# By code, in the order in which the codes are tried.
EXITS = {code: int(status) for code, status, _ in _ROWS}
MESSAGES = {code: message for code, _, message in _ROWS}


def failure_document(code: str) -> bytes:
    """The one document, newline included, that a failure prints."""
    data = f'"ok":false,"status":"error","code":"{code}","message":"{MESSAGES[code]}"'
    return HEAD + data.encode() + b"}}\n"
