"""Changes the heart of the C code in small ways and asks its tests to notice.

    python scripts/mutants.py [--seconds 600] [--jobs 2] [--file csrc/mcp/gate.c] [--list]

Each mutant is one file with one operator, constant or statement changed. It is compiled, linked
with the unchanged rest, and run against the C tests that are named for its file in `HEART`: plain
first, which kills nearly all of them quickly, then, if it survived, with ASan and UBSan. A test
that fails, crashes or hangs kills it; a mutant that does not compile does not count. The order is
fixed and spreads over all files, so that a short run samples every one of them.

Exit 0 when every survivor stands in tests/c/mutants.txt with its reason, 1 otherwise, and also when
that file names a mutant that no longer exists or that was killed. Needs gcc, and the objects of
`scripts/ctest.sh plain asan`, which it makes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "tests" / "c" / "mutants.txt"
# A test that loops ends by processor time, whatever else the machine does; one that waits by the
# clock.
CPU_LIMIT_S = 10
LIMIT_S = 60.0
# source file -> the test programs that hold it to its contract, the quickest first
HEART = {
    "csrc/mcp/gate.c": ["test_gate"],
    "csrc/mcp/record.c": ["test_record"],
    "csrc/mcp/discovery.c": ["test_discovery"],
    "csrc/mcp/toollist.c": ["test_toollist"],
    "csrc/mcp/result.c": ["test_result"],
    "csrc/core/hints.c": ["test_hints", "test_hints_twice"],
    "csrc/core/json_lex.c": ["test_json"],
    "csrc/core/json_scan.c": ["test_json"],
    "csrc/core/json_keys.c": ["test_json_keys", "test_json"],
    "csrc/core/redact.c": ["test_redact"],
    "csrc/core/secrets.c": ["test_secrets"],
    "csrc/core/base64.c": ["test_secrets", "test_redact"],
    "csrc/core/percent.c": ["test_secrets", "test_redact"],
    "csrc/guard/descendants.c": ["test_guard_descendants"],
    "csrc/guard/deadline.c": ["test_guard_deadline"],
    "csrc/guard/output.c": ["test_guard_output"],
}
# what is looked for in code -> what it becomes
CHANGES = [
    (r"==", ["!="]),
    (r"!=", ["=="]),
    (r"<=", ["<"]),
    (r">=", [">"]),
    (r"(?<![-<>=])<(?![<=])", ["<="]),
    (r"(?<![-<>=])>(?![>=])", [">="]),
    (r"&&", ["||"]),
    (r"\|\|", ["&&"]),
    (r"(?<=[\w)\]] )\+(?= [\w(])", ["-"]),
    (r"(?<=[\w)\]] )-(?= [\w(])", ["+"]),
    (r"\+\+", [""]),
    (r"(?<![\w)])!(?=[\w(])", [""]),
    (r"\btrue\b", ["false"]),
    (r"\bfalse\b", ["true"]),
    (r"(?<![\w.])\d+u?(?![\w.])", ["({n}+1)", "({n}-1)"]),
    (r"\breturn NULL;", ["return (void *)1;"]),
]
_BLANK = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_STATEMENT = re.compile(r"^ +[\w\->.\[\]*]+(?: = [^;{}]+|\([^;{}]*\)|\+\+|--);$", re.MULTILINE)
_SKIPPED_LINES = re.compile(r"^\s*(?:#|case\b|static const|enum\b|\w[\w ]*\*?\w+\[)")


@dataclass(frozen=True)
class Mutant:
    """One change: `at` and `end` are offsets in the file, `text` what stands there instead."""

    file: str
    at: int
    end: int
    text: str
    line: str
    before: str
    nth: int

    @property
    def name(self) -> str:
        """The same however the file's other lines move."""
        which = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.file}: {self.line}: {self.before} -> {self.text or 'nothing'}{which}"

    @property
    def order(self) -> str:
        """A fixed shuffle."""
        return hashlib.sha256(self.name.encode()).hexdigest()


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every mutant of one file."""
    source = (ROOT / file).read_text()
    code = _BLANK.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)
    seen: dict[tuple[str, str, str], int] = {}
    changes = [
        (match.start(), match.end(), text.format(n=match.group()))
        for pattern, texts in CHANGES
        for match in re.finditer(pattern, code)
        for text in texts
    ]
    changes += [(match.start(), match.end(), "") for match in _STATEMENT.finditer(code)]
    for at, end, text in sorted(changes):
        start = source.rfind("\n", 0, at + (source[at] == "\n")) + 1
        stop = source.find("\n", start)
        line = " ".join(source[start:stop].rstrip("\\").split())
        if not source[start:stop].startswith(" ") or _SKIPPED_LINES.match(line):
            continue  # a preprocessor's line, a declaration at file scope, a table
        before = source[at:end].strip()
        key = (line, before, text)
        seen[key] = seen.get(key, 0) + 1
        yield Mutant(file, at, end, text, line, before, seen[key])


def known_survivors() -> dict[str, str]:
    """Mutant -> reason, from the file's pairs of lines."""
    found: dict[str, str] = {}
    name = ""
    for line in KNOWN.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("    "):
            found[name] = line.strip()
        else:
            name = line
    return found


