"""The event-stream parser against a whole-text reading of the standard, in any split."""

from __future__ import annotations

import pytest
from budget import examples
from hypothesis import given
from hypothesis import strategies as st

from deepagents_ro._mcpro import sse_events

Event = tuple[str, bytes, str | None, int | None]
INT_MAX = 2**31 - 1


def reference(stream: bytes) -> list[Event]:
    """The blocks of a whole stream, line by line."""
    stream = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[Event] = []
    data: list[bytes] = []
    kind = b""
    block_id: bytes | None = None
    retry: int | None = None
    for line in stream.split(b"\n")[:-1]:
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                kind = value
            elif name == b"id" and b"\0" not in value:
                block_id = value
            elif name == b"retry" and value.isdigit():
                retry = min(int(value), INT_MAX)
            continue
        if data or block_id is not None or retry is not None:
            text = None if block_id is None else block_id.decode(errors="replace")
            shown = (kind or b"message").decode(errors="replace")
            events.append((shown, b"\n".join(data), text, retry))
        data, kind, block_id, retry = [], b"", None, None
    return events


FIELDS = [b"data", b"event", b"id", b"retry", b"data: a", b"data:", b"id: 7", b"retry: 15"]
ENDS = [b"\n", b"\r", b"\r\n", b"\n\n", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b"]
REST = [b":", b": ", b" ", b"event: x", b"\xef\xbb\xbf", b"\xef", b"\0", b"9" * 12, b"x", b"\xff"]
PIECES = st.one_of(st.sampled_from(FIELDS), st.sampled_from(ENDS), st.sampled_from(REST))
STREAMS = st.builds(
    lambda bom, pieces: bom + b"".join(pieces),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]),
    st.lists(PIECES, max_size=40),
)


@given(STREAMS, st.integers(0, 9))
@examples(4000)
def test_same_events_in_any_split(stream: bytes, chunk: int) -> None:
    assert sse_events(stream, chunk=chunk) == reference(stream)


@given(st.binary(max_size=200), st.integers(1, 5))
@examples(1000)
def test_any_bytes(stream: bytes, chunk: int) -> None:
    assert sse_events(stream, chunk=chunk) == reference(stream)


def test_mcp_stream() -> None:
    stream = (
        b"\xef\xbb\xbfid: a-0\r\nretry: 500\r\ndata: \r\n\r\n"
        b": keep-alive\r\n\r\n"
        b'event: message\r\nid: a-1\r\ndata: {"jsonrpc":"2.0",\r\ndata: "id":1}\r\n\r\n'
        b"data: lost"
    )
    assert sse_events(stream) == [
        ("message", b"", "a-0", 500),
        ("message", b'{"jsonrpc":"2.0",\n"id":1}', "a-1", None),
    ]


def test_bound_is_on_the_data_of_one_event() -> None:
    fits = b"data: 12345678\n\n"
    assert len(sse_events(fits * 3, max_bytes=8)) == 3
    with pytest.raises(ValueError, match="too large"):
        sse_events(b"data: 123456789\n\n", max_bytes=8)
    with pytest.raises(ValueError, match="too large"):
        sse_events(b"data: 1234\ndata: 5678\n\n", max_bytes=8)
    assert sse_events(b":" + b"x" * 100 + b"\n" + b"y" * 100 + b"\n\n", max_bytes=8) == []


def test_bound_is_on_ids_and_types_too() -> None:
    assert len(sse_events(b"id: " + b"x" * 16384 + b"\n\n")) == 1
    for name in (b"id", b"event"):
        with pytest.raises(ValueError, match="too large"):
            sse_events(name + b": " + b"x" * 16385 + b"\n\n")


def test_arguments() -> None:
    with pytest.raises(ValueError, match="negative"):
        sse_events(b"", chunk=-1)
    with pytest.raises(ValueError, match="negative"):
        sse_events(b"", max_bytes=-1)
    with pytest.raises(TypeError):
        sse_events("data: a\n\n")  # type: ignore[arg-type]
