"""How many lines of one kind a second may have in the log: strangers write them, by connecting and misbehaving."""

from __future__ import annotations

import logging

__all__ = ["LineRate"]

LINES_PER_SECOND_MAX = 200


class LineRate(logging.Filter):
    """Lets so many records of a second through; the first one after those says how many were left out."""

    def __init__(self, lines_per_second: int = LINES_PER_SECOND_MAX) -> None:
        super().__init__()
        self._most = lines_per_second
        self._second = 0
        self._written = 0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        second = int(record.created)
        if second != self._second:
            self._second, self._written = second, 0
        if self._written >= self._most:
            self._left_out += 1
            return False
        self._written += 1
        if self._left_out:
            record.msg = f"{record.getMessage()} ({self._left_out} more like it were not written)"
            record.args = ()
            self._left_out = 0
        return True
