"""What the worker process runs for the log cleaner: a cleaning, held to `log.cleaner.io.max.bytes.per.second`."""

from __future__ import annotations

import time

from ottla.log import CleaningAborted, CleaningPlan, CleaningResult, Disk, clean

__all__ = ["clean_throttled"]

WAIT_S_MAX = 0.2
"""How long the worker sleeps before it looks whether the cleaning is still wanted."""


def clean_throttled(disk: Disk, plan: CleaningPlan, bytes_per_second: float) -> CleaningResult:
    """Clean, reading and writing so many bytes a second at most; raises what `clean` does."""
    began = time.monotonic()
    passed = 0

    def spent(size: int) -> None:
        nonlocal passed
        passed += size
        due = began + passed / bytes_per_second
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_S_MAX))
            if not disk.exists(plan.lease):
                raise CleaningAborted(plan.folder)

    return clean(disk, plan, spent)
