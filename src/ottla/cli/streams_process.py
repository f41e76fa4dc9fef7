"""The process that runs a Streams application: its signals, and where Spark's own words go."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

__all__ = ["Interrupted", "StopSignals", "leave", "phases_on_standard_error", "spark_log", "standard_error_to"]


class Interrupted(KeyboardInterrupt):
    """A signal came while an application started; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def leave(interrupted: KeyboardInterrupt) -> NoReturn:
    """End the process at once, with the signal's exit code: Spark, which another thread starts, ends with it."""
    print("stopped before it had started", flush=True)
    os._exit(128 + (interrupted.number if isinstance(interrupted, Interrupted) else signal.SIGINT))


class StopSignals:
    """Is set by the first signal; the second ends the process at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.listen()

    def listen(self) -> None:
        """Take the signals; again once Spark has started, since PySpark takes SIGINT for itself."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    @contextmanager
    def while_starting(self) -> Iterator[None]:
        """Have a signal raise Interrupted in the block; behind it signals are taken as before.

        What starts there may take seconds, and has nothing yet that would have to be ended in order.
        """

        def interrupt(number: int, _frame: object) -> None:
            raise Interrupted(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, interrupt)
        try:
            yield
        finally:
            self.listen()

    def _stop(self, number: int, _frame: object) -> None:
        if self.asked.is_set():
            os._exit(128 + number)
        self.asked.set()


def spark_log(application_id: str) -> Path:
    """Return the file that Spark's own words go to."""
    home = os.environ.get("XDG_STATE_HOME")
    folder = Path(home if home else Path.home() / ".local" / "state") / "ottla" / "streams"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{application_id}.log"


@contextmanager
def phases_on_standard_error() -> Iterator[None]:
    """Say which phase Spark's start is in, also where standard error goes to a file meanwhile."""
    from ottla.spark import phases_told_by

    kept = os.dup(2)
    try:
        with phases_told_by(lambda words: os.write(kept, f"{words}\n".encode())):
            yield
    finally:
        os.close(kept)


@contextmanager
def standard_error_to(path: Path) -> Iterator[None]:
    """Send what is written to standard error inside the block to a file; a JVM that starts there keeps writing to it."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
