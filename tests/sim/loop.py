"""An asyncio event loop in virtual time: no sockets, no threads, no waiting, the same order every run.

Time stands still while callbacks run and jumps to the next timer when none is ready. Callbacks run in the order in which
they were scheduled, or what of simulated processes is ready in one that a `Schedule` draws. A loop with neither is a
deadlock, which is an error with the stacks of the waiting tasks. Callbacks belong to the simulated process whose
context they run in (`process.py`); those of a dead process are never run.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NoReturn, TypeVarTuple

from tests.schedules import Schedule, is_step
from tests.sim.process import PROCESS, Crash, Process

__all__ = ["Deadlock", "RunawayLoop", "SimLoop"]

Ts = TypeVarTuple("Ts")
STEPS_MAX = 5_000_000
"""Loop iterations in one world; a loop that spins without time passing ends here."""
STEPS_PER_INSTANT_MAX = 20_000
"""Loop iterations at one moment of virtual time: more is a busy loop."""
VIRTUAL_SECONDS_MAX = 30 * 86_400.0
"""Virtual time of one world."""
CLOCK_RESOLUTION_S = 1e-9
COLLECT_STEPS = 20_000
"""Garbage is collected after so many iterations and not when Python thinks so: what a collection finds (an exception that
nobody asked for) must not depend on what ran before in this process."""
CANCELLED_LOOKED_AT_FROM, CANCELLED_SHARE_MAX = 100, 0.5
"""Cancelled timers are thrown out together where there are so many timers, and so many of them cancelled."""


class Deadlock(AssertionError):
    """Nothing is ready and no timer is set, while the main task still waits."""


class RunawayLoop(AssertionError):
    """The world ran past its bound of steps or of virtual time."""


class _NoSelector:
    """Stands where the selector would: this loop waits for nothing outside."""

    def close(self) -> None:
        """Nothing is open."""


class _Callback(asyncio.Handle):
    """A handle as asyncio's, made without its questions about debugging: a world makes hundreds of thousands."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: SimLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """The same with a time."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False


class _Due(float):
    """A timer's place in the heap: a float, which compares without a call of Python code, and the timer itself."""

    __slots__ = ("timer",)
    timer: asyncio.TimerHandle


