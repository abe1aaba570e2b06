"""What C hands up, against the models of the SDK, the adapter and DCode.

    python fuzz/differential.py [--seconds 60] [--seed N] [--cases N]

Answers to `initialize`, `tools/list` and `tools/call` are grown from good ones: members removed,
doubled, renamed and exchanged, values of every kind put in their place, numbers of thousands of
digits among them. C refuses an answer or hands something up. For what it hands up must hold:

- the SDK's JSON reader takes it (else the SDK never answers its caller);
- its models take it, or refuse it with the exception that ends the caller at once;
- they judge it as they judge the whole answer, and what DCode and the adapter read is the same;
- what the adapter makes of a result, C can print.

Exit 1 with the case in fuzz/work/differential/ at the first that does not hold.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deepagents_ro import _mcpro

FOUND = Path(__file__).resolve().parent / "work" / "differential"
SLOW_S = 5.0
"""Processor seconds that one case may take; the largest takes some 0.1."""

# A document is a token of JSON text, a list of documents, or Members.


class Members(list[tuple[str, Any]]):
    """An object: raw keys (with quotes) and documents, doubled keys allowed."""


def text(document: Any) -> str:
    """The JSON text of a document."""
    if isinstance(document, Members):
        return "{%s}" % ",".join(f"{key}:{text(value)}" for key, value in document)
    if isinstance(document, list):
        return "[%s]" % ",".join(text(item) for item in document)
    return str(document)


def grown(value: Any) -> Any:
    """A Python value as a document."""
    if isinstance(value, dict):
        return Members((f'"{key}"', grown(each)) for key, each in value.items())
    if isinstance(value, list):
        return [grown(each) for each in value]
    return json.dumps(value)


# ---- seeds ----

ICONS = [{"src": "data:,", "mimeType": "image/png", "sizes": ["1x1", "any"]}]
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {
        "experimental": {"x": {"y": 1}},
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": False},
        "tools": {"listChanged": True},
        "completions": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    },
    "serverInfo": {
        "name": "n",
        "title": "t",
        "version": "1",
        "websiteUrl": "https://example.com/",
        "icons": ICONS,
    },
    "instructions": "Ask.",
    "_meta": {"a": 1},
}
TOOL = {
    "name": "t",
    "title": "A tool",
    "description": "Looks.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 10}},
        "required": ["a"],
    },
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "icons": ICONS,
    "annotations": {
        "title": "t",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
    "_meta": {"a": {"b": []}},
    "execution": {"taskSupport": "forbidden"},
}
LIST = {"tools": [{"name": "other"}, TOOL], "nextCursor": "next", "_meta": {}}
NOTES = {"audience": ["user", "assistant"], "priority": 1, "lastModified": "2025-01-12T15:00:58Z"}
RESULT = {
    "content": [
        {"type": "text", "text": "a", "annotations": NOTES, "_meta": {"a": 1}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": NOTES},
        {
            "type": "resource_link",
            "uri": "file:///a",
            "name": "n",
            "title": "t",
            "description": "d",
            "mimeType": "image/png",
            "size": 5,
            "icons": ICONS,
            "annotations": NOTES,
            "_meta": {},
        },
        {
            "type": "resource",
            "resource": {"uri": "a:b", "mimeType": "a/b", "text": "t", "_meta": {"a": 1}},
            "annotations": NOTES,
        },
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "image/png", "blob": "aGk="}},
    ],
    "structuredContent": {"n": 1, "s": ["a", None, True]},
    "isError": False,
    "_meta": {"a": 1},
}


def words(line: str) -> list[str]:
    return line.split()


SCALARS = words(
    r"""
null true false 0 -0 1 5 -1 1.0 0.5 1e2 1E400 -1e400 1e-400 2025 0.1e1 18446744073709551616 ""
"a" "t" "text" "image" "resource" "resource_link" "user" "yes" "true" "1" "0.5" "\u0000" "2.0"
"\ud83d\ude00" "€" "image/png" "https://example.com/a?b#c" "http://[::1]:99/" "x:" "//a"
"http://a/b%20c" "http://\u00e4.example" "file:///a/../b" "next" "2025-06-18"
"""
)
NAMES = words(
    """
