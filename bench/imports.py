"""The import budget of the call: self time of every module, grouped by package.

    python bench/imports.py [reference plain ours] [--top 25] [--modules]

`plain` is our command without the start-up shortcuts (`deepagents_ro/startup.py`).

The figures of `-X importtime`, written by the process itself to a file of its own: our command
sends descriptor 2 to the null device before anything is imported and leaves without interpreter
shutdown, so the interpreter's own report is lost. Finding, loading and running each module is
timed, nested imports subtracted. Prints one table with a column per command and writes
bench/results/imports.json, which lists every module.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import threading
import time
from collections import defaultdict
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox import Sandbox

NAMES = ("reference", "plain", "ours")


class Timer:
    """A finder in front of the others; one line `MICROSECONDS MODULE` per module."""

    def __init__(self, path: str) -> None:
        self._sink = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        self._local = threading.local()

    def find_spec(self, name: str, where: Any = None, target: Any = None) -> Any:
        """The spec that the finders behind this one give, with its loader timed."""
        started = time.perf_counter()
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, where, target)
            if spec is not None:
                self._time(spec, time.perf_counter() - started)
                return spec
        return None

    def _time(self, spec: Any, spent_finding: float) -> None:
        loader = spec.loader
        if not isinstance(loader, (SourceFileLoader, ExtensionFileLoader)):
            return  # a namespace package, a built-in module, a stand-in: nothing to run
        create, execute = loader.create_module, loader.exec_module
        own = [spent_finding]

        def create_module(wanted: Any) -> Any:
            started = time.perf_counter()
            module = create(wanted)
            own[0] += time.perf_counter() - started
            return module

        def exec_module(module: Any) -> None:
            stack = self._local.__dict__.setdefault("stack", [])
            stack.append(0.0)
            started = time.perf_counter()
            try:
                execute(module)
            finally:
                spent = time.perf_counter() - started
                own[0] += spent - stack.pop()
                if stack:
                    stack[-1] += spent
                os.write(self._sink, b"%d %s\n" % (own[0] * 1e6, spec.name.encode()))

        loader.create_module, loader.exec_module = create_module, exec_module


class Finders(list[Any]):
    """`sys.meta_path` whose first finder stays the first."""

    def insert(self, index: Any, finder: Any) -> None:
        """As a list's, behind the first at most."""
        super().insert(max(1, index), finder)


def child(path: str, argv: list[str]) -> None:
    """Run the script `argv[0]` as the main program, timed."""
    sys.argv = argv
    sys.path[0] = str(Path(argv[0]).parent)
    sys.meta_path = Finders([Timer(path), *sys.meta_path])
    runpy.run_path(argv[0], run_name="__main__")


def read(path: Path) -> list[tuple[str, float]]:
    """`(module, milliseconds)` of every line."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        micros, name = line.split(" ", 1)
        rows.append((name, int(micros) / 1000.0))
    return rows


def by_package(rows: list[tuple[str, float]]) -> dict[str, tuple[float, int]]:
    """`{package: (milliseconds, modules)}`, the standard library as one package."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, millis in rows:
        top = name.split(".", 1)[0]
        found["(standard library)" if top in sys.stdlib_module_names else top].append(millis)
    totals = {name: (sum(times), len(times)) for name, times in found.items()}
    return dict(sorted(totals.items(), key=lambda item: -item[1][0]))


def record(sandbox: Sandbox, name: str, *, plain: bool = False) -> list[tuple[str, float]]:
    """Run one command once, timed; the second time, so that the caches are warm."""
    from sandbox import COMMANDS

    command = COMMANDS[name]
    script = command[1:] if name == "reference" else command
    extra = {"DEEPAGENTS_RO_PLAIN_IMPORTS": "1"} if plain else {}
    sink = sandbox.root / f"imports-{name}-{plain}"
    for _ in range(2):
        sink.unlink(missing_ok=True)
        run = sandbox.run([sys.executable, __file__, "--child", str(sink), *script], extra=extra)
        if run.data().get("ok") is not True:
            raise SystemExit(f"the call failed: {run.stdout[:300]!r} {run.stderr[-300:]!r}")
    return read(sink)


