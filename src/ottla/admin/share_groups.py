"""Share groups (KIP-932), as Apache Kafka 4.3 has them: who is in one, and where it begins in each partition.

A share group has no committed offsets. What lies before a partition's start offset is done with; of what follows, records
may be done with already, or be under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.admin.errors import raise_code
from ottla.admin.groups import GroupDescription, MemberDescription, coordinator_of
from ottla.base import KafkaError, Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["alter_share_starts", "describe_share_group", "share_starts"]


def describe_share_group(client: BlockingClient, group: str) -> GroupDescription:
    """Ask a share group's coordinator; raises GROUP_ID_NOT_FOUND where there is none of that name, UNSUPPORTED_VERSION."""
    from ottla.client import Coordinated
    from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest

    coordinator = coordinator_of(client, group)
    response = client.request(ShareGroupDescribeRequest(group_ids=[group]), coordinator_of=Coordinated(group))
    (found,) = response.groups
    raise_code(found.error_code, found.error_message or f"Group {group} not found.")
    members = [
        MemberDescription(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            sorted(
                TopicPartition(topic.topic_name, index)
                for topic in each.assignment.topic_partitions
                for index in topic.partitions
            ),
            each.member_epoch,
        )
        for each in found.members
    ]
    return GroupDescription(
        group, coordinator, found.group_state, found.assignor_name, members, found.group_epoch, found.assignment_epoch
    )


def share_starts(client: BlockingClient, group: str) -> dict[TopicPartition, Offset]:
    """Return where a share group begins in each partition that it knows; raises the group's KafkaError."""
    from ottla.client import Coordinated
    from ottla.wire.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    asked = [DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    response = client.request(DescribeShareGroupOffsetsRequest(groups=asked), coordinator_of=Coordinated(group))
    (found,) = response.groups
    raise_code(found.error_code, found.error_message)
    return {
        TopicPartition(topic.topic_name, each.partition_index): Offset(each.start_offset)
        for topic in found.topics
        for each in topic.partitions
        if each.start_offset >= 0 and not each.error_code
    }


def alter_share_starts(client: BlockingClient, group: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Have a share group without members begin elsewhere; raises the first error, NON_EMPTY_GROUP where it has some."""
    from ottla.base import ErrorCode
    from ottla.client import Coordinated
    from ottla.wire.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for each, offset in sorted(offsets.items()):
        topics.setdefault(each.topic, []).append(
            AlterShareGroupOffsetsRequestPartition(partition_index=each.partition, start_offset=offset)
        )
    request = AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    response = client.request(request, coordinator_of=Coordinated(group))
    raise_code(response.error_code, response.error_message)
    for topic in response.responses:
        for each in topic.partitions:
            if each.error_code:
                words = each.error_message or f"{topic.topic_name}-{each.partition_index} cannot be altered"
                raise KafkaError(ErrorCode(each.error_code), words)
