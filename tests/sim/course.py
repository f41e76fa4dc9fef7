"""A world's whole course: it lives in a loop of its own, what it logs is kept, it has a bound, and its outcome is told.

One runner for every kind. Virtual time has bounds in `loop.py`; a callback that spins, or waits for something outside of
the world, is ended here after so much of the processor's time or of everybody's, and is what the world has found.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import math
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import format_exc
from types import FrameType
from typing import Any, Protocol

from ottla.broker.requests import slices
from tests.sim.ledger import Tally
from tests.sim.loop import SimLoop
from tests.sim.process import Crash, Process
from tests.sim.trace import Trace

slices.SLICE_S = math.inf  # real time is no part of a world: slices end by their steps alone

__all__ = ["PROCESSOR_SECONDS_MAX", "REAL_SECONDS_MAX", "Outcome", "Overdue", "Runnable", "run_to_its_end"]

PROCESSOR_SECONDS_MAX = 240.0
"""Of a processor, for one world: the longest take a tenth of it."""
CALLBACK_SECONDS_MAX = 15.0
"""Of a processor, for one turn of the loop: none takes a hundredth of it."""
REAL_SECONDS_MAX = 1800.0
"""Of real time, for one that waits; where a test has a clock of its own, that one is used."""
LINES_KEPT = 30


class Overdue(KeyboardInterrupt):
    """A world did not end in its time. Nothing that runs in it may take this for its own error, and loops let it pass."""


@dataclass(frozen=True)
class Outcome:
    """How a world ended; `error` is empty when every promise was kept."""

    seed: int
    digest: str
    error: str
    events: int
    steps: int
    faults: tuple[str, ...]
    recent: tuple[str, ...] = ()
    simulated_s: float = 0.0
    acknowledged: int = 0
    """Records that were acknowledged to producers, in transactions too; in worlds of controllers, tickets."""


class Runnable(Protocol):
    """A world, as its runner sees it."""

    seed: int
    loop: SimLoop
    trace: Trace

    @property
    def befallen(self) -> Iterable[str]:
        """The faults that there were, in order."""

    @property
    def tally(self) -> Tally:
        """What was promised."""

    def all_processes(self) -> Iterator[Process]:
        """Yield every process that there ever was."""

    def live(self) -> Coroutine[Any, Any, None]:
        """The whole of it; raises where a promise was broken."""


class _Said(logging.Handler):
    """Keeps the last lines that the nodes logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"log: {record.levelname} {record.getMessage()}")
        if record.exc_info:
            self.lines.append(logging.Formatter().formatException(record.exc_info))


def run_to_its_end(
    world: Runnable,
    *,
    processor_seconds_max: float = PROCESSOR_SECONDS_MAX,
    real_seconds_max: float = REAL_SECONDS_MAX,
) -> Outcome:
    """Run a world; whatever is broken in it, or that it does not end, is in the outcome."""
    said = _Said()
    error = ""
    with _heard_by(said), _quietly_collected():
        try:
            with _bounded(world.loop, processor_seconds_max, real_seconds_max):
                world.loop.run_until_complete(world.live())
        except (Exception, Crash, Overdue):
            error = format_exc()
        finally:
            _bury(world)
    trace = world.trace
    return Outcome(
        world.seed,
        trace.digest,
        error,
        trace.count,
        world.loop.steps,
        tuple(world.befallen),
        (*trace.recent(), *said.lines) if error else (),
        world.loop.time(),
        world.tally.records,
    )


@contextmanager
def _heard_by(said: _Said) -> Iterator[None]:
    """Give what is logged to this handler alone."""
    logger = logging.getLogger("ottla")
    logger.addHandler(said)
    propagated, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(said)
        logger.propagate = propagated


@contextmanager
def _quietly_collected() -> Iterator[None]:
    """Let the loop collect garbage at its own moments, and frozen coroutines of dead processes end without a word."""
    otherwise = sys.unraisablehook
    sys.unraisablehook = lambda raised: None if isinstance(raised.exc_value, Crash) else otherwise(raised)
    asyncio.set_event_loop(None)
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()  # all of it: a world is old by then, and a worker that kept its worlds grew by 30 MB with each
        if collects:
            gc.enable()
        sys.unraisablehook = otherwise


@contextmanager
def _bounded(loop: SimLoop, processor_seconds: float, real_seconds: float) -> Iterator[None]:
    """Raise Overdue in what runs within when this process has worked, or everybody has waited, for so long.

    Only a main thread can be interrupted; pools and pytest run worlds in theirs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    began, steps = time.process_time(), loop.steps

    def worked() -> None:
        nonlocal steps
        if time.process_time() - began >= processor_seconds:
            raise Overdue(f"the world did not end in {processor_seconds:g} seconds of the processor")
        if loop.steps == steps:
            raise Overdue(f"one turn of the loop took more than {CALLBACK_SECONDS_MAX:g} seconds of the processor")
        steps = loop.steps

    def waited() -> None:
        raise Overdue(f"the world did not end in {real_seconds:g} seconds of real time")

    with (
        _timer(signal.ITIMER_PROF, signal.SIGPROF, min(processor_seconds, CALLBACK_SECONDS_MAX), worked),
        _timer(signal.ITIMER_REAL, signal.SIGALRM, real_seconds, waited),
    ):
        yield


@contextmanager
def _timer(which: int, number: int, seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Look again and again by a timer of this process, unless somebody else has set it."""
    if signal.getitimer(which)[0]:
        yield
        return
    before: Callable[[int, FrameType | None], Any] | int | None = signal.signal(number, lambda *_: look())
    signal.setitimer(which, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(which, 0)
        signal.signal(number, before)


def _bury(world: Runnable) -> None:
    """End what is left without letting it say anything."""
    for process in world.all_processes():
        process.kill()
        process.bury()
    for task in asyncio.all_tasks(world.loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        work = task.get_coro()
        if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()  # its first turn never came, and it would say that nobody awaited it
    world.loop.set_exception_handler(lambda loop, context: None)
    world.loop.close()
