"""The command of the qualification: what is proved, in which order, and what is said of it."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

from deepagents_ro.patch import patcher, relied_on
from deepagents_ro.patch.install import Install, PatchError, locate

from . import cases as promises
from .lab.runs import Broken, Run
from .report import Proof, Report, Screen
from .runner import Runner, Stopped, find_dcode
from .servers import Lab
from .unpatched import is_patched, make_unpatched


class Refused(Exception):
    """Why the qualification cannot begin."""


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m deepagents_ro.qualify",
        description="Proves on this machine, with real MCP servers and the actual dcode process, "
        "that `dcode tools call-read-only` keeps its contract. Exit status: 0 all promises kept, "
        "1 one is broken, 2 nothing could be proved.",
    )
    parser.add_argument("--json", action="store_true", help="print the report, not the progress")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument(
        "--upstream",
        action="store_true",
        help="the same proof on DCode without the patch: can deepagents-ro be removed?",
    )
    parser.add_argument(
        "--dcode", metavar="FILE", help="the command to prove (default: dcode of this Python)"
    )
    parser.add_argument(
        "--managed-config",
        type=Path,
        metavar="FILE",
        help="where the installed managed runtime reads its servers from; must not exist",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where the servers listen"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="runs at a time (default: 2)"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """The exit status; everything that was started has ended."""
    chosen = options(arguments)
    logging.disable(logging.CRITICAL)  # the SDK's server reports each client that closes a stream
    screen = Screen(sys.stderr if chosen.json else sys.stdout, quiet=chosen.json)
    try:
        install = locate(None)
        with ExitStack() as stack:
            command = command_to_prove(chosen, install, stack)
            report = Report(chosen.upstream, command)
            screen.say(f"deepagents-code {install.version}: {shlex.join(command)}")
            managed = chosen.managed_config is not None
            lab = stack.enter_context(Lab(chosen.host, managed=managed))
            runner = Runner(lab, command, chosen.managed_config)
            prove(chosen, install, runner, report, screen)
        report.verdict = verdict(report, install)
        if chosen.report is not None:
            report.write(chosen.report)
    except (Refused, PatchError, OSError, RuntimeError, TimeoutError) as error:
        print(f"deepagents-ro: {error}", file=sys.stderr)
        return 2
    screen.say(report.verdict, "bold green" if report.ok else "bold red")
    if chosen.json:
        sys.stdout.write(report.text())
    return 0 if report.ok else 1


def command_to_prove(chosen: argparse.Namespace, install: Install, stack: ExitStack) -> list[str]:
    """The words that stand for `dcode`. Raises `Refused`."""
    if relied_on.is_managed(install) and chosen.managed_config is None:
        raise Refused(
            f"{install.path(relied_on.MANAGED_MODULE)} is installed; "
            "say where it reads its servers from: --managed-config FILE"
        )
    if chosen.managed_config is not None:
        if chosen.managed_config.exists() or chosen.managed_config.is_symlink():
            raise Refused(f"{chosen.managed_config} exists; it is not overwritten")
        if not is_routed(chosen.host):
            raise Refused(
                f"a managed runtime refuses servers on {chosen.host}; "
                "name a routed IPv4 address of this machine: --host ADDRESS"
            )
    if chosen.upstream and is_patched(install):
        if chosen.dcode is not None:
            raise Refused("--upstream on a patched DCode proves a copy of it, not --dcode")
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="deepagents-ro-dcode-"))
        return make_unpatched(install, Path(directory))
    return [chosen.dcode or find_dcode(sys.executable)]


# Those that a newer managed runtime admits.
PRIVATE_NETWORKS = tuple(
    ipaddress.IPv4Network(text)
    for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
)


def is_routed(host: str) -> bool:
    """Whether `host` is an IPv4 address of a kind that some managed runtime allows.

    Private ones are for the runtime itself to refuse: older images do, newer ones do not.
    """
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return address.is_global or any(address in network for network in PRIVATE_NETWORKS)


Job = Future[tuple[Proof, Run | None]]


def prove(
    chosen: argparse.Namespace, install: Install, runner: Runner, report: Report, screen: Screen
) -> None:
    """Fill `report`; ends at the first broken promise, with `--upstream` at the first alone."""
    everything = promises.cases(managed=runner.lab.managed)
    work = [(case, mode) for mode in promises.MODES for case in everything]
    outputs: dict[tuple[str, str], bytes] = {}

    def record(proof: Proof) -> bool:
        report.proofs.append(proof)
        screen.show(proof)
        return proof.broken is None

    with screen.proving(len(work) + 3):
        if not record(first_proof(chosen, install, runner, everything)):
            return
        with ExitStack() as stack:
            jobs = start(chosen, stack, runner, work)
            stack.callback(runner.stop)
            for job in as_completed(jobs):
                if job.cancelled() or isinstance(job.exception(), Stopped):
                    continue
                proof, outcome = job.result()
                if outcome is not None:
                    outputs[jobs[job]] = outcome.stdout
                if not record(proof) and not chosen.upstream:
                    runner.stop()
        report.complete = len(outputs) == len(work)
        if report.complete:
            names = [case.name for case in everything]
            claim = "both modes, and any model settings, give the same bytes"
            record(settled("same outcome", claim, lambda: promises.same_bytes(outputs, names)))
        claim = "no run contacted anybody but its own servers"
        record(settled("nobody else", claim, lambda: promises.tripwire_untouched(runner.lab)))


def first_proof(
    chosen: argparse.Namespace,
    install: Install,
    runner: Runner,
    everything: list[promises.Case],
) -> Proof:
    """Without it nothing else is worth the time: the patch is right, or upstream has a command."""
    if not chosen.upstream:
        claim = "applied, verified, on the qualified stack"
        return settled("patch", claim, lambda: check_patch(install))
    case = next(case for case in everything if case.name == "command")
    return prove_one(runner, case, promises.MODES[0])[0]


def start(
    chosen: argparse.Namespace,
    stack: ExitStack,
    runner: Runner,
    work: list[tuple[promises.Case, str]],
) -> dict[Job, tuple[str, str]]:
    """Begin all the work; runs that only wait do not take a place. The stack waits for the end."""
    waiting = [pair for pair in work if pair[0].waits]
    busy = [pair for pair in work if not pair[0].waits]
    jobs: dict[Job, tuple[str, str]] = {}
    for pairs, places in ((waiting, len(waiting)), (busy, max(1, chosen.jobs))):
        pool = stack.enter_context(
            ThreadPoolExecutor(places if chosen.managed_config is None else 1)
        )
        for case, mode in pairs:
            jobs[pool.submit(prove_one, runner, case, mode)] = (case.name, mode)
    return jobs


def check_patch(install: Install) -> None:
    findings = patcher.check(install)
    if findings:
        raise Broken("; ".join(findings))


def settled(name: str, claim: str, check: Callable[[], None]) -> Proof:
    """The proof of a promise about all runs: `check` raises `Broken`."""
    started = time.monotonic()
    broken = None
    try:
        check()
    except Broken as error:
        broken = str(error)
    return Proof(name, "", claim, broken, time.monotonic() - started)


def prove_one(runner: Runner, case: promises.Case, mode: str) -> tuple[Proof, Run | None]:
    started = time.monotonic()
    try:
        outcome = case.prove(runner, mode)
    except Broken as error:
        return Proof(case.name, mode, case.claim, str(error), time.monotonic() - started), None
    return Proof(case.name, mode, case.claim, None, outcome.seconds), outcome


def verdict(report: Report, install: Install) -> str:
    """What the report means, in one sentence."""
    what = f"deepagents-code {install.version}"
    kept = len(report.proofs) - len(report.broken)
    if not report.upstream:
        if report.ok:
            return f"{what}: qualified, all {kept} promises kept."
        reason = f"Broken: {report.broken[0].name}" if report.broken else "Not all was proved"
        return f"{what}: NOT qualified. {reason}."
    if report.ok:
        return f"{what} keeps all {kept} promises by itself: deepagents-ro can be removed."
    if len(report.proofs) == 1:
        return f"{what} has no such command of its own: deepagents-ro is needed."
    return (
        f"{what} has the command and breaks {len(report.broken)} of {len(report.proofs)} promises: "
        "deepagents-ro is needed."
    )
