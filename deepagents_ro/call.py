"""The call itself: plan, discover, select exactly one, judge, invoke once, envelope.

The outcome is what the C side recorded from the wire; what DCode's wrapper returns afterwards can
only turn a recorded success into a failure. Everything that arrives here as an exception, a
cancellation or an exception group becomes an envelope.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, TypeVar

from deepagents_ro import _mcpro, ahead, host, startup
from deepagents_ro import managed as managed_runtime
from deepagents_ro.deadline import first_deadline
from deepagents_ro.refusal import HostError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from langchain_core.messages import ToolCall

    from deepagents_ro.command_line import Command
    from deepagents_ro.plan import Plan
    from deepagents_ro.protocols import Connections, ServerInfo, Tool

T = TypeVar("T")

# Seconds for closing the SDK's sessions; nothing that is awaited there reaches the network.
CLEANUP_SECONDS = 0.25
# Seconds into the call after which Python, idle, imports what it needs once the answer is there.
AHEAD_SECONDS = 0.01


class Denied(Exception):
    """The call ends with this envelope code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def run(
    command: Command, arguments: bytes, guard: _mcpro.Guard, *, managed: bool
) -> tuple[int, bytes]:
    """Make the call; returns the exit status and the envelope without its newline."""
    code, document = "ok", b""
    try:
        document = success_of(command, arguments, guard, managed=managed)
    except Denied as denied:
        code = denied.code
    except HostError:
        code = "runtime_failure"
    if startup.used() and code != "timeout":
        code = "runtime_failure"  # whoever asked may have swallowed the exception
    if code == "ok":
        return 0, document
    return _mcpro.envelope_exit(code), _mcpro.envelope_error(code)


def success_of(command: Command, arguments: bytes, guard: _mcpro.Guard, *, managed: bool) -> bytes:
    """The success envelope, or `Denied`."""
    if managed:
        managed_runtime.check()
    stack = startup.verified()
    startup.put_in_front(stack)
    host.load_environment(trust_project=command.trust_project_mcp)
    plan = host.make_plan(command, managed=managed)
    if plan is None or not plan.owners:
        raise Denied(missing_code(command.tool))
    startup.install(stack, host.needed_modules(plan))
    worker = _mcpro.Worker(command.tool)
    guard.set_exit_hook(worker.exit_hook())
    ahead.start(plan, worker, stack)
    host.load_stack(plan, stack)
    loop = asyncio.new_event_loop()
    work = Run(plan, worker, arguments, loop)
    return loop.run_until_complete(supervise(work, work.make(), guard))


def missing_code(tool: str) -> str:
    """Why no server's tool has that name."""
    return "not_mcp_tool" if tool in host.BUILT_IN_TOOLS else "tool_not_found"


async def supervise(work: Run, job: Coroutine[object, object, T], guard: _mcpro.Guard) -> T:
    """Run `job` until it ends or the first deadline comes, whichever is first."""
    expired = first_deadline(guard)
    task = asyncio.ensure_future(job)
    waiting: set[asyncio.Future[T] | asyncio.Future[None]] = {task, expired}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        await work.settle_tokens()
        raise Denied("timeout")
    if task.cancelled():
        raise Denied(work.recorded_failure())
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, Denied | HostError):
        raise error
    raise Denied(work.recorded_failure())


