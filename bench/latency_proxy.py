"""A TCP proxy that makes the loopback far away.

    python bench/latency_proxy.py TARGET_PORT ROUND_TRIP_MS

Each byte leaves half a round trip after it came, in either direction; bytes that are on the
way do not wait for one another, so throughput is not limited. Setting up the TCP connection
stays free of charge, which favours the client that opens more connections. Ends when standard
input ends.
"""

from __future__ import annotations

import asyncio
import sys

import lifeline

CHUNK = 65536


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Move bytes one way, each chunk `delay_s` after it arrived; then the end of the stream."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=256)

    async def read() -> None:
        while True:
            try:
                chunk = await reader.read(CHUNK)
            except ConnectionError:
                chunk = b""
            await queue.put((loop.time() + delay_s, chunk))
            if not chunk:
                return

    reading = asyncio.create_task(read())
    try:
        while True:
            due, chunk = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not chunk or writer.is_closing():
                break
            writer.write(chunk)
            await writer.drain()
        if not writer.is_closing():
            writer.write_eof()
    except OSError:  # the peer is gone; shutting down a closed socket says so too
        writer.close()
    finally:
        reading.cancel()


async def serve(target: int, delay_s: float) -> None:
    """Accept on a free port and announce it."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(carry(reader, far_writer, delay_s), carry(far_reader, writer, delay_s))
        far_writer.close()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    lifeline.announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    lifeline.hold()
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 2000.0))