name title description inputSchema outputSchema icons annotations _meta execution meta
readOnlyHint destructiveHint idempotentHint openWorldHint taskSupport audience priority
protocolVersion capabilities serverInfo instructions version websiteUrl experimental tools
tasks requests call list cancel listChanged subscribe logging prompts resources type text
completions data mimeType uri size resource blob src sizes content structuredContent
isError nextCursor result method params id error jsonrpc lastModified properties required
model_config model_fields __class__ __dict__ __proto__ self
"""
)


def number(rng: random.Random) -> str:
    """A number around the length that the models' reader takes."""
    digits = "1" * (rng.choice((4299, 4300, 4301)) - rng.randrange(2))
    if rng.randrange(4) == 0:
        digits = "1" * rng.choice((19, 20, 39, 400, 5000, 20_000))
    sign = rng.choice(("", "", "-"))
    return rng.choice((f"{sign}{digits}",) * 4 + (f"{sign}{digits}.5", f"{digits}e1",
                       f"{sign}0.{digits}", f"1e{digits}", f"1.{digits}E-5"))  # fmt: skip


def value(rng: random.Random, depth: int = 0) -> Any:
    """Any document, most often a small one."""
    kind = rng.randrange(24)
    if kind < 15:
        return rng.choice(SCALARS)
    if kind < 17:
        return number(rng)
    if kind == 17:
        return '"%s"' % ("a" * rng.choice((100, 5000, 70_000)))
    if kind == 18 and depth == 0:
        levels = rng.choice((30, 55, 60, 61, 62, 63, 64, 65, 70))
        return "[" * levels + "]" * levels
    if kind == 19 and depth == 0 and rng.randrange(8) == 0:
        return crowd(rng)
    if depth > 3:
        return rng.choice(([], Members()))
    if kind < 22:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return Members((key(rng), value(rng, depth + 1)) for _ in range(rng.randrange(4)))


def crowd(rng: random.Random) -> Any:
    """A container of many small values."""
    count = rng.choice((100, 1000, 9000, 20_000))
    if rng.randrange(2):
        return [rng.choice(SCALARS)] * count
    return Members((f'"k{at}"', "{}") for at in range(count))


def key(rng: random.Random) -> str:
    """A raw key, most often one that a model knows."""
    name = rng.choice(NAMES)
    kind = rng.randrange(12)
    if kind == 0:
        return '"\\u%04x%s"' % (ord(name[0]), name[1:])
    if kind == 1:
        return '"%s\\u0000"' % name
    if kind == 2:
        return '"%s"' % name.upper()
    return '"%s"' % name


def containers(document: Any) -> list[Any]:
    """Every container of a document, the outermost first."""
    found: list[Any] = []
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            found.append(each)
            waiting.extend(item[1] for item in each) if isinstance(each, Members) else (
                waiting.extend(each)
            )
    return found


def change(rng: random.Random, document: Any) -> None:
    """One change somewhere in a document, in place."""
    where = rng.choice(containers(document))
    members = isinstance(where, Members)
    fresh: Any = (key(rng), value(rng)) if members else value(rng)
    if not where or rng.randrange(4) == 0:
        where.insert(rng.randrange(len(where) + 1), fresh)
        return
    at = rng.randrange(len(where))
    kind = rng.randrange(6)
    if kind == 0:
        del where[at]
    elif kind == 1:
        where.append(copy.deepcopy(where[at]))
    elif members and kind == 2:
        where[at] = (key(rng), where[at][1])
    elif members:
        where[at] = (where[at][0], value(rng))
    else:
        where[at] = value(rng)


def answer(rng: random.Random, seed: dict[str, Any], identity: int) -> bytes:
    """A message grown from a good result."""
    result = grown(seed)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 5))):
        change(rng, result)
    message = Members([('"jsonrpc"', '"2.0"'), ('"id"', str(identity)), ('"result"', result)])
    if rng.randrange(30) == 0:
        change(rng, message)
    raw = bytearray(text(message).encode())
    if rng.randrange(40) == 0:
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