class Bench:
    """Compiles and runs mutants against the objects of one variant of the C tests."""

    def __init__(self, directory: Path, variant: str, *flags: str) -> None:
        self.directory = directory
        self.objects = ROOT / "build" / "ctest" / variant
        make = ["make", "--no-print-directory", "-f", "scripts/ctest.mk", f"VARIANT={variant}"]
        subprocess.run([*make, "-j2"], cwd=ROOT, check=True)
        text = subprocess.run(
            [*make, "--dry-run", "--always-make"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        commands = [shlex.split(line) for line in text.splitlines() if "csrc/mcp/gate.c" in line]
        dropped = ("-MMD", "-MP", "-Werror", "-g")
        self.compile = [word for word in commands[0] if word not in dropped]
        self.compile += flags
        links = [line for line in text.splitlines() if line.split("-o ")[-1].endswith("/test_gate")]
        self.link = shlex.split(links[0])

    def survives(self, mutant: Mutant) -> bool | None:
        """Whether no test notices; None when it does not compile."""
        with tempfile.TemporaryDirectory(dir=self.directory) as work:
            built = self._build(mutant, Path(work))
            if built is None:
                return None
            tests = HEART[mutant.file]
            return all(self._passes(test, mutant, built, Path(work)) for test in tests)

    def _build(self, mutant: Mutant, work: Path) -> Path | None:
        source = (ROOT / mutant.file).read_text()
        changed = work / Path(mutant.file).name
        changed.write_text(source[: mutant.at] + mutant.text + source[mutant.end :])
        built = work / "mutant.o"
        command = [str(changed) if word == "csrc/mcp/gate.c" else word for word in self.compile]
        command[command.index("-o") + 1] = str(built)
        command.insert(1, f"-I{(ROOT / mutant.file).parent}")
        done = subprocess.run(command, cwd=ROOT, capture_output=True)
        return built if done.returncode == 0 else None

    def _passes(self, test: str, mutant: Mutant, built: Path, work: Path) -> bool:
        program = work / test
        ours = str((self.objects / mutant.file).with_suffix(".o").relative_to(ROOT))
        command = []
        for word in self.link:
            word = word.replace("/test_gate", f"/{test}")
            command.append(str(built) if word == ours else word)
        command[command.index("-o") + 1] = str(program)
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        try:
            done = subprocess.run(
                ["sh", "-c", f'ulimit -t {CPU_LIMIT_S}; exec "$0"', program],
                cwd=work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT_S,
                env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"},
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--file", action="append", choices=sorted(HEART))
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    options = parser.parse_args()
    mutants = [each for file in options.file or HEART for each in mutants_of(file)]
    mutants.sort(key=lambda each: each.order)
    if options.list:
        print("\n".join(each.name for each in mutants))
        return 0
    known = known_survivors()
    stale = [name for name in known if name not in {each.name for each in mutants}]
    if options.file:
        stale = []
    ran = killed = 0
    wrong = [f"no such mutant any more: {name}" for name in stale]
    with tempfile.TemporaryDirectory() as directory:
        plain = Bench(Path(directory), "plain", "-O0", "-U_FORTIFY_SOURCE")
        sanitized = Bench(Path(directory), "asan")
        end = time.monotonic() + options.seconds  # what building them takes does not count

        def one(mutant: Mutant) -> tuple[Mutant, bool | None] | None:
            if time.monotonic() > end:
                return None
            survived = plain.survives(mutant)
            return mutant, sanitized.survives(mutant) if survived else survived

        with ThreadPoolExecutor(options.jobs) as pool:
            for result in pool.map(one, mutants):
                if result is None or result[1] is None:
                    continue
                mutant, survived = result
                ran += 1
                killed += not survived
                if survived and mutant.name not in known:
                    wrong.append(f"survived: {mutant.name}")
                    print(wrong[-1], flush=True)
                elif not survived and mutant.name in known:
                    wrong.append(f"killed, so it needs no reason: {mutant.name}")
                    print(wrong[-1], flush=True)
    print(f"mutants: {killed} of {ran} killed, {len(mutants)} in all, {len(wrong)} findings")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
