"""Threads in which statements are planned and evaluated, such that what is short does not wait for what is long.

A call begins as a short one. One that has taken more than SHORT_SECONDS of processor time makes room for the next, and goes
on as one of a few long ones. So whoever sends the costliest statements again and again waits for others of the kind.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ottla.sql import SqlError, TooLongError, watched
from ottla.sql_server.errors import TOO_MANY, StatementError

__all__ = ["BUSY", "LONG_WAITING_MAX", "SHORT_SECONDS", "Watch", "Workers"]

T = TypeVar("T")
LOOKS = 8
"""The clock is read at every so many looks: that costs as much as a call of a lambda."""
SHORT_SECONDS = 0.05
"""Of processor time, behind which a call counts as long."""
LONG = 2
"""Long calls that run at a time."""
LONG_WAITING_MAX = 24
"""Long calls that wait for those; more are refused, so that there is a thread for what is short."""
GIVEN_UP_SECONDS = 0.1
"""How soon one that waits sees that nobody waits for it."""
BUSY = "Other statements take all the time that this server has to evaluate them; ask again later."


class Watch:
    """What a thread looks at while it evaluates: the time that is left, and whether anybody still waits.

    It counts the thread's own processor time, so that what else a busy machine does is not counted.
    """

    def __init__(self, seconds_max: float, what: str = "The statement") -> None:
        self._seconds_max, self._what = seconds_max, what
        self._is_given_up = False
        self._end_s = self._due_s = 0.0
        self._looks = 0
        self._grow: Callable[[], None] | None = None
        self.waits = True
        """Whether it has no thread, or its thread has to wait for others."""
        self.is_refused = False
        """Whether there were too many others."""

    @property
    def is_limited(self) -> bool:
        """Whether what takes too long is refused; what has no limit is not held up either."""
        return self._seconds_max < math.inf

    def begin(self) -> None:
        """Count from now on, in this thread, as for a new row."""
        now_s = time.thread_time()
        self._end_s = now_s + self._seconds_max
        self._due_s = self._end_s if self._grow is None else min(self._end_s, now_s + SHORT_SECONDS)

    def grows(self, call: Callable[[], None] | None) -> None:
        """Call this, once, where what begins now becomes long; it may wait, and raise."""
        self._grow = call

    def give_up(self) -> None:
        """Have the thread stop at its next look."""
        self._is_given_up = True

    def check(self) -> None:
        """Raise TooLongError where nobody waits any more."""
        if self._is_given_up:
            raise TooLongError(f"{self._what} was given up: nobody waits for it")

    def __call__(self) -> None:
        """Raise TooLongError where it is too long, or nobody waits any more."""
        if self._is_given_up:
            self.check()
        self._looks += 1
        if not self._looks % LOOKS and time.thread_time() > self._due_s:
            self._is_due()

    def _is_due(self) -> None:
        if time.thread_time() > self._end_s:
            raise TooLongError(
                f"{self._what} takes longer than {self._seconds_max:g} s to evaluate. Make its expressions cheaper: "
                "lambdas over fewer elements, shorter texts"
            )
        grow, self._grow, self._due_s = self._grow, None, self._end_s
        if grow is not None:
            grow()


class Workers:
    """Threads of one kind, `short` of them for what is short; `close` at the end."""

    def __init__(self, name: str, short: int) -> None:
        self._threads = ThreadPoolExecutor(short + LONG + LONG_WAITING_MAX, thread_name_prefix=name)
        self._short, self._long = threading.Semaphore(short), threading.Semaphore(LONG)
        self._lock = threading.Lock()
        self._waiting = 0
        self._watches: set[Watch] = set()

    def close(self) -> None:
        """Begin nothing more, and give up what runs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for each in self._watches:
            each.give_up()

    async def run(self, watch: Watch, call: Callable[[], T]) -> T:
        """Return what a call gives, made in a thread that looks at the watch; one that nobody waits for is given up.

        Raises what the call does, SqlError where it takes too long, StatementError where too many have become long.
        """
        self._watches.add(watch)
        watch.waits = True
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._evaluated, watch, call)
        except asyncio.CancelledError:
            watch.give_up()
            raise
        except SqlError:
            if watch.is_refused:
                raise StatementError(TOO_MANY, BUSY) from None
            raise
        finally:
            self._watches.discard(watch)

    def _evaluated(self, watch: Watch, call: Callable[[], T]) -> T:
        place: threading.Semaphore | None = self._short
        self._short.acquire()

        def grow() -> None:
            nonlocal place
            with self._lock:
                if self._waiting >= LONG_WAITING_MAX:
                    watch.is_refused = True
                    raise TooLongError(BUSY)
                self._waiting += 1
            self._short.release()
            place = None
            try:
                self._wait_for_others(watch)
                place = self._long
            finally:
                with self._lock:
                    self._waiting -= 1

        try:
            watch.check()
            watch.waits = False
            watch.grows(grow if watch.is_limited else None)
            watch.begin()
            with watched(watch):
                return call()
        finally:
            watch.grows(None)
            if place is not None:
                place.release()

    def _wait_for_others(self, watch: Watch) -> None:
        """Return with a place among the long ones; raises TooLongError where nobody waits any more."""
        watch.waits = True
        while not self._long.acquire(timeout=GIVEN_UP_SECONDS):
            watch.check()
        watch.waits = False
