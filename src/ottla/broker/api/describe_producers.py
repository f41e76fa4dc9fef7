"""DescribeProducers: who has written to a partition idempotently, and whose transactions are open there (KIP-664)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from ottla.base import KafkaError
from ottla.broker.parts import LogParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.refusals import not_allowed
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

__all__ = ["HANDLER"]


def describe_producers(context: RequestContext[LogParts], request: DescribeProducersRequest) -> Answer:
    """Answer for each partition by itself, from its leader, and once where it is named again: it may have many writers."""
    return now_or_in_slices(context, _answer_all(context, request))


def _answer_all(
    context: RequestContext[LogParts], request: DescribeProducersRequest
) -> Generator[None, None, DescribeProducersResponse]:
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        yield
    topics = []
    for name, indexes in asked.items():
        yield
        partitions = yield from of_each(indexes, partial(_answer, context, name))
        topics.append(TopicResponse(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _answer(context: RequestContext[LogParts], topic: str, index: int) -> PartitionResponse:
    try:
        if not context.allows(Operation.READ, Resource.TOPIC, topic):
            raise not_allowed(Resource.TOPIC)
        partition = context.services.partitions.serving(topic, index)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=int(error.code), error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_offset,
            )
            for producer_id, entry in partition.log.producers
        ],
    )


def refuse(request: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    """Say of every partition that the request failed."""
    code, text = int(error.code), error.message
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=code, error_message=text)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(
    DescribeProducersRequest,
    versions=(0, 0),
    needs=Needs(Operation.READ, Resource.TOPIC),
    handle=describe_producers,
    error_response=refuse,
)
