"""DeleteRecords (KIP-107): move a partition's log start offset; whole segments before it are then deleted.

Offset -1 means the high watermark. The answer comes when every copy that is alive has moved as well, which with one copy
is at once, or says REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Generator

from ottla.base import ErrorCode, KafkaError, NodeId, Offset, StorageError
from ottla.broker.parts import LogParts
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices
from ottla.replica import Wait
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

__all__ = ["HANDLER"]

TO_HIGH_WATERMARK = -1
UNKNOWN_LOW_WATERMARK = -1


class _Deletion:
    """What one partition is asked to delete, and what has come of it."""

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.code = ErrorCode.NONE
        self.low_watermark = UNKNOWN_LOW_WATERMARK
        self.partition: LocalPartition | None = None
        self.wanted = 0

    @property
    def is_everywhere(self) -> bool:
        """True where there is nothing (more) to wait for."""
        return self.partition is None or self.low_watermark >= self.wanted


def delete_records(context: RequestContext[LogParts], request: DeleteRecordsRequest) -> Answer:
    """Delete what each partition is asked to, each by itself, and answer when their copies have."""
    return now_or_in_slices(context, _delete_all(context, request))


def _delete_all(context: RequestContext[LogParts], request: DeleteRecordsRequest) -> Generator[None, None, Answer]:
    deletions = []
    for topic in request.topics:
        yield
        for each in topic.partitions:
            yield
            deletion = _Deletion(topic.name, each.partition_index)
            deletions.append(deletion)
            try:
                _delete(context, deletion, each.offset)
            except KafkaError as error:
                deletion.code = error.code
    waiting = [each for each in deletions if not each.is_everywhere]
    if not waiting:
        return _response(deletions)
    return _answer_later(context, request, deletions, waiting)


def _delete(context: RequestContext[LogParts], deletion: _Deletion, offset: int) -> None:
    """Move a partition's log start here; raises KafkaError where that may not be, or fails."""
    partitions = context.services.partitions
    if not context.allows(Operation.DELETE, Resource.TOPIC, deletion.topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = partitions.writable(deletion.topic, deletion.index)
    cleanup_policy = partition.log.config.cleanup_policy
    if cleanup_policy and "delete" not in cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    high_watermark = partition.replica.high_watermark
    wanted = high_watermark if offset == TO_HIGH_WATERMARK else Offset(offset)
    if not 0 <= wanted <= high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        partition.log.delete_records_before(wanted)
    except StorageError as error:
        partitions.failures.met(error, partition)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    partition.log_start_moved()
    deletion.partition, deletion.wanted = partition, wanted
    deletion.low_watermark = _low_watermark(context, partition)


def _low_watermark(context: RequestContext[LogParts], partition: LocalPartition) -> Offset:
    brokers = context.services.image.brokers
    alive = frozenset(NodeId(each.id) for each in brokers.values() if not each.fenced)
    return partition.replica.low_watermark(partition.log.log_start_offset, alive)


def _answer_later(
    context: RequestContext[LogParts],
    request: DeleteRecordsRequest,
    deletions: list[_Deletion],
    waiting: list[_Deletion],
) -> Deferred[DeleteRecordsResponse]:
    """Look again whenever a copy fetches, until every copy has deleted, or the time is over."""
    deferred: Deferred[DeleteRecordsResponse] = Deferred()
    services = context.services
    partitions = {each.partition.key: each.partition for each in waiting if each.partition is not None}.values()
    """Each once, however often it is named."""

    def look() -> None:
        if wait.done:  # a partition that is named twice looks twice
            return
        for each in waiting:
            assert each.partition is not None
            each.low_watermark = _low_watermark(context, each.partition)
        if all(each.is_everywhere for each in waiting):
            services.purgatory.give_up(wait)
            finish(True)

    def finish(is_news: bool) -> None:
        for partition in partitions:
            if look in partition.deletions:
                partition.deletions.remove(look)
        for each in waiting:
            assert each.partition is not None
            if not each.partition.replica.is_leader:
                each.code, each.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN_LOW_WATERMARK
            elif not each.is_everywhere:
                each.code = ErrorCode.REQUEST_TIMED_OUT
        deferred.resolve(_response(deletions))

    wait = Wait(services.loop.time() + max(request.timeout_ms, 0) / 1000, finish)
    keys = []
    for partition in partitions:
        partition.deletions.append(look)
        keys.append(partition.key)
    # it ends when a partition gets another leader, or at its deadline
    services.purgatory.add_produce(wait, tuple(keys))
    if not all(partition.replica.is_leader for partition in partitions):  # one has another leader since it was asked
        services.purgatory.finish(wait)
    return deferred


def _response(deletions: list[_Deletion]) -> DeleteRecordsResponse:
    topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for each in deletions:
        result = DeleteRecordsPartitionResult(
            partition_index=each.index, low_watermark=each.low_watermark, error_code=int(each.code)
        )
        topics.setdefault(each.topic, []).append(result)
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=results) for name, results in topics.items()]
    )


def refuse(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """Say of every partition that the request failed."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=each.partition_index,
                        low_watermark=UNKNOWN_LOW_WATERMARK,
                        error_code=int(error.code),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(
    DeleteRecordsRequest,
    versions=(0, 2),
    needs=Needs(Operation.DELETE, Resource.TOPIC),
    handle=delete_records,
    error_response=refuse,
)
