"""The processing log: a query's lost rows and values as lines of the log of the process that it runs in."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

__all__ = ["ProcessingLog"]

log = logging.getLogger(__name__)
LINES_MAX = 10
"""Lines of one query within a period, in one process."""
PERIOD_S = 60.0
CHARACTERS_MAX = 500
"""Of a line: a record's own text may be part of it."""


@dataclass(unsafe_hash=True)
class ProcessingLog:
    """Takes lines of a query, and writes so many that a topic of nothing but faults fills no disk.

    What is left out is counted, and told with the first line of the next period. A value: a copy where the query's hosts
    are counts for itself.
    """

    query_id: str
    _ends_s: float = field(default=float("-inf"), init=False, compare=False, repr=False)
    _lines: int = field(default=0, init=False, compare=False, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[ProcessingLog], tuple[str]]:
        return type(self), (self.query_id,)

    def __call__(self, line: str) -> None:
        """Write a line, or count it."""
        with self._turn:
            now_s = time.monotonic()
            left_out = 0
            if now_s >= self._ends_s:
                left_out = max(0, self._lines - LINES_MAX)
                self._ends_s, self._lines = now_s + PERIOD_S, 0
            self._lines += 1
            if self._lines > LINES_MAX:
                return
        if left_out:
            log.error("processing.%s: %d lines were left out before this one", self.query_id, left_out)
        shown = " ".join(line.split())
        log.error("processing.%s: %s", self.query_id, shown[:CHARACTERS_MAX])
