"""What begins slowly says what it does: Spark's start takes seconds, and most of a minute on a busy machine.

Whoever shows something to a person hears it by `phases_told_by`. Else it goes to the log of a process that has one (INFO),
and to standard error in one that has none: a notebook, a script. Never to standard output, where results are.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.background import supervise_thread

__all__ = ["phase", "phases_told_by"]

log = logging.getLogger(__name__)

QUIET_SECONDS = 2.0
"""A phase that ends sooner says nothing."""
AGAIN_SECONDS = 5.0
"""How often one that goes on says so."""
Say = Callable[[str], object]


def _say_by_default(words: str) -> None:
    if logging.getLogger().hasHandlers():
        log.info("%s", words)
    elif sys.stderr is not None:  # where it is closed, `print` would take standard output in its place
        print(f"ottla: {words}", file=sys.stderr, flush=True)


_say: Say = _say_by_default


@contextmanager
def phases_told_by(say: Say) -> Iterator[None]:
    """Have phases of this process told by `say` inside of the block; it is called from other threads."""
    global _say
    before, _say = _say, say
    try:
        yield
    finally:
        _say = before


@contextmanager
def phase(what: str, *, quiet_s: float = QUIET_SECONDS, again_s: float = AGAIN_SECONDS) -> Iterator[None]:
    """Say what the block does, and for how long it has done so, where it takes longer than `quiet_s` seconds."""
    ended, began_s = threading.Event(), time.monotonic()

    def tell() -> None:
        wait_s = quiet_s
        while not ended.wait(wait_s):
            _say(f"{what} … {time.monotonic() - began_s:.0f} s")
            wait_s = again_s

    thread = supervise_thread(tell, name="ottla-phase", serves="who waits for Spark's start")
    try:
        yield
    finally:
        ended.set()
        thread.join()
