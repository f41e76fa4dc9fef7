"""Share groups (KIP-932), as Apache Kafka 4.3 has them: who is in one, and where it begins in each partition.

A share group has no committed offsets. What lies before a partition's start offset is done with; of what follows, records
may be done with already, or be under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.admin.errors import raise_code
from ottla.admin.groups import GroupDescription, MemberDescription, coordinator_of
from ottla.admin.topic_records import committed_records, offsets_at
from ottla.base import (
    SHARE_STATE_TOPIC,
    KafkaError,
    Offset,
    TopicPartition,
    Uuid,
    WireError,
    coordinating_partition,
    uuid_text,
)

if TYPE_CHECKING:
    from ottla.client import BlockingClient
    from ottla.wire import Record

__all__ = [
    "Deliveries",
    "alter_share_starts",
    "delete_share_starts",
    "describe_share_group",
    "share_deliveries",
    "share_starts",
]


AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
"""States of records as they are kept; who has some at the moment is known to their leader alone."""


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


def delete_share_starts(client: BlockingClient, group: str, topic: str) -> None:
    """Have a share group without members forget a topic; raises the first error, NON_EMPTY_GROUP where it has members."""
    from ottla.client import Coordinated
    from ottla.wire.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )

    request = DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    )
    response = client.request(request, coordinator_of=Coordinated(group))
    raise_code(response.error_code, response.error_message)
    for each in response.responses:
        raise_code(each.error_code, each.error_message)


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What is kept of a share group's records in one partition, behind its start offset."""

    start: int
    tried: Mapping[int, int]
    """How many records wait for another delivery, by how often they were delivered already."""
    acknowledged: int
    archived: int
    """Records that were given up: rejected, or delivered too often."""


def share_deliveries(client: BlockingClient, group: str, topics: Iterable[str]) -> dict[TopicPartition, Deliveries]:
    """Return what is kept of how often a group's records were delivered (KIP-932, `__share_group_state`).

    Raises KafkaError where the topic may not be read. Partitions of which nothing is kept are left out.
    """
    from ottla.client import EARLIEST, LATEST

    names = list(topics)
    view = client.metadata([*names, SHARE_STATE_TOPIC])
    count = len(view.partitions_of(SHARE_STATE_TOPIC))
    if not count:
        return {}
    partitions = [each for name in names for each in view.partitions_of(name)]
    places = {(bytes(view.topic_id(each.topic)), each.partition): each for each in partitions}
    wanted = {TopicPartition(SHARE_STATE_TOPIC, _state_partition(group, *place, count)) for place in places}
    ends = {each.partition: int(found.offset) for each, found in offsets_at(client, wanted, LATEST).items()}
    starts = {each.partition: int(found.offset) for each, found in offsets_at(client, wanted, EARLIEST).items()}
    kept: dict[TopicPartition, _State] = {}
    for _, record in committed_records(client, SHARE_STATE_TOPIC, starts, ends):
        _apply(kept, places, group, record)
    return {place: state.deliveries() for place, state in kept.items()}


def _state_partition(group: str, topic_id: bytes, partition: int, count: int) -> int:
    """Return where a share partition's state is kept."""
    return coordinating_partition(f"{group}:{uuid_text(Uuid(topic_id))}:{partition}", count)


class _State:
    """A share partition's state: stretches of offsets with what is the matter with them, in order."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._stretches: list[tuple[int, int, int, int]] = []

    def take(self, first: int, last: int, state: int, count: int) -> None:
        """Lay a stretch over what was there."""
        found: list[tuple[int, int, int, int]] = []
        for low, high, its_state, its_count in self._stretches:
            if high < first or low > last:
                found.append((low, high, its_state, its_count))
                continue
            found += [(low, first - 1, its_state, its_count)] if low < first else []
            found += [(last + 1, high, its_state, its_count)] if high > last else []
        self._stretches = sorted([*found, (first, last, state, count)])

    def deliveries(self) -> Deliveries:
        """Return what there is behind the start."""
        tried: dict[int, int] = {}
        done = {ACKNOWLEDGED: 0, ARCHIVED: 0}
        for first, last, state, count in self._stretches:
            records = last - max(first, self.start) + 1
            if records <= 0:
                continue
            if state in done:
                done[state] += records
            elif count > 0:
                tried[count] = tried.get(count, 0) + records
        return Deliveries(self.start, dict(sorted(tried.items())), done[ACKNOWLEDGED], done[ARCHIVED])


def _apply(
    kept: dict[TopicPartition, _State], places: Mapping[tuple[bytes, int], TopicPartition], group: str, record: Record
) -> None:
    """Take in one record of the state topic: a snapshot, an update of it, or the end of both."""
    from ottla.wire import decode_coordinator_key, decode_coordinator_value

    if record.key is None:
        return
    try:
        key: Any = decode_coordinator_key(SHARE_STATE_TOPIC, record.key)
        is_mine = key is not None and key.group_id == group
        place = places.get((bytes(key.topic_id), key.partition)) if is_mine else None
        if place is None:
            return
        if record.value is None:
            kept.pop(place, None)
            return
        decoded = decode_coordinator_value(SHARE_STATE_TOPIC, key, record.value)
    except WireError:
        return  # of a version that is not known here
    if decoded is None:
        return
    value: Any = decoded[0]
    if type(key).__name__ == "ShareSnapshotKey" or place not in kept:
        kept[place] = _State(value.start_offset)
    state = kept[place]
    if value.start_offset >= 0:
        state.start = value.start_offset
    for each in value.state_batches:
        state.take(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
