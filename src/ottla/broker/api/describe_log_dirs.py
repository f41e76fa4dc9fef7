"""DescribeLogDirs (KIP-113): where partitions lie and how large they are.

Version 4 adds the sizes of the file systems (KIP-827), 5 says which directories are cordoned (KIP-1066). The metadata log
is not listed: it is no topic.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ottla.base import ErrorCode, KafkaError, StorageError
from ottla.broker.handler import Handler, Needs, Operation, RequestContext, Resource
from ottla.broker.hosted_partition import HostedPartition
from ottla.log import LogDir
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

__all__ = ["HANDLER"]


async def describe_log_dirs(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every log directory, with all of its partitions or those asked for."""
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    by_dir: dict[str, list[HostedPartition]] = {}
    for partition in context.services.partitions:
        if asked is None or tuple(partition.key) in asked:
            by_dir.setdefault(partition.log_dir.path, []).append(partition)
    storage = context.services.storage
    results = [await _described(context, each, by_dir.get(each.path, ())) for each in storage.online]
    results += [_failed(path) for path in sorted(storage.offline)]
    return DescribeLogDirsResponse(results=results)


async def _described(
    context: RequestContext, log_dir: LogDir, partitions: Iterable[HostedPartition]
) -> DescribeLogDirsResult:
    try:
        space = await context.services.offload.thread(log_dir.disk.space, log_dir.path)
    except StorageError:
        return _failed(log_dir.path)
    broker = context.services.quorum.image.brokers.get(context.services.node_id)
    cordoned = () if broker is None else broker.cordoned_log_dirs
    return DescribeLogDirsResult(
        log_dir=os.path.abspath(log_dir.path),
        topics=_topics(partitions),
        total_bytes=space.total,
        usable_bytes=space.usable,
        is_cordoned=log_dir.meta is not None and log_dir.meta.directory_id in cordoned,
    )


def _topics(partitions: Iterable[HostedPartition]) -> list[DescribeLogDirsTopic]:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in sorted(partitions, key=lambda each: each.key):
        lag = max(partition.replica.high_watermark - partition.log.log_end_offset, 0)
        described = DescribeLogDirsPartition(
            partition_index=partition.key.partition, partition_size=partition.log.size, offset_lag=lag
        )
        by_topic.setdefault(partition.key.topic, []).append(described)
    return [DescribeLogDirsTopic(name=name, partitions=described) for name, described in by_topic.items()]


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
