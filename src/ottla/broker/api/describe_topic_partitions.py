"""DescribeTopicPartitions (KIP-966): topics' partitions with eligible leader replicas, in pages."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ottla.base import INTERNAL_TOPICS, ErrorCode, KafkaError
from ottla.broker.parts import MetadataParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.authorized_operations import topic_operations
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.broker.topic_view import partition_view
from ottla.metadata import Image, Partition, Topic, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

__all__ = ["HANDLER"]


def describe_topic_partitions(
    context: RequestContext[MetadataParts], request: DescribeTopicPartitionsRequest
) -> Answer:
    """Describe topics by name in order, from the cursor on, until the page is full."""
    return now_or_in_slices(context, _page(context, request))


def _page(
    context: RequestContext[MetadataParts], request: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    image = context.services.image
    settings = context.services.configuration.broker.settings
    limit = max(min(request.response_partition_limit, settings.max_request_partition_size_limit), 1)
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}"
        )
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in _names(context, request, image):
        yield
        if limit <= 0:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        topic = image.topic(name)
        if not context.allows(Operation.DESCRIBE, Resource.TOPIC, name):
            code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
            continue
        if topic is None:
            topics.append(_missing(context, name))
            continue
        chosen = [(index, each) for index, each in topic.in_order() if index >= first]
        topics.append((yield from _described(context, image, topic, chosen[:limit])))
        if len(chosen) > limit:
            following = Cursor(topic_name=name, partition_index=chosen[limit][0])
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=following)
        limit -= len(chosen)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=None)


def _names(
    context: RequestContext[MetadataParts], request: DescribeTopicPartitionsRequest, image: Image
) -> Iterator[str]:
    """Yield the names to describe, those refused left out where all were asked for."""
    first = request.cursor.topic_name if request.cursor is not None else ""
    asked = sorted({each.name for each in request.topics})
    for name in asked or sorted(image.topics):
        if name >= first and (asked or context.would_allow(Operation.DESCRIBE, Resource.TOPIC, name)):
            yield name


def _missing(context: RequestContext[MetadataParts], name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        decide.validate_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=int(code),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=topic_operations(context, name),
    )


def _described(
    context: RequestContext[MetadataParts], image: Image, topic: Topic, partitions: list[tuple[int, Partition]]
) -> Generator[None, None, DescribeTopicPartitionsResponseTopic]:
    described = yield from of_each(partitions, lambda each: _partition(context, image, *each))
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=described,
        topic_authorized_operations=topic_operations(context, topic.name),
    )


def _partition(
    context: RequestContext[MetadataParts], image: Image, index: int, partition: Partition
) -> DescribeTopicPartitionsResponsePartition:
    view = partition_view(image, partition, context.connected.listener)
    return DescribeTopicPartitionsResponsePartition(
        error_code=int(view.error),
        partition_index=index,
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        replica_nodes=view.replicas,
        isr_nodes=view.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=view.offline,
    )


def refuse(request: DescribeTopicPartitionsRequest, error: KafkaError) -> DescribeTopicPartitionsResponse:
    """Say of every topic that the request failed."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=int(error.code), name=each.name) for each in request.topics
        ]
    )


HANDLER = Handler(
    DescribeTopicPartitionsRequest,
    versions=(0, 0),
    needs=Needs(Operation.DESCRIBE, Resource.TOPIC),
    handle=describe_topic_partitions,
    error_response=refuse,
)
