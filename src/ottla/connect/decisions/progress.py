"""Whether a task moves: what it tells of itself about once a second, and when that is worth a warning.

A task without anything to tell is healthy however long it says nothing. It stands still where there is something to tell
and nothing moves, where its source or its target cannot be asked, or where it has not come back from one call of its plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["STALL_MS_DEFAULT", "STALL_SETTING", "Progress", "progress_metrics", "shown_progress", "stalled"]

STALL_SETTING, STALL_MS_DEFAULT = "ottla.task.stall.ms", 300_000


@dataclass(frozen=True, slots=True)
class Progress:
    """What a task has told last. Times of day are milliseconds since 1970, by the clock of the task's machine."""

    records: int = 0
    """Records given to Kafka by a source, or taken by a sink, since this run of the task began."""
    moved_at_ms: int | None = None
    """When the last of them was; None before the first."""
    waiting: int = 0
    """Records that the task knows of and that have not gone on: a source's in its hands, a sink's in its topics."""
    oldest_waiting_ms: int | None = None
    """The time of the oldest of them, where it is known: a sink's by its record, a source's by when it was read."""
    still_ms: int = 0
    """For how long something has waited and nothing has moved."""
    trouble: str | None = None
    """What has failed again and again since the last success; None where all is well."""
    trouble_ms: int = 0
    """For how long."""
    position: Sequence[Mapping[str, Any]] = ()
    """Partitions and offsets: where a source has handed over its records up to, what a sink has committed."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """What a source task says of its source in that one's words."""
    warnings: Sequence[str] = ()
    """What is left out while all else goes on, until somebody does something."""

    def to_message(self) -> dict[str, Any]:
        """Return what JSON can hold of it: all."""
        return asdict(self)

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> Progress:
        """Return what `to_message` was given; raises TypeError for anything else."""
        return cls(**message)


def stalled(told: Progress, *, silent_ms: int, limit_ms: int) -> str | None:
    """Return in one sentence why a RUNNING task stands still, None where it does not.

    `silent_ms` is how long ago it told that; `limit_ms` is how long may pass before it is said, 0 for never.
    """
    if not limit_ms:
        return None
    if silent_ms > limit_ms:
        return f"it has been in one call for {_seconds(silent_ms)}"
    if told.trouble is not None and told.trouble_ms + silent_ms > limit_ms:
        return f"it has tried in vain for {_seconds(told.trouble_ms + silent_ms)}: {told.trouble}"
    if told.waiting and told.still_ms + silent_ms > limit_ms:
        return f"{told.waiting} records wait, and none has moved for {_seconds(told.still_ms + silent_ms)}"
    return None


def shown_progress(
    told: Progress, *, silent_ms: int, limit_ms: int, runs: bool, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a task's progress as the status shows it; only one that `runs` can stand still. `more` are further warnings."""
    return {
        **told.to_message(),
        "warnings": [*told.warnings, *more],
        "told_ms_ago": silent_ms,
        "stalled": stalled(told, silent_ms=silent_ms, limit_ms=limit_ms) if runs else None,
    }


def progress_metrics(shown: Mapping[str, Any] | None, now_ms: int) -> dict[str, float]:
    """Return the metrics of what `shown_progress` returned, at this time of day; none where there is nothing."""
    if shown is None:
        return {}
    oldest_ms, moved_ms = shown["oldest_waiting_ms"], shown["moved_at_ms"]
    found = {
        "waiting-records": float(shown["waiting"]),
        "oldest-waiting-age-ms": 0.0 if oldest_ms is None else float(max(now_ms - oldest_ms, 0)),
        "still-ms": float(shown["still_ms"]),
        "trouble-ms": float(shown["trouble_ms"]),
        "told-ms-ago": float(shown["told_ms_ago"]),
        "stalled": float(shown["stalled"] is not None),
        "warnings": float(len(shown["warnings"])),
    }
    return found if moved_ms is None else {**found, "last-moved-age-ms": float(max(now_ms - moved_ms, 0))}


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000} s"