# ---- what has to hold ----


class Broken(Exception):
    """A case that does not hold."""


class Models:
    """The models and converters above C, and one check for each kind of answer."""

    def __init__(self) -> None:
        from deepagents_code import mcp_tools
        from langchain_mcp_adapters import tools as adapter
        from mcp import types
        from pydantic import ValidationError

        self.types = types
        self.adapter = adapter
        self.loader = mcp_tools
        self.refusal = ValidationError
        self.seen: Counter[str] = Counter()

    def handed_up(self, up: bytes, identity: int) -> dict[str, Any]:
        """The result of a message, as the SDK's reader gives it."""
        try:
            root = self.types.JSONRPCMessage.model_validate_json(up).root
        except BaseException as error:
            raise Broken(f"the reader refuses what went up: {type(error).__name__}") from error
        if not isinstance(root, self.types.JSONRPCResponse) or root.id != identity:
            raise Broken(f"went up as {type(root).__name__}")
        return root.result

    def result_of(self, raw: bytes) -> dict[str, Any] | None:
        """The result of the whole answer, when the reader takes it as one."""
        try:
            root = self.types.JSONRPCMessage.model_validate_json(raw).root
        except self.refusal:
            return None
        return root.result if isinstance(root, self.types.JSONRPCResponse) else None

    def take(self, model: Any, given: Any) -> Any:
        """A model of what is given, or `None` when it is refused as the caller can see."""
        try:
            return model.model_validate(given)
        except self.refusal:
            return None
        except BaseException as error:
            raise Broken(f"{model.__name__}: {type(error).__name__}") from error

    def initialize(self, raw: bytes) -> str:
        try:
            up = _mcpro.hand_up(raw, 0)
        except ValueError:
            return "refused"
        taken = self.take(self.types.InitializeResult, self.handed_up(up, 0))
        whole = self.result_of(raw)
        if whole is None:  # something beside the result, which C leaves out
            return "taken" if taken else "judged"
        stock = self.take(self.types.InitializeResult, whole)
        same("initialize", view_initialize(taken), view_initialize(stock))
        return "taken" if taken else "judged"

    def tools(self, raw: bytes) -> str:
        try:
            up, entries = _mcpro.reduce_tool_list(raw, "s_", "s_t")
        except ValueError:
            return "refused"
        if not up.startswith(b'{"jsonrpc":"2.0","id":1,'):
            return "refused"  # by the exchange, whose id it is not
        result = self.handed_up(up, 1)
        page = self.take(self.types.ListToolsResult, result)
        if len(result["tools"]) != len(entries):
            raise Broken("not every entry went up")
        judged = [self.take(self.types.Tool, each) for each in result["tools"]]
        for entry, tool in zip(entries, judged, strict=True):
            # alone, as the reader gives a member of a message
            given = self.result_of(b'{"jsonrpc":"2.0","id":1,"result":{"entry":%b}}' % entry)
            if given is None:
                raise Broken("an entry went up, and the reader refuses the whole")
            stock = self.take(self.types.Tool, given["entry"])
            if None not in (tool, stock) and not tool.inputSchema and len(entry) > 16_000:
                stock.inputSchema = {}  # one over its bound, of keys that stand twice perhaps
            same("tool", self.view_tool(tool), self.view_tool(stock))
            if _mcpro.hint_verdict(entry)[0] and tool is not None:
                self.allowed(tool)
        if page is not None:
            for tool in page.tools:
                self.wrap(tool)
        return "taken" if page else "judged"

    def view_tool(self, tool: Any) -> Any:
        """What is read of a tool."""
        if tool is None:
            return None
        hints = tool.annotations
        return repr(
            (
                tool.name,
                tool.title,
                tool.description,
                # a large one goes up as {}
                tool.inputSchema if len(repr(tool.inputSchema)) < 30_000 else {},
                tool.outputSchema,
                tool.icons is None,
                hints and [getattr(hints, name) for name in type(hints).model_fields],
            )
        )

    def wrap(self, tool: Any) -> Any:
        """DCode's wrapper around a tool, and what it does with the call's empty arguments."""
        try:
            copy.deepcopy(tool.inputSchema)
            wrapped = self.loader._build_cached_mcp_tool(
                mcp_tool=tool, server_name="s", session_manager=None, tool_name_prefix=True
            )
            self.loader._normalize_mcp_arguments({}, tool.inputSchema)
        except Exception:  # noqa: BLE001 - DCode reports these for the server, or for the call
            return None
        except BaseException as error:
            raise Broken(f"the wrapper: {type(error).__name__}") from error
        return wrapped

    def allowed(self, tool: Any) -> None:
        """What C allows, the models read as read-only."""
        hints = tool.annotations
        if hints is None or hints.readOnlyHint is not True or hints.destructiveHint:
            raise Broken("C allows what the models do not")

    def result(self, raw: bytes, *, structured: bool) -> str:
        try:
            up = _mcpro.hand_up(raw, 2, call=True, structured=structured)
        except ValueError:
            return "refused"
        taken = self.take(self.types.CallToolResult, self.handed_up(up, 2))
        content = self.converted(taken)
        whole = self.result_of(raw)
        if whole is not None:
            whole.pop("_meta", None)  # nobody reads it, and C leaves it out
            stock = self.converted(self.take(self.types.CallToolResult, whole))
            same("result", content, stock)
        if isinstance(content, list):
            json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
        return "taken" if isinstance(content, list) else "judged"

    def converted(self, result: Any) -> Any:
        """The adapter's blocks without their random ids, or the name of its refusal."""
        if result is None:
            return "refused"
        try:
            blocks, _artifact = self.adapter._convert_call_tool_result(result)
        except Exception as error:  # noqa: BLE001 - documented: the code is runtime_failure
            return type(error).__name__
        except BaseException as error:
            raise Broken(f"the adapter: {type(error).__name__}") from error
        return [{key: each for key, each in block.items() if key != "id"} for block in blocks]


