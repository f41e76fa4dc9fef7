"""Ends tests that hang: pytest-timeout interrupts a test once, and a clean-up that waits for ever afterwards is nobody's.

A process that ended itself would not help: xdist, dealing out files, waits for ever for a worker that has died.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

GRACE_SECONDS = 90
"""How long a test may take to clean up after its time was over. Then it hangs."""
AGAIN_SECONDS = 30
"""How long what is interrupted may take before it is interrupted again: each fixture's end may hang for itself."""
INTERRUPTS_MAX = 10
HUNG_FOLDER = "HUNG_TESTS"
"""The variable that names the folder for files that say which test hung, and in which lines; else it is the temporary one.

`tools/run_tests.sh` makes the folder and `tools/what_failed.py` prints what is in it.
"""


@contextmanager
def ended_after(seconds: float, name: str) -> Iterator[None]:
    """Interrupt the block in the main thread when it takes longer than the seconds and the grace, and write down where.

    What interrupts it is pytest's own failure, so that the test fails and the run goes on.
    """
    over = threading.Event()
    before = signal.signal(signal.SIGUSR2, _fail)
    watch = threading.Thread(target=_interrupt, args=(over, seconds + GRACE_SECONDS, name), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGUSR2, before)


def _interrupt(over: threading.Event, seconds: float, name: str) -> None:
    """Wait for the end of the test; where it does not come, write down where it hangs and interrupt it."""
    path = Path(os.environ.get(HUNG_FOLDER) or tempfile.gettempdir()) / f"ottla-test-hung-{os.getpid()}.txt"
    for _ in range(INTERRUPTS_MAX):
        if over.wait(seconds):
            return
        with path.open("a") as traces:
            print(name, file=traces, flush=True)
            faulthandler.dump_traceback(traces)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
        seconds = AGAIN_SECONDS


def _fail(_number: int, _frame: FrameType | None) -> None:
    pytest.fail(f"hangs: its clean-up was not over {GRACE_SECONDS} s after the time of the test")
