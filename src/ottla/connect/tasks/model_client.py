"""A task's client without threads and without waiting: the loop runs inside the task's own waits, in the model's time.

What a task's thread waits for, the loop does meanwhile, and time jumps to where something happens next. So a case takes the
same way each time, and costs what its Python costs.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.background import awaited
from ottla.connect import testing
from ottla.connect.tasks.task_client import Condition

__all__ = ["ModelLoop", "ModelTaskClient"]

T = TypeVar("T")


class _Clock(selectors.BaseSelector):
    """Stands where the selector would: a wait is time that passes at once."""

    def __init__(self, world: testing.World) -> None:
        self.world = world
        self.on_quiet: Callable[[], object] | None = None
        """Called where nothing is ready, in the place of passing time."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let time pass; raises AssertionError where the task waits for what will never come."""
        if timeout is None or timeout > 0:
            if self.on_quiet is not None:
                self.on_quiet()
            elif timeout is None:
                raise self.world.hangs("it waits, and nothing will ever happen")
            else:
                self.world.pass_time(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `BaseSelector`."""
        return selectors.SelectorKey(fileobj, -1, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See `BaseSelector`."""
        return selectors.SelectorKey(fileobj, -1, 0, None)

    def get_map(self) -> Any:
        """See `BaseSelector`."""
        return {}


class ModelLoop(asyncio.BaseEventLoop):
    """The loop of one life of a task, in virtual time; it has no sockets, and knows its own tasks."""

    def __init__(self, world: testing.World) -> None:
        super().__init__()
        self._clock = self._selector = _Clock(world)
        self._rests = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.set_task_factory(self._make_task)

    def _make_task(self, loop: asyncio.AbstractEventLoop, call: Any, **named: Any) -> asyncio.Task[Any]:
        made: asyncio.Task[Any] = asyncio.Task(call, loop=loop, **named)
        self._tasks.add(made)
        made.add_done_callback(self._tasks.discard)
        return made

    def _process_events(self, event_list: object) -> None:
        """See `BaseEventLoop`: nothing is read from the outside."""

    def _write_to_self(self) -> None:
        """See `BaseEventLoop`: nothing runs beside this thread that would have to wake it."""

    def time(self) -> float:
        """Return the model's seconds."""
        return self._clock.world.now_s

    def rest(self, seconds: float | None) -> None:
        """Run until something has changed, or for so many seconds."""
        end = None if seconds is None else self.call_later(max(seconds, 0.0), self.stop)
        self._rests = True
        try:
            self.run_forever()
        finally:
            self._rests = False
            if end is not None:
                end.cancel()

    def changed(self) -> None:
        """End a `rest`."""
        if self._rests:
            self.stop()

    def sleep(self, seconds: float) -> None:
        """Run for so many seconds."""
        self.call_later(max(seconds, 0.0), self.stop)
        self.run_forever()

    def breathe(self, *, briefly: bool = False) -> None:
        """Run what is ready, while time stands still, and what that makes ready unless `briefly`."""
        if self.is_running():
            return
        if briefly:
            self.call_soon(self.stop)
        self._clock.on_quiet = self.stop
        try:
            self.run_forever()
        finally:
            self._clock.on_quiet = None

    def end(self) -> None:
        """Cancel what is left, and close."""
        for task in list(self._tasks):
            task.cancel()
        self.breathe()
        self.close()


class _Condition:
    """See `Condition`: nothing runs beside anything, so that no lock is needed."""

    def __init__(self, loop: ModelLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """See `Condition`."""
        self._loop.rest(timeout)
        return True

    def notify_all(self) -> None:
        """See `Condition`."""
        self._loop.changed()


class ModelTaskClient:
    """See `TaskClient`: a client of the model in a loop that all clients of a task share."""

    def __init__(self, loop: ModelLoop, client: Any) -> None:
        self.client = client
        self._loop = loop
        self._begun: list[asyncio.Task[Any]] = []

    def now(self) -> float:
        """See `TaskClient`."""
        return self._loop.time()

    def condition(self) -> Condition:
        """See `TaskClient`."""
        return _Condition(self._loop)

    def call_soon(self, call: Callable[[], object]) -> None:
        """See `TaskClient`."""
        self._loop.call_soon(call)

    def begin(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """See `TaskClient`."""
        self._begun.append(awaited(call, loop=self._loop))
        return self._begun[-1]

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """See `TaskClient`."""
        task = awaited(call if timeout_s is None else asyncio.wait_for(call, timeout_s), loop=self._loop)
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            task.cancel()
            raise

    def close(self) -> None:
        """See `TaskClient`; what the client's own tasks still do ends with the loop."""
        for each in self._begun:
            each.cancel()
        self.run(self.client.close())
