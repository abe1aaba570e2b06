"""The call itself: plan, discover, select exactly one, judge, invoke once, envelope.

The outcome is what the C side recorded from the wire; what DCode's wrapper returns afterwards can
only turn a recorded success into a failure. Everything that arrives here as an exception, a
cancellation or an exception group becomes an envelope.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from deepagents_ro import _mcpro, host, startup
from deepagents_ro.deadline import first_deadline

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from deepagents_ro.command import Command

# Seconds that DCode's wrapper has to convert an answer that the wire has already settled.
CONVERT_SECONDS = 2.0
# Seconds for closing the SDK's sessions; nothing that is awaited there reaches the network.
CLEANUP_SECONDS = 0.25
# Seconds into the call after which Python, idle, imports what it needs once the answer is there.
AHEAD_SECONDS = 0.01
# Milliseconds that an early connection waits for DCode's discovery.
WARM_HOLD_MS = 10_000
# Server states of a loader row that say: enabled, and did not load.
NOT_LOADED = ("error", "unauthenticated", "awaiting_reconnect")


class Denied(Exception):  # noqa: N818 - an outcome, not a fault
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
        document = attempt(command, arguments, guard, managed=managed)
    except Denied as denied:
        code = denied.code
    except host.HostError:
        code = "runtime_failure"
    if startup.used() and code != "timeout":
        code = "runtime_failure"  # whoever asked may have swallowed the exception
    if code == "ok":
        return 0, document
    return _mcpro.envelope_exit(code), _mcpro.envelope_error(code)


def attempt(command: Command, arguments: bytes, guard: _mcpro.Guard, *, managed: bool) -> bytes:
    """The success envelope, or `Denied`."""
    if managed:
        host.check_managed_runtime()
    host.load_environment()
    plan = host.make_plan(command, managed=managed)
    if plan is None or not plan.owners:
        raise Denied(missing_code(command.tool))
    startup.install()
    call = _mcpro.Call(command.tool)
    guard.set_exit_hook(call.exit_hook())
    open_early(plan, call)
    host.import_stack()
    loop = asyncio.new_event_loop()
    work = One(plan, call, arguments, loop)
    return loop.run_until_complete(supervise(work, work.make(), guard))


def missing_code(tool: str) -> str:
    """Why no server's tool has that name."""
    return "not_mcp_tool" if tool in host.BUILT_IN_TOOLS else "tool_not_found"


def open_early(plan: host.Plan, call: _mcpro.Call) -> None:
    """Start the one owner's TCP and TLS while Python imports (contract, section 8)."""
    if plan.early is None:
        return
    entry = host.resolve_entry(*plan.early)
    if entry is None:
        return
    from deepagents_ro.route import route_to

    try:
        route = route_to(entry["url"], os.environ)
    except ValueError:
        return  # discovery meets the same fault and reports it
    call.warm(route.url, route.proxy, route.cafile, route.capath, INITIALIZE_BYTES, WARM_HOLD_MS)


# Bytes of the SDK's `initialize` request (mcp 1.30.0); another length only loses the early start.
INITIALIZE_BYTES = 152


async def supervise(work: One, job: Coroutine[Any, Any, bytes], guard: _mcpro.Guard) -> bytes:
    """Run `job` until it ends or the first deadline comes, whichever is first."""
    expired = first_deadline(guard)
    task = asyncio.ensure_future(job)
    await asyncio.wait({task, expired}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        await work.settle_tokens()
        raise Denied("timeout")
    if task.cancelled():
        raise Denied(work.recorded_failure())
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, Denied | host.HostError):
        raise error
    raise Denied(work.recorded_failure())


