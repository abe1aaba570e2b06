"""`deepagents-ro gateway list|audit|latency|demo`: tables for people, an envelope for programs.

Exit codes: 0 the report was made, 1 it could not be, 2 wrong command line, 130 interrupted.
`audit` is a health check too: 0 every allocated tool can be used, 1 some cannot, 2 the gateway
cannot be asked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from deepagents_ro import terminal

from . import document
from .allocation import Allocation, AllocationError
from .document import Document

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .load import GatewayTools

    Report: TypeAlias = tuple[Document, RenderableType, int]
    """Members of the envelope's `data`, the same as a table, and the exit status."""

EPILOG = """\
The gateway comes from JARVIS_GATEWAY_URL, JARVIS_MCP_NAMESPACE (default: global),
JARVIS_API_KEY and UTILS_MCP_TIMEOUT_S (default: 10). What is asked is
{JARVIS_GATEWAY_URL}/mcp/{JARVIS_MCP_NAMESPACE}/, with Authorization: ApiKey KEY.
A table of --allocation is TOML:

  [agents.main]
  tools = ["text_normalize"]

`audit` says for every tool of the gateway which agents get it, or why none does. For a tool of
DCode's own configuration, and for what is behind `tool_not_found` and `tool_not_read_only` of
`dcode tools call-read-only`, ask `dcode tools audit-read-only`.
"""


PAGE_SIZE = 200
"""Tools in one part of `audit --json`, so that it stays within its bound."""


class CommandError(Exception):
    """A command that ends without its report; `code` is a key of `document.MESSAGES`."""

    def __init__(self, code: str, detail: str = "", exit_code: int = 1) -> None:
        super().__init__(detail or document.MESSAGES[code])
        self.code = code
        self.exit_code = exit_code


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is an exception, since `--json` has its own way to say it."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of writing to standard error."""
        raise CommandError("invalid_command", message, 2)


def main(argv: list[str]) -> int:
    """Run `gateway ARGV`; returns the exit code."""
    as_json = "--json" in argv
    command = "gateway"
    try:
        options = parser().parse_args(argv)
        command = f"gateway {options.action}"
        with quiet():
            if options.action == "demo":
                return serve_demo(options)
            data, table, status = asyncio.run(run(options))
    except CommandError as error:
        return complain(as_json, command, error)
    except KeyboardInterrupt:
        return complain(as_json, command, CommandError("interrupted", exit_code=130))
    except Exception:  # programs get an envelope whatever happens; people get the traceback
        if not as_json:
            raise
        return complain(as_json, command, CommandError("runtime_failure"))
    if not as_json:
        terminal.console_of(sys.stdout).print(table)
        return status
    text = document.success(command, data)
    if not emit(text):
        return 1
    return status if json.loads(text)["data"]["ok"] else 1


