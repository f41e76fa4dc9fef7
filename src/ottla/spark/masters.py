"""What Spark's local masters say: how many tasks run at once (org.apache.spark.SparkMasterRegex)."""

from __future__ import annotations

import os
import re

__all__ = ["local_slots"]

_LOCAL = re.compile(r"local(?:\[([0-9]{1,9}|\*)(?:\s*,\s*[0-9]+)?\])?")
_CLUSTER = re.compile(r"local-cluster\[\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*,\s*[0-9]+\s*\]")


def local_slots(master: str) -> int | None:
    """Return how many tasks a local master runs at once; None for any other master, and for what Spark refuses.

    `local` is one slot, `local[*]` one for each core that this process may use, and `local-cluster[W,C,M]` has W workers of
    C cores. A second number in `local[N,F]` is how often a task may fail.
    """
    if (found := _LOCAL.fullmatch(master)) is not None:
        count = found[1] or "1"
        return _cores() if count == "*" else int(count) or None
    if (found := _CLUSTER.fullmatch(master)) is not None:
        return int(found[1]) * int(found[2]) or None
    return None


def _cores() -> int:
    """Return what Java's `availableProcessors` counts: the cores that the process is kept to, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