def view_initialize(result: Any) -> Any:
    """What is read of an initialize result."""
    if result is None:
        return None
    return repr(
        (
            result.protocolVersion,
            result.instructions,
            result.serverInfo.name,
            result.serverInfo.version,
            [
                getattr(result.capabilities, name) is None
                for name in type(result.capabilities).model_fields
            ],
        )
    )


def same(what: str, reduced: Any, stock: Any) -> None:
    if reduced != stock:
        raise Broken(
            f"{what}: reads otherwise than the whole: {str(reduced)[:300]} for {str(stock)[:300]}"
        )


def run(models: Models, seed: int, more: Callable[[int], bool]) -> bytes | None:
    """Case after case while `more(cases)`; the first that does not hold, or `None`."""
    rng = random.Random(seed)
    cases = 0
    while more(cases):
        cases += 1
        kind = rng.choice(("initialize", "list", "result", "checked"))
        raw = {
            "initialize": lambda: answer(rng, INITIALIZE, 0),
            "list": lambda: answer(rng, LIST, 1),
        }.get(kind, lambda: answer(rng, RESULT, 2))()
        started = time.process_time()
        try:
            if kind == "initialize":
                outcome = models.initialize(raw)
            elif kind == "list":
                outcome = models.tools(raw)
            else:
                outcome = models.result(raw, structured=kind == "checked")
            if time.process_time() - started > SLOW_S:
                raise Broken("slow")
        except Broken as broken:
            sys.stdout.write(f"{kind}, case {cases} of seed {seed}: {broken}\n")
            return raw
        models.seen[f"{kind} {outcome}"] += 1
    return None


def main() -> int:
    """Run for a time; 1 when a case does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=0, help="0: as many as fit")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    models = Models()
    until = time.monotonic() + options.seconds

    def more(cases: int) -> bool:
        return time.monotonic() < until and (options.cases == 0 or cases < options.cases)

    broken = run(models, options.seed, more)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(models.seen.items()))
    sys.stdout.write(f"seed {options.seed}: {sum(models.seen.values())} cases: {counts}\n")
    if broken is None:
        return 0
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"seed-{options.seed}.json"
    path.write_bytes(broken)
    sys.stdout.write(f"{path}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
