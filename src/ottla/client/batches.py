"""Whole record batches in Produce and Fetch: the values that callers see, and the messages made of and read into them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, Millis, Offset, ProducerId, TopicPartition, Uuid
from ottla.client.cluster import Cluster
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

__all__ = [
    "Appended",
    "FetchPosition",
    "Fetched",
    "Isolation",
    "fetch_request",
    "produce_request",
    "read_fetched",
    "read_produced",
]

TOPIC_IDS_FROM = 13
"""The version from which both Produce and Fetch name topics by id."""
UNKNOWN_OFFSET = Offset(-1)
UNKNOWN_TIME = Millis(-1)
Records = bytes | bytearray | memoryview


class Isolation(IntEnum):
    """`isolation.level` of a reader."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """From which offset to read a partition, and how much of it per answer."""

    partition: TopicPartition
    offset: Offset
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one Fetch brought of one partition.

    `records` holds whole batches as stored, of which the first may begin before the offset asked for and the last may be
    cut short; it is a view into the answer's own memory. `aborted` lists aborted transactions as (producer id, first
    offset) where READ_COMMITTED was asked. An `error` that the client could not mend is here, with no records: call `check`.
    `topic_id` says of which of the topics that have had this name it is; zero where the broker names topics without ids.
    """

    partition: TopicPartition
    offset: Offset
    error: ErrorCode
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted: tuple[tuple[ProducerId, Offset], ...]
    records: memoryview
    topic_id: Uuid = ZERO_UUID

    def check(self) -> Fetched:
        """Return this, or raise its error as a KafkaError that names partition and offset."""
        if self.error:
            raise KafkaError(self.error, f"{self.partition} at offset {self.offset}: {self.error.name}")
        return self


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch landed; offsets are -1 after acks=0."""

    partition: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    base_offset: Offset = UNKNOWN_OFFSET
    log_append_time_ms: Millis = UNKNOWN_TIME
    log_start_offset: Offset = UNKNOWN_OFFSET
    message: str | None = None

    def check(self) -> Appended:
        """Return this, or raise its error as a KafkaError that names the partition."""
        if self.error:
            raise KafkaError(self.error, f"{self.partition}: {self.message or self.error.name}")
        return self


def fetch_request(
    positions: Iterable[FetchPosition],
    cluster: Cluster,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation: Isolation,
) -> FetchRequest:
    """Make a Fetch without session; topics carry both name and id, and the version decides which is sent."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for position in positions:
        topic, partition = position.partition
        by_topic.setdefault(topic, []).append(
            FetchPartition(partition=partition, fetch_offset=position.offset, partition_max_bytes=position.max_bytes)
        )
    topics = [
        FetchTopic(topic=name, topic_id=cluster.topic_id(name), partitions=partitions)
        for name, partitions in by_topic.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(isolation),
        session_id=0,
        session_epoch=-1,
        topics=topics,
    )


def read_fetched(
    response: FetchResponse, positions: Iterable[FetchPosition], cluster: Cluster
) -> dict[TopicPartition, Fetched]:
    """Read an answer of any version; partitions that it does not hold are left out."""
    names = _names(positions, cluster)
    asked = {position.partition: position.offset for position in positions}
    found: dict[TopicPartition, Fetched] = {}
    for topic in response.responses:
        topic_id = cluster.topic_id(topic.topic) if topic.topic else Uuid(bytes(topic.topic_id))
        name = topic.topic or names.get(topic_id)
        for data in topic.partitions:
            if name is not None and (key := TopicPartition(name, data.partition_index)) in asked:
                found[key] = _fetched(key, asked[key], data, topic_id)
    return found


def _names(positions: Iterable[FetchPosition], cluster: Cluster) -> dict[Uuid, str]:
    return {cluster.topic_id(position.partition.topic): position.partition.topic for position in positions}


def _fetched(partition: TopicPartition, offset: Offset, data: PartitionData, topic_id: Uuid) -> Fetched:
    return Fetched(
        partition,
        offset,
        ErrorCode(data.error_code),
        Offset(data.high_watermark),
        Offset(data.last_stable_offset),
        Offset(data.log_start_offset),
        tuple((ProducerId(each.producer_id), Offset(each.first_offset)) for each in data.aborted_transactions or ()),
        memoryview(data.records) if data.records is not None else memoryview(b""),
        topic_id,
    )


def produce_request(
    batches: Mapping[TopicPartition, Records],
    cluster: Cluster,
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> ProduceRequest:
    """Make a Produce; topics carry both name and id, and the version decides which is sent."""
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for (topic, partition), records in batches.items():
        by_topic.setdefault(topic, []).append(PartitionProduceData(index=partition, records=records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=name, topic_id=cluster.topic_id(name), partition_data=partitions)
            for name, partitions in by_topic.items()
        ],
    )


def read_produced(
    response: ProduceResponse, partitions: Iterable[TopicPartition], cluster: Cluster
) -> dict[TopicPartition, Appended]:
    """Read an answer of any version."""
    names = {cluster.topic_id(partition.topic): partition.topic for partition in partitions}
    found: dict[TopicPartition, Appended] = {}
    for topic in response.responses:
        name = topic.name or names.get(Uuid(bytes(topic.topic_id)))
        if name is not None:
            for data in topic.partition_responses:
                key = TopicPartition(name, data.index)
                found[key] = _appended(key, data)
    return found


def _appended(partition: TopicPartition, data: PartitionProduceResponse) -> Appended:
    return Appended(
        partition,
        ErrorCode(data.error_code),
        Offset(data.base_offset),
        Millis(data.log_append_time_ms),
        Offset(data.log_start_offset),
        data.error_message,
    )
