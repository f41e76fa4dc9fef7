"""ListOffsets: where a partition begins and ends, and which offset belongs to a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Millis, Offset, TopicPartition
from ottla.client.batches import Isolation
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "ListedOffset",
    "list_offsets_request",
    "lowest_version",
    "read_listed",
]

EARLIEST = Millis(-2)
"""In the place of a timestamp: the log start offset."""
LATEST = Millis(-1)
"""In the place of a timestamp: the high watermark, or the last stable offset for READ_COMMITTED."""
MAX_TIMESTAMP = Millis(-3)
"""In the place of a timestamp: the record with the largest timestamp (KIP-734)."""
_LOWEST_VERSION = {-3: 7, -4: 8, -5: 9, -6: 11}
"""The version that brought each special timestamp: KIP-734, KIP-405, KIP-1005, KIP-1023."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """The answer for one partition; offset and timestamp are -1 where no record is that young."""

    partition: TopicPartition
    offset: Offset
    timestamp: Millis
    leader_epoch: LeaderEpoch
    error: ErrorCode = ErrorCode.NONE

    def check(self) -> ListedOffset:
        """Return this, or raise its error as a KafkaError that names the partition."""
        if self.error:
            raise KafkaError(self.error, f"{self.partition}: {self.error.name}")
        return self


def lowest_version(timestamps: Iterable[int]) -> int:
    """Return the first version that knows all of these timestamps."""
    return max((_LOWEST_VERSION.get(timestamp, 1) for timestamp in timestamps), default=1)


def list_offsets_request(
    wanted: Mapping[TopicPartition, Millis], isolation: Isolation, timeout_ms: int
) -> ListOffsetsRequest:
    """Make one request for partitions that one broker leads."""
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in wanted.items():
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(isolation),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
        timeout_ms=timeout_ms,
    )


def read_listed(response: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset]:
    """Read an answer of any version."""
    found: dict[TopicPartition, ListedOffset] = {}
    for topic in response.topics:
        for data in topic.partitions:
            key = TopicPartition(topic.name, data.partition_index)
            found[key] = ListedOffset(
                key,
                Offset(data.offset),
                Millis(data.timestamp),
                LeaderEpoch(data.leader_epoch),
                ErrorCode(data.error_code),
            )
    return found