class SimLoop(asyncio.BaseEventLoop):
    """The virtual-time loop; `errors` collects what any callback or task raised and nobody handled.

    With a schedule, what tasks and futures of simulated processes have ready comes late as it says, and the loop is held.
    """

    _scheduled: list[_Due]
    _ready: deque[asyncio.Handle]
    _timer_cancelled_count: int
    _stopping: bool

    def __init__(self, schedule: Schedule | None = None) -> None:
        super().__init__()
        self._order = schedule
        self._now_s = 0.0
        self._selector = _NoSelector()
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

    def _run_once(self) -> None:
        """One iteration: time moves where nothing is ready, and everything that is ready runs once."""
        scheduled, ready = self._scheduled, self._ready
        self._drop_cancelled()
        self.steps += 1
        self._steps_here += 1
        if not ready and not self._stopping:
            if not scheduled:
                raise Deadlock("nothing is scheduled, and these wait:\n" + "\n".join(self._waiting()))
            if scheduled[0] > self._now_s:
                for look in self.at_step:
                    look()
                self._now_s = max(self._now_s, float(scheduled[0]))
                if self._order is not None:
                    self._now_s += self._order.hold_s()
                self._steps_here = 0
        if self.steps % COLLECT_STEPS == 0 and not gc.isenabled():
            gc.collect(0)
        self._check_bounds()
        end_time = self._now_s + CLOCK_RESOLUTION_S
        while scheduled and scheduled[0] < end_time:
            timer = heapq.heappop(scheduled).timer
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context = handle._context  # type: ignore[attr-defined]
            try:
                context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler(
                    {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
                )
            process = context.get(PROCESS)
            if process is not None:
                process.has_run = True

    def _drop_cancelled(self) -> None:
        """Forget timers that were cancelled, as asyncio does: those in front, and all where they are many."""
        scheduled = self._scheduled
        count = len(scheduled)
        if count > CANCELLED_LOOKED_AT_FROM and self._timer_cancelled_count / count > CANCELLED_SHARE_MAX:
            kept = []
            for due in scheduled:
                if due.timer._cancelled:
                    due.timer._scheduled = False  # type: ignore[attr-defined]
                else:
                    kept.append(due)
            heapq.heapify(kept)
            scheduled[:] = kept
            self._timer_cancelled_count = 0
            return
        while scheduled and scheduled[0].timer._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled).timer._scheduled = False  # type: ignore[attr-defined]

    def _check_bounds(self) -> None:
        if self.steps > STEPS_MAX or self._now_s > VIRTUAL_SECONDS_MAX or self._steps_here > STEPS_PER_INSTANT_MAX:
            busy = [repr(handle) for handle in list(self._ready)[:20]]
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
        timers = [due.timer for due in self._scheduled]
        for handle in [*self._ready, *timers, *process.parked]:
            if _owner(handle._context) is process:  # type: ignore[attr-defined]
                handle.cancel()
        process.parked.clear()

    def park(self, process: Process) -> None:
        """Set aside every callback and timer of a process that is paused.

        The loop may be walking what is ready, by a count that it took before: what is set aside leaves a blank behind.
        """
        ready, timers = self._ready, []
        for at, handle in enumerate(ready):
            if _owner(handle._context) is process:  # type: ignore[attr-defined]
                process.parked.append(handle)
                ready[at] = self._blank()
        for due in self._scheduled:
            if _owner(due.timer._context) is process:  # type: ignore[attr-defined]
                process.parked.append(due.timer)
            else:
                timers.append(due)
        self._scheduled[:] = timers
        heapq.heapify(self._scheduled)

    def _blank(self) -> asyncio.Handle:
        """Return a callback that the loop passes over."""
        blank = asyncio.Handle(_nothing, (), self)
        blank.cancel()
        return blank

    def unpark(self, process: Process) -> None:
        """Let a process that was paused go on."""
        parked, process.parked = process.parked, []
        for handle in parked:
            if isinstance(handle, asyncio.TimerHandle):
                self._schedule(handle)
            else:
                self._ready.append(handle)

    def _schedule(self, timer: asyncio.TimerHandle) -> None:
        due = _Due(timer._when)  # type: ignore[attr-defined]
        due.timer = timer
        heapq.heappush(self._scheduled, due)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's; a callback of a dead process is born cancelled, and one of a paused process waits."""
        handle = _Callback(callback, args, self, context)
        process = handle._context.get(PROCESS)
        if process is None:
            self._ready.append(handle)
        elif process.alive and not process.is_paused:
            if self._order is None or context is None:  # tasks and futures say in which context, and nobody else
                self._ready.append(handle)
            else:
                self._make_ready(self._order, handle)
        elif process.alive:
            process.parked.append(handle)
        else:
            handle.cancel()
        return handle

    def _make_ready(self, schedule: Schedule, handle: _Callback) -> None:
        """Let a callback run when the schedule says; tasks and futures cancel none of those that may come late."""
        callback, args = handle._callback, tuple(handle._args)
        steps = is_step(callback)
        turns = schedule.turns(args, is_step=steps, now=self.steps)
        if steps and (wait_s := schedule.wait_s(args)):
            self.call_later(wait_s, callback, *args, context=handle._context)
        elif turns:
            self._pass_over(handle, turns)
        else:
            self._ready.append(handle)

    def _pass_over(self, handle: asyncio.Handle, turns: int) -> None:
        """Let so many turns of the loop go by before a callback runs."""
        if turns:
            passing = _Callback(self._pass_over, (handle, turns - 1), self, handle._context)  # type: ignore[attr-defined]
            self._ready.append(passing)
        else:
            self._ready.append(handle)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; a timer of a dead process is born cancelled."""
        timer = _Timer(when, callback, args, self, context)
        process = timer._context.get(PROCESS)
        if process is not None and not process.alive:
            timer.cancel()
            return timer
        self._schedule(timer)
        timer._scheduled = True
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

    def _write_to_self(self) -> None:
        """No thread ever has to wake this loop."""

    def run_in_executor(self, executor: object, func: Callable[..., object], *args: object) -> NoReturn:
        """Refuse: threads are not deterministic; work off the loop goes through Offload."""
        raise AssertionError(f"{func!r} was sent to a thread: in simulation use the Offload seam")

    def getaddrinfo(self, host: object, port: object, **kwargs: object) -> NoReturn:
        """Refuse: names are resolved by the simulated network."""
        raise AssertionError(f"{host!r} was looked up in the real world: in simulation use the Network seam")

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As call_soon: there is one thread."""
        return self.call_soon(callback, *args, context=context)


def _nothing() -> None:
    """Stands for a callback that was set aside."""


def _owner(context: Context) -> Process | None:
    return context.get(PROCESS)
