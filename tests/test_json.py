"""The strict JSON functions of the extension, beside json.loads and on files of either kind.

tests/data/json/accept/NAME.json holds what passes, tests/data/json/reject/CODE-POSITION-NAME.json
what does not, with the fault that must be named.
"""

from __future__ import annotations

import gc
import inspect
import json
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from budget import examples
from hypothesis import example, given
from hypothesis import strategies as st

from deepagents_ro import _mcpro

DATA = Path(__file__).parent / "data" / "json"
ACCEPT = sorted((DATA / "accept").glob("*.json"))
REJECT = sorted((DATA / "reject").glob("*.json"))
CODES = {
    *("empty", "too_large", "bom", "truncated", "syntax", "number", "control", "escape"),
    *("surrogate", "utf8", "depth", "duplicate_key", "trailing", "not_object"),
}
LARGE = 64 * 1024 * 1024

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "json_check": _mcpro.json_check,
    "json_raw": lambda data, /, **bounds: _mcpro.json_raw(data, "a", **bounds),
}


def fault(function: Callable[..., Any], data: Any, **bounds: Any) -> tuple[str, int] | None:
    """The code and position that the call raises, None when it returns."""
    try:
        function(data, **bounds)
    except _mcpro.JSONError as error:
        return error.code, error.position
    return None


# ---- files ----


@pytest.mark.parametrize("path", ACCEPT, ids=lambda path: path.stem)
def test_accept_file(path: Path) -> None:
    data = path.read_bytes()
    assert _mcpro.json_check(data) is None
    if depth_of(data.decode()) < 64:  # it is one deeper there
        document = _mcpro.envelope_ok("t", b"[%s]" % data, None)
        assert document.isascii()
        assert repr(json.loads(document)["data"]["content"][0]) == repr(json.loads(data))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("path", REJECT, ids=lambda path: path.stem)
def test_reject_file(path: Path, name: str) -> None:
    code, position, _ = path.stem.split("-", 2)
    assert fault(FUNCTIONS[name], path.read_bytes()) == (code, int(position))


def test_files_cover_every_code() -> None:
    named = {path.stem.split("-")[0] for path in REJECT}
    assert named == CODES - {"too_large", "not_object"}  # these need an argument
    assert len(ACCEPT) > 10


# ---- beside json.loads ----


class RefusedError(ValueError):
    """json.loads or a rule that is stricter refuses the document."""


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise RefusedError("duplicate key")
    return members


def refuse_constant(name: str) -> None:
    raise RefusedError(name)


def depth_of(text: str) -> int:
    """The deepest nesting of a document that json.loads has accepted."""
    deepest = depth = 0
    inside = escaped = False
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def reference(data: bytes, max_depth: int) -> Any:
    """json.loads without duplicates and NaN, and each rule where the scanner is stricter.

    Stricter: invalid UTF-8 (json.loads tries UTF-16 and UTF-32), a byte order mark, half of a
    surrogate pair, nesting. Raises RefusedError.
    """
    try:
        text = data.decode()
        value = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate
    except ValueError as error:
        raise RefusedError from error
    if depth_of(text) > max_depth:
        raise RefusedError("depth")
    return value


def compare(data: bytes, max_depth: int = 6) -> None:
    try:
        expected = reference(data, max_depth)
    except RefusedError:
        found = fault(_mcpro.json_check, data, max_depth=max_depth)
        assert found is not None
        assert found[0] in CODES
        assert 0 <= found[1] <= len(data)
        return
    assert _mcpro.json_check(data, max_depth=max_depth) is None
    # the text of the objects tells 1, 1.0 and True apart, and keeps the order
    if isinstance(expected, dict):
        for key, member in expected.items():
            raw = _mcpro.json_raw(data, key, max_depth=max_depth)
            assert raw is not None
            assert raw in data
            assert repr(json.loads(raw)) == repr(member)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
