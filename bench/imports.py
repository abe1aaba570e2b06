"""The import budget of the call: self time of every module, grouped by package.

    python bench/imports.py [reference|ours] [--top 25] [--modules]

The figures of `-X importtime`, written by the process itself to a file of its own: our command
sends descriptor 2 to the null device before anything is imported and leaves without interpreter
shutdown, so the interpreter's own report is lost. Finding, loading and running each module is
timed, nested imports subtracted. Prints a table and writes bench/results/imports-NAME.json,
which lists every module, so that a test can see what came back.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any


class Timer:
    """A finder in front of the others; one line `MICROSECONDS MODULE` per module."""

    def __init__(self, path: str) -> None:
        self._sink = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        self._local = threading.local()

    def find_spec(self, name: str, where: Any = None, target: Any = None) -> Any:
        """The spec that the other finders give, with its loader timed."""
        started = time.perf_counter()
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, where, target)
            if spec is not None:
                self._time(spec, time.perf_counter() - started)
                return spec
        return None

    def _time(self, spec: Any, spent_finding: float) -> None:
        loader = spec.loader
        if loader is None or isinstance(loader, type):
            return  # a namespace package, or a built-in module: nothing to run
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


def child(path: str, argv: list[str]) -> None:
    """Run the script `argv[0]` as the main program, timed."""
    sys.argv = argv
    sys.path[0] = str(Path(argv[0]).parent)
    sys.meta_path.insert(0, Timer(path))  # type: ignore[arg-type]
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


def main() -> int:
    """Run one command once, timed, and print its budget."""
    import results
    from sandbox import COMMANDS, Sandbox

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=sorted(COMMANDS), default="ours")
    parser.add_argument("--top", type=int, default=25)
    parser.add_argument("--modules", action="store_true", help="single modules, not packages")
    options = parser.parse_args()
    command = COMMANDS[options.command]
    script = command[1:] if options.command == "reference" else command
    with Sandbox() as sandbox:
        server = sandbox.start("server.py")
        sandbox.configure(server.port)
        sandbox.run(command)
        sink = sandbox.root / "imports"
        run = sandbox.run([sys.executable, __file__, "--child", str(sink), *script])
        if run.data().get("ok") is not True:
            raise SystemExit(f"the call failed: {run.stdout[:300]!r} {run.stderr[-300:]!r}")
        rows = read(sink)
    packages = by_package(rows)
    total = sum(millis for _name, millis in rows)
    results.say(f"{options.command}: {total:.0f} ms in {len(rows)} modules")
    if options.modules:
        lines = [[n, f"{ms:.1f}"] for n, ms in sorted(rows, key=lambda row: -row[1])]
        results.table(["module", "self ms"], lines[: options.top])
    else:
        lines = [[n, f"{ms:.1f}", str(count)] for n, (ms, count) in packages.items()]
        results.table(["package", "self ms", "modules"], lines[: options.top])
    results.write(
        f"imports-{options.command}",
        {"total_ms": total, "packages": packages, "modules": dict(rows)},
    )
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
        sys.exit()
    sys.exit(main())
