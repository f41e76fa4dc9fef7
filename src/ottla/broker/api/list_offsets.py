"""ListOffsets: the earliest and latest offset, or the one for a time.

Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp (KIP-734, version 7), -4 the
earliest that is stored here (KIP-405, version 8), -5 the latest that was tiered (KIP-1005, version 9), -6 the
earliest that is yet to be tiered (KIP-1023, version 11). Without tiering, -4 is -2, and -5 and -6 answer "unknown"
and the log's start. A search by time reads whole batches, so it runs on a thread where the page cache may not hold
them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ottla.base import ErrorCode, KafkaError, StorageError
from ottla.broker.parts import LogParts
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import Pauses
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

__all__ = ["HANDLER"]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version that may ask for a special timestamp."""
LEADER_EPOCH_FROM = 4
"""The first version whose answer tells the leader epoch."""
OFFSET_NOT_AVAILABLE_FROM = 5
"""The first version that knows OFFSET_NOT_AVAILABLE (KIP-207)."""
CONSUMER = -1
READ_COMMITTED = 1
UNKNOWN = (-1, -1, -1)
"""Timestamp, offset and leader epoch where there is no such record."""


async def list_offsets(context: RequestContext[LogParts], request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer every partition by itself; a partition named twice is refused in both places."""
    asked = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    twice = {each for each, count in asked.items() if count > 1}
    topics = []
    pauses = Pauses()
    for topic in request.topics:
        may_describe = context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name)
        partitions = []
        for each in topic.partitions:
            if not may_describe:
                partitions.append(_error(context, each, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif (topic.name, each.partition_index) in twice:
                partitions.append(_error(context, each, ErrorCode.INVALID_REQUEST))
            else:
                partitions.append(await _answer(context, request, topic.name, each))
            await pauses.step()
        await pauses.step()
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _answer(
    context: RequestContext[LogParts], request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    try:
        if asked.timestamp < 0 and context.api_version < FIRST_VERSION.get(asked.timestamp, 0):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partitions = context.services.partitions
        find = partitions.serving if request.replica_id == CONSUMER else partitions.leader_of
        partition = find(topic, asked.partition_index, asked.current_leader_epoch)
        timestamp, offset, epoch = await _find(context, request, partition, asked.timestamp)
    except KafkaError as error:
        return _error(context, asked, error.code)
    except StorageError as error:
        return _error(context, asked, context.services.partitions.failures.met(error, partition))
    if context.api_version < LEADER_EPOCH_FROM:
        epoch = -1
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


async def _find(
    context: RequestContext[LogParts], request: ListOffsetsRequest, partition: LocalPartition, timestamp: int
) -> tuple[int, int, int]:
    """Return (timestamp, offset, leader epoch) of what was asked for; the first is -1 for the ends of the log."""
    log = partition.log
    end = _readable_end(request, partition)
    # Until the high watermark has reached this epoch's start, earlier leaders may have told higher offsets than it.
    is_behind = request.replica_id == CONSUMER and not partition.replica.is_settled
    if timestamp == LATEST:
        if is_behind:
            raise _not_available(context)
        return -1, end, partition.replica.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD):
        start = log.log_start_offset
        return -1, start, log.leader_epochs.epoch_of(start)
    if timestamp == LATEST_TIERED:
        return UNKNOWN
    if timestamp < MAX_TIMESTAMP:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == MAX_TIMESTAMP:
        found = await partition.on_thread(log.max_timestamp_offset)
    else:
        found = await partition.on_thread(log.offset_for_timestamp, timestamp)
    if found is None or found.offset >= end:
        if is_behind:
            raise _not_available(context)
        return UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch


def _not_available(context: RequestContext[LogParts]) -> KafkaError:
    """Return what asks a client to come again soon; older ones know another word for it (KIP-207)."""
    knows = context.api_version >= OFFSET_NOT_AVAILABLE_FROM
    return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if knows else ErrorCode.LEADER_NOT_AVAILABLE)


def _readable_end(request: ListOffsetsRequest, partition: LocalPartition) -> int:
    """Return where the log ends for whoever asks: a replica, a consumer, or one that reads committed records only."""
    if request.replica_id != CONSUMER:
        return partition.log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset()
    return partition.replica.high_watermark


def _error(
    context: RequestContext[LogParts], asked: ListOffsetsPartition, code: ErrorCode
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=int(code), timestamp=-1, offset=-1
    )


def refuse(request: ListOffsetsRequest, error: KafkaError) -> Any:
    """Say of every partition that the request failed."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, error_code=int(error.code), timestamp=-1, offset=-1
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(
    ListOffsetsRequest,
    versions=(1, 11),
    needs=Needs(Operation.DESCRIBE, Resource.TOPIC),
    handle=list_offsets,
    error_response=refuse,
)
