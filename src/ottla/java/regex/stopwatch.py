"""The time that a row of matches has taken. The one file of this package that reads a clock."""

from __future__ import annotations

import time

__all__ = ["Stopwatch"]


class Stopwatch:
    """Counts this thread's processor time, so that other work of a busy machine is not counted."""

    def __init__(self, seconds_max: float) -> None:
        self._end = time.thread_time() + seconds_max

    @property
    def is_over(self) -> bool:
        """Return whether the time is used up."""
        return time.thread_time() > self._end
