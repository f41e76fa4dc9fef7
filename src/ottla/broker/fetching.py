"""Reading for a Fetch: which bytes each partition gives, within the request's limits and what its client may see.

Nothing is read here: a result names a slice of a segment, which the answer carries as bytes or as a part of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError, NodeId, Offset, StorageError
from ottla.broker.handler import Operation, RequestContext, Resource
from ottla.broker.hosted_partition import HostedPartition
from ottla.log import LogSlice
from ottla.replica import FetchedPartition, SessionKey

__all__ = ["FetchLimits", "Reading", "read_all"]

READ_COMMITTED = 1
LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors that come with the current leader, so that the client need not ask (KIP-951)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What a Fetch request allows and asks for as a whole."""

    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    isolation_level: int
    replica_id: int
    has_hard_limit: bool = False
    """True where a first batch larger than the limits is not sent either (Fetch 2 and older)."""


class Reading:
    """What one partition of a Fetch gives: an error, or a slice of its log and how far the log goes."""

    __slots__ = (
        "aborted_transactions",
        "diverging_end",
        "diverging_epoch",
        "error",
        "high_watermark",
        "key",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "slice",
        "topic",
        "wanted",
    )

    def __init__(self, key: SessionKey, topic: str, wanted: FetchedPartition) -> None:
        self.key = key
        self.topic = topic
        self.wanted = wanted
        self.partition: HostedPartition | None = None
        self.error = ErrorCode.NONE
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.diverging_epoch = -1
        self.diverging_end = -1
        self.leader = -1
        self.leader_epoch = -1
        self.aborted_transactions: list[tuple[int, int]] | None = None
        self.slice: LogSlice | None = None

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.slice.size if self.slice is not None else 0

    @property
    def is_urgent(self) -> bool:
        """True where the answer must not wait: an error, or a log that has parted from the fetcher's."""
        return self.error is not ErrorCode.NONE or self.diverging_epoch >= 0


def read_all(
    context: RequestContext, wanted: Iterable[tuple[SessionKey, FetchedPartition]], limits: FetchLimits
) -> list[Reading]:
    """Return a reading per partition, in order; the first that has records gives at least one batch."""
    left = limits.max_bytes
    at_least_one = not limits.has_hard_limit
    readings = []
    for key, partition in wanted:
        reading = _read(context, key, partition, limits, left=left, at_least_one=at_least_one)
        size = reading.size
        if size:
            left = max(0, left - size)
            at_least_one = False
        readings.append(reading)
    return readings


def _read(
    context: RequestContext,
    key: SessionKey,
    wanted: FetchedPartition,
    limits: FetchLimits,
    *,
    left: int,
    at_least_one: bool,
) -> Reading:
    topic = key.topic if isinstance(key.topic, str) else context.services.partitions.topic_name(key.topic)
    reading = Reading(key, topic or "", wanted)
    if topic is None:
        reading.error = ErrorCode.UNKNOWN_TOPIC_ID
        return reading
    try:
        if not context.allows(Operation.READ, Resource.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.leader_of(topic, key.partition, wanted.current_leader_epoch)
        reading.partition = partition
        _fill(context, reading, partition, limits, left=left, at_least_one=at_least_one)
    except KafkaError as error:
        reading.error = error.code
        if error.code in LEADER_ERRORS:
            found = context.services.quorum.image.partition(topic, key.partition)
            if found is not None:
                reading.leader, reading.leader_epoch = found.leader, found.leader_epoch
    except StorageError as error:
        assert reading.partition is not None
        context.services.partitions.dir_failed(reading.partition.log_dir, error)
        reading.error = ErrorCode.KAFKA_STORAGE_ERROR
    return reading


def _fill(
    context: RequestContext,
    reading: Reading,
    partition: HostedPartition,
    limits: FetchLimits,
    *,
    left: int,
    at_least_one: bool,
) -> None:
    """Take the slice that the fetcher may have now, and the offsets that go with it."""
    log = partition.log
    replica = partition.replica
    wanted = reading.wanted
    offset = wanted.fetch_offset
    if limits.replica_id >= 0:
        upper_bound = log.log_end_offset
        moved = replica.fetched_by(
            NodeId(limits.replica_id),
            fetch_offset=Offset(offset),
            log_start_offset=Offset(wanted.log_start_offset),
            now_s=context.services.loop.time(),
        )
        if moved:
            context.services.waits.advanced(partition.key, replica.high_watermark, 1)
    else:
        upper_bound = replica.high_watermark
    reading.high_watermark = replica.high_watermark
    reading.log_start_offset = log.log_start_offset
    reading.last_stable_offset = partition.last_stable_offset()
    if limits.isolation_level == READ_COMMITTED and limits.replica_id < 0:
        upper_bound = reading.last_stable_offset
    if wanted.last_fetched_epoch >= 0 and _has_diverged(reading, partition):
        return
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    limit = min(wanted.max_bytes, left)
    if offset >= upper_bound or (limit <= 0 and not at_least_one):
        return
    found = log.read(offset, max_bytes=max(limit, 0), upper_bound=upper_bound, min_one_batch=at_least_one)
    reading.slice = found
    if limits.isolation_level == READ_COMMITTED and found.size:
        reading.aborted_transactions = [
            (each.producer_id, each.first_offset) for each in log.aborted_transactions(offset, upper_bound)
        ]


def _has_diverged(reading: Reading, partition: HostedPartition) -> bool:
    """Compare the epoch of the fetcher's last record with this log's (KIP-595); note where it has to cut itself."""
    wanted = reading.wanted
    end = partition.log.leader_epochs.end_offset_for(wanted.last_fetched_epoch)
    if end.end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch >= wanted.last_fetched_epoch and end.end_offset >= wanted.fetch_offset:
        return False
    reading.diverging_epoch, reading.diverging_end = end.epoch, end.end_offset
    return True
