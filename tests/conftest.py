"""Fixtures of the end-to-end tests: the CA, the servers and a private world for `dcode`."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import machine
from budget import examples
from hypothesis import settings
from servers.dcode import DCODE, Dcode
from servers.inside import Inside
from servers.warm import CHECK_VARIABLE

from deepagents_ro.qualify.lab.authority import Authority
from deepagents_ro.qualify.lab.raw_server import RawServer
from deepagents_ro.qualify.lab.sdk_server import SDKServer

E2E = Path(__file__).parent / "e2e"
PRELOADED = Path(__file__).parent / "servers"


def pytest_configure(config: pytest.Config) -> None:
    """Makes children independent of how and where the tests were started."""
    settings.register_profile("suite", examples(100))
    settings.load_profile("suite")
    # a child's Python must not find the source tree in the working directory: it has no extension
    os.environ["PYTHONSAFEPATH"] = "1"
    # what a launcher (nohup, say) ignores, children would ignore too
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as there are processors: some of the tests wait for a deadline."""
    return 2 * len(os.sched_getaffinity(0))


def pytest_collection_finish() -> None:
    """What is there by now stays: a test that counts what it leaves need not walk all of it."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what this machine has not the means for; refuses a `dcode` that is not patched."""
    chosen = sampled(items)
    items[:] = [item for item in items if is_wanted(item, chosen)]
    choose_inside(items)
    choose_fresh(items)
    if config.option.collectonly or not any(E2E in item.path.parents for item in items):
        return
    if not DCODE.exists():
        raise pytest.UsageError(f"deepagents-code is not installed beside {sys.executable}")
    check = subprocess.run(
        [sys.executable, "-I", "-m", "deepagents_ro.patch", "check"],
        capture_output=True,
        text=True,
    )
    if check.returncode != 0:
        raise pytest.UsageError(
            "dcode is not patched; run `python -m deepagents_ro.patch apply` first.\n"
            + check.stdout
            + check.stderr
        )


INSIDE = pytest.StashKey[bool]()


def choose_inside(items: list[pytest.Item]) -> None:
    """Of each test that is marked `inside`, the first case starts the command: that is the wiring.

    The others are spellings of the same rule, which the test's process can call; `make check`
    starts the command for each of them.
    """
    begun: set[str] = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        marked = item.get_closest_marker("inside") is not None
        item.stash[INSIDE] = marked and test in begun and CHECK_VARIABLE not in os.environ
        begun.add(test)


FRESH = pytest.StashKey[bool]()
FRESH_CASES = 2  # of each end-to-end test, in `make check`


def choose_fresh(items: list[pytest.Item]) -> None:
    """Which runs start with a new interpreter: in `make check`, some cases of each test.

    The others are forked from a process with the stack imported (see `servers/warm.py`): what a
    case is about begins behind the imports.
    """
    chosen: set[pytest.Item] = set()
    if CHECK_VARIABLE in os.environ:
        for cases in cases_of(items):
            chosen.update(spread(cases, FRESH_CASES))
    for item in items:
        item.stash[FRESH] = item in chosen


def sampled(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of each test that is marked `sample(count)`, so many cases.

    The others are further cases of the same rule, and dear ones.
    """
    chosen: set[pytest.Item] = set()
    for cases in cases_of(items):
        mark = cases[0].get_closest_marker("sample")
        if mark is not None:
            chosen.update(spread(cases, mark.args[0]))
    return chosen


def cases_of(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """The cases of each test function."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return list(cases.values())


def spread(cases: list[pytest.Item], count: int) -> list[pytest.Item]:
    """At most so many of the cases, evenly spread, the first one among them."""
    count = min(count, len(cases))
    return [cases[index * len(cases) // count] for index in range(count)]


def is_wanted(item: pytest.Item, chosen: set[pytest.Item]) -> bool:
    """Whether the machine has what the test needs, and the test belongs to this run.

    `make test` leaves out what is `thorough`, and the cases that are not `chosen` of what is
    `sample`; `make check` runs those, and once more every end-to-end test, each case as a process
    of its own (see `choose_fresh`), and every property test, with all its examples.
    """
    if any(map(machine.lacks, needs_of(item))):
        return False
    left_out = item.get_closest_marker("sample") is not None and item not in chosen
    thorough = left_out or item.get_closest_marker("thorough") is not None
    if CHECK_VARIABLE not in os.environ:
        return not thorough
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return thorough or is_property or E2E in item.path.parents


def needs_of(item: pytest.Item) -> list[str]:
    """The names of `machine.NEEDS` that the test's marks have, and its fixtures."""
    needs = [need for mark in item.iter_markers("needs") for need in mark.args]
    if "network" in getattr(item, "fixturenames", ()):
        needs.append("network namespaces")
    return needs


def pytest_report_header() -> list[str]:
    """What is not tested on this machine, once."""
    reasons = {need: machine.lacks(need) for need in machine.NEEDS}
    return [f"not tested here: what needs {need} ({why})" for need, why in reasons.items() if why]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA that every server's certificate is from."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def fastmcp(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SDKServer]:
    """One real SDK server for the session."""
    log = tmp_path_factory.mktemp("fastmcp") / "requests.log"
    with SDKServer(authority.cert_file, log) as server:
        yield server


@pytest.fixture
def raw(authority: Authority) -> Iterator[Callable[..., RawServer]]:
    """Makes scripted servers that end with the test; `tls=False` for plain HTTP."""
    servers: list[RawServer] = []

    def make(*, tls: bool = True, context: Any = None, **kwargs: Any) -> RawServer:
        if context is None and tls:
            context = authority.server_context()
        server = RawServer(context, **kwargs)
        server.__enter__()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()
    broken = [error for server in servers for error in server.errors]
    assert not broken, f"a test's own handler failed: {broken!r}"


@pytest.fixture
def dcode(request: pytest.FixtureRequest, tmp_path: Path, authority: Authority) -> Dcode:
    """A private world in which to run `dcode`."""
    kind = Inside if request.node.stash[INSIDE] else Dcode
    return kind(tmp_path, authority.ca_file, fresh=request.node.stash[FRESH])


def preloaded(name: str, directory: Path) -> Path:
    """A library of `servers/` for `LD_PRELOAD`."""
    library = directory / f"{name}.so"
    source = PRELOADED / f"{name}.c"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
    )
    return library


@pytest.fixture(scope="session")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded library that notes look-ups and connections."""
    return preloaded("witness", tmp_path_factory.mktemp("witness"))


@pytest.fixture(scope="session")
def raises(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded library that raises a signal while the guard starts."""
    return preloaded("raises", tmp_path_factory.mktemp("raises"))