def report(name: str, rows: list[tuple[str, float]]) -> dict[str, tuple[float, int]]:
    """Write one command's figures to a file; returns them by package."""
    import results

    packages = by_package(rows)
    total = sum(millis for _name, millis in rows)
    results.say(f"{name}: {total:.0f} ms in {len(rows)} modules")
    results.write(
        f"imports-{name}", {"total_ms": total, "packages": packages, "modules": dict(rows)}
    )
    return packages


def budget(sandbox: Sandbox, top: int) -> None:
    """The table of both, the most expensive packages of the plain stack first."""
    import results

    before = report("plain", record(sandbox, "ours", plain=True))
    after = report("ours", record(sandbox, "ours"))
    lines = []
    for name in [*before, *(name for name in after if name not in before)]:
        cells = [
            text
            for millis, count in (before.get(name, (0.0, 0)), after.get(name, (0.0, 0)))
            for text in ((f"{millis:.1f}", str(count)) if count else ("-", "-"))
        ]
        lines.append([name, *cells])
    header = ["package", "plain: self ms", "modules", "call: self ms", "modules"]
    results.table(header, lines[:top])
    left = lines[top:]
    if left:
        results.say(f"and {len(left)} more")


def measure(sandbox: Sandbox, name: str) -> list[tuple[str, float]]:
    """`(module, milliseconds)` of every module that one call imports."""
    from sandbox import COMMANDS, PLAIN_IMPORTS

    command = COMMANDS["reference" if name == "reference" else "ours"]
    script = command[1:] if name == "reference" else command
    extra = PLAIN_IMPORTS if name == "plain" else None
    sandbox.run(command, extra=extra)
    sink = sandbox.root / f"imports-{name}"
    run = sandbox.run([sys.executable, __file__, "--child", str(sink), *script], extra=extra)
    if run.data().get("ok") is not True:
        raise SystemExit(f"the call failed: {run.stdout[:300]!r} {run.stderr[-300:]!r}")
    return read(sink)


def main() -> int:
    """Run each command once, timed, and print their budgets side by side."""
    import results
    from sandbox import Sandbox

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(NAMES))
    parser.add_argument("--top", type=int, default=25)
    parser.add_argument("--modules", action="store_true", help="single modules, not packages")
    options = parser.parse_args()
    names = options.commands or list(NAMES)
    if unknown := set(names) - set(NAMES):
        parser.error(f"no such command: {', '.join(sorted(unknown))}")
    with Sandbox() as sandbox:
        server = sandbox.start("server.py", "--json")
        sandbox.configure(server.port)
        rows = {name: measure(sandbox, name) for name in names}
    budgets = {
        name: {module: (millis, 1) for module, millis in found}
        if options.modules
        else by_package(found)
        for name, found in rows.items()
    }
    for name, found in rows.items():
        total = sum(millis for _module, millis in found)
        results.say(f"{name}: {total:.0f} ms in {len(found)} modules")
    head = ["module" if options.modules else "package"]
    for name in names:
        head += [f"{name} ms", "modules"]
    results.table(head, lines_of(budgets)[: options.top])
    results.write(
        "imports",
        {
            name: {"packages": by_package(found), "modules": dict(found)}
            for name, found in rows.items()
        },
    )
    return 0


def lines_of(budgets: dict[str, dict[str, tuple[float, int]]]) -> list[list[str]]:
    """One line per package of any command, the dearest of the first command first."""
    every = dict.fromkeys(package for budget in budgets.values() for package in budget)
    lines = []
    for package in every:
        cells = [package]
        for budget in budgets.values():
            millis, modules = budget.get(package, (0.0, 0))
            cells += [f"{millis:.1f}", str(modules)] if modules else ["-", "-"]
        lines.append(cells)
    return lines


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
        sys.exit()
    sys.exit(main())
