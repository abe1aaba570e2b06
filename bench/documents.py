"""JSON documents of the sizes that a call meets, the same ones at every run."""

from __future__ import annotations

import json
import random

SEED = 8259
RESULT_BYTES = 128 * 1024
LIST_BYTES = 2 * 1024 * 1024
WORDS = ["worker", "task", "context", "queue", "result", "status"]
WORDS += ["owner", "detail", "retry", "build", "release", "note"]


def arguments_object(size: int, rng: random.Random) -> bytes:
    """One object of about `size` bytes: short strings, numbers, lists, small objects."""
    members: dict[str, object] = {}
    total = 2
    while total < size - 200:
        key = f"{rng.choice(WORDS)}_{len(members)}"
        value: object = rng.choice(
            [
                " ".join(rng.choices(WORDS, k=8)),
                rng.randrange(10**9),
                round(rng.random() * 1000, 2),
                [rng.choice(WORDS) for _ in range(6)],
                {"id": rng.randrange(10**6), "name": rng.choice(WORDS), "done": None},
                True,
            ]
        )
        members[key] = value
        total += len(json.dumps(key)) + len(json.dumps(value)) + 4
    return json.dumps(members).encode()


def tool_result(size: int, rng: random.Random) -> bytes:
    """A tools/call answer of about `size` bytes: the same records as text and as structure."""
    records: list[dict[str, object]] = []
    total = 0
    while total < size:
        record: dict[str, object] = {
            "task_id": f"worker.{len(records)}",
            "state": rng.choice(WORDS),
            "attempt": rng.randrange(9),
            "progress": round(rng.random(), 3),
            "owner": {"name": " ".join(rng.choices(WORDS, k=2)), "active": rng.random() < 0.5},
            "log": [" ".join(rng.choices(WORDS, k=12)) for _ in range(3)],
            "parent": None,
        }
        records.append(record)
        total += 2 * len(json.dumps(record)) + 60
    structured = {"records": records}
    block = {"type": "text", "text": json.dumps(structured)}
    result = {"content": [block], "structuredContent": structured, "isError": False}
    return json.dumps({"jsonrpc": "2.0", "id": 2, "result": result}).encode()


def tools_list(size: int, rng: random.Random) -> bytes:
    """A tools/list answer of about `size` bytes with descriptions and input schemas."""
    tools: list[dict[str, object]] = []
    total = 0
    while total < size:
        fields = {
            f"{rng.choice(WORDS)}_{i}": {
                "type": "string",
                "description": " ".join(rng.choices(WORDS, k=12)) + " \u2014 \u00e9t\u00e9",
            }
            for i in range(6)
        }
        tool: dict[str, object] = {
            "name": f"{rng.choice(WORDS)}_{len(tools)}",
            "description": " ".join(rng.choices(WORDS, k=40)) + '\nUse "exact" names.',
            "inputSchema": {"type": "object", "properties": fields, "required": list(fields)},
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }
        tools.append(tool)
        total += len(json.dumps(tool, ensure_ascii=False).encode())
    answer = {"jsonrpc": "2.0", "id": 2, "result": {"tools": tools}}
    return json.dumps(answer, ensure_ascii=False).encode()


def usual() -> dict[str, bytes]:
    """What real servers send, and a large object on standard input."""
    rng = random.Random(SEED)
    return {
        "tool result": tool_result(RESULT_BYTES, rng),
        "tool list": tools_list(LIST_BYTES, rng),
        "arguments": arguments_object(RESULT_BYTES, rng),
    }


def extreme() -> dict[str, bytes]:
    """What costs most and least per byte."""
    return {
        "one object of short keys": b"{%s}" % b",".join(b'"%x":1' % i for i in range(200_000)),
        "long strings": json.dumps(["a line of text, " * 64] * 1024).encode(),
    }