class Run:
    """One run of the command on one event loop: discovery, the call, the envelope."""

    def __init__(
        self,
        plan: Plan,
        worker: _mcpro.Worker,
        arguments: bytes,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        from deepagents_ro.exchange import Exchanges

        self.plan = plan
        self.worker = worker
        self.arguments = arguments
        self.connections: Connections = {}
        self.exchanges = Exchanges(worker, loop)

    def complete(self, connections: Connections) -> None:
        """Keep the owners only, and put every one of them on the C transport."""
        for name, connection in list(connections.items()):
            if name not in self.plan.owners:
                del connections[name]
                continue
            self.connections[name] = connection
            connections[name] = self.exchanges.complete(name, connection)

    async def settle_tokens(self) -> None:
        """Wait for a token refresh that is under way: a rotated token must not get lost."""
        await self.exchanges.settle_auth()

    def recorded_failure(self) -> str:
        """The code for work that broke off: what the wire said, unless it said success."""
        outcome = self.worker.outcome()
        return "runtime_failure" if outcome in (None, "ok") else outcome

    async def make(self) -> bytes:
        """Discover, select, judge, invoke, clean up; the success envelope, or `Denied`."""
        manager = host.session_manager(self.complete)
        self.worker.await_preflight()
        tools, infos = await host.load_tools(self.plan, manager)
        tool = self.select(tools, infos)
        server = host.server_of(tool)
        allowed, _reason = self.worker.verdict(server)
        if not allowed:
            raise Denied("tool_not_read_only")
        if not self.worker.open(server, self.arguments):
            raise Denied("runtime_failure")
        try:
            content = await self.invoke(tool)
        finally:
            closing = asyncio.ensure_future(manager.cleanup())
            await asyncio.wait({closing}, timeout=CLEANUP_SECONDS)
            if closing.done() and not closing.cancelled():
                closing.exception()  # the SDK's own teardown; the result is settled
        return await self.envelope(content)

    def select(self, tools: Sequence[Tool], infos: Sequence[ServerInfo]) -> Tool:
        """The one tool of the name, or `Denied` in the order of the contract's table."""
        name = self.plan.tool
        found = [tool for tool in tools if tool.name == name]
        if not found:
            raise Denied(missing_code(name))
        if not all(host.is_mcp_tool(tool) for tool in found):
            raise Denied("not_mcp_tool")
        lost = [
            info.name
            for info in infos
            if info.name in self.plan.owners and info.status in host.NOT_LOADED
        ]
        server = host.server_of(found[0])
        if len(found) > 1 or lost or len(self.worker.entries(server)) != 1:
            raise Denied("ambiguous_tool")
        return found[0]

    async def invoke(self, tool: Tool) -> list[object]:
        """DCode's wrapper, once: the blocks of its `ToolMessage`, or `Denied` as the wire says."""
        request: ToolCall = {
            "type": "tool_call",
            "id": "call-read-only",
            "name": tool.name,
            "args": {},
        }
        job = asyncio.ensure_future(tool.ainvoke(request))
        (entry,) = self.worker.entries(host.server_of(tool))
        importing = asyncio.get_running_loop().call_later(AHEAD_SECONDS, import_ahead, entry)
        recorded = asyncio.ensure_future(self.exchanges.recorded.wait())
        await asyncio.wait({job, recorded}, return_when=asyncio.FIRST_COMPLETED)
        recorded.cancel()
        importing.cancel()
        outcome = self.worker.outcome()
        if outcome is None:
            raise Denied("runtime_failure")
        if outcome != "ok":
            raise Denied(outcome)
        # The conversion may take long. It ends, since what went up can be read, and the deadline
        # alone may end it earlier (`supervise`).
        await asyncio.wait({job})
        if job.cancelled():
            raise Denied("malformed_result")
        if job.exception() is not None:
            # The wrapper reports what the SDK refuses in its message; what it lets through is the
            # adapter's, for a valid block that it cannot convert.
            raise Denied("runtime_failure")
        message = job.result()
        content = getattr(message, "content", None)
        if getattr(message, "status", None) != "success" or not isinstance(content, list):
            raise Denied("malformed_result")
        return content

    async def envelope(self, content: list[object]) -> bytes:
        """The success envelope, configured secrets and credential shapes redacted."""
        from deepagents_ro.secrets import configured_secrets

        secrets = configured_secrets(
            self.connections,
            {
                f"{name} {number}": entry
                for name, entries in self.plan.raw.items()
                for number, entry in enumerate(entries)
            },
            os.environ,
            await host.stored_tokens(self.connections),
        )
        redactor = _mcpro.Redactor(secrets)
        blocks = [without_block_id(block) for block in content]
        structured = self.worker.structured()
        try:
            # C checks it and writes it in ASCII; `encode` refuses a lone surrogate.
            text = json.dumps(blocks, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
            document = redactor.redact(text.encode())
            if structured is not None:
                structured = redactor.redact(structured, attested=True)
        except (TypeError, ValueError) as error:
            raise Denied("malformed_result") from error
        try:
            return _mcpro.envelope_ok(self.plan.tool, document, structured)
        except ValueError as error:
            raise Denied("result_too_large") from error


def import_ahead(entry: bytes) -> None:
    """Import the validator while the server works, if the tool's raw entry has an output schema."""
    if _mcpro.json_raw(entry, "outputSchema", max_bytes=len(entry)) is not None:
        host.import_validator()


def without_block_id(block: object) -> object:
    """A content block without the random id that LangChain gives it."""
    if isinstance(block, dict) and str(block.get("id", "")).startswith("lc_"):
        return {key: value for key, value in block.items() if key != "id"}
    return block
