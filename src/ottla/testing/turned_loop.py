"""An event loop whose time a test turns, with real sockets and real threads.

The loop's selector is the one place that knows that nothing is ready, and until when. While time flows it waits as any
other. While it is turned it looks at the sockets without waiting, waits for calls on threads, and else sets the time to the
next timer, until the target is reached: so everything that is due happens, in order, as quickly as the machine can.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

from ottla.base import Millis

__all__ = ["Heartbeats", "TurnedClock", "TurnedLoop"]

Events = list[tuple[selectors.SelectorKey, int]]
THREAD_SECONDS = 5.0
"""How long a call on a thread is waited for before the sockets are looked at again."""


class Heartbeats(Protocol):
    """Who must be heard again before time goes on, in the loop's seconds."""

    def limit(self) -> float | None:
        """Return how far time may go; None for any time."""
        ...

    def are_heard(self, since: float) -> bool:
        """Return whether everybody has been heard since then."""
        ...

    def waited(self, seconds: float, *, since: float | None) -> float:
        """Take note of real seconds that were waited, and return how many more there are, for who is not heard since then.

        Without a time that is for those at whose limit time stands.
        """
        ...


class TurnedClock:
    """The loop's time and the broker's: it flows as the machine's does, and jumps where it is turned."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        self._heartbeats = heartbeats
        self._virtual = self._real = time.monotonic()
        self._epoch_ms = time.time_ns() // 1_000_000 - int(self._virtual * 1000)
        self._target: float | None = None
        self._done: concurrent.futures.Future[None] | None = None
        self._step = 0.0
        self._waits_for_members = True
        self.pending = 0
        """Calls that run on threads."""

    def time(self) -> float:
        """Return the loop's time in seconds; while it is turned it stands still between two stops."""
        if self._target is None:
            now = time.monotonic()
            self._virtual += now - self._real
            self._real = now
        return self._virtual

    def now_ms(self) -> Millis:
        """Return the broker's time, in milliseconds since 1970."""
        return Millis(self._epoch_ms + int(self.time() * 1000))

    def turn(
        self, seconds: float, *, step: float, waits_for_members: bool, done: concurrent.futures.Future[None]
    ) -> None:
        """Begin to go on by so many seconds, in the loop's thread; `done` is set when all has happened that was due."""
        assert self._target is None, "it is being turned"
        self._target = self.time() + seconds
        self._step, self._waits_for_members, self._done = step, waits_for_members, done

    def give_up(self) -> None:
        """Turn no further, in the loop's thread."""
        if self._target is not None:
            self._target, self._done, self._real = None, None, time.monotonic()

    def idle(self, timeout: float | None, select: Callable[[float | None], Events]) -> Events:
        """Called where nothing is ready: wait, or go on."""
        if self._target is None:
            return select(timeout)
        if self.pending:
            return select(THREAD_SECONDS)
        limit = self._heartbeats.limit() if self._waits_for_members else None
        if limit is not None and limit <= self._virtual < self._target:
            return self._wait(select, since=None)
        due = None if timeout is None else self._virtual + timeout
        if self._virtual >= self._target and (due is None or due > self._target):
            if self._waits_for_members and not self._heartbeats.are_heard(self._target):
                return self._wait(select, since=self._target)
            self._finish()
            return []
        target = self._target if limit is None else min(self._target, limit)
        stop = target if due is None else max(due, self._virtual + self._step)
        self._virtual = max(self._virtual, min(stop, target))
        return []

    def _wait(self, select: Callable[[float | None], Events], *, since: float | None) -> Events:
        """Wait, in real time, until who must be heard is heard, or is given up."""
        before = time.monotonic()
        events = select(self._heartbeats.waited(0.0, since=since))
        self._heartbeats.waited(time.monotonic() - before, since=since)
        return events

    def _finish(self) -> None:
        done, self._done, self._target = self._done, None, None
        self._real = time.monotonic()
        if done is not None and not done.done():
            done.set_result(None)


class _TurnedSelector:
    """Stands between the loop and the system's selector."""

    def __init__(self, clock: TurnedClock) -> None:
        self._selector = selectors.DefaultSelector()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Events:
        events = self._selector.select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        return self._clock.idle(timeout, self._selector.select)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


class TurnedLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on a turned clock."""

    def __init__(self, clock: TurnedClock) -> None:
        self._clock = clock
        super().__init__(cast("selectors.BaseSelector", _TurnedSelector(clock)))

    def time(self) -> float:
        """Return the clock's time."""
        return self._clock.time()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """As asyncio's; time stands still until the call has returned."""
        future = super().run_in_executor(executor, func, *args)
        self._clock.pending += 1
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: object) -> None:
        self._clock.pending -= 1
