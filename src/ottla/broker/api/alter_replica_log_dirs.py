"""AlterReplicaLogDirs (KIP-113): move this broker's replicas to other log directories, or say where new ones are to lie."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, StorageError, TopicPartition
from ottla.broker.parts import LogParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

__all__ = ["HANDLER"]


def alter_replica_log_dirs(
    context: RequestContext[LogParts], request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin the moves; DescribeLogDirs tells how far they are."""
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for asked in request.dirs:
        for topic in asked.topics:
            for index in topic.partitions:
                code = _alter(context, asked.path, TopicPartition(topic.name, index))
                result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=int(code))
                by_topic.setdefault(topic.name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=results) for name, results in by_topic.items()
        ]
    )


def _alter(context: RequestContext[LogParts], path: str, key: TopicPartition) -> ErrorCode:
    services = context.services
    storage = services.storage
    if not storage.is_configured(path):
        return ErrorCode.LOG_DIR_NOT_FOUND
    log_dir = storage.directory_at(path)
    if log_dir is None or log_dir not in storage.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = services.partitions.get(*key)
    if partition is None:
        storage.prefer(key, log_dir)  # where it is made when it comes to this broker
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if partition.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        services.moves.begin(partition, log_dir)
    except StorageError as error:
        services.partitions.failures.met(error, partition)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def refuse(request: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    """Say of every replica that the request failed."""
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for asked in request.dirs:
        for topic in asked.topics:
            for index in topic.partitions:
                result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=int(error.code))
                by_topic.setdefault(topic.name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=results) for name, results in by_topic.items()
        ]
    )


HANDLER = Handler(
    AlterReplicaLogDirsRequest,
    versions=(1, 2),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=alter_replica_log_dirs,
    error_response=refuse,
)
