"""When partitions' ends were where: from this, how old the oldest record is that a group has not read. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from ottla.base import TopicPartition

__all__ = ["OffsetTimes"]

POINTS_MAX = 400
PARTITIONS_MAX = 5_000


class OffsetTimes:
    """Remembers (end, time) pairs of each partition, the older ones more thinly."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, list[int]] = {}
        self._times: dict[TopicPartition, list[int]] = {}

    def add(self, at_ms: int, ends: Mapping[TopicPartition, int]) -> None:
        """Take in where partitions end now; partitions that are gone are forgotten, and more than 5,000 not begun."""
        for partition in self._ends.keys() - ends.keys():
            del self._ends[partition], self._times[partition]
        for partition, end in ends.items():
            known = self._ends.get(partition)
            if known is None:
                if len(self._ends) < PARTITIONS_MAX:
                    self._ends[partition], self._times[partition] = [end], [at_ms]
                continue
            times = self._times[partition]
            if end < known[-1]:  # made anew under its name, or truncated
                known[:], times[:] = [end], [at_ms]
            elif end == known[-1]:
                times[-1] = at_ms  # until then nothing came
            else:
                known.append(end)
                times.append(at_ms)
                if len(known) > POINTS_MAX:
                    del known[1 : POINTS_MAX // 2 : 2], times[1 : POINTS_MAX // 2 : 2]

    def age_ms(self, partition: TopicPartition, committed: int, now_ms: int) -> int | None:
        """Return how long the record at a committed offset has been there at most; 0 at the end, None where not known."""
        ends, times = self._ends.get(partition), self._times.get(partition)
        if not ends or not times:
            return None
        if committed >= ends[-1]:
            return 0
        at = bisect_right(ends, committed) - 1
        return None if at < 0 else max(0, now_ms - times[at])
