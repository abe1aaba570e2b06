"""What the SDK is about to send, so that C can send it while Python imports (contract, section 8).

Bodies and versions are the SDK's own, as data for the verified stacks; headers are made by httpx,
as the SDK's client will make them. Whatever differs in the end, the C side throws away what ran
ahead, and the SDK's request goes out the ordinary way (`csrc/mcp/ahead.h`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from deepagents_ro import host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepagents_ro import _mcpro
    from deepagents_ro.plan import Plan

PLAIN_VARIABLE = "DEEPAGENTS_RO_PLAIN_WIRE"


class Messages(NamedTuple):
    """What one version of the SDK says first, byte for byte."""

    versions: str
    """Of the protocol, that it speaks."""
    initialize: bytes
    initialized: bytes
    tools_list: bytes


_MESSAGES = Messages(
    versions="2024-11-05 2025-03-26 2025-06-18 2025-11-25",
    initialize=b'{"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"mcp","version":"0.1.0"}},"jsonrpc":"2.0","id":0}',
    initialized=b'{"method":"notifications/initialized","jsonrpc":"2.0"}',
    tools_list=b'{"method":"tools/list","jsonrpc":"2.0","id":1}',
)
# By version of `mcp`; `tests/test_ahead.py` has the SDK itself say them.
MESSAGES: dict[str, Messages] = {"1.30.0": _MESSAGES, "1.28.1": _MESSAGES}


def start(plan: Plan, worker: _mcpro.Worker, stack: Mapping[str, str] | None) -> bool:
    """Let the conversation with the plan's one owner run ahead, if it may; whether it does.

    `stack` is the row of `versions.QUALIFIED` that is installed.
    """
    if plan.early is None or stack is None or os.environ.get(PLAIN_VARIABLE):
        return False
    name, raw = plan.early
    messages = MESSAGES.get(stack["mcp"])
    entry = host.resolved(name, raw) if host.transport_of(raw) == "http" else None
    if messages is None or entry is None or not isinstance(raw, dict):
        return False
    if entry.get("auth") or host.may_have_tokens(name):
        return False
    if plan.tool not in host.filtered_names(name, raw, [plan.tool]):
        return False
    import httpx

    from deepagents_ro.route import route_to

    try:
        url = str(entry["url"])
        route = route_to(url, os.environ)
        if httpx.URL(url).userinfo:
            return False  # httpx makes a header of it as it sends
        headers = initialize_headers(route.url, entry.get("headers"), messages.initialize)
    except (TypeError, ValueError):
        return False  # discovery meets the same fault and reports it
    return worker.run_ahead(
        name, route.url, route.proxy, route.cafile, route.capath, messages.versions,
        headers, messages.initialize, messages.initialized, messages.tools_list,
    )  # fmt: skip


def initialize_headers(url: str, configured: object, body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of the SDK's first request, without its length.

    Raises:
        TypeError, ValueError: `configured` cannot be sent.
    """
    import httpx

    if configured is not None and not isinstance(configured, dict):
        raise TypeError
    client = httpx.AsyncClient(
        headers=configured, transport=httpx.AsyncBaseTransport(), trust_env=False
    )
    own = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    request = client.build_request("POST", url, headers=own, content=body)
    return [pair for pair in request.headers.raw if pair[0].lower() != b"content-length"]
