"""Memory that a busy time has left behind, given back to the system once a task has little to do.

A snapshot's columns and requests are many megabytes at a time. Arrow's pool and the C library keep what was freed for the
next of them, and a task that then waits for changes would hold it for weeks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pyarrow as pa

__all__ = ["BUSY_ROWS", "QUIET_ROWS", "WINDOW_SECONDS", "SpareMemory", "free_memory"]

WINDOW_SECONDS = 2.0
"""How long a task has to have little to do."""
QUIET_ROWS = 1_000
"""How many rows of a window are little."""
BUSY_ROWS = 20_000
"""How many rows, since memory was last given back, leave anything that is worth the looking."""


def free_memory() -> None:
    """Give the system what nobody uses of Arrow's pool and of the C library's heaps; some milliseconds."""
    pa.default_memory_pool().release_unused()
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's function; None with another C library."""
    with suppress(OSError, AttributeError, TypeError):
        found = ctypes.CDLL(None).malloc_trim
        found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
        return found
    return None


class SpareMemory:
    """Counts a task's rows, and calls `free` once behind each busy time."""

    def __init__(self, now: float, free: Callable[[], None] = free_memory) -> None:
        """`now` is in seconds, of any clock."""
        self._free = free
        self._since = now
        self._rows = 0
        """Of this window."""
        self._rows_before = 0
        """Of the windows since memory was given back."""

    def took(self, rows: int) -> None:
        """Count rows."""
        self._rows += rows

    def look(self, now: float) -> None:
        """End a window that is over; called between a loop's rounds."""
        if now < self._since + WINDOW_SECONDS:
            return
        was_quiet = self._rows < QUIET_ROWS
        self._rows_before += self._rows
        self._since, self._rows = now, 0
        if was_quiet and self._rows_before >= BUSY_ROWS:
            self._rows_before = 0
            self._free()
