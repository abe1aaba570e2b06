"""What every gateway tool answers: `{"ok", "data", "error"}`.

    {"ok": true, "data": <structured content, or the text>, "error": null}
    {"ok": false, "data": null, "error": {"code": "EXTERNAL_TOOL_ERROR", "message": "...",
     "hint": "continue without it", "latency_ms": 12.3}}

`latency_ms` is the time of the call in milliseconds. No message carries the API key.
"""

from __future__ import annotations

from langchain_core.tools import ToolException

from .arguments import ArgumentsError
from .config import GatewayConfig
from .document import Document
from .reasons import KINDS, WireError
from .sessions import RefusedError

CODE = "EXTERNAL_TOOL_ERROR"
HINT = "continue without it"
MAX_MESSAGE = 2000
"""Characters of a tool's own words in a message."""

Answer = Document


class GatewayToolFailed(ToolException):
    """A call that failed, as the framework wants it: it becomes a message of status "error"."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer["error"]["message"])
        self.answer = answer


def success(data: object) -> Answer:
    """The answer of a call that went well."""
    return {"ok": True, "data": data, "error": None}


def failure(message: str, latency_ms: float) -> Answer:
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


def from_result(content: object, artifact: object, config: GatewayConfig) -> tuple[Answer, object]:
    """The answer for what the adapter made of a tool's result, and its artifact."""
    if isinstance(artifact, dict) and artifact.get("structured_content") is not None:
        structured = config.redact_answer(artifact["structured_content"])
        return success(structured), {**artifact, "structured_content": structured}
    return success(config.redact_answer(_plain(content))), artifact


def from_exception(error: Exception, config: GatewayConfig, latency_ms: float) -> Answer:
    """The answer for an exception; texts of unknown exceptions are not passed on."""
    return failure(config.redact(_message(error)), latency_ms)


def _message(error: Exception) -> str:
    if isinstance(error, WireError):
        return error.sentence()
    if isinstance(error, ArgumentsError | RefusedError):
        return str(error)
    if isinstance(error, TimeoutError):
        return KINDS["timeout"].text
    if isinstance(error, ToolException):
        return f"The tool reported a failure. It says: {error}"
    return f"The call failed ({type(error).__name__})."


def _plain(content: object) -> object:
    """The text of a result that has only text, else its blocks without generated ids."""
    if not isinstance(content, list):
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


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)
