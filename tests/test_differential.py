"""What C hands up, against the models above it: a short run of fuzz/differential.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deepagents_ro import _mcpro

SOURCE = Path(__file__).parents[1] / "fuzz" / "differential.py"
CASES = 2000


@pytest.fixture(scope="module")
def differential() -> ModuleType:
    spec = importlib.util.spec_from_file_location("differential", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def models(differential: ModuleType) -> Any:
    return differential.Models()


def test_what_goes_up_can_be_read(differential: ModuleType, models: Any) -> None:
    assert differential.run(models, 1, lambda cases: cases < CASES) is None
    # every kind of outcome was there, so the run could have failed
    for kind in ("initialize", "list", "result", "checked"):
        for outcome in ("refused", "judged", "taken"):
            assert models.seen[f"{kind} {outcome}"] > 10, (kind, outcome)


def test_a_message_that_cannot_be_read_is_found(differential: ModuleType, models: Any) -> None:
    """The check is none that cannot fail."""
    long_number = b'{"jsonrpc":"2.0","id":0,"result":{"x":%b}}' % (b"7" * 4301)
    with pytest.raises(differential.Broken, match="the reader refuses"):
        models.handed_up(long_number, 0)
    with pytest.raises(differential.Broken, match="otherwise"):
        differential.same("tool", "a", "b")


def members(model: Any) -> set[str]:
    """The JSON names that a model of the SDK knows."""
    return {field.alias or name for name, field in model.model_fields.items()}


def test_every_member_that_a_model_knows_goes_up(differential: ModuleType, models: Any) -> None:
    """A member that a newer SDK knows has to be in the tables of csrc/mcp/reduce.c."""
    types = models.types
    seeds = differential
    assert set(seeds.INITIALIZE) == members(types.InitializeResult)
    capabilities = types.ServerCapabilities
    assert set(seeds.INITIALIZE["capabilities"]) == members(capabilities)
    assert set(seeds.INITIALIZE["serverInfo"]) == members(types.Implementation)
    assert set(seeds.TOOL) == members(types.Tool)
    assert set(seeds.TOOL["annotations"]) == members(types.ToolAnnotations)
    assert set(seeds.TOOL["execution"]) == members(types.ToolExecution)
    assert set(seeds.ICONS[0]) == members(types.Icon)
    assert set(seeds.RESULT) == members(types.CallToolResult)
    text, image, link, embedded, _ = seeds.RESULT["content"]
    assert set(text) == members(types.TextContent)
    assert {*image, "_meta"} == members(types.ImageContent)
    assert set(link) == members(types.ResourceLink)
    assert {*embedded, "_meta"} == members(types.EmbeddedResource)
    assert members(types.Annotations) <= set(seeds.NOTES)

    def message(result: Any, identity: int) -> bytes:
        whole = {"jsonrpc": "2.0", "id": identity, "result": result}
        return seeds.text(seeds.grown(whole)).encode()

    def keys_of(value: Any) -> Any:
        """The keys of a value, `_meta` and what is not read emptied."""
        if isinstance(value, dict):
            return {key: keys_of(each) for key, each in value.items()}
        return [keys_of(each) for each in value] if isinstance(value, list) else None

    up = models.handed_up(_mcpro.hand_up(message(seeds.INITIALIZE, 0), 0), 0)
    want = keys_of(seeds.INITIALIZE)
    want["_meta"] = {}
    want["capabilities"]["experimental"] = {"x": {}}
    assert keys_of(up) == want
    page = _mcpro.reduce_tool_list(message(seeds.LIST, 1), "s_", "s_t")[0]
    want = keys_of(seeds.TOOL)
    want["_meta"] = {}
    assert keys_of(models.handed_up(page, 1)["tools"]) == [want]
    raw = message(seeds.RESULT, 2)
    up = models.handed_up(_mcpro.hand_up(raw, 2, call=True, structured=True), 2)
    want = keys_of(seeds.RESULT)
    del want["isError"], want["_meta"]
    for block in want["content"]:
        block.get("annotations", {}).pop("lastModified", None)
        for holder in (block, block.get("resource", {})):
            if "_meta" in holder:
                holder["_meta"] = {}
    assert keys_of(up) == want
