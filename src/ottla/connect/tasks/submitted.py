"""Which source offsets may be stored: those behind records that are all acknowledged, per source partition.

Kafka's SubmittedRecords. A record whose acknowledgement is late holds back the offsets of those behind it, so that after a
restart nothing is missing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect import SourceRecord

__all__ = ["Committable", "Submitted", "SubmittedRecords", "partition_name"]

Map = Mapping[str, Any]
Committable = dict[str, tuple[Map, Map | None]]
"""By the partition's name: partition and offset."""


def partition_name(partition: Map) -> str:
    """Return a name that holds for every order of a partition's fields."""
    return json.dumps(dict(partition), sort_keys=True, default=repr)


class Submitted:
    """A record that was handed to the producer, or many that share an offset."""

    __slots__ = ("left", "offset", "record", "stores")

    def __init__(self, record: Any, offset: Map | None, count: int, stores: bool) -> None:
        self.record, self.offset = record, offset
        self.left = count
        """How many are not acknowledged."""
        self.stores = stores
        """Whether the offset may be stored; of several records that share one only the last may."""


class SubmittedRecords:
    """The records of one task; for its own thread."""

    def __init__(self) -> None:
        self._queues: dict[str, tuple[Map, deque[Submitted]]] = {}
        self._last: Map | None = None
        self._queue: deque[Submitted] = deque()

    def submit(
        self, record: Any, partition: Map, offset: Map | None, *, count: int = 1, stores: bool = True
    ) -> Submitted:
        """Take a record that is about to be sent; count down its `left` as it is acknowledged."""
        if partition is not self._last:
            name = partition_name(partition)
            found = self._queues.get(name)
            if found is None:
                found = self._queues[name] = (partition, deque())
            self._queue, self._last = found[1], partition
        made = Submitted(record, offset, count, stores)
        self._queue.append(made)
        return made

    def submit_all(self, records: Sequence[SourceRecord]) -> list[Submitted]:
        """Take records as `submit` takes one, in one loop: the calls cost more than what they do."""
        tokens = []
        for each in records:
            partition, offset = each.source_partition, each.source_offset
            if partition is not self._last:
                token = self.submit(each, partition, offset, stores=offset is not None and bool(partition or offset))
            else:
                token = Submitted(each, offset, 1, offset is not None and bool(partition or offset))
                self._queue.append(token)
            tokens.append(token)
        return tokens

    def committable(self) -> Committable:
        """Take and return the offsets that may be stored by now."""
        found: Committable = {}
        for name, (partition, queue) in self._queues.items():
            last: Submitted | None = None
            while queue and queue[0].left <= 0:
                first = queue.popleft()
                if first.stores:
                    last = first
            if last is not None:
                found[name] = partition, last.offset
        for name in [name for name, (_, queue) in self._queues.items() if not queue]:
            del self._queues[name]
            self._last = None
        return found
