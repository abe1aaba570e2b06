"""A gateway of a few lines, in a thread: it counts what reaches it and does what it is told.

It serves every namespace, `/mcp/{namespace}/`, over plain HTTP. What a call does to itself stands
in its arguments: `n` (its number, answered as structured content), `delay_s`, `stream` (answer in
an event stream), `drop` (the connection dies after the call was counted), `text` (bytes of text to
answer with). `expire` forgets all sessions, `restart` also cuts every connection.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

READ_ONLY = {"readOnlyHint": True, "destructiveHint": False}
KEY = "stand-in-key-0123456789"


def entry(name: str, **members: Any) -> dict[str, Any]:
    """One tool of a list."""
    return {
        "name": name,
        "description": "d",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "annotations": READ_ONLY,
        **members,
    }


class StandIn:
    """The server; its counters may be read from any thread."""

    def __init__(self, entries: list[dict[str, Any]] | None = None) -> None:
        self.entries = entries if entries is not None else [entry("utils__text_normalize")]
        self.sessions: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.executed: Counter[int] = Counter()
        self.answered = 0
        self.call_answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        self.status: dict[str, tuple[int, str, bytes]] = {}
        self.held = False
        self.progress = False  # say so before the answer of a stream
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connection, "127.0.0.1", 0, limit=2**24)
        )
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _do(self, action: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    async def seen(self, kind: str, times: int) -> None:
        """Return when so many messages of that kind have arrived."""
        while self.counts[kind] < times:  # noqa: ASYNC110 - another thread counts
            await asyncio.sleep(0.001)

    def hold_initialize(self) -> None:
        """Do not answer the next `initialize`."""
        self.held = True

    def expire(self) -> None:
        """Forget all sessions."""
        self._do(self.sessions.clear)

    def restart(self) -> None:
        """Cut every connection and forget all sessions."""

        def cut() -> None:
            self.sessions.clear()
            for writer in self._writers:
                writer.transport.abort()

        self._do(cut)
        self._do(lambda: None)  # an aborted connection is closed one turn of the loop later

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.counts["connections"] += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {
                    line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip()
                    for line in head[1:]
                    if line
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if not await self._answer(head[0].split()[0], headers, body, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or this server is being closed
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(
        self, method: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        session = headers.get("mcp-session-id", "")
        if method == "DELETE":
            self.counts["delete"] += 1
            self.sessions.discard(session)
            return await _write(writer, 200, b"", "")
        if method != "POST":
            return await _write(writer, 405, b"", "")
        message = json.loads(body)
        kind = message["method"]
        self.counts[kind] += 1
        if kind in self.status:
            status, content_type, text = self.status[kind]
            return await _write(writer, status, text, content_type)
        if kind == "initialize" and self.held:
            self.held = False
            await asyncio.sleep(60)  # until the connection is cut
        if kind == "initialize":
            session = f"s{self.counts[kind]}"
            self.sessions.add(session)
            result: dict[str, Any] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stand-in", "version": "1"},
            }
            return await _write(writer, 200, _result(message, result), session=session)
        if session not in self.sessions:
            return await _write(writer, 404, b'{"error":"no such session"}')
        if "id" not in message:
            return await _write(writer, 202, b"")
        if kind == "tools/list":
            return await _write(writer, 200, _result(message, {"tools": self.entries}))
        return await self._call(message, writer)

    async def _call(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        arguments = message["params"].get("arguments") or {}
        number = arguments.get("n", 0)
        self.executed[number] += 1
        try:
            return await self._answer_call(message, number, arguments, writer)
        finally:
            self.answered += 1

    async def _answer_call(
        self,
        message: dict[str, Any],
        number: int,
        arguments: dict[str, Any],
        writer: asyncio.StreamWriter,
    ) -> bool:
        await asyncio.sleep(arguments.get("delay_s", 0))
        if arguments.get("drop"):
            writer.transport.abort()
            return False
        if self.call_answer is not None:
            answer = json.dumps(
                {"jsonrpc": "2.0", "id": message["id"], **self.call_answer(message)}
            ).encode()
        else:
            text = "x" * arguments.get("text", 0)
            result: dict[str, Any] = {
                "content": [{"type": "text", "text": text}],
                "structuredContent": {"n": number},
            }
            if text:
                del result["structuredContent"]
            answer = _result(message, result)
        if arguments.get("stream"):
            event = b"event: message\r\ndata: " + answer + b"\r\n\r\n"
            before = b": hello\r\n\r\n"
            if self.progress:
                params = {"progressToken": message["params"]["_meta"]["progressToken"]}
                params |= {"progress": 0.5, "total": 1.0, "message": "half"}
                note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                before += b"data: " + json.dumps(note).encode() + b"\r\n\r\n"
            return await _write(writer, 200, before + event, "text/event-stream")
        return await _write(writer, 200, answer)


def _result(message: dict[str, Any], result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


async def _write(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    kind: str = "application/json",
    session: str = "",
) -> bool:
    head = f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\n"
    if status in (301, 302, 307, 308):
        head += "location: https://elsewhere.example/\r\n"
    head += f"content-type: {kind}\r\n" if kind else ""
    head += f"mcp-session-id: {session}\r\n" if session else ""
    writer.write(head.encode() + b"\r\n" + body)
    await writer.drain()
    return True