KEYS = st.sampled_from(["a", "b", "\u00e9", "", "\U0001f600"]) | TEXT
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**17, 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(
        value, ensure_ascii=ascii_only, indent=indent
    ).encode(),
    VALUES,
    st.booleans(),
    st.sampled_from([None, 0, 2]),
)
PIECES = st.sampled_from(
    b'{ } [ ] , : " \\ / \n \t \x00 \x1f 0 1 -0 01 1. .5 e E+ 1e5 - + true fals null NaN Infinity'
    b' "a" "a":1, ,"a":2 ,"\\u0061":3 \\u0000 \\ud800 \\udc00 \\ud83d\\ude00 \\u12 \\x'
    b" \xef\xbb\xbf \xc3\xa9 \xc3 \x80 \xff \xed\xa0\x80 \xf0\x9f\x98\x80 \xf4\x90\x80\x80"
    b" \xe0\x80\x80 [[[[ ]]]] // 1_0 0x1".split(b" ")
) | st.just(b" ")
EDITS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), PIECES | st.binary(max_size=2)),
    min_size=1,
    max_size=4,
)


@given(DOCUMENTS)
@examples(400)
@example(b'{"a":[],"b":{"a":{}}}')
def test_generated_documents(data: bytes) -> None:
    compare(data)


@given(DOCUMENTS, EDITS)
@examples(1500)
def test_mutated_documents(data: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    for place, cut, piece in edits:
        at = place % (len(data) + 1)
        data = data[:at] + piece + data[at + cut :]
    compare(data)


@given(st.lists(PIECES, max_size=12).map(b"".join))
@examples(1500)
def test_heaps_of_tokens(data: bytes) -> None:
    compare(data)


@given(st.lists(st.tuples(KEYS, st.booleans()), max_size=200))
@examples(200)
def test_duplicates_however_spelled(members: list[tuple[str, bool]]) -> None:
    keys = [
        json.dumps(key) if plain else '"' + "".join(f"\\u{ord(c):04X}" for c in key) + '"'
        for key, plain in members
        if plain or all(ord(c) < 0xD800 for c in key)
    ]
    compare(b"{%s}" % ",".join(f"{key}:0" for key in keys).encode())


def test_where_it_is_stricter_than_json_loads() -> None:
    stricter = {
        rb'"\ud800"': ("surrogate", 1),
        b"\xef\xbb\xbf{}": ("bom", 0),
        "{}".encode("utf-16"): ("syntax", 0),
        b"[" * 65 + b"]" * 65: ("depth", 64),
        b'{"a":1,"a":1}': ("duplicate_key", 7),
        b"NaN": ("number", 0),
        b'"%s"' % (b"a" * 131072): ("too_large", 131072),
    }
    for data, found in stricter.items():
        json.loads(data)
        assert fault(_mcpro.json_check, data) == found


# ---- bounds ----


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("bound", [12, 131072, 8 * 1024 * 1024])
def test_size_bound(name: str, extra: int, bound: int) -> None:
    data = b'{"a":"' + b"x" * (bound + extra - 8) + b'"}'
    bounds = {} if bound == 131072 else {"max_bytes": bound}
    expected = ("too_large", bound) if extra > 0 else None
    assert fault(FUNCTIONS[name], data, **bounds) == expected


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("depth", [63, 64, 65])
@pytest.mark.parametrize("explicit", [False, True])
def test_depth_bound(name: str, depth: int, explicit: bool) -> None:
    data = b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)
    bounds = {"max_depth": 64} if explicit else {}
    assert fault(FUNCTIONS[name], data, **bounds) == (("depth", 320) if depth > 64 else None)


def test_zero_bounds() -> None:
    assert fault(_mcpro.json_check, b"1", max_bytes=0) == ("too_large", 0)
    assert fault(_mcpro.json_check, b"", max_bytes=0) == ("empty", 0)
    assert fault(_mcpro.json_check, b"1", max_depth=0) is None
    assert fault(_mcpro.json_check, b"[]", max_depth=0) == ("depth", 0)


