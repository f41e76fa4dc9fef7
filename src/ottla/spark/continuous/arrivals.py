"""Records that wait for a task: by partition, and which of them may go now so that time goes forward in all of them.

Kafka Streams takes the partition whose next record has the smallest timestamp, and waits for a partition that has nothing
here while the cluster has more of it, or has not said yet whether it has (KIP-695). Here many records go at once: all those
that no record still to come of a partition that is behind could precede.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ottla.base import TopicPartition
from ottla.wire import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Arrivals", "Queue"]

NO_BOUND = 1 << 62
UNKNOWN = -1
"""The end of a partition whose leader has not answered yet."""
TAKEN_MAX = 20_000
"""After so many records of a partition the others have their turn; a piece of an answer is taken whole."""


class Queue:
    """One partition's records; `position` is behind the last that was taken, `fetched` behind the last that has come."""

    __slots__ = (
        "end",
        "fetched",
        "is_timed",
        "partition",
        "pieces",
        "position",
        "records_total",
        "size_bytes",
        "size_bytes_total",
        "source",
        "times",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition, source: str, offset: int, topic_id: str = "") -> None:
        """`topic_id`, in hexadecimal, says which of the topics of this name the offset is of; empty where nobody knows."""
        self.partition, self.source, self.topic_id = partition, source, topic_id
        self.position = self.fetched = offset
        self.end = UNKNOWN
        """Where the partition ended when it was last fetched, as far as may be read."""
        self.is_timed = False
        """Whether somebody asks at what times records may go."""
        self.pieces: list[Columns] = []
        """None of them is empty."""
        self.times: list[NDArray[np.int64]] = []
        """Of each piece where that is asked, the time at which a record may go: its own, or a later one's before it."""
        self.size_bytes = self.size_bytes_total = self.records_total = 0

    @property
    def is_behind(self) -> bool:
        """Whether the cluster has more than has come."""
        return self.fetched < self.end

    @property
    def is_known(self) -> bool:
        """Whether its leader has said where it ends."""
        return self.end != UNKNOWN

    @property
    def lag(self) -> int:
        """How many offsets lie between what was taken and the partition's end."""
        return max(0, self.end - self.position)

    @property
    def waiting(self) -> int:
        """How many records are here."""
        return sum(map(len, self.pieces))

    @property
    def latest(self) -> int:
        """The time at which the last that has come may go; before all times where nothing waits."""
        return int(self.times[-1][-1]) if self.times else -NO_BOUND

    def add(self, pieces: Sequence[Columns], next_offset: int, size_bytes: int) -> None:
        """Take in what one answer has brought."""
        for piece in pieces:
            if not len(piece):
                continue
            if self.is_timed:
                self.times.append(np.maximum.accumulate(np.maximum(piece.timestamps_ms, self.latest)))
            self.pieces.append(piece)
        self.fetched = max(self.fetched, next_offset)
        self.size_bytes += size_bytes
        self.size_bytes_total += size_bytes
        self.records_total += sum(map(len, pieces))
        if not self.pieces:
            self.position = self.fetched

    def may_go(self, bound: int) -> bool:
        """Whether a record may go before a time, or at it."""
        return bool(self.pieces) and (bound >= NO_BOUND or int(self.times[0][0]) <= bound)

    def take(self, bound: int) -> list[Columns]:
        """Take the records that may go before a time, or at it; of many the first."""
        found: list[Columns] = []
        if not self.is_timed:
            return self._first()
        if bound >= NO_BOUND or self.latest <= bound:
            found, self.pieces, self.times = self.pieces, [], []
            self.size_bytes, self.position = 0, self.fetched
            return found
        before = self.waiting
        while (count := int(self.times[0].searchsorted(bound, "right"))) == len(self.pieces[0]):
            found.append(self.pieces.pop(0))
            self.times.pop(0)
        if count:
            piece = self.pieces[0]
            found.append(piece.rows(0, count))
            self.pieces[0], self.times[0] = piece.rows(count, len(piece)), self.times[0][count:]
        self._left(before)
        return found

    def _first(self) -> list[Columns]:
        count, at, before = 0, 0, self.waiting
        while at < len(self.pieces) and count < TAKEN_MAX:
            count += len(self.pieces[at])
            at += 1
        found, self.pieces = self.pieces[:at], self.pieces[at:]
        self._left(before)
        return found

    def _left(self, before: int) -> None:
        """Note where what is left begins, of so many records that were there."""
        self.size_bytes = self.size_bytes * self.waiting // max(1, before)
        self.position = int(self.pieces[0].offsets[0]) if self.pieces else self.fetched


class Arrivals:
    """What waits for one task."""

    def __init__(self, queues: Iterable[Queue], *, waits: bool) -> None:
        """`waits` says whether partitions that are behind, or whose ends are not known, are waited for."""
        self.queues = {each.partition: each for each in queues}
        self._waits = waits and len(self.queues) > 1
        for each in self.queues.values():
            each.is_timed = self._waits

    def bound(self) -> int:
        """Return the time up to which records may go."""
        if not self._waits:
            return NO_BOUND
        open_ended = (each.latest for each in self.queues.values() if each.is_behind or not each.is_known)
        return min(open_ended, default=NO_BOUND)

    def take(self) -> dict[str, list[tuple[TopicPartition, Columns]]]:
        """Take what may go, by source; each partition's in its order."""
        bound = self.bound()
        found: dict[str, list[tuple[TopicPartition, Columns]]] = {}
        for place, queue in self.queues.items():
            if queue.may_go(bound):
                found.setdefault(queue.source, []).extend((place, piece) for piece in queue.take(bound))
        return found

    @property
    def waiting(self) -> bool:
        """Whether anything could go now."""
        bound = self.bound()
        return any(each.may_go(bound) for each in self.queues.values())

    @property
    def is_behind(self) -> bool:
        """Whether the cluster has more of anything than has come."""
        return any(each.is_behind for each in self.queues.values())
