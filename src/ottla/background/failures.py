"""How often something of this process has failed by a mistake of ours, by what it served."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["count_failure", "ended_badly", "failure_counts", "note_failure", "why_ended"]

log = logging.getLogger(__name__)
NAMES_MAX = 1000
"""As many things that were served are counted each for itself; more are `OTHERS`."""
OTHERS = "others"
_counts: Counter[str] = Counter()


def failure_counts() -> Mapping[str, int]:
    """Return how often what served something has failed in this process, by what was served."""
    return dict(_counts)


def count_failure(serves: str) -> None:
    """Count a failure that is logged already."""
    _counts[serves if serves in _counts or len(_counts) < NAMES_MAX else OTHERS] += 1


def note_failure(serves: str, name: str, error: BaseException, *, consequence: str) -> None:
    """Count a failure, and log it with its stack; `consequence` says what becomes of what it served."""
    count_failure(serves)
    log.critical("%s, which serves %s, has failed: %s", name, serves, consequence, exc_info=error)


def ended_badly(task: asyncio.Future[Any] | None) -> bool:
    """Whether a task has ended though it was not cancelled: it was to run until then, and what it served stands still."""
    return task is not None and task.done() and not _was_told_to_end(task)


def why_ended(task: asyncio.Future[Any]) -> BaseException | None:
    """Return with what a task has failed; None where it has returned, or was told to end.

    A task also ends as if it were cancelled where what it awaits is, by whomever: nobody has told it to end.
    """
    if not task.cancelled():
        return task.exception()
    if _was_told_to_end(task):
        return None
    error = RuntimeError("what it waited for was cancelled, and it was not")
    try:
        task.result()
    except asyncio.CancelledError as cancelled:
        error.__cause__ = cancelled
    return error


def _was_told_to_end(task: asyncio.Future[Any]) -> bool:
    return task.cancelled() and not (isinstance(task, asyncio.Task) and not task.cancelling())
