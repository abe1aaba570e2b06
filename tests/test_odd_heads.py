"""Odd response heads: `CurlTransport` takes what stock httpx takes.

Where the two differ, `STRICTER` and `LOOSER` say why; the call's transport is the same C.
"""

from __future__ import annotations

import httpx
import pytest
from wire_server import WireServer, closing

from deepagents_ro import CurlTransport

OK = b"HTTP/1.1 200 OK\r\n"
BODY = b"b" * 107

HEADS: dict[str, bytes] = {
    "length": OK + b"Content-Length: 107\r\n\r\n" + BODY,
    "23 digits": OK + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY,
    "23 digits, padded": OK + b"Content-Length: 00000000000000000000107\r\n\r\n" + BODY,
    "padded": OK + b"Content-Length: 000107\r\n\r\n" + BODY,
    "2^64+1": OK + b"Content-Length: 18446744073709551617\r\n\r\n" + BODY,
    "2^63": OK + b"Content-Length: 9223372036854775808\r\n\r\n" + BODY,
    "plus": OK + b"Content-Length: +107\r\n\r\n" + BODY,
    "minus": OK + b"Content-Length: -107\r\n\r\n" + BODY,
    "letters behind": OK + b"Content-Length: 107abc\r\n\r\n" + BODY,
    "hex": OK + b"Content-Length: 0x6b\r\n\r\n" + BODY,
    "float": OK + b"Content-Length: 107.0\r\n\r\n" + BODY,
    "list": OK + b"Content-Length: 107, 3\r\n\r\n" + BODY,
    "list alike": OK + b"Content-Length: 107, 107\r\n\r\n" + BODY,
    "empty length": OK + b"Content-Length:\r\n\r\n" + BODY,
    "twice alike": OK + b"Content-Length: 107\r\nContent-Length: 107\r\n\r\n" + BODY,
    "twice": OK + b"Content-Length: 107\r\nContent-Length: 3\r\n\r\n" + BODY,
    "spaces around": OK + b"Content-Length: \t 107 \t\r\n\r\n" + BODY,
    "space inside": OK + b"Content-Length: 10 7\r\n\r\n" + BODY,
    "short body": OK + b"Content-Length: 108\r\n\r\n" + BODY,
    "chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "CHUNKED": OK + b"Transfer-Encoding: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked twice": OK
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked, chunked": OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "gzip, chunked": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "identity": OK + b"Transfer-Encoding: identity\r\n\r\n" + BODY,
    "identity and chunked": OK
    + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked and length": OK
    + b"Transfer-Encoding: chunked\r\nContent-Length: 107\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked; param": OK + b"Transfer-Encoding: chunked;q=1\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n0\r\n\r\n",
    "HTTP/1.0 to the end": b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
    "HTTP/1.1 to the end": OK + b"\r\n" + BODY,
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 107\r\n\r\n" + BODY,
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\nContent-Length: 107\r\n\r\n" + BODY,
    "http/1.1": b"http/1.1 200 OK\r\nContent-Length: 107\r\n\r\n" + BODY,
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 107\r\n\r\n" + BODY,
    "empty reason": b"HTTP/1.1 200 \r\nContent-Length: 107\r\n\r\n" + BODY,
    "latin reason": b"HTTP/1.1 200 \xe4\xff\r\nContent-Length: 107\r\n\r\n" + BODY,
    "status 99": b"HTTP/1.1 99 X\r\nContent-Length: 107\r\n\r\n" + BODY,
    "status 2000": b"HTTP/1.1 2000 X\r\nContent-Length: 107\r\n\r\n" + BODY,
    "status 600": b"HTTP/1.1 600 X\r\nContent-Length: 107\r\n\r\n" + BODY,
    "status 1": b"HTTP/1.1 1 X\r\nContent-Length: 107\r\n\r\n" + BODY,
    "two spaces": b"HTTP/1.1  200 OK\r\nContent-Length: 107\r\n\r\n" + BODY,
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 107\n\n" + BODY,
    "bare CR": OK + b"X: a\rb\r\nContent-Length: 107\r\n\r\n" + BODY,
    "blank line first": b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 107\r\n\r\n" + BODY,
    "obs-fold": OK + b"X: a\r\n b\r\nContent-Length: 107\r\n\r\n" + BODY,
    "obs-fold length": OK + b"Content-Length:\r\n 107\r\n\r\n" + BODY,
    "space before colon": OK + b"Content-Length : 107\r\n\r\n" + BODY,
    "space before name": OK + b" X: 1\r\nContent-Length: 107\r\n\r\n" + BODY,
    "no colon": OK + b"X\r\nContent-Length: 107\r\n\r\n" + BODY,
    "no name": OK + b": x\r\nContent-Length: 107\r\n\r\n" + BODY,
    "name with @": OK + b"X@Y: 1\r\nContent-Length: 107\r\n\r\n" + BODY,
    "latin name": OK + b"X\xe4: 1\r\nContent-Length: 107\r\n\r\n" + BODY,
    "NUL in value": OK + b"X: a\x00b\r\nContent-Length: 107\r\n\r\n" + BODY,
    "control in value": OK + b"X: a\x01b\r\nContent-Length: 107\r\n\r\n" + BODY,
    "latin value": OK + b"X: \xe4\r\nContent-Length: 107\r\n\r\n" + BODY,
    "empty value": OK + b"X:\r\nContent-Length: 107\r\n\r\n" + BODY,
    "no head": b"",
    "half a head": OK + b"X: 1\r\n",
    "100 first": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 107\r\n\r\n"
    + BODY,
    "103 with length": b"HTTP/1.1 103 Early\r\nContent-Length: 5\r\n\r\n"
    + OK
    + b"Content-Length: 107\r\n\r\n"
    + BODY,
    "101": b"HTTP/1.1 101 Switching\r\n\r\n" + BODY,
    "204 with length": b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
    "204 bad length": b"HTTP/1.1 204 No\r\nContent-Length: x\r\n\r\n",
    "304 with length": b"HTTP/1.1 304 Not\r\nContent-Length: 107\r\n\r\n",
    "bad chunk size": OK + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    "chunk size space": OK + b"Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
    "chunk extension": OK + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
    "chunk size huge": OK
    + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nabc\r\n0\r\n\r\n",
    "chunk without CRLF": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n",
    "chunk LF": OK + b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
    "no last chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "trailer": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: 1\r\n\r\n",
    "more than length": OK + b"Content-Length: 107\r\n\r\n" + BODY + b"more",
    "negative zero": OK + b"Content-Length: -0\r\n\r\n",
}

