"""Threads: begun, named, watched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ottla.background.failures import note_failure
from ottla.background.tasks import Failed

__all__ = ["APART_MAX", "apart", "supervise_thread"]

T = TypeVar("T")

APART_MAX = 16
"""Calls that may wait at once for files that do not come, each with a thread."""
_apart = threading.BoundedSemaphore(APART_MAX)


def supervise_thread(
    work: Callable[[], object], *, name: str, serves: str, failed: Failed | None = None
) -> threading.Thread:
    """Begin a thread that keeps no process from its end, and return it.

    Where it ends by an exception, that is logged, counted, and told to its owner by `failed`, from that thread.
    """

    def run() -> None:
        try:
            work()
        except Exception as error:  # nobody waits for it, so it is said here
            consequence = "it runs no more" if failed is None else "its owner is told"
            note_failure(serves, name, error, consequence=consequence)
            if failed is not None:
                failed(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


async def apart(call: Callable[[], T], *, seconds: float, name: str, serves: str) -> T:
    """Return what a call returns that reads files which may lie anywhere: by a thread of its own, not on the event loop.

    The threads of the disk would all be taken by a file system that does not answer. Raises TimeoutError after `seconds`,
    when the thread is left to its wait, and at once where APART_MAX wait already; and whatever the call raises.
    """
    if not _apart.acquire(blocking=False):
        raise TimeoutError(f"{name}: {APART_MAX} files are being waited for already")
    loop = asyncio.get_running_loop()
    found: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: Exception | None) -> None:
        if found.done():
            return  # nobody waits any more
        if error is None:
            found.set_result(result)  # type: ignore[arg-type]
        else:
            found.set_exception(error)

    def work() -> None:
        result: T | None = None
        error: Exception | None = None
        try:
            result = call()
        except Exception as raised:  # it is the caller's, who waits for it
            error = raised
        finally:
            _apart.release()
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result, error)

    try:
        supervise_thread(work, name=name, serves=serves)
    except RuntimeError as error:
        _apart.release()
        raise TimeoutError(f"{name}: no thread can be started: {error}") from error
    try:
        return await asyncio.wait_for(found, seconds)
    except TimeoutError:
        if found.done() and not found.cancelled():
            raise  # the call's own
        raise TimeoutError(f"{name}: not done within {seconds:g} s") from None
