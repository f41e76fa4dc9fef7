"""Groups' offsets: how far groups are, where they shall go on (planned, then committed), and what they shall forget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.admin.errors import AdminError, words
from ottla.base import ErrorCode, KafkaError, Millis, Offset, OttlaError, TopicPartition

if TYPE_CHECKING:
    from ottla.admin.groups import GroupDescription, MemberDescription
    from ottla.client import BlockingClient, CommittedOffset

__all__ = [
    "GroupLag",
    "MovedOffset",
    "OffsetDeletion",
    "OffsetDeletionResult",
    "OffsetReset",
    "PartitionLag",
    "ResetKind",
    "ResetTarget",
    "TopicScope",
    "delete_groups",
    "delete_offsets",
    "end_offsets",
    "group_lag",
    "partitions_in_scope",
    "plan_offset_deletion",
    "plan_offset_reset",
    "plan_reset_to_offsets",
    "reset_offsets",
]

TopicScope = Mapping[str, Sequence[int] | None]
"""Topic -> its partitions, or None for all of them."""


@dataclass(frozen=True)
class PartitionLag:
    """How far a group is in one partition: what it committed, where the log ends, and who reads it; None is not known."""

    partition: TopicPartition
    committed: CommittedOffset | None
    log_end_offset: Offset | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset


@dataclass(frozen=True)
class GroupLag:
    """How far a group is; `ends_unknown` says why no ends are known, where that failed."""

    partitions: tuple[PartitionLag, ...]
    ends_unknown: OttlaError | None


class ResetKind(Enum):
    """Where to a group's offsets are reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    """What is committed, or the end where nothing is."""
    OFFSET = "offset"
    """One offset in all partitions, or a partition's nearest end."""
    SHIFT = "shift"
    """So many records further on, or back where the number is negative."""
    TIME = "time"
    """The first record since then, or the end where nothing is that young."""


@dataclass(frozen=True)
class ResetTarget:
    """Where to; `value` is the offset, the number of records, or the milliseconds since 1970, as the kind wants it."""

    kind: ResetKind
    value: int = 0


class MovedOffset(NamedTuple):
    """An offset that was asked for and is not in its partition's log, and the nearest one that is."""

    partition: TopicPartition
    wanted: Offset
    offset: Offset


@dataclass(frozen=True)
class OffsetReset:
    """What `reset_offsets` commits for a group, by partition, in order."""

    group: str
    offsets: Mapping[TopicPartition, Offset]
    moved: tuple[MovedOffset, ...] = ()
    without_records: tuple[TopicPartition, ...] = ()
    """Partitions with nothing since the time that was asked for, which go to their ends."""


@dataclass(frozen=True)
class OffsetDeletion:
    """What `delete_offsets` has a group forget, and the topics that were named and are not there."""

    group: str
    partitions: tuple[TopicPartition, ...]
    unknown_topics: tuple[str, ...]


@dataclass(frozen=True)
class OffsetDeletionResult:
    """What came of a deletion: the group's code, which then holds for all, and each partition's; NONE is success."""

    group: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode]


def group_lag(client: BlockingClient, group: GroupDescription) -> GroupLag:
    """Return how far a group is in what its members read, and in each further partition with a committed offset.

    Members with most partitions stand first; one that reads nothing is left out. Raises KafkaError where the group's
    offsets cannot be read; where only the ends cannot, `GroupLag` says so.
    """
    offsets = client.committed_offsets(group.group)
    owned = {partition for member in group.members for partition in member.assignment}
    rest = [partition for partition in offsets if partition not in owned]
    ends: Mapping[TopicPartition, Offset] = {}
    unknown = None
    try:
        ends = end_offsets(client, [*owned, *rest])
    except OttlaError as error:
        unknown = error
    readers: list[tuple[TopicPartition, MemberDescription | None]] = [
        (partition, member)
        for member in sorted(group.members, key=lambda each: -len(each.assignment))
        for partition in member.assignment
    ]
    readers += [(partition, None) for partition in rest]
    rows = (PartitionLag(each, offsets.get(each), ends.get(each), member) for each, member in readers)
    return GroupLag(tuple(rows), unknown)


def end_offsets(client: BlockingClient, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
    """Return where partitions end; one that is gone or has no leader is left out. Raises the first leader's KafkaError."""
    if not partitions:
        return {}
    cluster = client.metadata({each.topic for each in partitions})
    return _ends(client, [each for each in partitions if cluster.leader_of(each) is not None], earliest=False)


def partitions_in_scope(client: BlockingClient, scope: TopicScope) -> list[TopicPartition]:
    """Return the partitions of a scope; raises UNKNOWN_TOPIC_OR_PARTITION for what does not exist in it."""
    cluster = client.metadata(scope)
    found: list[TopicPartition] = []
    missing: list[str] = []
    for name, partitions in scope.items():
        topic = cluster.topics.get(name)
        if topic is None or topic.error:
            code = topic.error if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, words(code))
        if partitions is None:
            found += cluster.partitions_of(name)
            continue
        found += [TopicPartition(name, index) for index in partitions]
        missing += [f"{name}-{index}" for index in partitions if index not in topic.partitions]
    if missing:
        text = f'The partitions "{",".join(missing)}" do not exist'
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return list(dict.fromkeys(found))


