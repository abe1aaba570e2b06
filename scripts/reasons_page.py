"""Writes docs/reasons.md from the tables of the extension: python scripts/reasons_page.py

Run it with the Python of `make setup`, after a change of the tables. `tests/test_docs.py` compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reasons.md"
HEAD = """\
# Every reason of the audit

Printed by `python -I -m deepagents_ro.reasons`; what to look at first is in
[troubleshooting](troubleshooting.md).

"""


def page() -> str:
    """The whole page."""
    from deepagents_ro.reasons import as_markdown

    return HEAD + as_markdown()


if __name__ == "__main__":
    # the sources beside this directory have no extension in them
    sys.path[:] = [entry for entry in sys.path if entry]
    PAGE.write_text(page(), encoding="utf-8")
