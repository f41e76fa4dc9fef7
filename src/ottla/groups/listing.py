"""What groups tell about themselves: ListGroups, DescribeGroups, OffsetFetch; and DeleteGroups."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ottla.base import ErrorCode, KafkaError
from ottla.groups.classic import ClassicGroup, Member, State
from ottla.groups.committing import offset_tombstones
from ottla.groups.decision import Committed, Decision
from ottla.groups.shard import ShardState
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup

__all__ = ["FetchedOffset", "delete_group", "describe_classic", "fetch_all", "fetch_offsets", "list_groups"]

DEAD = "Dead"
"""The state that is told of a group that does not exist."""
GROUP_NOT_FOUND_FROM = 6


class FetchedOffset(NamedTuple):
    """What is told of one partition: an offset, that there is none (`committed` None), or an error."""

    topic: str
    partition: int
    committed: Committed | None
    code: ErrorCode = ErrorCode.NONE


def list_groups(state: ShardState, states: Collection[str], types: Collection[str]) -> Iterator[ListedGroup]:
    """Yield the groups in one of these states and of one of these types; none given means all. Case does not matter."""
    wanted_states = {each.lower() for each in states}
    wanted_types = {each.lower() for each in types}
    for group_id in sorted(state.groups):
        group = state.groups[group_id]
        if wanted_states and group.state_name().lower() not in wanted_states:
            continue
        if wanted_types and group.kind.value not in wanted_types:
            continue
        yield ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name(),
            group_type=group.kind.value,
        )


def describe_classic(state: ShardState, group_id: str, api_version: int) -> DescribedGroup:
    """Return a classic group's description; to who asks about another, that it is dead or not found."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        if api_version < GROUP_NOT_FOUND_FROM:
            return DescribedGroup(group_id=group_id, group_state=DEAD)
        reason = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        return DescribedGroup(
            group_id=group_id,
            group_state=DEAD,
            error_code=int(ErrorCode.GROUP_ID_NOT_FOUND),
            error_message=reason,
        )
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name(),
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[_described(each, group.protocol if is_stable else None) for each in group.members.values()],
    )


def _described(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )


# -- offsets


def fetch_offsets(
    state: ShardState,
    group_id: str,
    topics: Sequence[tuple[str, Sequence[int]]],
    *,
    member_id: str | None,
    member_epoch: int,
    require_stable: bool,
) -> list[FetchedOffset]:
    """Return a group's offsets for these partitions; raises KafkaError where the asker may not read as this member."""
    _check_fetch(state, group_id, member_id, member_epoch)
    offsets = state.offsets
    found = []
    for topic, partitions in topics:
        for partition in partitions:
            if require_stable and offsets.is_pending(group_id, topic, partition):
                found.append(FetchedOffset(topic, partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                found.append(FetchedOffset(topic, partition, offsets.get(group_id, topic, partition)))
    return found


def fetch_all(
    state: ShardState, group_id: str, *, member_id: str | None, member_epoch: int, require_stable: bool
) -> list[FetchedOffset]:
    """Return all offsets of a group; raises as `fetch_offsets`."""
    _check_fetch(state, group_id, member_id, member_epoch)
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return [
        FetchedOffset(topic, partition, None, unstable)
        if require_stable and state.offsets.is_pending(group_id, topic, partition)
        else FetchedOffset(topic, partition, committed)
        for topic, partition, committed in state.offsets.of_group(group_id)
    ]


def _check_fetch(state: ShardState, group_id: str, member_id: str | None, member_epoch: int) -> None:
    group = state.groups.get(group_id)
    if group is not None:
        group.check_offset_fetch(member_id, member_epoch)


# -- deleting


def delete_group(state: ShardState, group_id: str) -> Decision:
    """Decide about one group of a DeleteGroups: with its offsets, and only while it is empty."""
    try:
        group = state.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_delete()
    except KafkaError as error:
        return Decision(response=DeletableGroupResult(group_id=group_id, error_code=int(error.code)))
    records = (*offset_tombstones(state.offsets, group_id), *group.tombstones())
    return Decision(records, DeletableGroupResult(group_id=group_id))
