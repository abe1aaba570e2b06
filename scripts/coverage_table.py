"""Prints what gcovr's JSON says of each file and layer, or which lines of some files no test runs.

python scripts/coverage_table.py coverage.json ... [FILE-PREFIX]
                                       exit 1 and a line for each layer below its target

Every branch counts: those that are taken only where an allocation or a system call fails, since the
tests make those fail, and those that the compiler makes of a `switch` for a value that no enum has.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# layer -> the branches in percent that its tests have to run
TARGETS = {"core": 95.0, "guard": 95.0, "net": 90.0, "mcp": 90.0}


@dataclass
class Count:
    """Lines and branches, run and in all."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    def add(self, other: Count) -> None:
        """Sum."""
        self.lines += other.lines
        self.lines_run += other.lines_run
        self.branches += other.branches
        self.branches_run += other.branches_run

    def row(self, name: str) -> str:
        """Percentages behind the name."""
        lines = share(self.lines_run, self.lines)
        branches = share(self.branches_run, self.branches)
        return (
            f"{name:28} {lines:6.1f} % of {self.lines:5} lines"
            f" {branches:6.1f} % of {self.branches:5} branches"
        )


def share(part: int, whole: int) -> float:
    """In percent; of nothing, everything."""
    return 100.0 if whole == 0 else 100.0 * part / whole


def count(file: dict[str, list[dict[str, object]]]) -> Count:
    """Of one file's record."""
    found = Count()
    for line in file["lines"]:
        found.lines += 1
        found.lines_run += bool(line["count"])
        branches = line["branches"]
        assert isinstance(branches, list)
        found.branches += len(branches)
        found.branches_run += sum(bool(branch["count"]) for branch in branches)
    return found


def below_target(layers: Mapping[str, Count]) -> Iterator[str]:
    """A line for each layer whose tests run too few of its branches."""
    for name, target in TARGETS.items():
        reached = share(layers[name].branches_run, layers[name].branches)
        if reached < target:
            yield f"{name}: {reached:.1f} % of the branches, and {target:g} % are wanted"


def main() -> int:
    """The exit status."""
    reports = [name for name in sys.argv[1:] if name.endswith(".json")]
    prefixes = tuple(name for name in sys.argv[1:] if name not in reports)
    files = []
    for name in reports:
        with open(name) as stream:
            files += json.load(stream)["files"]
    if prefixes:
        for file in files:
            if file["file"].startswith(prefixes):
                for line in file["lines"]:
                    missed = sum(not branch["count"] for branch in line["branches"])
                    if not line["count"] or missed:
                        what = "not run" if not line["count"] else f"{missed} branches"
                        print(f"{file['file']}:{line['line_number']}: {what}")
        return 0
    layers: dict[str, Count] = defaultdict(Count)
    for file in files:
        counted = count(file)
        print(counted.row(file["file"].removeprefix("csrc/")))
        layers[file["file"].split("/")[1]].add(counted)
    for name, counted in sorted(layers.items()):
        print(counted.row(f"== {name}"))
    missed = list(below_target(layers))
    for line in missed:
        print(line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
