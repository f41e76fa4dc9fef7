"""Records that wait for a task: by partition, and which of them may go now so that time goes forward in all of them.

Kafka Streams takes the partition whose next record has the smallest timestamp, and waits for a partition that has nothing
here while the cluster has more of it (KIP-695). Here many records go at once: all those that no record still to come of a
partition that is behind could precede.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from ottla.base import TopicPartition
from ottla.streams import Record

__all__ = ["Arrivals", "Queue"]

NO_BOUND = 1 << 62


class Queue:
    """One partition's records; `position` is behind the last that was taken, `fetched` behind the last that has come."""

    __slots__ = (
        "end",
        "fetched",
        "partition",
        "position",
        "records",
        "records_total",
        "size_bytes",
        "size_bytes_total",
        "source",
        "times",
    )

    def __init__(self, partition: TopicPartition, source: str, offset: int) -> None:
        self.partition, self.source = partition, source
        self.position = self.fetched = offset
        self.end = 0
        """Where the partition ended when it was last fetched, as far as may be read."""
        self.records: list[Record] = []
        self.times: list[int] = []
        """The time at which each may go: its own, or that of a later one before it."""
        self.size_bytes = self.size_bytes_total = self.records_total = 0

    @property
    def is_behind(self) -> bool:
        """Whether the cluster has more than has come."""
        return self.fetched < self.end

    @property
    def lag(self) -> int:
        """How many offsets lie between what was taken and the partition's end."""
        return max(0, self.end - self.position)

    def add(self, records: Sequence[Record], next_offset: int, size_bytes: int) -> None:
        """Take in what one answer has brought."""
        latest = self.times[-1] if self.times else -NO_BOUND
        for record in records:
            if record[2] > latest:
                latest = record[2]
            self.times.append(latest)
        self.records += records
        self.fetched = max(self.fetched, next_offset)
        self.size_bytes += size_bytes
        self.size_bytes_total += size_bytes
        self.records_total += len(records)
        if not self.records:
            self.position = self.fetched

    def take(self, bound: int) -> list[Record]:
        """Take the records that may go before a time, or at it."""
        count = len(self.records) if bound >= NO_BOUND else bisect_right(self.times, bound)
        found = self.records[:count]
        if count == len(self.records):
            self.records, self.times, self.size_bytes, self.position = [], [], 0, self.fetched
        elif count:
            left = self.records[count:]
            self.size_bytes = self.size_bytes * len(left) // len(self.records)
            self.records, self.times = left, self.times[count:]
            self.position = left[0].offset
        return found


class Arrivals:
    """What waits for one task."""

    def __init__(self, queues: Iterable[Queue], *, waits: bool) -> None:
        """`waits` says whether partitions that are behind are waited for."""
        self.queues = {each.partition: each for each in queues}
        self._waits = waits and len(self.queues) > 1

    def bound(self) -> int:
        """Return the time up to which records may go."""
        if not self._waits:
            return NO_BOUND
        behind = [each for each in self.queues.values() if each.is_behind]
        return min((each.times[-1] if each.times else -NO_BOUND for each in behind), default=NO_BOUND)

    def take(self) -> dict[str, list[Record]]:
        """Take what may go, by source; each partition's in its order."""
        bound = self.bound()
        found: dict[str, list[Record]] = {}
        for queue in self.queues.values():
            if queue.records and (records := queue.take(bound)):
                found.setdefault(queue.source, []).extend(records)
        return found

    @property
    def waiting(self) -> bool:
        """Whether anything could go now."""
        bound = self.bound()
        return any(each.records and each.times[0] <= bound for each in self.queues.values())