class One:
    """One call from discovery to envelope, on one event loop."""

    def __init__(
        self,
        plan: host.Plan,
        call: _mcpro.Call,
        arguments: bytes,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        from deepagents_ro.exchange import Exchanges

        self.plan = plan
        self.call = call
        self.arguments = arguments
        self.connections: dict[str, Any] = {}
        self.exchanges = Exchanges(call, loop)

    def complete(self, connections: dict[str, Any]) -> None:
        """Keep the owners only, and put every one of them on the C transport."""
        for name in list(connections):
            if name not in self.plan.owners:
                del connections[name]
                continue
            self.connections[name] = dict(connections[name])
            self.exchanges.complete(name, connections[name])

    async def settle_tokens(self) -> None:
        """Wait for a token refresh that is under way: a rotated token must not get lost."""
        await self.exchanges.settle_auth()

    def recorded_failure(self) -> str:
        """The code for work that broke off: what the wire said, unless it said success."""
        outcome = self.call.outcome()
        return "runtime_failure" if outcome in (None, "ok") else outcome

    async def make(self) -> bytes:
        """Discover, select, judge, invoke, clean up; the success envelope, or `Denied`."""
        manager = host.session_manager(self.complete)
        tools, infos = await host.load_tools(self.plan, manager)
        tool = self.select(tools, infos)
        server = host.server_of(tool)
        allowed, _reason = self.call.verdict(server)
        if not allowed:
            raise Denied("tool_not_read_only")
        if not self.call.open(server, self.arguments):
            raise Denied("runtime_failure")
        try:
            message = await self.invoke(tool)
        finally:
            closing = asyncio.ensure_future(manager.cleanup())
            await asyncio.wait({closing}, timeout=CLEANUP_SECONDS)
            if closing.done() and not closing.cancelled():
                closing.exception()  # the SDK's own teardown; the result is settled
        return await self.envelope(message)

    def select(self, tools: list[Any], infos: list[Any]) -> Any:  # noqa: ANN401
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
            if info.name in self.plan.owners and info.status in NOT_LOADED
        ]
        server = host.server_of(found[0])
        if len(found) > 1 or lost or len(self.call.entries(server)) != 1:
            raise Denied("ambiguous_tool")
        return found[0]

    async def invoke(self, tool: Any) -> Any:  # noqa: ANN401
        """DCode's wrapper, once; returns its `ToolMessage`, or `Denied` as the wire says."""
        request = {"type": "tool_call", "id": "call-read-only", "name": tool.name, "args": {}}
        job = asyncio.ensure_future(tool.ainvoke(request))
        (entry,) = self.call.entries(host.server_of(tool))
        ahead = asyncio.get_running_loop().call_later(AHEAD_SECONDS, import_ahead, entry)
        recorded = asyncio.ensure_future(self.exchanges.recorded.wait())
        await asyncio.wait({job, recorded}, return_when=asyncio.FIRST_COMPLETED)
        recorded.cancel()
        ahead.cancel()
        outcome = self.call.outcome()
        if outcome is None:
            raise Denied("runtime_failure")
        if outcome != "ok":
            raise Denied(outcome)
        if not job.done():
            await asyncio.wait({job}, timeout=CONVERT_SECONDS)
        if not job.done() or job.cancelled():
            raise Denied("malformed_result")
        if job.exception() is not None:
            # The wrapper reports what the SDK refuses in its message; what it lets through is the
            # adapter's, for a valid block that it cannot convert.
            raise Denied("runtime_failure")
        message = job.result()
        if getattr(message, "status", None) != "success" or not isinstance(message.content, list):
            raise Denied("malformed_result")
        return message

    async def envelope(self, message: Any) -> bytes:  # noqa: ANN401
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
        blocks = [without_block_id(block) for block in message.content]
        structured = self.call.structured()
        try:
            content = redactor.redact(_mcpro.json_dump_ascii(blocks))
            if structured is not None:
                structured = redactor.redact(structured, attested=True)
        except (TypeError, ValueError) as error:
            raise Denied("malformed_result") from error
        try:
            return _mcpro.envelope_ok(self.plan.tool, content, structured)
        except ValueError as error:
            raise Denied("result_too_large") from error


def import_ahead(entry: bytes) -> None:
    """Import the validator while the server works, if the tool's raw entry has an output schema."""
    if _mcpro.json_raw(entry, "outputSchema", max_bytes=len(entry)) is not None:
        host.import_validator()


def without_block_id(block: Any) -> Any:  # noqa: ANN401
    """A content block without the random id that LangChain gives it."""
    if isinstance(block, dict) and str(block.get("id", "")).startswith("lc_"):
        return {key: value for key, value in block.items() if key != "id"}
    return block
