"""Worlds on every processor: each world runs alone in a worker process, and their outcomes come in the order of their names.

Workers are forked from a process that has everything imported. A world depends on its name alone, so it does not matter
which worker runs it nor what ran there before: the trace is the same as when it runs by itself.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

from tests.sim.course import Outcome
from tests.sim.kinds import run_world

__all__ = ["processors", "run_worlds"]

AHEAD = 2
"""Worlds per worker that are given out before their turn comes to be looked at, so that no worker waits."""


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_worlds(
    names: Iterable[str], workers: int, *, is_over: Callable[[], bool] = lambda: False
) -> Iterator[tuple[str, Outcome]]:
    """Yield (name, outcome) in the order of the names; once `is_over`, no further world begins.

    A worker that dies (of a signal, or for want of memory) raises BrokenProcessPool here.
    """
    given = iter(names)
    if workers == 1:
        for name in given:
            yield name, run_world(name)
            if is_over():
                return
        return
    gc.freeze()  # what is imported is not looked through again, and its pages stay shared
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        ahead: deque[tuple[str, Future[Outcome]]] = deque()
        try:
            while True:
                while len(ahead) < AHEAD * workers and not is_over() and (following := next(given, None)) is not None:
                    ahead.append((following, pool.submit(run_world, following)))
                if not ahead:
                    return
                name, future = ahead.popleft()
                yield name, future.result()
        finally:
            pool.shutdown(cancel_futures=True)
