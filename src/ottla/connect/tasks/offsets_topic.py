"""The topic that an exactly-once source keeps its offsets in: read to its end once, written in the task's transactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from ottla.base import Offset
from ottla.client import EARLIEST, LATEST, Fetched, FetchPosition, Isolation, NewTopic
from ottla.connect import ConnectError, storage
from ottla.connect.tasks.creation import create_topic, topic_exists
from ottla.connect.tasks.producer import RowChunk
from ottla.connect.tasks.settings import integer
from ottla.connect.tasks.submitted import Committable
from ottla.connect.tasks.task_client import TaskClient
from ottla.wire import ColumnDecoder

__all__ = ["OffsetsTopic"]

log = logging.getLogger(__name__)
READ_SECONDS_MAX = 120.0
FETCH_BYTES = 4 << 20


class OffsetsTopic:
    """One connector's offsets in a topic of the cluster; `read` once the task's producer has fenced those before it."""

    def __init__(self, task_client: TaskClient, topic: str, connector: str) -> None:
        self._task_client, self._topic, self._connector = task_client, topic, connector
        self._state = storage.OffsetState()

    def ensure(self, worker: Mapping[str, str]) -> None:
        """Make the topic unless it is there, as the worker's `offset.storage.…` have it; raises KafkaError."""
        if topic_exists(self._task_client, self._topic):
            return
        partitions = integer(worker, "offset.storage.partitions", 25, least=-1)
        replication = integer(worker, "offset.storage.replication.factor", 3, least=-1)
        create_topic(self._task_client, NewTopic(self._topic, partitions, replication, {"cleanup.policy": "compact"}))

    def read(self) -> None:
        """Read everything committed; raises KafkaError, and ConnectError where it takes too long.

        Up to the high watermark: a neighbour's transaction that is open now may lie before what this task has committed, so
        its end is waited for, as Kafka does.
        """
        partitions = self._task_client.run(self._task_client.client.metadata([self._topic])).partitions_of(self._topic)
        client, committed = self._task_client.client, Isolation.READ_COMMITTED
        start = self._task_client.run(client.list_offsets(dict.fromkeys(partitions, EARLIEST)))
        end = self._task_client.run(client.list_offsets(dict.fromkeys(partitions, LATEST)))
        at = {each: start[each].offset for each in partitions if start[each].offset < end[each].offset}
        until = self._task_client.now() + READ_SECONDS_MAX
        while at:
            wanted = [FetchPosition(each, offset, FETCH_BYTES) for each, offset in at.items()]
            for fetched in self._task_client.run(client.fetch(wanted, max_wait_ms=100, isolation=committed)):
                following = self._take(fetched)
                at[fetched.partition] = following
                if following >= end[fetched.partition].offset:
                    del at[fetched.partition]
            if self._task_client.now() > until:
                raise ConnectError(
                    f"The offsets topic {self._topic} was not read to its end in {READ_SECONDS_MAX:.0f} s"
                )

    def _take(self, fetched: Fetched) -> Offset:
        decoded = ColumnDecoder().decode(fetched.check().records, start=fetched.offset, aborted=fetched.aborted)
        for columns in decoded.columns:
            for key, value in zip(columns.keys(), columns.values(), strict=True):
                self._apply(key, value)
        return decoded.next_offset

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        self._state, ignored = storage.apply_offset(self._state, key, value)
        if ignored is not None:
            log.warning("%s (in topic %s)", ignored, self._topic)

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the stored offset of a source partition."""
        return self._state.offset(self._connector, partition)

    def chunk(self, offsets: Committable) -> RowChunk:
        """Return rows that store offsets; raises DataError for what an offset cannot hold."""
        made, now_ms = RowChunk(self._topic), time.time_ns() // 1_000_000
        for partition, offset in offsets.values():
            key, value = storage.encode_offset(self._state, self._connector, partition, offset)
            made.add(key, value, None, timestamp=now_ms)
        return made

    def stored(self, chunk: RowChunk) -> None:
        """Called when rows are committed."""
        for key, value in zip(chunk.keys, chunk.values, strict=True):
            self._apply(key, value)
