"""OffsetCommit: how far a group has read. Version 9 speaks of member epochs (KIP-848), 10 names topics by id (KIP-848)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ottla import groups
from ottla.base import ErrorCode, KafkaError, Uuid
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.origins import origin_of
from ottla.broker.requests.slices import now_or_in_slices
from ottla.groups import Decision, Shard
from ottla.metadata import Topic
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

__all__ = ["HANDLER"]

TOPIC_IDS_FROM = 10


def offset_commit(context: RequestContext[GroupParts], request: OffsetCommitRequest) -> Answer:
    """Commit what may be committed; the other partitions are refused beside it."""
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return groups.commit_refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return now_or_in_slices(context, _sorted_out(context, request))


def _sorted_out(context: RequestContext[GroupParts], request: OffsetCommitRequest) -> Generator[None, None, Answer]:
    """Sort out what may be committed, and have that decided at one moment."""
    refused: list[OffsetCommitResponseTopic] = []
    permitted = yield from _permitted(context, request, refused)
    if not permitted and refused:
        return OffsetCommitResponse(topics=refused)
    asked = request.replace(topics=permitted)
    coordinator = context.services.groups

    def decide(shard: Shard, token: int) -> Decision:
        group = shard.groups.get(request.group_id)
        return groups.commit(group, asked, origin_of(context, token), coordinator.decision_context())

    answer = coordinator.write(request.group_id, decide, lambda error: groups.commit_refused(asked, error.code))
    if not refused:
        return answer
    if isinstance(answer, Deferred):
        return answer.then(lambda committed: _joined(refused, committed))
    return _joined(refused, answer)


def _joined(refused: list[OffsetCommitResponseTopic], committed: OffsetCommitResponse) -> OffsetCommitResponse:
    """Return one answer; of a topic with good and bad partitions there is one entry."""
    topics: dict[str | bytes, OffsetCommitResponseTopic] = {}
    partitions: dict[str | bytes, list[OffsetCommitResponsePartition]] = {}
    for topic in (*refused, *committed.topics):
        key = topic.name or topic.topic_id
        topics[key] = topic
        partitions.setdefault(key, []).extend(topic.partitions)
    return OffsetCommitResponse(topics=[each.replace(partitions=partitions[key]) for key, each in topics.items()])


def _permitted(
    context: RequestContext[GroupParts], request: OffsetCommitRequest, refused: list[OffsetCommitResponseTopic]
) -> Generator[None, None, list[OffsetCommitRequestTopic]]:
    """Return the partitions that exist and may be read, with their topics' names; note the others as refused."""
    permitted = []
    by_id = context.api_version >= TOPIC_IDS_FROM
    image = context.services.image
    for asked in request.topics:
        yield
        topic = image.topic_by_id(Uuid(asked.topic_id)) if by_id else image.topic(asked.name)
        name = asked.name if topic is None or not by_id else topic.name
        code = _refusal(context, name, topic, by_id=by_id)
        if code is not ErrorCode.NONE or topic is None:
            refused.append(_refused(asked, list(asked.partitions), code))
            continue
        good = [each for each in asked.partitions if each.partition_index in topic.partitions]
        if len(good) < len(asked.partitions):
            bad = [each for each in asked.partitions if each.partition_index not in topic.partitions]
            refused.append(_refused(asked, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name))
        if good:
            permitted.append(asked.replace(name=name, topic_id=topic.id, partitions=good))
    return permitted


def _refusal(context: RequestContext[GroupParts], name: str, topic: Topic | None, *, by_id: bool) -> ErrorCode:
    """Return the error for all partitions of a topic, if there is one."""
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not context.allows(Operation.READ, Resource.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE


def _refused(
    asked: OffsetCommitRequestTopic, partitions: list[Any], code: ErrorCode, name: str = ""
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=name or asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=int(code))
            for each in partitions
        ],
    )


def refuse(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """Say of every partition that the request failed."""
    return groups.commit_refused(request, error.code)


HANDLER = Handler(
    OffsetCommitRequest,
    versions=(2, 10),
    needs=Needs(Operation.READ, Resource.GROUP),
    handle=offset_commit,
    error_response=refuse,
)
