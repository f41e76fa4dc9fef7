"""Putting in place what a cleaning wrote, a segment at a time, in three steps: two with files around one in memory."""

from __future__ import annotations

from contextlib import suppress

from ottla.base import StorageError
from ottla.log.cleanable import is_as_planned
from ottla.log.cleaning_plan import CleaningPlan, CleaningResult
from ottla.log.disk import Disk
from ottla.log.log import Log
from ottla.log.names import CLEANED
from ottla.log.swap import Swap, cleaned_files

__all__ = ["Installation", "install"]


class Installation:
    """What is left to put in place. The order is that of offsets: a tombstone must not go before what it deletes.

    `begin`, then for each group `promise`, `exchange` and `complete`, then `end`; `give_up` where one of them returns False
    or raises. `promise`, `complete` and `give_up` wait for the disk and may run on any thread, one at a time; `begin`,
    `exchange` and `end` belong to the log's. Between the steps the log may be appended to, read, rolled, truncated and
    shortened. No flush may run from a `promise` until its `complete` has returned.
    """

    def __init__(self, disk: Disk, log: Log, plan: CleaningPlan, result: CleaningResult) -> None:
        self._disk = disk
        self._log = log
        self._plan = plan
        self._result = result
        self._left = list(result.groups)
        self._generation = -1
        self._promised: Swap | None = None

    def begin(self) -> bool:
        """Return whether the log still is what was planned for."""
        self._generation = self._log.exchanges.generation
        return is_as_planned(self._log, self._plan)

    @property
    def is_done(self) -> bool:
        """True where every group is in place."""
        return not self._left

    def promise(self, now_ms: int) -> bool:
        """Have the next group be put in place by a start; False where the log has changed. Raises StorageError."""
        exchanges, delay_ms = self._log.exchanges, self._log.config.file_delete_delay_ms
        self._promised = exchanges.promise(self._left[0], self._generation, now_ms, delay_ms)
        return self._promised is not None

    def exchange(self) -> bool:
        """Have the log read what was promised; False where it has changed meanwhile."""
        promised = self._promised
        if promised is None or not self._log.exchanges.exchange(promised):
            return False
        self._promised = None
        del self._left[0]
        return True

    def complete(self, now_ms: int) -> None:
        """Let the files have their names now, or when housekeeping comes, which says what is wrong."""
        with suppress(StorageError):
            self._log.exchanges.complete(now_ms, self._log.config.file_delete_delay_ms)

    def end(self) -> None:
        """Note how far the log is clean, unless it was truncated since."""
        if self._log.truncations == self._plan.truncations:
            self._log.cleaned_to = max(self._log.cleaned_to, self._result.cleaned_to)

    def give_up(self) -> None:
        """Remove what is not in place; raises StorageError, after which the next cleaning or a start removes it."""
        if self._promised is not None:
            self._log.exchanges.revoke()
            self._promised = None
        for group in self._left:
            for path in cleaned_files(self._plan.folder, group):
                self._disk.unlink(path + CLEANED)


def install(disk: Disk, log: Log, plan: CleaningPlan, result: CleaningResult, *, now_ms: int) -> bool:
    """Put what a cleaning wrote in place; False, and its files are gone, where the log has changed since.

    Each segment whole or not at all; where one cannot be put in place, those before it are, and the others are given up. Not
    during a flush. Raises StorageError.
    """
    work = Installation(disk, log, plan, result)
    if not work.begin():
        work.give_up()
        return False
    try:
        while not work.is_done:
            if not (work.promise(now_ms) and work.exchange()):
                work.give_up()
                return False
            work.complete(now_ms)
    except StorageError:
        with suppress(StorageError):  # the next cleaning writes over them, or a start removes them
            work.give_up()
        raise
    work.end()
    return True