# Refused here and taken by httpx.
STRICTER = {
    "list alike": "is not digits; RFC 9110 (8.6) lets a recipient refuse it",
    "HTTP/1.2": "is no version of HTTP",
    "HTTP/2.0": "is not spoken in lines",
    "obs-fold length": "is a framing field that a proxy in between may read otherwise",
}

# Taken here and refused by httpx.
LOOSER = {
    "chunk LF": "libcurl reads the chunks, and takes LF alone at the end of their lines",
}


async def outcome(client: httpx.AsyncClient, url: str) -> tuple[int, bytes] | None:
    """None for an answer that is refused."""
    try:
        response = await client.get(url)
    except httpx.RemoteProtocolError:
        return None
    return response.status_code, response.content


@pytest.mark.parametrize("name", HEADS)
async def test_odd_heads(name: str) -> None:
    ours_is = httpx.AsyncClient(transport=CurlTransport(trust_env=False), timeout=10)
    async with (
        WireServer(closing(HEADS[name])) as server,
        httpx.AsyncClient(trust_env=False, timeout=10) as stock,
        ours_is as ours,
    ):
        theirs = await outcome(stock, server.url())
        mine = await outcome(ours, server.url())
    if name in STRICTER:
        assert theirs is not None
        assert mine is None
    elif name in LOOSER:
        assert theirs is None
        assert mine is not None
    else:
        assert mine == theirs


def test_both_verdicts_are_in_the_table() -> None:
    assert len(HEADS) > 37
    assert STRICTER.keys() | LOOSER.keys() < HEADS.keys()
