"""What a task's loop notes of its progress, to be told about once a second; see `ottla.connect.decisions.Progress`."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.base import TopicPartition
from ottla.connect import SourceState
from ottla.connect.decisions import Progress

__all__ = ["HeldSince", "TaskProgress", "checked_state", "sink_positions", "waiting_records"]

TROUBLE_CHARACTERS_MAX = 1_000
WARNINGS_MAX = 100
POSITIONS_MAX = 50
"""Partitions of which a position is told."""
DEPTH_MAX = 8
"""How deep what a source says of itself is told as it is; what lies deeper is told as a text."""


def checked_state(state: SourceState) -> SourceState:
    """Return what a plugin says of its source so that it can be told; raises TypeError for numbers that are none."""
    for name, value in (("waiting", state.waiting), ("oldest_ms", state.oldest_ms or 0)):
        if not isinstance(value, int):
            raise TypeError(f"{name} of a SourceState is a whole number, not {value!r}")
    warnings = [state.warnings] if isinstance(state.warnings, str) else [str(each) for each in state.warnings]
    return replace(state, facts=dict(state.facts), warnings=warnings)


def _plain(value: Any, depth: int = DEPTH_MAX) -> Any:
    """Return what JSON can hold of a plugin's value: what it cannot is told as a text."""
    if depth and isinstance(value, Mapping):
        return {str(key): _plain(each, depth - 1) for key, each in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_plain(each, depth - 1) for each in value]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)[:TROUBLE_CHARACTERS_MAX]


def sink_positions(committed: Mapping[TopicPartition, int]) -> Sequence[Mapping[str, Any]]:
    """Return committed offsets as the REST interface shows a sink's (KIP-875)."""
    return [
        {
            "partition": {"kafka_topic": each.topic, "kafka_partition": each.partition},
            "offset": {"kafka_offset": int(committed[each])},
        }
        for each in sorted(committed)[:POSITIONS_MAX]
    ]


def waiting_records(current: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return how many offsets lie between what a sink has taken and the ends of its partitions that are known."""
    return sum(max(int(ends[each]) - int(offset), 0) for each, offset in current.items() if each in ends)


class HeldSince:
    """When what a source holds was read: each poll's records, until as many rows are settled as were given with them."""

    def __init__(self) -> None:
        self._polled_ms: int | None = None
        self._sent: deque[tuple[int, int]] = deque()

    def polled(self, now_ms: int) -> None:
        """Note records that are to be sent."""
        self._polled_ms = now_ms

    def sent(self, submitted: int, settled: int) -> None:
        """Note that they were given to the producer: so many rows in all, of which so many are settled."""
        if self._polled_ms is not None:
            self.oldest_ms(settled)
            self._sent.append((submitted, self._polled_ms))
            self._polled_ms = None

    def oldest_ms(self, settled: int) -> int | None:
        """Return when the oldest was read that is not settled; None where there is none."""
        while self._sent and self._sent[0][0] <= settled:
            self._sent.popleft()
        return self._sent[0][1] if self._sent else self._polled_ms


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TaskProgress:
    """Of one run of a task; `now` are seconds that only go on, `now_ms` the time of day. For the task's thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic, now_ms: Callable[[], int] = _now_ms) -> None:
        self._now, self._now_ms = now, now_ms
        self._records = 0
        self._moved_at_ms: int | None = None
        self._mark: object = None
        self._still_since = now()
        self._troubles: dict[str, tuple[str, float]] = {}
        self._positions: dict[str, Mapping[str, Any]] = {}

    def moved(self, count: int) -> None:
        """Count records that have gone on."""
        self._records += count
        self._moved_at_ms = self._now_ms()

    def resumed(self) -> None:
        """Begin to count anew for how long nothing moves: while the task was paused, nothing was to."""
        self._mark, self._still_since = None, self._now()
        self._troubles.clear()

    def troubled(self, at: str, error: object) -> None:
        """Note that something has failed and is tried again; `at` names what is tried."""
        _, since = self._troubles.get(at, ("", self._now()))
        self._troubles[at] = (f"{at}: {error}"[:TROUBLE_CHARACTERS_MAX], since)

    def well(self, at: str) -> None:
        """Note that it has succeeded."""
        self._troubles.pop(at, None)

    def is_so(self, at: str, trouble: str | None) -> None:
        """Note what fails there now, or that nothing does."""
        if trouble is None:
            self.well(at)
        else:
            self.troubled(at, trouble)

    def at(self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> None:
        """Note where a source's records have been handed over up to; of many partitions the last ones are kept."""
        if offset is None:
            return
        key = repr(sorted((partition or {}).items(), key=repr))
        self._positions.pop(key, None)
        self._positions[key] = {"partition": dict(partition or {}), "offset": dict(offset)}
        if len(self._positions) > POSITIONS_MAX:
            del self._positions[next(iter(self._positions))]

    def told(
        self,
        waiting: int,
        *,
        mark: object = None,
        oldest_ms: int | None = None,
        position: Sequence[Mapping[str, Any]] | None = None,
        source: Mapping[str, Any] | None = None,
        warnings: Sequence[str] = (),
    ) -> Progress:
        """Return what is to be told now. Whatever moves beside the records changes `mark`.

        Without `position` it is what `at` was told.
        """
        now, moved = self._now(), (self._records, mark)
        if not waiting or moved != self._mark:
            self._mark, self._still_since = moved, now
        trouble, since = min(self._troubles.values(), key=lambda each: each[1], default=(None, now))
        return Progress(
            records=self._records,
            moved_at_ms=self._moved_at_ms,
            waiting=waiting,
            oldest_waiting_ms=oldest_ms if waiting else None,
            still_ms=int((now - self._still_since) * 1000),
            trouble=trouble,
            trouble_ms=int((now - since) * 1000),
            position=_plain([*self._positions.values()]) if position is None else position,
            source=_plain(source or {}),
            warnings=[each[:TROUBLE_CHARACTERS_MAX] for each in warnings[:WARNINGS_MAX]],
        )
