"""OffsetDelete: forget what a group has committed for topics that its members do not read (KIP-496)."""

from __future__ import annotations

from collections.abc import Generator

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices
from ottla.groups import Decision, Shard
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

__all__ = ["HANDLER"]


def offset_delete(context: RequestContext[GroupParts], request: OffsetDeleteRequest) -> Answer:
    """Delete the offsets of the partitions that exist and that the client may read."""
    if not context.allows(Operation.DELETE, Resource.GROUP, request.group_id):
        return refuse(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refuse(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    return now_or_in_slices(context, _sorted_out(context, request))


def _sorted_out(context: RequestContext[GroupParts], request: OffsetDeleteRequest) -> Generator[None, None, Answer]:
    """Sort out what may be deleted, and have that decided at one moment."""
    refused: list[OffsetDeleteResponseTopic] = []
    asked = request.replace(topics=(yield from _permitted(context, request, refused)))

    def decide(shard: Shard, token: int) -> Decision:
        return groups.delete_offsets(shard.groups.get(request.group_id), shard.offsets, asked)

    answer = context.services.groups.write(request.group_id, decide, lambda error: refuse(request, error))
    if not refused:
        return answer
    if isinstance(answer, Deferred):
        return answer.then(lambda deleted: _joined(refused, deleted))
    return _joined(refused, answer)


def _joined(refused: list[OffsetDeleteResponseTopic], deleted: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """Return one answer, unless the whole request has failed; of each topic there is one entry."""
    if deleted.error_code:
        return deleted
    topics: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in (*refused, *deleted.topics):
        topics.setdefault(topic.name, []).extend(topic.partitions)
    return OffsetDeleteResponse(
        topics=[OffsetDeleteResponseTopic(name=name, partitions=found) for name, found in topics.items()]
    )


def _permitted(
    context: RequestContext[GroupParts], request: OffsetDeleteRequest, refused: list[OffsetDeleteResponseTopic]
) -> Generator[None, None, list[OffsetDeleteRequestTopic]]:
    """Return what exists and may be read; note the rest as refused."""
    permitted = []
    image = context.services.image
    for asked in request.topics:
        yield
        topic = image.topic(asked.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known = topic.partitions if topic is not None else {}
        if not context.allows(Operation.READ, Resource.TOPIC, asked.name):
            code, known = ErrorCode.TOPIC_AUTHORIZATION_FAILED, {}
        good = [each for each in asked.partitions if each.partition_index in known]
        bad = [each.partition_index for each in asked.partitions if each.partition_index not in known]
        if bad:
            errors = [OffsetDeleteResponsePartition(partition_index=each, error_code=int(code)) for each in bad]
            refused.append(OffsetDeleteResponseTopic(name=asked.name, partitions=errors))
        if good:
            permitted.append(asked.replace(partitions=good))
    return permitted


def refuse(request: OffsetDeleteRequest, error: KafkaError) -> OffsetDeleteResponse:
    """Answer with an error."""
    return OffsetDeleteResponse(error_code=int(error.code))


HANDLER = Handler(
    OffsetDeleteRequest,
    versions=(0, 0),
    needs=Needs(Operation.DELETE, Resource.GROUP),
    handle=offset_delete,
    error_response=refuse,
)
