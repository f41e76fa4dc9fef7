"""What a group has committed: offsets read, set and deleted (OffsetFetch, OffsetCommit, OffsetDelete), and whole groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Offset, TopicPartition
from ottla.client.client import Client
from ottla.client.coordinators import Coordinated
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)

__all__ = [
    "CommittedOffset",
    "ConsumerGroupMetadata",
    "commit_offsets",
    "committed_offsets",
    "delete_group",
    "delete_offsets",
    "words_for",
]

GROUPS_FROM = 8
"""The version of OffsetFetch from which on it asks for groups (KIP-709)."""
TOPIC_NAMES_UNTIL = 9
"""The last version of OffsetFetch and OffsetCommit that names topics; later ones use ids alone (KIP-848)."""
NO_GENERATION = -1
"""The generation of who commits without being a member."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset that a group committed, with what whoever committed it said besides."""

    offset: Offset
    leader_epoch: LeaderEpoch | None = None
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """For whom offsets are committed: a member of a group, as of one generation (KIP-447)."""

    group: str
    member_id: str
    generation: int


async def committed_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
) -> dict[TopicPartition, CommittedOffset]:
    """Return what a group has committed, of all partitions or of these, sorted; nothing where there is no such group.

    With `require_stable` it waits, up to `Limits.call_s`, for transactions that have committed offsets of these
    partitions and not ended (KIP-447); without `partitions` it does not for one that has nothing committed yet, which
    a coordinator does not list. Raises KafkaError for the group, or for the first partition with an error.
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in _by_topic(partitions).items()
        ]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    message = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + client.limits.call_s
    while True:
        answer = await client.request(
            message, coordinator_of=Coordinated(group), lowest=GROUPS_FROM, highest=TOPIC_NAMES_UNTIL
        )
        (found,) = answer.groups
        try:
            return _read_committed(found)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT or loop.time() > until_s:
                raise
        await asyncio.sleep(client.limits.backoff_s)


def _read_committed(found: OffsetFetchResponseGroup) -> dict[TopicPartition, CommittedOffset]:
    code = ErrorCode(found.error_code)
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if code:
        raise KafkaError(code, f"the offsets of group {found.group_id} cannot be read: {code.name}")
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic in found.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                code = ErrorCode(each.error_code)
                raise KafkaError(
                    code, f"the offset of {partition} of group {found.group_id} cannot be read: {code.name}"
                )
            if each.committed_offset >= 0:
                epoch = LeaderEpoch(each.committed_leader_epoch) if each.committed_leader_epoch >= 0 else None
                offsets[partition] = CommittedOffset(Offset(each.committed_offset), epoch, each.metadata or "")
    return dict(sorted(offsets.items()))


async def commit_offsets(
    client: Client,
    group: str,
    offsets: Mapping[TopicPartition, Offset],
    *,
    metadata: str | Mapping[TopicPartition, str] = "",
    member: ConsumerGroupMetadata | None = None,
) -> None:
    """Commit offsets for a group: as its member, or from outside, as is allowed while nobody is in it.

    `metadata` are the words beside each offset, the same for all or by partition.

    Raises KafkaError for the first partition that was refused; UNKNOWN_MEMBER_ID means that others are in the group.
    """
    if not offsets:
        return
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offsets[TopicPartition(name, index)],
                    committed_leader_epoch=-1,
                    committed_metadata=words_for(metadata, TopicPartition(name, index)),
                )
                for index in indexes
            ],
        )
        for name, indexes in _by_topic(sorted(offsets)).items()
    ]
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        topics=topics,
    )
    answer = await client.request(message, coordinator_of=Coordinated(group), highest=TOPIC_NAMES_UNTIL)
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                code = ErrorCode(each.error_code)
                place = TopicPartition(topic.name, each.partition_index)
                words = f"the offset of {place} of group {group} is not committed: {code.name}"
                if code is ErrorCode.UNKNOWN_MEMBER_ID:
                    words = f"group {group} has members: another application or consumer uses the name {group}"
                raise KafkaError(code, words)


def words_for(words: str | Mapping[TopicPartition, str], partition: TopicPartition) -> str:
    """Return the words beside a partition's offset."""
    return words if isinstance(words, str) else words.get(partition, "")


async def delete_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition]
) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
    """Delete what a group has committed for these partitions; returns the group's code, and each partition's."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in _by_topic(partitions).items()
    ]
    message = OffsetDeleteRequest(group_id=group, topics=topics)
    answer = await client.request(message, coordinator_of=Coordinated(group))
    codes = {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }
    return ErrorCode(answer.error_code), codes


async def delete_group(client: Client, group: str) -> ErrorCode:
    """Delete a group with its offsets; returns the coordinator's code, NONE where it is done."""
    answer = await client.request(DeleteGroupsRequest(groups_names=[group]), coordinator_of=Coordinated(group))
    (result,) = answer.results
    return ErrorCode(result.error_code)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
