"""DescribeLogDirs (KIP-113): where partitions lie and how large they are.

A partition whose files are damaged or missing has the lag -1, which in Kafka says that nothing is known of its log.
Version 4 adds the sizes of the file systems (KIP-827), 5 says which directories are cordoned (KIP-1066). The metadata log
is not listed: it is no topic.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ottla.base import ErrorCode, KafkaError, StorageError, TopicPartition
from ottla.broker.parts import LogParts
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.log_dir_moves import Move
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.log import LogDir
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

__all__ = ["HANDLER"]

UNKNOWN_LAG = -1


async def describe_log_dirs(
    context: RequestContext[LogParts], request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe every log directory, with all of its partitions or those asked for."""
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    by_dir: dict[str, list[tuple[LocalPartition, Move | None]]] = {}
    for partition in context.services.partitions:
        if asked is None or tuple(partition.key) in asked:
            by_dir.setdefault(partition.log_dir.path, []).append((partition, None))
            move = context.services.moves.get(partition.key)
            if move is not None:
                by_dir.setdefault(move.log_dir.path, []).append((partition, move))
    storage = context.services.storage
    unopened = [
        TopicPartition(*each) for each in context.services.partitions.unopened if asked is None or each in asked
    ]
    results = [await _described(context, each, by_dir.get(each.path, ()), unopened) for each in storage.online]
    results += [_failed(path) for path in sorted(storage.offline)]
    return DescribeLogDirsResponse(results=results)


async def _described(
    context: RequestContext[LogParts],
    log_dir: LogDir,
    partitions: Iterable[tuple[LocalPartition, Move | None]],
    unopened: Iterable[TopicPartition],
) -> DescribeLogDirsResult:
    try:
        space = await context.services.offload.thread(log_dir.disk.space, log_dir.path)
    except StorageError:
        return _failed(log_dir.path)
    broker = context.services.image.brokers.get(context.services.node_id)
    cordoned = () if broker is None else broker.cordoned_log_dirs
    return DescribeLogDirsResult(
        log_dir=os.path.abspath(log_dir.path),
        topics=[*_topics(partitions), *(_unopened(each) for each in unopened if log_dir.has_log(each))],
        total_bytes=space.total,
        usable_bytes=space.usable,
        is_cordoned=log_dir.meta is not None and log_dir.meta.directory_id in cordoned,
    )


def _topics(partitions: Iterable[tuple[LocalPartition, Move | None]]) -> list[DescribeLogDirsTopic]:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition, move in sorted(partitions, key=lambda each: each[0].key):
        log = partition.log if move is None else move.future
        lag = max(partition.replica.high_watermark - log.log_end_offset, 0) if move is None else move.lag
        if partition.damage is not None and move is None:
            lag = UNKNOWN_LAG
        described = DescribeLogDirsPartition(
            partition_index=partition.key.partition,
            partition_size=log.size,
            offset_lag=lag,
            is_future_key=move is not None,
        )
        by_topic.setdefault(partition.key.topic, []).append(described)
    return [DescribeLogDirsTopic(name=name, partitions=described) for name, described in by_topic.items()]


def _unopened(key: TopicPartition) -> DescribeLogDirsTopic:
    """Name a partition that could not be opened."""
    described = DescribeLogDirsPartition(partition_index=key.partition, offset_lag=UNKNOWN_LAG)
    return DescribeLogDirsTopic(name=key.topic, partitions=[described])


def _failed(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=int(ErrorCode.KAFKA_STORAGE_ERROR), log_dir=os.path.abspath(path))


def refuse(request: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    """Answer with no directory; before version 3 an empty list is all that can be said."""
    return DescribeLogDirsResponse(error_code=int(error.code))


HANDLER = Handler(
    DescribeLogDirsRequest,
    versions=(1, 5),
    needs=Needs(Operation.DESCRIBE, Resource.CLUSTER),
    handle=describe_log_dirs,
    error_response=refuse,
)
