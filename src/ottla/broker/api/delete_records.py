"""DeleteRecords (KIP-107): move a partition's log start offset; whole segments before it are then deleted.

Offset -1 means the high watermark. The answer comes when every in-sync replica has moved as well, which with one copy
is at once.
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, Offset, StorageError
from ottla.broker.handler import Handler, Needs, Operation, RequestContext, Resource
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

__all__ = ["HANDLER"]

TO_HIGH_WATERMARK = -1
UNKNOWN_LOW_WATERMARK = -1


def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete what each partition is asked to, each by itself."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(context, topic.name, each.partition_index, each.offset) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(context: RequestContext, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    partitions = context.services.partitions
    code = ErrorCode.NONE
    low_watermark = UNKNOWN_LOW_WATERMARK
    try:
        if not context.allows(Operation.DELETE, Resource.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = partitions.leader_of(topic, index)
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
            partitions.dir_failed(partition.log_dir, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        low_watermark = partition.log.log_start_offset
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=int(code))


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
