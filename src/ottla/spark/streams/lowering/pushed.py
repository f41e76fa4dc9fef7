"""Steps that run where records are fetched: a source's tasks hand on what the steps have made, not the records.

Between a source in Python and a step in Python every record would go into the JVM and out again.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ottla.spark.private_api.workers import pickled
from ottla.spark.source.positions import Stretch

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["NAMES", "Steps", "packed_steps", "shared_out", "unpacked_steps"]

TASK_ROWS_MIN = 10_000
"""Offsets of a batch for which a task more is worth its own cost, some ten milliseconds."""
NAMES = ["_key", "_value", "topic", "partition", "offset", "timestamp", "headers"]
Steps = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""From records (columns `NAMES`, the timestamp in milliseconds) to whatever they make."""


def packed_steps(steps: Steps, name: str) -> str:
    """Return steps as text, for a source's option; raises TypeError for what cannot be sent to Spark's workers."""
    try:
        data = pickled(steps)
    except Exception as error:  # pickle raises whatever an object's own methods raise
        raise TypeError(f"{name}: a function or serde cannot be sent to Spark's workers: {error}") from error
    return base64.b64encode(data).decode()


@lru_cache(32)
def unpacked_steps(text: str) -> Steps:
    """Return the steps of a text, made once per worker."""
    found: Steps = pickle.loads(base64.b64decode(text))
    return found


def shared_out(stretches: Sequence[Stretch]) -> list[list[Stretch]]:
    """Return the stretches of each task: as many tasks as have enough to do, about equal, by offsets alone."""
    total = sum(each.end - each.start for each in stretches)
    count = min(len(stretches), -(-total // TASK_ROWS_MIN))
    tasks: list[list[Stretch]] = [[] for _ in range(count)]
    loads = [0] * count
    for each in sorted(stretches, key=lambda each: (each.start - each.end, each.partition)):
        least = loads.index(min(loads))
        tasks[least].append(each)
        loads[least] += each.end - each.start
    return tasks
