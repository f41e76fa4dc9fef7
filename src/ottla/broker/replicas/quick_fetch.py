"""Quick Fetch: requests of one connection that are as one before them but for the offset, answered as soon as they are read.

Most consumers outside of a fetch session send the same bytes each time, around a correlation id and an offset. Such a
request needs no message objects, no context and no plan: `take` finds what it may have of its partition, reads it behind the
answer's beginning into memory that all connections share, and sends that.

This is a short cut and no other way: what is not as usual is left to the handler, which meets it again: an error, too little
to read, a diverging epoch, aborted transactions, a quota, a leader that is not sure to be one, records that are not in
memory, answers that nobody reads. So nothing has to be forgotten when a topic goes, a leader changes, a login ends or a
right is taken away: what a request could depend on is looked at in each. What the handler counts is counted here.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import Final

from ottla.base import KafkaError, StorageError
from ottla.broker.meters import Counter, RequestTimes
from ottla.broker.parts import FetchParts
from ottla.broker.replicas.fetching import FOLLOWERS_FROM, RACK_AWARE, READ_COMMITTED
from ottla.broker.replicas.lane_room import LANES_MAX, REMEMBERED_BYTES_MAX, LaneRoom
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.requests.answer_memory import AROUND_BYTES_MAX, COPIED_BYTES_MAX
from ottla.broker.requests.connection import Connection
from ottla.broker.requests.file_part import FilePart
from ottla.log import LogSlice
from ottla.security import Operation, Resource
from ottla.wire import Fetch, FetchAnswers, FetchShape, SingleFetch, fetch_offset_at

__all__ = ["QuickFetch"]

log = logging.getLogger(__name__)

API_KEY: Final = 1
TOPIC_IDS_FROM: Final = 13
FINAL_EPOCH: Final = -1
"""The epoch of a request that is in no session."""
SENDFILE_ABOVE_BYTES: Final = 32 * 1024
"""A larger slice is sent by `sendfile` where that is to be had: one of 64 KiB that way costs a quarter less of the system's
time than copied twice, one of 32 KiB the same (measured)."""
CLIENT_ID_AT: Final = 10
"""Where the client id's bytes stand in a request."""


class _Lane:
    """One request that is sent again and again: what it asks for, and how it is answered."""

    __slots__ = (
        "answers",
        "client_id",
        "client_id_bytes",
        "has_rack",
        "index",
        "is_committed",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "min_bytes",
        "name",
        "partition_max_bytes",
        "reads_followers",
        "shape",
        "single",
        "topic_id",
    )

    def __init__(
        self, shape: FetchShape, single: SingleFetch, version: int, request: Fetch, name: str, client_id: str
    ) -> None:
        topic = request.topics[0]
        partition = topic.partitions[0]
        self.shape = shape
        self.single = single
        self.name = name
        self.topic_id = topic.topic_id if version >= TOPIC_IDS_FROM else b""
        """Empty where the topic is named."""
        self.index: int = partition.partition
        self.leader_epoch: int = partition.current_leader_epoch
        self.last_fetched_epoch: int = partition.last_fetched_epoch
        self.partition_max_bytes: int = partition.partition_max_bytes
        self.max_bytes: int = request.max_bytes
        self.min_bytes: int = request.min_bytes if request.max_wait_ms > 0 else 0
        """Who does not wait is content with less."""
        self.is_committed: bool = request.isolation_level == READ_COMMITTED
        self.reads_followers = version >= FOLLOWERS_FROM
        self.has_rack = bool(request.rack_id)
        self.client_id = client_id
        self.client_id_bytes = b""
        self.answers = FetchAnswers(
            *(version, topic.topic, topic.topic_id, self.index),
            aborted_transactions=() if self.is_committed else None,
        )


