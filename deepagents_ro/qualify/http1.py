"""As much HTTP/1.1 as the scripted server and the proxy speak."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `head` ends with the empty line, header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    head: bytes
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Request:
    """The next request, its body of known length.

    Raises:
        OSError: not a request, or one whose body comes in chunks.
        asyncio.IncompleteReadError: the client closed.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    try:
        method, target, _version = first.split(" ", 2)
    except ValueError as error:
        raise OSError("not an HTTP request") from error
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if "transfer-encoding" in headers:
        raise OSError("a request in chunks")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, head, body)


def response(status: int, body: str = "") -> bytes:
    """One response, JSON when it has a body."""
    data = body.encode()
    kind = "content-type: application/json\r\n" if body else ""
    head = f"HTTP/1.1 {status} Scripted\r\n{kind}content-length: {len(data)}\r\n\r\n"
    return head.encode() + data
