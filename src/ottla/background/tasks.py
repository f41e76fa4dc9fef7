"""Tasks of asyncio: begun, held, watched, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ottla.background.failures import note_failure, why_ended

__all__ = ["awaited", "end", "keep_running", "restarting", "running", "supervise"]

T = TypeVar("T")
BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0
"""Before a task that has failed begins again: at first, and at most."""
WELL_S = 60.0
"""Who has run for so long before it fails begins again as if for the first time."""
Failed = Callable[[BaseException], object]

_HELD = "_ottla_supervised"
"""Under which name a loop has its tasks, each with what it serves; so they are gone with a loop that is left as it is."""


def _held(loop: asyncio.AbstractEventLoop) -> dict[asyncio.Task[Any], str]:
    """Return what holds a loop's supervised tasks, since asyncio holds tasks weakly."""
    held: dict[asyncio.Task[Any], str] = loop.__dict__.setdefault(_HELD, {})
    return held


def running(loop: asyncio.AbstractEventLoop | None = None) -> dict[asyncio.Task[Any], str]:
    """Return a loop's supervised tasks that have not ended, each with what it serves."""
    held = _held(loop or asyncio.get_running_loop())
    return {
        task: serves for task, serves in held.items() if not task.done()
    }  # one that has ended is held a step longer


def supervise(
    work: Coroutine[Any, Any, T],
    *,
    serves: str,
    name: str = "",
    failed: Failed | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> asyncio.Task[T]:
    """Begin a task that nobody need await.

    Where it ends by an exception, that is logged with `name` and `serves`, counted (`failure_counts`), and told to its
    owner by `failed`, which has to make it felt: fail what waits for the task, say that it is not well, stop, begin anew.
    Whoever awaits the task has the exception too. `end` ends it. That something which it awaited was cancelled is such a
    failure, too; that it was cancelled itself is none.
    """
    loop = loop or asyncio.get_running_loop()
    name = name or getattr(work, "__qualname__", "a task")
    held = _held(loop)
    task = loop.create_task(work, name=name)
    held[task] = serves

    def ended(done: asyncio.Task[T]) -> None:
        del held[done]
        error = why_ended(done)
        if error is None:
            return
        consequence = "it runs no more" if failed is None else "its owner is told"
        note_failure(serves, name, error, consequence=consequence)
        if failed is not None:
            failed(error)

    task.add_done_callback(ended)
    return task


async def restarting(
    begin: Callable[[], Coroutine[Any, Any, T]], *, name: str, serves: str, reset: Callable[[], object] | None = None
) -> T:
    """Run what has to run for as long as its owner does: where it fails, that is told, and it begins again after a pause.

    For work that finds anew what it needs. `reset` is called between, for what the failed run has left behind. Returns
    what `begin`'s work returns.
    """
    loop = asyncio.get_running_loop()
    wait_s = BACKOFF_S
    while True:
        began_s = loop.time()
        try:
            return await begin()
        except (Exception, asyncio.CancelledError) as error:  # whatever it is is told, and who is served is served on
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            if loop.time() - began_s > WELL_S:
                wait_s = BACKOFF_S
            note_failure(serves, name, error, consequence=f"it begins again in {wait_s:g} s")
            if reset is not None:
                reset()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, BACKOFF_S_MAX)


def keep_running(
    begin: Callable[[], Coroutine[Any, Any, T]],
    *,
    name: str,
    serves: str,
    reset: Callable[[], object] | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> asyncio.Task[T]:
    """Begin a supervised task that does `restarting`."""
    work = restarting(begin, name=name, serves=serves, reset=reset)
    return supervise(work, name=name, serves=serves, loop=loop)


def awaited(
    work: Awaitable[T], *, name: str | None = None, loop: asyncio.AbstractEventLoop | None = None
) -> asyncio.Task[T]:
    """Begin a task whose outcome its maker awaits, as every caller of this promises: an error is the maker's."""
    task: asyncio.Task[T] = asyncio.ensure_future(work, loop=loop)
    if name is not None:
        task.set_name(name)
    return task


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and return when all have ended; what they end with was told already, or is nobody's any more."""
    found = [each for each in tasks if each is not None]
    for each in found:
        each.cancel()
    if found:
        await asyncio.gather(*found, return_exceptions=True)