class QuickFetch:
    """The requests that one connection has sent; `taken` is always 0: what is taken is answered at once."""

    __slots__ = ("_lanes", "_requests", "_room", "_services", "_shapes", "_times", "taken")

    def __init__(self, services: FetchParts, requests: Counter, times: RequestTimes) -> None:
        """`requests` and `times` are what consumers' Fetch requests are counted in."""
        self._services = services
        self._requests = requests
        self._times = times
        self._shapes: list[FetchShape] = []
        self._lanes: dict[bytes, _Lane] = {}
        """By what lies between correlation id and offset; those of two versions do not live side by side."""
        self._room = LaneRoom()
        self.taken = 0

    def learn(self, frame: memoryview, version: int, position: int, request: Fetch, client_id: str) -> None:
        """Remember a request that was handled, whose body is at `position`."""
        size = len(frame)
        if request.replica_id >= 0 or size > REMEMBERED_BYTES_MAX:
            return
        if request.session_id or request.session_epoch != FINAL_EPOCH or self._knows(frame):
            return
        client_id_bytes = _client_id_of(frame)
        at = fetch_offset_at(frame, version, position, request) if client_id_bytes else -1
        if at < 0:
            return
        topic = request.topics[0]
        partitions = self._services.partitions
        name = topic.topic or partitions.topic_name(topic.topic_id)
        if not name or partitions.get(name, topic.partitions[0].partition) is None:
            return
        shape = self._shape(at, size)
        single = shape.single(frame)
        known = self._lanes.get(single.beginning)
        if known is not None:
            self._forget(known)
        elif len(self._lanes) >= LANES_MAX:
            if not self._room.takes():
                return
            self._forget(next(iter(self._lanes.values())))
        lane = _Lane(shape, single, version, request, name, client_id)
        lane.client_id_bytes = client_id_bytes
        self._lanes[single.beginning] = lane
        if shape not in self._shapes:
            self._shapes.append(shape)

    def _knows(self, frame: memoryview) -> bool:
        """Return whether a request is remembered, which was not as usual then."""
        size = len(frame)
        for shape in self._shapes:
            if shape.size == size:
                single = shape.single(frame)
                lane = self._lanes.get(single.beginning)
                if lane is not None and lane.shape is shape and lane.single == single:
                    return True
        return False

    def _shape(self, offset_at: int, size: int) -> FetchShape:
        for each in self._shapes:
            if each.offset_at == offset_at and each.size == size:
                return each
        return FetchShape(offset_at, size)

    def _forget(self, lane: _Lane) -> None:
        del self._lanes[lane.single.beginning]
        if not any(each.shape is lane.shape for each in self._lanes.values()):
            self._shapes.remove(lane.shape)

    def take(self, connection: Connection, frame: memoryview) -> bool:
        """Answer a request; False where it has to be handled."""
        size = len(frame)
        for shape in self._shapes:
            if shape.size == size:
                head, correlation_id, beginning, offset, ending = shape.read(frame)
                lane = self._lanes.get(beginning)
                if lane is not None and lane.shape is shape:
                    single = lane.single
                    return (
                        single.head == head
                        and single.ending == ending
                        and self._answer(lane, connection, correlation_id, offset)
                    )
        return False

    def finish(self, connection: Connection) -> None:
        """Nothing waits."""

    def _answer(self, lane: _Lane, connection: Connection, correlation_id: int, offset: int) -> bool:
        """Answer a request from what there is now; False where it has to be handled."""
        started_ns = perf_counter_ns()
        services = self._services
        memory = services.answer_memory
        if services.quotas is not None or memory.is_full or not services.lease.is_sure:
            return False
        if connection.admits is not None and not connection.admits():
            return False
        try:
            partition = self._partition(lane)
            if partition is None:
                return False
            high_watermark = partition.replica.high_watermark
            last_stable_offset = partition.last_stable_offset()
            found = self._slice(lane, partition, offset, last_stable_offset if lane.is_committed else high_watermark)
            if found is None:
                return False
            head = lane.answers.head(
                correlation_id, high_watermark, last_stable_offset, partition.log.log_start_offset, found.size
            )
            if found.size <= memory.share() and found.size <= (
                SENDFILE_ABOVE_BYTES if connection.outbound.sends_files else COPIED_BYTES_MAX
            ):
                is_answered = self._copy(lane, connection, head, found)
            else:
                is_answered = self._refer(lane, connection, head, found, partition)
        except (KafkaError, StorageError):  # the handler meets the same, and says what it costs
            return False
        if is_answered:
            self._count(lane, connection, partition, found.size)
            self._times.immediate.record_ns(perf_counter_ns() - started_ns)
        return is_answered

    def _partition(self, lane: _Lane) -> LocalPartition | None:
        """Return the partition where it can be read as usual; raises KafkaError."""
        services = self._services
        partitions = services.partitions
        if lane.topic_id and partitions.topic_name(lane.topic_id) != lane.name:
            return None
        if lane.has_rack and services.configuration.broker.settings.replica_selector_class == RACK_AWARE:
            return None
        if lane.reads_followers:
            return partitions.readable(lane.name, lane.index, lane.leader_epoch)
        return partitions.serving(lane.name, lane.index, lane.leader_epoch)

    def _slice(self, lane: _Lane, partition: LocalPartition, offset: int, upper_bound: int) -> LogSlice | None:
        """Return what a request may have at once; None where the answer is another one, or has to wait."""
        found_log = partition.log
        if not found_log.log_start_offset <= offset < upper_bound:
            return None
        epoch = lane.last_fetched_epoch
        if epoch >= 0:
            end = found_log.leader_epochs.end_offset_for(epoch)
            if end.epoch < epoch or end.end_offset < offset:
                return None
        max_bytes = min(lane.max_bytes, self._services.configuration.broker.settings.fetch_max_bytes)
        limit = max(min(lane.partition_max_bytes, max_bytes), 0)
        found = found_log.read(offset, max_bytes=limit, upper_bound=upper_bound, min_one_batch=True)
        if not found.size or found.size < min(lane.min_bytes, max_bytes):
            return None
        if lane.is_committed and any(found_log.known_aborted(offset, upper_bound, found)):  # some, or nobody knows
            return None
        return found

    def _may_read(self, lane: _Lane, connection: Connection) -> bool:
        """Return whether the client may read the topic, and count that it was asked; else the handler asks again."""
        return self._services.authorizer.grants(
            connection.connected, Operation.READ, Resource.TOPIC, lane.name, API_KEY, 1
        )

    def _copy(self, lane: _Lane, connection: Connection, head: bytes, found: LogSlice) -> bool:
        """Answer with a copy of the records where they are in memory."""
        shared = self._services.answer_memory.shared
        tail = lane.answers.tail
        start, size = len(head), found.size
        stop = start + size
        end = stop + len(tail)
        if found.file.pread_into(found.position, shared[start:stop]) != size or not self._may_read(lane, connection):
            return False
        shared[:start] = head
        shared[stop:end] = tail
        connection.answer_now(shared[:end])
        return True

    def _refer(
        self, lane: _Lane, connection: Connection, head: bytes, found: LogSlice, partition: LocalPartition
    ) -> bool:
        """Answer with a part of the file."""
        failures = self._services.partitions.failures
        part = FilePart(found.file, found.position, found.size, failures.met, partition)
        if not self._may_read(lane, connection):
            return False
        connection.answer_part(head, part, lane.answers.tail)
        return True

    def _count(self, lane: _Lane, connection: Connection, partition: LocalPartition, size: int) -> None:
        self._requests.value += 1
        traffic = partition.traffic
        traffic.fetches += 1
        traffic.bytes_out += size
        client = self._services.traffic.client(traffic, lane.client_id, connection.connected.principal)
        client.bytes_out += size
        if connection.client_id_bytes != lane.client_id_bytes:
            connection.client_id_bytes, connection.client_id = lane.client_id_bytes, lane.client_id


def _client_id_of(frame: memoryview) -> bytes:
    """Return the client id's bytes; none where there is none, or it is empty: then an earlier one counts."""
    size = int.from_bytes(frame[CLIENT_ID_AT - 2 : CLIENT_ID_AT], "big", signed=True)
    return bytes(frame[CLIENT_ID_AT : CLIENT_ID_AT + size]) if size > 0 else b""


assert REMEMBERED_BYTES_MAX < AROUND_BYTES_MAX, "what is around the records has room beside them"
