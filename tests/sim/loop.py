"""An asyncio event loop in virtual time: no sockets, no threads, no waiting, the same order every run.

Time stands still while callbacks run and jumps to the next timer when none is ready. A loop with neither is a
deadlock, which is an error with the stacks of the waiting tasks. Callbacks belong to the simulated process whose
context they run in (`process.py`); those of a dead process are never run.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NoReturn

from tests.sim.process import PROCESS, Crash, Process

__all__ = ["Deadlock", "RunawayLoop", "SimLoop"]

STEPS_MAX = 5_000_000
"""Loop iterations in one world; a loop that spins without time passing ends here."""
STEPS_PER_INSTANT_MAX = 20_000
"""Loop iterations at one moment of virtual time: more is a busy loop."""
VIRTUAL_SECONDS_MAX = 30 * 86_400.0
"""Virtual time of one world."""
CLOCK_RESOLUTION_S = 1e-9


class Deadlock(AssertionError):
    """Nothing is ready and no timer is set, while the main task still waits."""


class RunawayLoop(AssertionError):
    """The world ran past its bound of steps or of virtual time."""


class _Jump:
    """Stands where the selector is: instead of waiting for sockets it moves the clock."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Advance virtual time to the next timer; raise Deadlock where there is none."""
        self._loop.step(timeout)
        return []

    def close(self) -> None:
        """Nothing is open."""


class SimLoop(asyncio.BaseEventLoop):
    """The virtual-time loop; `errors` collects what any callback or task raised and nobody handled."""

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = CLOCK_RESOLUTION_S
        self._steps_here = 0
        self.steps = 0
        self.errors: list[str] = []
        self.at_step: list[Callable[[], None]] = []
        """Called whenever time is about to move, when everything that was ready has run."""
        self.set_exception_handler(self._record_error)
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Return virtual seconds since the world began."""
        return self._now_s

    def step(self, timeout: float | None) -> None:
        """Count one iteration and move the clock; called once per iteration."""
        self.steps += 1
        self._steps_here += 1
        if timeout:
            for look in self.at_step:
                look()
            self._now_s = max(self._now_s, self._scheduled[0].when())
            self._steps_here = 0
        elif timeout is None:
            raise Deadlock("nothing is scheduled, and these wait:\n" + "\n".join(self._waiting()))
        if self.steps > STEPS_MAX or self._now_s > VIRTUAL_SECONDS_MAX or self._steps_here > STEPS_PER_INSTANT_MAX:
            busy = [repr(handle) for handle in list(self._ready)[:20]]  # type: ignore[attr-defined]
            raise RunawayLoop(f"{self.steps} steps, {self._now_s:.3f} s: still ready are\n" + "\n".join(busy))

    def _waiting(self) -> list[str]:
        lines = []
        for task in sorted(asyncio.all_tasks(self), key=lambda each: each.get_name()):
            stack = task.get_stack()
            at = f"{stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else "?"
            lines.append(f"  {task.get_name()} at {at}")
        return lines

    def forget(self, process: Process) -> None:
        """Cancel every callback and timer of a process that has died."""
        for handle in [*self._ready, *self._scheduled, *process.parked]:  # type: ignore[attr-defined]
            if _owner(handle._context) is process:
                handle.cancel()
        process.parked.clear()

    def park(self, process: Process) -> None:
        """Set aside every callback and timer of a process that is paused."""
        for handles in (self._ready, self._scheduled):  # type: ignore[attr-defined]
            mine = [each for each in handles if _owner(each._context) is process]
            process.parked += mine
            others = [each for each in handles if _owner(each._context) is not process]
            handles.clear()
            handles.extend(others)
        heapq.heapify(self._scheduled)

    def unpark(self, process: Process) -> None:
        """Let a process that was paused go on."""
        parked, process.parked = process.parked, []
        for handle in parked:
            if isinstance(handle, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, handle)
            else:
                self._ready.append(handle)  # type: ignore[attr-defined]

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.Handle:
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        process = _owner(handle._context)  # type: ignore[attr-defined]
        if process is not None:
            if not process.alive:
                handle.cancel()
            elif process.is_paused:
                process.parked.append(self._ready.pop())  # type: ignore[attr-defined]
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; a timer of a dead process is born cancelled."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if _is_dead(timer._context):  # type: ignore[attr-defined]
            timer.cancel()
            return timer
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, context=context)
        process = _owner(context if context is not None else copy_context())
        if process is not None:
            process.adopt(task)
        return task

    def _record_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Crash):
            return
        from traceback import format_exception

        text = "".join(format_exception(error)) if error is not None else ""
        self.errors.append(f"{context.get('message', '')} {context.get('handle', '')}\n{text}")

    def _process_events(self, events: list[Any]) -> None:
        assert not events

    def _write_to_self(self) -> None:
        """No thread ever has to wake this loop."""

    def run_in_executor(self, executor: object, func: Callable[..., object], *args: object) -> NoReturn:
        """Refuse: threads are not deterministic; work off the loop goes through Offload."""
        raise AssertionError(f"{func!r} was sent to a thread: in simulation use the Offload seam")

    def getaddrinfo(self, host: object, port: object, **kwargs: object) -> NoReturn:  # type: ignore[override]
        """Refuse: names are resolved by the simulated network."""
        raise AssertionError(f"{host!r} was looked up in the real world: in simulation use the Network seam")

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        """As call_soon: there is one thread."""
        return self.call_soon(callback, *args, context=context)


def _owner(context: Context) -> Process | None:
    return context.get(PROCESS)


def _is_dead(context: Context) -> bool:
    process = context.get(PROCESS)
    return process is not None and not process.alive