def plan_offset_reset(
    client: BlockingClient,
    group: str,
    partitions: Sequence[TopicPartition],
    target: ResetTarget,
    *,
    shift_from_earliest: bool = False,
) -> OffsetReset:
    """Return the offsets with which a group would go on; nothing is changed before `reset_offsets`.

    A shift of a partition without a committed offset raises AdminError, or begins at its first record where
    `shift_from_earliest` says so. Raises KafkaError where partitions or the group cannot answer.
    """
    match target.kind:
        case ResetKind.EARLIEST | ResetKind.LATEST:
            found = _ends(client, partitions, earliest=target.kind is ResetKind.EARLIEST)
        case ResetKind.CURRENT:
            known = client.committed_offsets(group)
            found = {each: known[each].offset for each in partitions if each in known}
            found |= _ends(client, [each for each in partitions if each not in found], earliest=False)
        case ResetKind.OFFSET:
            return plan_reset_to_offsets(client, group, dict.fromkeys(partitions, Offset(target.value)))
        case ResetKind.SHIFT:
            shifted = _shifted(client, group, partitions, target.value, from_earliest=shift_from_earliest)
            return plan_reset_to_offsets(client, group, shifted)
        case ResetKind.TIME:
            return _since(client, group, partitions, Millis(target.value))
    return OffsetReset(group, dict(sorted(found.items())))


def plan_reset_to_offsets(client: BlockingClient, group: str, wanted: Mapping[TopicPartition, Offset]) -> OffsetReset:
    """Return a plan of given offsets, each moved to its partition's nearest end where it lies outside of the log."""
    lows = _ends(client, [*wanted], earliest=True)
    highs = _ends(client, [*wanted], earliest=False)
    found = {each: max(lows[each], min(highs[each], offset)) for each, offset in wanted.items()}
    moved = (MovedOffset(each, wanted[each], offset) for each, offset in found.items() if offset != wanted[each])
    return OffsetReset(group, dict(sorted(found.items())), moved=tuple(moved))


def reset_offsets(client: BlockingClient, plan: OffsetReset) -> None:
    """Commit what was planned; raises UNKNOWN_MEMBER_ID where somebody has come into the group, or the first error."""
    client.commit_offsets(plan.group, plan.offsets)


def _ends(
    client: BlockingClient, partitions: Iterable[TopicPartition], *, earliest: bool
) -> dict[TopicPartition, Offset]:
    """Return the partitions' first or next offsets."""
    from ottla.client import EARLIEST, LATEST

    wanted = dict.fromkeys(partitions, EARLIEST if earliest else LATEST)
    return {each: found.offset for each, found in client.list_offsets(wanted).items()} if wanted else {}


def _shifted(
    client: BlockingClient, group: str, partitions: Sequence[TopicPartition], by: int, *, from_earliest: bool
) -> dict[TopicPartition, Offset]:
    known = client.committed_offsets(group)
    without = [each for each in partitions if each not in known]
    if without and not from_earliest:
        raise AdminError(f"Cannot shift offset for partition {without[0]} since there is no current committed offset")
    begin = _ends(client, without, earliest=True)
    return {each: Offset((known[each].offset if each in known else begin[each]) + by) for each in partitions}


def _since(client: BlockingClient, group: str, partitions: Sequence[TopicPartition], time: Millis) -> OffsetReset:
    listed = client.list_offsets(dict.fromkeys(partitions, time)) if partitions else {}
    found = {each: one.offset for each, one in listed.items()}
    late = tuple(each for each, offset in found.items() if offset < 0)
    found |= _ends(client, late, earliest=False)
    return OffsetReset(group, dict(sorted(found.items())), without_records=late)


def plan_offset_deletion(client: BlockingClient, group: str, scope: TopicScope) -> OffsetDeletion:
    """Return what of a scope a group would forget; partitions that were named need not exist any more."""
    whole = [name for name, partitions in scope.items() if partitions is None]
    cluster = client.metadata(whole)
    wanted = {TopicPartition(name, index) for name, partitions in scope.items() for index in partitions or ()}
    wanted |= {partition for name in whole for partition in cluster.partitions_of(name)}
    unknown = tuple(name for name in whole if not cluster.partitions_of(name))
    return OffsetDeletion(group, tuple(sorted(wanted)), unknown)


def delete_offsets(client: BlockingClient, plan: OffsetDeletion) -> OffsetDeletionResult:
    """Have a group forget what was planned (KIP-496); GROUP_SUBSCRIBED_TO_TOPIC is the code of what is still read."""
    from ottla.client import delete_offsets as request

    top, codes = client.run(request(client.client, plan.group, plan.partitions))
    return OffsetDeletionResult(top, {each: top or codes.get(each, ErrorCode.NONE) for each in plan.partitions})


def delete_groups(client: BlockingClient, groups: Iterable[str]) -> dict[str, ErrorCode]:
    """Delete groups one by one, with all that they committed; NON_EMPTY_GROUP is the code of one with members."""
    from ottla.client import delete_group

    return {group: client.run(delete_group(client.client, group)) for group in groups}
