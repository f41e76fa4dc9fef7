"""Work that would hold the event loop for long, done in slices between which it serves others.

The work is a generator: where it yields, nothing may be half done, and what it looks at may have changed when it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from time import perf_counter, perf_counter_ns
from typing import Any, TypeVar

from ottla.broker.requests.answers import Answer, Reply, reply_of
from ottla.broker.requests.handler import RequestContext

__all__ = ["Pauses", "at_once", "in_slices", "now_or_in_slices", "of_each"]

SLICE_S = 0.002
SLICE_STEPS = 256
"""Steps of the work after which a slice ends at the latest; what is usual ends within one."""
A = TypeVar("A")
E = TypeVar("E")
T = TypeVar("T")


def now_or_in_slices(context: RequestContext[Any], work: Generator[None, None, Answer]) -> Answer:
    """Return the answer that a generator returns: at once where a slice is enough, as it is for what clients usually ask.

    The request is charged for the time of every slice.
    """
    is_done, found = _slice(work)
    return found if is_done else _rest(context, work)


def at_once(work: Generator[None, None, T]) -> T:
    """Return what a generator returns, without pauses."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: T = done.value
            return found


async def in_slices(context: RequestContext[Any], work: Generator[None, None, T]) -> T:
    """Return what a generator returns; where it yields, the loop may go on once a slice is over.

    The request is charged for the time of every slice, as by whoever else waits in a coroutine.
    """
    while True:
        started_ns = perf_counter_ns()
        is_done, found = _slice(work)
        _charge(context, started_ns)
        if is_done:
            return found  # type: ignore[return-value]
        await asyncio.sleep(0)


async def _rest(context: RequestContext[Any], work: Generator[None, None, Answer]) -> Reply:
    while True:
        await asyncio.sleep(0)
        started_ns = perf_counter_ns()
        is_done, found = _slice(work)
        _charge(context, started_ns)
        if is_done:
            return await reply_of(found)


def _charge(context: RequestContext[Any], started_ns: int) -> None:
    if context.worked_ns >= 0:  # below, whoever answers charges until now
        context.worked_ns += perf_counter_ns() - started_ns


def _slice(work: Generator[None, None, T]) -> tuple[bool, T | None]:
    """Go on with the work for a while; return whether it is done, and what it returned."""
    until_s = perf_counter() + SLICE_S
    for _ in range(SLICE_STEPS):
        try:
            next(work)
        except StopIteration as done:
            return True, done.value
        if perf_counter() >= until_s:
            break
    return False, None


def of_each(elements: Iterable[E], act: Callable[[E], A]) -> Generator[None, None, list[A]]:
    """Return what `act` makes of each element; it yields after each. The elements must not change meanwhile."""
    found = []
    for element in elements:
        found.append(act(element))
        yield
    return found


class Pauses:
    """The same for a coroutine: `await pauses.step()` after each element, and `charge` behind the last one.

    What it waits for in between would be charged, too, so that who waits for other things gives no context.
    """

    def __init__(self, context: RequestContext[Any] | None = None, *, steps: int | None = None) -> None:
        """Charge the request of this context for the work; a slice has so many steps at most, `SLICE_STEPS` by default."""
        self._context = context
        self._steps_max = SLICE_STEPS if steps is None else steps
        self._begin()

    def _begin(self) -> None:
        self._steps = 0
        self._started_ns = perf_counter_ns()
        self._until_s = perf_counter() + SLICE_S

    async def step(self, count: int = 1) -> None:
        """Let others have their turn where a slice is over; what was done was as much as so many elements."""
        self._steps += count
        if self._steps >= self._steps_max or perf_counter() >= self._until_s:
            self.charge()
            await asyncio.sleep(0)
            self._begin()

    def charge(self) -> None:
        """Charge the request for what was done since the last pause."""
        if self._context is not None:
            _charge(self._context, self._started_ns)
            self._started_ns = perf_counter_ns()