def emit(text: str) -> bool:
    """Write one document; false when the reader went away."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None  # or the interpreter flushes it again
        return False
    return True


def parser() -> Parser:
    """The command line."""
    top = Parser(
        prog="deepagents-ro gateway",
        description="Curated gateway tools: what there is, who gets it, how fast it is.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = top.add_subparsers(dest="action", required=True, parser_class=Parser)
    common = Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="one JSON envelope, no table")
    common.add_argument("--allocation", metavar="FILE", help="a table of your own (TOML)")
    common.add_argument(
        "--require-hints", action="store_true", help="refuse tools that come without hints"
    )
    actions.add_parser("list", parents=[common], help="agents and the tools that they get")
    asked = actions.add_parser(
        "audit",
        parents=[common],
        help="every tool of the gateway, and why it is not used; exit 1 when an allocated tool"
        " cannot be used, 2 when the gateway cannot be asked",
    )
    asked.add_argument("--agent", default="", metavar="NAME", help="only this agent's tools")
    asked.add_argument("--refused", action="store_true", help="only tools that nobody gets")
    asked.add_argument("--page", type=positive, default=1, help="which part of the JSON's tools")
    asked.add_argument(
        "--page-size", type=positive, default=PAGE_SIZE, help=f"tools in a part: {PAGE_SIZE}"
    )
    demo = actions.add_parser("demo", help="serve a gateway to try things out with")
    demo.add_argument("--port", type=int, default=0, help="default: any that is free")
    demo.add_argument("--tls", action="store_true", help="serve over TLS; prints whom to trust")
    demo.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    timing = actions.add_parser(
        "latency", parents=[common], help="call each loaded read-only tool N times"
    )
    timing.add_argument("-n", "--calls", type=positive, default=20, help="default: 20")
    timing.add_argument("--in-flight", type=positive, default=1, help="default: 1")
    timing.add_argument(
        "-a",
        "--arguments",
        action="append",
        default=[],
        metavar="TOOL=JSON",
        help="what to call TOOL with; once per tool",
    )
    timing.add_argument("--svg", metavar="FILE", help="write the distribution as a picture")
    return top


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def serve_demo(options: argparse.Namespace) -> int:
    """The demo gateway, until it is interrupted."""
    from . import demo

    try:
        return demo.serve(options.port, tls=options.tls)
    except (OSError, OverflowError) as error:
        raise CommandError("port_taken") from error


async def run(options: argparse.Namespace) -> Report:
    """The report that the command line asks for."""
    allocation = table_of(options.allocation)
    with waiting(options.json) as status:
        if options.action == "audit":
            return await audited(options, allocation)
        # Imported here, since help and a wrong command line have no use for what it needs.
        from .load import load_gateway_tools

        arguments = tool_arguments(getattr(options, "arguments", []))
        async with load_gateway_tools(
            allocation=allocation, require_hints=options.require_hints
        ) as loaded:
            if not loaded.available:
                raise CommandError("gateway_unavailable", loaded.reason)
            if options.action == "latency":
                return await timed(options, loaded, arguments, status)
            from . import tables

            return listed(loaded), tables.of_list(loaded), 0


async def audited(options: argparse.Namespace, allocation: Allocation) -> Report:
    """`audit`: exit status 0, 1 or 2."""
    from . import tables
    from .auditing import audit

    if options.agent and allocation.agent(options.agent) is None:
        raise CommandError("unknown_agent", exit_code=2)
    report = await audit(allocation=allocation, require_hints=options.require_hints)
    chosen = {"agent": options.agent, "refused": options.refused}
    data = report.as_json(**chosen, page=options.page, page_size=options.page_size)
    return data, tables.of_audit(report, **chosen), report.exit_status


async def timed(
    options: argparse.Namespace,
    loaded: GatewayTools,
    arguments: dict[str, Document],
    status: Callable[[str], None],
) -> Report:
    """`latency`, with its picture."""
    from . import picture, tables
    from .latency import measure

    def progress(tool: str, done: int) -> None:
        status(f"{tool}: {done} of {options.calls}")

    report = await measure(
        loaded, arguments, calls=options.calls, in_flight=options.in_flight, progress=progress
    )
    if options.svg:
        try:
            Path(options.svg).write_text(picture.svg(report.samples), encoding="utf-8")
        except OSError as error:
            raise CommandError("picture_not_written") from error
    return report.as_json(), tables.of_latency(report), 0


def table_of(path: str | None) -> Allocation:
    """The user's table, or the package's."""
    if path is None:
        return Allocation.default()
    try:
        return Allocation.load(path)
    except (OSError, AllocationError) as error:
        raise CommandError("invalid_allocation", f"{path}: {error}") from error


def tool_arguments(given: list[str]) -> dict[str, Document]:
    """`TOOL=JSON` texts as arguments by tool."""
    found: dict[str, Document] = {}
    for text in given:
        tool, separator, value = text.partition("=")
        try:
            arguments = json.loads(value) if separator else None
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict) or tool in found:
            raise CommandError("invalid_arguments", exit_code=2)
        found[tool] = arguments
    return found


def listed(loaded: GatewayTools) -> Document:
    """`list` for programs."""
    origin = {finding.allowed_name: finding for finding in loaded.findings if finding.exposed}
    return {
        "agents": [
            {
                "name": entry.name,
                "tools": [
                    {
                        "name": tool.name,
                        "gateway_name": origin[tool.name].name,
                        "has_hints": origin[tool.name].annotated,
                        "description": tool.description,
                        "arguments": tool.args_schema,
                    }
                    for tool in loaded.for_agent(entry.name)
                ],
            }
            for entry in loaded.allocation.agents
        ],
        "missing": loaded.missing,
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep logs and warnings off the terminal; the report says what they would."""
    logger = logging.getLogger()
    handler = logging.NullHandler()
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def waiting(as_json: bool) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal's standard error; yields a function that changes its text."""
    if as_json or not sys.stderr.isatty():
        yield lambda _text: None
        return
    with terminal.console_of(sys.stderr).status("Asking the gateway") as status:
        yield lambda text: status.update(terminal.visible(text))


def complain(as_json: bool, command: str, error: CommandError) -> int:
    """Say what went wrong in the form that was asked for."""
    if as_json:
        return error.exit_code if emit(document.failure(command, error.code)) else 1
    terminal.console_of(sys.stderr).print(f"deepagents-ro gateway: {error}")
    return error.exit_code
