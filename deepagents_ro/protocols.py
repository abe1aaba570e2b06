"""What DCode and its libraries hand over, as far as this package uses it.

For type checkers alone: no module imports this one while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from langchain_core.messages import ToolCall
from langchain_mcp_adapters.sessions import Connection

Layer: TypeAlias = dict[str, object]
"""Servers of one configuration: name to entry. DCode has not checked every entry."""
Connections: TypeAlias = dict[str, Connection]
"""Resolved connections by server, as `MCPSessionManager.configure` gets and keeps them."""


class Tool(Protocol):
    """A tool as DCode's loader returns it."""

    @property
    def name(self) -> str:
        """`<server>_<tool>` for an MCP tool."""

    @property
    def metadata(self) -> Mapping[str, object] | None:
        """DCode's markers."""

    async def ainvoke(self, input: ToolCall, /) -> object:
        """Answer with a `ToolMessage`, whose `content` is a list of blocks."""


class ServerInfo(Protocol):
    """One server's row of DCode's loader."""

    @property
    def name(self) -> str:
        """As configured."""

    @property
    def status(self) -> str:
        """`ok`, `error`, `unauthenticated`, `awaiting_reconnect` or `disabled`."""

    @property
    def transport(self) -> str:
        """`http`, `sse`, `stdio`, `config` or `unknown`."""
