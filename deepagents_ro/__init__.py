"""One exact, read-only MCP tool call through LangChain Deep Agents Code.

The command is `dcode tools call-read-only`, or `python -I -m deepagents_ro`. For programs there is
`CurlTransport`, an `httpx.AsyncBaseTransport` over the C extension. Importing this package imports
nothing else: the command counts its start in milliseconds.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module is not imported for it
if TYPE_CHECKING:
    from .transport import CurlTransport

__version__ = "0.1.0"
__all__ = ["CurlTransport", "__version__"]


def __getattr__(name: str) -> object:
    if name == "CurlTransport":
        from .transport import CurlTransport

        return CurlTransport
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
