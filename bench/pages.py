"""Puts the tables of the whole command into the pages that quote them.

A page has a pair of comments around what is replaced: `<!-- NAME: begin -->`, `<!-- NAME: end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH, FRONT, GUIDE = (
    ROOT / "bench" / "README.md",
    ROOT / "README.md",
    ROOT / "docs" / "performance.md",
)
# Columns of the guide's tables, and the distances that it shows.
SHORT = (0, 1, 4, 6, 7, 8)
DISTANCES = ("no delay: ", "50 ms ", "150 ms ")

FIGURE = "![seconds of the whole command over the round trip](figures/call-distance.svg)"

Rows = list[list[str]]


def markdown(head: list[str], rows: Rows) -> str:
    """One table; the first column left, the others right."""
    ruler = "|---|" + "---:|" * (len(head) - 1)
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], ruler, *lines[1:]]).replace("|  |", "| |")


def put(page: Path, name: str, text: str) -> None:
    """Replace what is between the two comments of that name.

    Raises:
        SystemExit: the page has no such pair.
    """
    before = page.read_text(encoding="utf-8")
    pair = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    after, count = pair.subn(lambda found: f"{found[1]}{text}\n{found[2]}", before)
    if count != 1:
        raise SystemExit(f"{page.name}: {count} places for {name}")
    page.write_text(after, encoding="utf-8")


def chosen(rows: Rows, columns: tuple[int, ...], distances: tuple[str, ...]) -> Rows:
    """Some of the columns at some of the distances."""
    return [[row[n] for n in columns] for row in rows if row[0].startswith(distances)]


def write(head: list[str], table: Rows, goals_head: list[str], goals: Rows, runs: int) -> None:
    """All three pages."""
    named = [f"median of {runs}", *head[1:]]
    put(BENCH, "call", markdown(named, table))
    put(BENCH, "goals", markdown(goals_head, goals))
    put(BENCH, "figure", FIGURE)
    short = [named[n] for n in SHORT]
    put(GUIDE, "call", markdown(short, chosen(table, SHORT, DISTANCES)))
    columns = (0, 1, 6)
    front = [
        row
        for row in chosen(table, columns, ("no delay: ", "50 ms "))
        if row[0].rpartition(": ")[2] in ("reference", "ours", "mcporter", "inspector --cli")
    ]
    put(FRONT, "call", markdown(["", *(head[n] for n in columns[1:])], front))
