"""OffsetForLeaderEpoch (KIP-101, KIP-320): where a leader epoch ends, so that a log can tell where it parted."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import LogParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

__all__ = ["HANDLER"]

UNDEFINED = -1


def offset_for_leader_epoch(context: RequestContext[LogParts], request: OffsetForLeaderEpochRequest) -> Answer:
    """Answer every partition by itself."""
    return now_or_in_slices(context, _answer_all(context, request))


def _answer_all(
    context: RequestContext[LogParts], request: OffsetForLeaderEpochRequest
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        yield
        partitions = yield from of_each(topic.partitions, partial(_answer, context, topic.topic))
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(context: RequestContext[LogParts], topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        if not (
            context.would_allow(Operation.CLUSTER_ACTION, Resource.CLUSTER)
            or context.allows(Operation.DESCRIBE, Resource.TOPIC, topic)
        ):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.leader_of(topic, asked.partition, asked.current_leader_epoch)
        end = partition.log.leader_epochs.end_offset_for(asked.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(
            partition=asked.partition, error_code=int(error.code), leader_epoch=UNDEFINED, end_offset=UNDEFINED
        )
    return EpochEndOffset(
        partition=asked.partition,
        error_code=int(ErrorCode.NONE),
        leader_epoch=end.epoch,
        end_offset=end.end_offset,
    )


def refuse(request: OffsetForLeaderEpochRequest, error: KafkaError) -> OffsetForLeaderEpochResponse:
    """Say of every partition that the request failed."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=each.partition, error_code=int(error.code)) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(
    OffsetForLeaderEpochRequest,
    versions=(2, 4),
    needs=Needs(Operation.DESCRIBE, Resource.TOPIC),
    handle=offset_for_leader_epoch,
    error_response=refuse,
)
