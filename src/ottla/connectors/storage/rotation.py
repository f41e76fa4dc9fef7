"""When the files of a topic partition are ended: after so many records, after so much time, or by the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo

from ottla.connectors.storage.path_format import truncated_ms

__all__ = ["Rotation", "RotationRules"]


@dataclass(frozen=True, slots=True)
class RotationRules:
    """The settings; an interval of -1 is none."""

    flush_size: int
    interval_ms: int = -1
    """Of the records' own time, as `timestamp.extractor` says it. A record of another directory ends the files too."""

    schedule_ms: int = -1
    """Of the clock, counted from midnight in `zone`."""

    zone: tzinfo = UTC
    wallclock: bool = True
    """The records' time is the clock's, so that an interval is over even if no record comes."""


class Rotation:
    """The state of one topic partition; all of its open files end together."""

    def __init__(self, rules: RotationRules, now_ms: Callable[[], int]) -> None:
        self.rules, self._now_ms = rules, now_ms
        self.reset()

    def reset(self) -> None:
        """Begin anew: the files are ended."""
        self.count = 0
        self._base_ms: int | None = None
        self._path: str | None = None
        self._deadline_ms: int | None = None

    @property
    def room(self) -> int:
        """How many records may still come."""
        return self.rules.flush_size - self.count

    def ends_before(self, timestamp_ms: int | None, path: str) -> bool:
        """Return whether the files end before a record of this time and directory."""
        if not self.count:
            return False
        if self.is_due():
            return True
        if self.rules.interval_ms <= 0 or timestamp_ms is None or self._base_ms is None:
            return False
        return path != self._path or timestamp_ms - self._base_ms >= self.rules.interval_ms

    def add(self, timestamp_ms: int | None, path: str, records: int = 1) -> None:
        """Count records that were written; the first sets the time from which intervals run."""
        if not self.count:
            self._base_ms, self._path = timestamp_ms, path
            if self.rules.schedule_ms > 0:
                begin = truncated_ms(self._now_ms(), self.rules.schedule_ms, self.rules.zone)
                self._deadline_ms = begin + self.rules.schedule_ms
        self.count += records

    def is_full(self) -> bool:
        """Return whether `flush.size` is reached."""
        return self.count >= self.rules.flush_size

    def is_due(self) -> bool:
        """Return whether the clock ends the files now."""
        if not self.count:
            return False
        if self._deadline_ms is not None and self._now_ms() >= self._deadline_ms:
            return True
        rules = self.rules
        if rules.interval_ms <= 0 or not rules.wallclock or self._base_ms is None:
            return False
        return self._now_ms() - self._base_ms >= rules.interval_ms
