"""The process that runs a Streams application: its signals, and where Spark's own words go."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["StopSignals", "spark_log", "standard_error_to"]


class StopSignals:
    """Is set by the first signal; the second ends the process at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.listen()

    def listen(self) -> None:
        """Take the signals; again once Spark has started, since PySpark takes SIGINT for itself."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

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