def test_depth_is_not_bounded_by_a_stack() -> None:
    deep = 200_000
    data = b'[{"a":' * deep + b"1" + b"}]" * deep
    assert fault(_mcpro.json_check, data, max_depth=2 * deep, max_bytes=LARGE) is None
    assert fault(_mcpro.json_check, data, max_depth=2 * deep - 1, max_bytes=LARGE) == (
        "depth",
        6 * deep - 5,
    )


@pytest.mark.parametrize("bounds", [{"max_bytes": -1}, {"max_depth": -1}, {"max_depth": 2**32}])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_out_of_range(name: str, bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="out of range") as caught:
        FUNCTIONS[name](b"{}", **bounds)
    assert not isinstance(caught.value, _mcpro.JSONError)


# ---- values ----


def test_json_raw() -> None:
    data = rb' { "b" : 1 , "\u0061" : [ 1.10, "\u0061" ] , "x\u0000":"" , "n":{"z":1}} '
    assert _mcpro.json_raw(data, "a") == rb'[ 1.10, "\u0061" ]'
    assert _mcpro.json_raw(data, "b") == b"1"
    assert _mcpro.json_raw(data, "x\0") == b'""'
    assert _mcpro.json_raw(data, "x") is None
    assert _mcpro.json_raw(data, "z") is None
    assert _mcpro.json_raw(b"{}", "") is None
    with pytest.raises(TypeError):
        _mcpro.json_raw(data, b"a")
    with pytest.raises(UnicodeEncodeError):
        _mcpro.json_raw(data, "\ud800")


@pytest.mark.parametrize("data", [b" []", b' "a"', b" 1", b" null"])
def test_json_raw_needs_an_object(data: bytes) -> None:
    assert fault(FUNCTIONS["json_raw"], data) == ("not_object", 1)


def test_json_check_may_pass_duplicates() -> None:
    data = rb'{"a":1,"\u0061":{"b":1,"b":2}}'
    assert fault(_mcpro.json_check, data) == ("duplicate_key", 7)
    assert _mcpro.json_check(data, duplicates=True) is None
    assert fault(_mcpro.json_check, data + b"x", duplicates=True) == ("trailing", len(data))


def test_the_first_fault_is_named() -> None:
    for data in (b'{"a":1,"a":x', b'{"a":1,"a":{"b":[}', b'{"a":1,"a":"\xff'):
        for name, function in FUNCTIONS.items():
            assert fault(function, data) == ("duplicate_key", 7), name


# ---- arguments ----


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments(name: str) -> None:
    function = FUNCTIONS[name]
    # a document that another thread could change is no argument
    for wrong in ("{}", None, 1, [b"{}"], bytearray(b"{}"), memoryview(b"{}")):
        with pytest.raises(TypeError):
            function(wrong)
    with pytest.raises(TypeError):
        function()
    with pytest.raises(TypeError):
        function(b"{}", b"a", 3, 4)
    with pytest.raises(TypeError):
        function(b"{}", max_bytes="1")
    with pytest.raises(TypeError):
        function(b"{}", unknown=1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_is_documented(name: str) -> None:
    signature = inspect.signature(getattr(_mcpro, name))
    assert signature.parameters["max_bytes"].default == 131072
    assert signature.parameters["max_depth"].default == 64
    assert next(iter(signature.parameters.values())).kind is inspect.Parameter.POSITIONAL_ONLY


def test_error_holds_no_byte_of_the_document() -> None:
    with pytest.raises(_mcpro.JSONError) as caught:
        _mcpro.json_check(b'{"secret-value":1,"secret-value":2}')
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.code, error.position) == ("duplicate_key", 18)
    assert "secret" not in str(error) + repr(error)


# ---- cost ----


