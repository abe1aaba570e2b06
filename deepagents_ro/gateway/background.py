"""One thread with an event loop, for callers that have none: sync calls and good-byes.

It starts with the first use, ends when it has had nothing to do for a while, and belongs to its
process: a forked child starts its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

LINGER_S = 2.0
"""Seconds that the thread waits for more work before it ends."""


class _Thread:
    """The loop, its thread, and how many coroutines are under way (guarded by LOCK)."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.users = 0
        self.thread = threading.Thread(target=self._live, name="gateway background", daemon=True)

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class _State:
    lock = threading.RLock()
    current: _Thread | None = None


def submit(make: Callable[[], Coroutine[object, object, T]]) -> Future[T]:
    """Run a coroutine there; its future is the caller's to wait for or to cancel.

    The coroutine sees the context variables of the caller.
    """
    with _State.lock:
        found = _State.current
        if found is None:
            found = _State.current = _Thread()
            found.thread.start()
        found.users += 1
        future = asyncio.run_coroutine_threadsafe(make(), found.loop)
    future.add_done_callback(lambda _future: _leave(found))
    return future


def run(make: Callable[[], Coroutine[object, object, T]]) -> T:
    """What the coroutine returns or raises; blocks the calling thread.

    Raises:
        RuntimeError: called from the background thread itself, which would wait for itself.
    """
    found = _State.current
    if found is not None and threading.current_thread() is found.thread:
        raise RuntimeError("a gateway tool was called synchronously from within another one")
    future = submit(make)
    try:
        return future.result()
    finally:
        future.cancel()  # of a caller that was interrupted; nothing for one that has its answer


def _leave(thread: _Thread) -> None:
    with _State.lock:
        thread.users -= 1
        if thread.users == 0:
            thread.loop.call_soon_threadsafe(thread.loop.call_later, LINGER_S, _end_if_idle, thread)


def _end_if_idle(thread: _Thread) -> None:
    with _State.lock:
        if thread.users > 0:
            return
        if asyncio.all_tasks(thread.loop):  # a session that its first caller did not wait for
            thread.loop.call_later(LINGER_S, _end_if_idle, thread)
        else:
            if _State.current is thread:
                _State.current = None
            thread.loop.stop()


def _after_fork() -> None:
    _State.lock = threading.RLock()
    _State.current = None


os.register_at_fork(after_in_child=_after_fork)
