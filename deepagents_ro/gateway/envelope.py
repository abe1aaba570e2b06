"""What every gateway tool answers: `{"ok", "data", "error"}`.

    {"ok": true, "data": <structured content, or the text>, "error": null}
    {"ok": false, "data": null, "error": {"code": "EXTERNAL_TOOL_ERROR", "message": "...",
     "hint": "continue without it", "latency_ms": 12.3}}

`latency_ms` is the time of the call in milliseconds. No message carries the API key.
"""

from __future__ import annotations

from typing import Any

from langchain_core.tools import ToolException
from mcp import McpError

from .config import GatewayConfig
from .sessions import wire_error

CODE = "EXTERNAL_TOOL_ERROR"
HINT = "continue without it"
MAX_MESSAGE = 2000
"""Characters of a tool's own words in a message."""


def success(data: Any) -> dict[str, Any]:
    """The answer of a call that went well."""
    return {"ok": True, "data": data, "error": None}


def failure(message: str, latency_ms: float) -> dict[str, Any]:
    """The answer of a call that did not."""
    return {
        "ok": False,
        "data": None,
        "error": {
            "code": CODE,
            "message": message[:MAX_MESSAGE],
            "hint": HINT,
            "latency_ms": round(latency_ms, 3),
        },
    }


def from_result(content: Any, artifact: Any, config: GatewayConfig) -> dict[str, Any]:
    """The answer for what the adapter made of a tool's result."""
    structured = artifact.get("structured_content") if isinstance(artifact, dict) else None
    data = structured if structured is not None else _plain(content)
    return success(config.redact_value(data))


def from_exception(error: Exception, config: GatewayConfig, latency_ms: float) -> dict[str, Any]:
    """The answer for an exception; texts of unknown exceptions are not passed on."""
    reported = wire_error(error)
    if reported is not None:
        status = f" (HTTP {reported.status})" if reported.status not in (None, 200) else ""
        detail = f" {reported.detail}" if reported.detail else ""
        return failure(config.redact(f"{reported}{status}{detail}"), latency_ms)
    if isinstance(error, TimeoutError):
        return failure("The gateway did not answer in time.", latency_ms)
    if isinstance(error, ToolException | McpError):
        words = config.redact(str(error))
        return failure(words or "The tool reported a failure.", latency_ms)
    return failure(f"The call failed ({type(error).__name__}).", latency_ms)


def _plain(content: Any) -> Any:
    """The text of a result that has only text, else its blocks without generated ids."""
    if isinstance(content, str):
        return content
    blocks = [
        {key: value for key, value in block.items() if key != "id"}
        if isinstance(block, dict)
        else block
        for block in content
    ]
    texts = [block["text"] for block in blocks if _is_text(block)]
    if blocks and len(texts) == len(blocks):
        return "\n".join(texts)
    return blocks


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)
