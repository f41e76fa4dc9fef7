"""Decisions about offsets: OffsetCommit, OffsetDelete, offsets whose time is over, and those of deleted topics.

KIP-211 (when offsets expire). Topics come here by name: who asks about ids has resolved them, and refused what the client
may not touch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.base import ErrorCode, KafkaError, Millis, Uuid
from ottla.groups.classic import ClassicGroup, State, session
from ottla.groups.decision import (
    Cluster,
    Committed,
    Decision,
    DecisionContext,
    Group,
    Record,
    RequestOrigin,
    TimerChange,
)
from ottla.groups.offsets import Offsets, offset_record, offset_tombstone
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

__all__ = ["commit", "commit_refused", "delete_offsets", "expire_offsets", "gone_offsets", "offset_tombstones"]

DEFAULT_RETENTION_MS = -1
LATEST_MS = (1 << 63) - 1
GROUP_NOT_FOUND_FROM = 9


def commit(
    group: Group | None, request: OffsetCommitRequest, origin: RequestOrigin, context: DecisionContext
) -> Decision:
    """Decide about an OffsetCommit; a group that has no members need not exist."""
    try:
        _check(group, request, origin, context.cluster)
    except KafkaError as error:
        return Decision(response=commit_refused(request, error.code))
    records: list[Record] = []
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=int(_commit_one(request, topic, each, context, records)),
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    timers: tuple[TimerChange, ...] = ()
    if isinstance(group, ClassicGroup) and group.state in (State.STABLE, State.PREPARING_REBALANCE):
        timers = session(group, request.member_id, context)  # a commit is a sign of life
    return Decision(tuple(records), OffsetCommitResponse(topics=topics), timers=timers)


def _check(group: Group | None, request: OffsetCommitRequest, origin: RequestOrigin, cluster: Cluster) -> None:
    """Raise the KafkaError for which the whole commit is refused; one partition of an epoch too old is enough (KIP-1251)."""
    epoch = request.generation_id_or_member_epoch
    if group is None:
        if epoch < 0:
            return
        is_told = origin.api_version >= GROUP_NOT_FOUND_FROM
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION)
    group.check_offset_commit(
        request.member_id,
        request.group_instance_id,
        epoch,
        api_version=origin.api_version,
        transactional=False,
    )
    for topic in request.topics:
        found = cluster.topic(topic.name)
        topic_id = Uuid(topic.topic_id) if found is None else found.id
        for each in topic.partitions:
            group.check_commit_partition(request.member_id, epoch, topic_id, each.partition_index)


def _commit_one(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    asked: OffsetCommitRequestPartition,
    context: DecisionContext,
    records: list[Record],
) -> ErrorCode:
    metadata = asked.committed_metadata or ""
    if metadata and utf16_length(metadata) > context.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms == DEFAULT_RETENTION_MS else min(context.wall_ms + retention_ms, LATEST_MS)
    committed = Committed(
        asked.committed_offset,
        asked.committed_leader_epoch,
        metadata,
        context.wall_ms,
        expire_ms,
        topic.topic_id,
    )
    records.append(offset_record(request.group_id, topic.name, asked.partition_index, committed))
    return ErrorCode.NONE


def utf16_length(text: str) -> int:
    """Return a text's length as Java counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def commit_refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Return the answer that refuses every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=int(code))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


# -- removing


def delete_offsets(group: Group | None, offsets: Offsets, request: OffsetDeleteRequest) -> Decision:
    """Decide about an OffsetDelete: what members subscribe to stays. Offsets pending in a transaction go, too."""
    try:
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
    except KafkaError as error:
        return Decision(response=OffsetDeleteResponse(error_code=int(error.code)))
    records: list[Record] = []
    topics = []
    for topic in request.topics:
        is_used = group.is_subscribed(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE
        indexes = [each.partition_index for each in topic.partitions]
        records += [
            offset_tombstone(request.group_id, topic.name, index)
            for index in indexes
            if not is_used and _has_any(offsets, request.group_id, topic.name, index)
        ]
        partitions = [OffsetDeleteResponsePartition(partition_index=each, error_code=int(code)) for each in indexes]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return Decision(tuple(records), OffsetDeleteResponse(topics=topics))


def _has_any(offsets: Offsets, group_id: str, topic: str, index: int) -> bool:
    return offsets.get(group_id, topic, index) is not None or offsets.is_pending(group_id, topic, index)


def offset_tombstones(offsets: Offsets, group_id: str) -> list[Record]:
    """Return the records that remove all of a group's offsets; pending ones too."""
    wanted = {(topic, index) for topic, index, _ in offsets.of_group(group_id)}
    wanted.update((topic, index) for group, topic, index in offsets.waiting if group == group_id)
    return [offset_tombstone(group_id, topic, index) for topic, index in sorted(wanted)]


def gone_offsets(offsets: Offsets, group_id: str, is_gone: Callable[[str, Committed], bool]) -> list[Record]:
    """Return the records that remove a group's offsets of topics that are gone, pending ones too.

    What a transaction has pending for a topic that has the name now keeps what is there beside it, until its next commit.
    """
    found: dict[tuple[str, int], bool] = {}
    for topic, index, committed in offsets.of_group(group_id):
        found[topic, index] = is_gone(topic, committed)
    for place, producers in offsets.waiting.items():
        if place[0] == group_id:
            gone = all(is_gone(place[1], offsets.pending[each][place]) for each in producers)
            found[place[1:]] = gone and found.get(place[1:], True)
    return [offset_tombstone(group_id, topic, index) for (topic, index), gone in sorted(found.items()) if gone]


def expire_offsets(group: Group, offsets: Offsets, *, now_ms: Millis, retention_ms: int) -> Sequence[Record]:
    """Return the records that remove a group's expired offsets, and the group itself when nothing is left of it."""
    records: list[Record] = []
    is_left = False
    for topic, partition, committed in offsets.of_group(group.group_id):
        if (
            group.is_subscribed(topic)
            or offsets.is_pending(group.group_id, topic, partition)
            or not _is_expired(group, committed, now_ms=now_ms, retention_ms=retention_ms)
        ):
            is_left = True
        else:
            records.append(offset_tombstone(group.group_id, topic, partition))
    if not is_left and group.is_empty() and not offsets.has_pending(group.group_id):
        records += group.tombstones()
    return records


def _is_expired(group: Group, committed: Committed, *, now_ms: Millis, retention_ms: int) -> bool:
    since_ms = group.expires_from(committed)
    if since_ms is None:
        return False
    return now_ms >= committed.expire_ms if committed.expire_ms >= 0 else now_ms - since_ms >= retention_ms
