"""OffsetFetch: how far groups have read. Version 8 asks for many groups (KIP-709), 9 as a member (KIP-848), 10 by id."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ottla import groups
from ottla.base import ZERO_UUID, ErrorCode, KafkaError, Uuid
from ottla.broker.coordinators.coordinator_errors import coordinator_error
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.broker.requests.turns import in_turn
from ottla.groups import Committed, FetchedOffset, ShardState
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

__all__ = ["HANDLER"]

GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
GROUP_ERRORS_FROM = 2
PARTITION_BYTES = 32
"""About what a partition takes in an answer."""
NONE = Committed(-1, -1, "", -1)
"""What is told where nothing is committed."""


class _Topic(NamedTuple):
    """A topic as it was asked for, by whichever of name and id."""

    name: str
    topic_id: bytes
    partitions: Sequence[int]


def offset_fetch(context: RequestContext[GroupParts], request: OffsetFetchRequest) -> Answer:
    """Answer, in turn where the answer is large and too many lie unread."""
    answer = partial(_offset_fetch, context, request)
    return in_turn(context, _size(context, request), answer) if context.services.answer_memory.is_full else answer()


def _size(context: RequestContext[GroupParts], request: OffsetFetchRequest) -> int:
    """Return about how large the answer is."""
    if context.api_version >= GROUPS_FROM:
        return sum(_group_size(context, each.group_id, each.topics) for each in request.groups)
    return _group_size(context, request.group_id, request.topics)


def _group_size(
    context: RequestContext[GroupParts],
    group_id: str,
    topics: Sequence[OffsetFetchRequestTopics] | Sequence[OffsetFetchRequestTopic] | None,
) -> int:
    count = 0
    if topics is not None:
        count = sum(len(each.partition_indexes) for each in topics)
    else:
        with suppress(KafkaError):  # the answer will say so
            count = context.services.groups.read(group_id, partial(_committed_count, group_id))
    return count * PARTITION_BYTES


def _committed_count(group_id: str, state: ShardState) -> int:
    return sum(1 for _ in state.offsets.of_group(group_id))


def _offset_fetch(context: RequestContext[GroupParts], request: OffsetFetchRequest) -> Answer:
    return now_or_in_slices(context, _answer_all(context, request))


def _answer_all(
    context: RequestContext[GroupParts], request: OffsetFetchRequest
) -> Generator[None, None, OffsetFetchResponse]:
    """Answer for every group by itself; earlier versions ask for one.

    Whoever asks twice for all that a group has committed is answered once: that is much longer than its name.
    """
    if context.api_version >= GROUPS_FROM:
        answers = []
        whole: set[str] = set()
        for each in request.groups:
            if each.topics is None:
                if each.group_id in whole:
                    continue
                whole.add(each.group_id)
            answers.append((yield from _answer(context, each, require_stable=request.require_stable)))
            yield
        return OffsetFetchResponse(groups=answers)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    one = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics, member_id=None, member_epoch=-1)
    return _single(context, one, (yield from _answer(context, one, require_stable=request.require_stable)))


def _answer(
    context: RequestContext[GroupParts], asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> Generator[None, None, OffsetFetchResponseGroup]:
    try:
        if not context.allows(Operation.DESCRIBE, Resource.GROUP, asked.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if asked.topics is None:
            topics = yield from _everything(context, asked, require_stable)
        else:
            topics = yield from _some(context, asked, require_stable)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=int(coordinator_error(error.code)))
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _everything(
    context: RequestContext[GroupParts], asked: OffsetFetchRequestGroup, require_stable: bool
) -> Generator[None, None, list[OffsetFetchResponseTopics]]:
    """Return all offsets of a group whose topics the client may know of, and by id only those that exist."""

    def look(state: ShardState) -> list[FetchedOffset]:
        return groups.fetch_all(
            state,
            asked.group_id,
            member_id=asked.member_id,
            member_epoch=asked.member_epoch,
            require_stable=require_stable,
        )

    found: dict[str, list[FetchedOffset]] = {}
    for each in context.services.groups.read(asked.group_id, look):
        found.setdefault(each.topic, []).append(each)
    answers = []
    for name, offsets in found.items():
        yield
        topic_id = ZERO_UUID
        if context.api_version >= TOPIC_IDS_FROM:
            topic = context.services.image.topic(name)
            if topic is None:
                continue
            topic_id = topic.id
        if context.would_allow(Operation.DESCRIBE, Resource.TOPIC, name):
            answers.append((yield from _topic(name, topic_id, offsets)))
    return answers


def _some(
    context: RequestContext[GroupParts], asked: OffsetFetchRequestGroup, require_stable: bool
) -> Generator[None, None, list[OffsetFetchResponseTopics]]:
    """Return the offsets that were asked for, in their order, and an error for what the client may not know of."""
    assert asked.topics is not None
    wanted: list[tuple[_Topic, ErrorCode]] = yield from of_each(asked.topics, partial(_resolve, context))
    readable = [(topic.name, topic.partitions) for topic, code in wanted if code is ErrorCode.NONE]

    def look(state: ShardState) -> list[FetchedOffset]:
        return groups.fetch_offsets(
            state,
            asked.group_id,
            readable,
            member_id=asked.member_id,
            member_epoch=asked.member_epoch,
            require_stable=require_stable,
        )

    found = iter(context.services.groups.read(asked.group_id, look))
    answers = []
    for topic, code in wanted:
        yield
        if code is ErrorCode.NONE:
            offsets = [next(found) for _ in topic.partitions]
        else:
            offsets = [FetchedOffset(topic.name, each, None, code) for each in topic.partitions]
        answers.append((yield from _topic(topic.name, topic.topic_id, offsets)))
    return answers


def _resolve(context: RequestContext[GroupParts], asked: OffsetFetchRequestTopics) -> tuple[_Topic, ErrorCode]:
    """Return a topic with its name, and the error for all of its partitions if there is one."""
    name = asked.name
    if context.api_version >= TOPIC_IDS_FROM:
        topic = context.services.image.topic_by_id(Uuid(asked.topic_id))
        if topic is None:
            return _Topic("", asked.topic_id, asked.partition_indexes), ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    allowed = context.allows(Operation.DESCRIBE, Resource.TOPIC, name)
    code = ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return _Topic(name, asked.topic_id, asked.partition_indexes), code


def _topic(
    name: str, topic_id: bytes, offsets: Iterable[FetchedOffset]
) -> Generator[None, None, OffsetFetchResponseTopics]:
    partitions = yield from of_each(offsets, _partition)
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)


def _partition(found: FetchedOffset) -> OffsetFetchResponsePartitions:
    committed = found.committed or NONE
    return OffsetFetchResponsePartitions(
        partition_index=found.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=int(found.code),
    )


# -- one group


def _single(
    context: RequestContext[GroupParts], asked: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """Return the answer for versions that ask for one group; the first of them has errors of partitions only."""
    if answer.error_code and context.api_version < GROUP_ERRORS_FROM:
        code = ErrorCode(answer.error_code)
        failed = [
            OffsetFetchResponseTopics(
                name=each.name,
                partitions=[
                    _partition(FetchedOffset(each.name, index, None, code)) for index in each.partition_indexes
                ],
            )
            for each in asked.topics or ()
        ]
        answer = OffsetFetchResponseGroup(group_id=asked.group_id, topics=failed, error_code=answer.error_code)
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=answer.error_code)


def refuse(request: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    """Say of every group that the request failed."""
    code = int(error.code)
    failed = [OffsetFetchResponseGroup(group_id=each.group_id, error_code=code) for each in request.groups]
    return OffsetFetchResponse(groups=failed, error_code=code)


HANDLER = Handler(
    OffsetFetchRequest,
    versions=(1, 10),
    needs=Needs(Operation.DESCRIBE, Resource.GROUP),
    handle=offset_fetch,
    error_response=refuse,
)
