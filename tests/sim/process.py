"""A simulated process: the tasks, timers and connections that die together.

Everything that code started by `Process.spawn` creates inherits its context, so the loop knows whose a callback is.
`kill` may come between callbacks, or from inside a disk write (which then raises `Crash` through the running code);
either way nothing of the process runs afterwards, and what its dying frames still try is refused by the dead disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.sim.loop import SimLoop

__all__ = ["PROCESS", "Crash", "Process"]

T = TypeVar("T")


class Crash(BaseException):
    """The process ends here: raised inside it by a write that never returns, and to those who wait for it."""


class Process:
    """One incarnation of a program on a host."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.name = name
        self.alive = True
        self.is_paused = False
        self.has_run = True
        """Set by the loop whenever something of the process has run; taken back by whoever has looked at it since."""
        self.parked: list[asyncio.Handle] = []
        """Callbacks that wait for a paused process to go on, oldest first."""
        self.at_death: list[Callable[[], None]] = []
        self._loop = loop
        self._tasks: list[asyncio.Task[Any]] = []
        self.died: asyncio.Future[None] = loop.create_future()
        self._context = copy_context()
        self._context.run(PROCESS.set, self)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Remember a task that was created in this process."""
        self._tasks.append(task)

    def spawn(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a coroutine as this process's own."""
        return self._loop.create_task(coro, context=self._context.copy())

    async def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this process and return its result; raises Crash when the process dies first."""
        if not self.alive:
            coro.close()
            raise Crash(self.name)
        task = self.spawn(coro)
        await asyncio.wait((task, self.died), return_when=asyncio.FIRST_COMPLETED)
        if not self.alive:
            raise Crash(self.name)
        return task.result()

    def pause(self) -> None:
        """Stop as SIGSTOP does: its kernel goes on taking bytes and connections, and nothing of the process runs."""
        if self.alive and not self.is_paused:
            self.is_paused = True
            self._loop.park(self)

    def resume(self) -> None:
        """Go on where it stopped; timers that are over by now fire at once."""
        if self.is_paused:
            self.is_paused = False
            self._loop.unpark(self)

    def kill(self) -> None:
        """End at once: no callback, timer, task or write of this process happens any more."""
        if not self.alive:
            return
        self.alive = False
        self._loop.forget(self)
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # frozen for ever, and meant to be
        for each in self.at_death:
            each()
        self.died.set_result(None)

    def bury(self) -> None:
        """Close the frozen coroutines, now and not whenever they are collected; what their last lines try is refused."""
        for task in self._tasks:
            if task.done():
                continue  # nothing is left to close, and mypyc's would not stand it
            try:
                task.get_coro().close()
            except (Crash, RuntimeError, AttributeError):
                continue  # refused by a dead disk, or it would not end, or its end was not heard by its task any more
        self._tasks.clear()

    def check(self) -> None:
        """Raise Crash in a process that is dead; every door to the world calls this."""
        if not self.alive:
            raise Crash(self.name)


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
