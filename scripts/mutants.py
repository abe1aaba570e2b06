"""Changes the heart of the C code in small ways and asks its tests to notice.

    python scripts/mutants.py [--seconds 600] [--jobs 2] [--file csrc/mcp/gate.c] [--list]

Each mutant is one file with one operator, constant or statement changed. It is compiled, linked
with the unchanged rest, and run against the C tests that are named for its file in `HEART`: plain
first, which kills nearly all of them quickly, then, if it survived, with ASan and UBSan, and one
that changes a lock also with TSan. A test that fails, crashes or hangs kills it; a mutant that does
not compile does not count. The order is fixed and spreads over all files, so that a short run
samples every one of them.

Exit 0 when every survivor stands in tests/c/mutants.txt with its reason, 1 otherwise, and also when
that file names a mutant that no longer exists. Needs gcc, and the objects of
`scripts/ctest.sh plain asan tsan`, which it makes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "tests" / "c" / "mutants.txt"
# A test that loops ends by processor time, whatever else the machine does. One that waits ends when
# no thread of it or of its children ran at so many looks; the clock is for what is left.
CPU_LIMIT_S = 2
SLOW_CPU_LIMIT_S = 6
LIMIT_S = 600.0
LOOK_S = 0.1
LOOKS = 15
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
    "csrc/core/secrets.c": ["test_secrets", "test_secrets_alike"],
    "csrc/core/base64.c": ["test_secrets", "test_redact"],
    "csrc/core/percent.c": ["test_secrets", "test_redact"],
    "csrc/guard/descendants.c": ["test_guard_descendants"],
    "csrc/guard/deadline.c": ["test_guard_deadline"],
    "csrc/guard/output.c": ["test_guard_output"],
}
# what a survivor that is not known has to pass as well: a mutant may cost time alone
SLOW = {
    "csrc/core/json_keys.c": ["test_hostile"],
    "csrc/core/secrets.c": ["test_hostile"],
    "csrc/core/redact.c": ["test_hostile"],
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
        before = " ".join(source[at:end].split())
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


def sleeps(pid: int) -> bool:
    """Whether every thread of a process and of its children waits."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            state = (task / "stat").read_text().rpartition(") ")[2][0]
            children = (task / "children").read_text().split()
            if state != "S" or not all(sleeps(int(child)) for child in children):
                return False
    except OSError:  # it has ended
        return False
    return True


def passes(program: Path, cpu_limit_s: int) -> bool:
    """Whether a test program ends by itself and well."""
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -t {cpu_limit_s}; exec "$0"', program],
        cwd=program.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "RO_TEST_FIRST": "1"},
    )
    end = time.monotonic() + LIMIT_S
    looks = 0
    try:
        while looks < LOOKS and time.monotonic() < end:
            try:
                return process.wait(LOOK_S) == 0
            except subprocess.TimeoutExpired:
                looks = looks + 1 if sleeps(process.pid) else 0
        return False
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Bench:
    """Compiles and runs mutants against the objects of one variant of the C tests."""

    def __init__(self, directory: Path, variant: str, *flags: str) -> None:
        self.directory = directory
        self.objects = ROOT / "build" / "ctest" / variant
        self.archive = directory / f"{variant}.a"
        make = ["make", "--no-print-directory", "-f", "scripts/ctest.mk", f"VARIANT={variant}"]
        programs = {
            str(self.objects / test)
            for tests in (*HEART.values(), *SLOW.values())
            for test in tests
        }
        wanted = [os.path.relpath(program, ROOT) for program in programs]
        subprocess.run([*make, "--silent", "-j2", *wanted], cwd=ROOT, check=True)
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
        self.compile += ["-w", *flags]
        links = [line for line in text.splitlines() if line.split("-o ")[-1].endswith("/test_gate")]
        words = shlex.split(links[0])
        ours = [word for word in words if "/csrc/" in word]
        self.link = [word for word in words if not word.endswith(".o")]
        # of an archive the linker takes what is needed, which is far less than all
        subprocess.run(["ar", "rcs", self.archive, *ours], cwd=ROOT, check=True)

    def survives(
        self, mutant: Mutant, tests: Sequence[str], cpu_limit_s: int = CPU_LIMIT_S
    ) -> bool | None:
        """Whether none of the tests notices; None when it does not compile."""
        source = (ROOT / mutant.file).read_text()
        with tempfile.TemporaryDirectory(dir=self.directory) as work:
            changed = Path(work, mutant.file)
            changed.parent.mkdir(parents=True)
            changed.write_text(source[: mutant.at] + mutant.text + source[mutant.end :])
            built = self._compiled(changed, Path(work))
            if built is None:
                return None
            return all(passes(self._linked(test, mutant, built), cpu_limit_s) for test in tests)

    def _compiled(self, source: Path, work: Path) -> Path | None:
        """The object of a source; what was changed below `work` is found there first."""
        built = work / f"{source.stem}.o"
        command = [str(source) if word == "csrc/mcp/gate.c" else word for word in self.compile]
        command[command.index("-o") + 1] = str(built)
        command.insert(1, f"-I{work / 'csrc'}")
        done = subprocess.run(command, cwd=ROOT, capture_output=True)
        return built if done.returncode == 0 else None

    def _linked(self, test: str, mutant: Mutant, built: Path) -> Path:
        """The test program; the test is compiled again if it includes what was changed."""
        program = built.parent / test
        source = ROOT / "tests" / "c" / f"{test}.c"
        of_test: Path | None = self.objects / "tests" / "c" / f"{test}.o"
        if f'#include "{mutant.file.removeprefix("csrc/")}"' in source.read_text():
            of_test = self._compiled(source, built.parent)
        command = [self.link[0], str(of_test), str(built), str(self.archive), *self.link[1:]]
        command[command.index("-o") + 1] = str(program)
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return program


class Benches(NamedTuple):
    """The variants."""

    plain: Bench
    asan: Bench
    tsan: Bench


def survives_all(mutant: Mutant, benches: Benches, known: bool) -> bool | None:
    """Whether nothing notices, the quickest first; None when it does not compile."""
    tests = HEART[mutant.file]
    survived = benches.plain.survives(mutant, tests)
    survived = survived and benches.asan.survives(mutant, tests)
    if "lock(" in mutant.line:
        survived = survived and benches.tsan.survives(mutant, tests)
    if not known:
        slow = SLOW.get(mutant.file, [])
        survived = survived and benches.plain.survives(mutant, slow, SLOW_CPU_LIMIT_S)
    return survived


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
        benches = Benches(
            # without optimisation gcc leaves out no check of an address
            plain=Bench(Path(directory), "plain", "-O0", "-U_FORTIFY_SOURCE"),
            asan=Bench(Path(directory), "asan", "-O0"),
            tsan=Bench(Path(directory), "tsan"),
        )
        end = time.monotonic() + options.seconds  # what building them takes does not count

        def one(mutant: Mutant) -> tuple[Mutant, bool | None] | None:
            if time.monotonic() > end:
                return None
            return mutant, survives_all(mutant, benches, mutant.name in known)

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
                    # no fault: a machine that is slow enough starves the test of any mutant
                    print(f"killed, though it is listed: {mutant.name}", flush=True)
    print(f"mutants: {killed} of {ran} killed, {len(mutants)} in all, {len(wrong)} findings")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