def test_half_a_million_keys_take_linear_time() -> None:
    keys = [f'"{i:x}":0' for i in range(500_000)]
    random.Random(1).shuffle(keys)
    data = f"{{{','.join(keys)}}}".encode()
    start = time.process_time()
    _mcpro.json_check(data, max_bytes=LARGE)
    assert time.process_time() - start < 2  # about 0.03 s; a quadratic search takes hours


def run_python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("duplicates", "most_kib"), [(False, 16 * 1024), (True, 512)])
def test_memory_of_the_check(duplicates: bool, most_kib: int) -> None:
    """The most keys that 8 MiB can hold, over what the process had before."""
    program = f"""
        from itertools import product
        from pathlib import Path
        from deepagents_ro import _mcpro

        chars = [chr(c) for c in range(32, 127) if chr(c) not in '"\\\\']
        data = "{{" + ",".join(f'"{{a}}{{b}}{{c}}":0' for a, b, c in product(chars, repeat=3))
        left = 8 * 1024 * 1024 - len(data)
        wide = [chr(c) for c in range(0xa0, 0x7ff)]
        data += "".join(f',"{{a}}{{b}}":0' for a, b in product(chars, wide))[: left // 2]
        data = (data[: data.rindex(",")] + "}}").encode()
        assert 7 * 1024 * 1024 < len(data) <= 8 * 1024 * 1024

        def kib(name):
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith(name))

        _mcpro.json_check(b"{{}}")
        Path("/proc/self/clear_refs").write_text("5")
        before = kib("VmHWM")
        _mcpro.json_check(data, max_bytes=8 * 1024 * 1024, duplicates={duplicates})
        print(kib("VmHWM") - before)
    """
    assert int(run_python(program)) <= most_kib


def test_nothing_leaks() -> None:
    good = json.dumps([{"a": [1, 2.5, "\u00e9\n", "x" * 100, 10**30]}] * 50).encode()
    bad = [path.read_bytes() for path in REJECT]

    def everything() -> None:
        for function in FUNCTIONS.values():
            fault(function, good)
            for data in bad:
                fault(function, data)
                fault(function, b"[[" + data)

    everything()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20):
        everything()
    gc.collect()
    assert sys.getallocatedblocks() - before < 20


def test_every_allocation_may_fail() -> None:
    """Of Python's own allocations, each in turn: MemoryError, no crash, nothing kept."""
    pytest.importorskip("_testcapi")
    out = run_python("""
        import _testcapi, contextlib, gc, sys
        from deepagents_ro import _mcpro

        entry = b'{"name":"t","inputSchema":{"type":"object"}}'
        tools = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%s]}}' % entry
        answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
        calls = [
            lambda: _mcpro.json_raw(tools, "result"),
            lambda: _mcpro.json_check(b"["),
            lambda: _mcpro.hint_verdict(entry),
            lambda: _mcpro.reduce_tool_list(tools, "s_", "s_t"),
            lambda: _mcpro.hand_up(answer, 1, call=True),
            lambda: _mcpro.sse_events(b"id: 1\\ndata: x\\n\\n"),
            lambda: _mcpro.envelope_ok("t", b"[]", b"{}"),
            lambda: _mcpro.Redactor([b"a-secret"]).redact(b'"a-secret"'),
        ]
        for call in calls:
            with contextlib.suppress(_mcpro.JSONError):
                call()
            gc.collect()
            before = sys.getallocatedblocks()
            for failures in range(200):
                _testcapi.set_nomemory(failures, failures + 1)
                try:
                    call()
                except _mcpro.JSONError:
                    break
                except MemoryError:
                    pass
                else:
                    break
                finally:
                    _testcapi.remove_mem_hooks()
            else:
                raise AssertionError("never succeeded")
            gc.collect()
            assert sys.getallocatedblocks() - before < 10
            print(failures)
    """)
    assert all(int(failures) > 0 for failures in out.split())
