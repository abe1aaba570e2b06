"""Speed of the strict JSON scanner beside json.loads and, if installed, orjson.

Prints, for each document, megabytes (10^6 bytes) a second of the best run, and how many times
faster that is than json.loads with a hook that refuses duplicate keys: the only one of the
reference functions that checks what json_loads checks.

    python bench/json_bench.py [--seconds 0.5]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from importlib import import_module, util

from deepagents_ro import _mcpro

MAX_BYTES = 64 * 1024 * 1024
WORDS = [
    "worker",
    "task",
    "context",
    "queue",
    "result",
    "status",
    "owner",
    "detail",
    "retry",
    "build",
    "release",
    "note",
]


def refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object_pairs_hook that raises ValueError for a key that comes twice."""
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(key)
        members[key] = value
    return members


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
        tool = {
            "name": f"{rng.choice(WORDS)}_{len(tools)}",
            "description": " ".join(rng.choices(WORDS, k=40)) + '\nUse "exact" names.',
            "inputSchema": {"type": "object", "properties": fields, "required": list(fields)},
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }
        tools.append(tool)
        total += len(json.dumps(tool, ensure_ascii=False).encode())
    answer = {"jsonrpc": "2.0", "id": 2, "result": {"tools": tools}}
    return json.dumps(answer, ensure_ascii=False).encode()


def best_rate(run: Callable[[bytes], object], document: bytes, seconds: float) -> float:
    """Megabytes a second of the fastest of the runs that fit into `seconds`."""
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run(document)
        best = min(best, time.perf_counter() - start)
    return len(document) / best / 1e6


def contenders() -> dict[str, Callable[[bytes], object]]:
    """Each measured function under the name that the table prints."""
    table: dict[str, Callable[[bytes], object]] = {
        "json.loads + hook": lambda d: json.loads(d, object_pairs_hook=refuse_duplicates),
        "json.loads": json.loads,
        "json_loads": lambda d: _mcpro.json_loads(d, max_bytes=MAX_BYTES),
        "json_check": lambda d: _mcpro.json_check(d, max_bytes=MAX_BYTES),
        "json_check, duplicates=True": lambda d: _mcpro.json_check(
            d, max_bytes=MAX_BYTES, duplicates=True
        ),
        "json_minify": lambda d: _mcpro.json_minify(d, max_bytes=MAX_BYTES),
    }
    if util.find_spec("orjson"):
        table["orjson.loads (last key wins)"] = import_module("orjson").loads
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    seconds = parser.parse_args().seconds
    rng = random.Random(8259)
    documents = {
        "arguments object": arguments_object(128 * 1024, rng),
        "tools/list": tools_list(2 * 1024 * 1024, rng),
        "one object of short keys": b"{%s}" % b",".join(b'"%x":1' % i for i in range(200_000)),
        "long strings": json.dumps(["a line of text, " * 64] * 1024).encode(),
    }
    for title, document in documents.items():
        print(f"{title}, {len(document):,} bytes")
        baseline = 0.0
        for name, run in contenders().items():
            rate = best_rate(run, document, seconds)
            baseline = baseline or rate
            print(f"  {name:30}{rate:9.1f} MB/s {rate / baseline:7.1f} x")


if __name__ == "__main__":
    main()
