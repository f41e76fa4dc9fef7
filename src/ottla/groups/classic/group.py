"""A classic group as a value: its members, its state, and its form in the log.

Generation, protocol, leader and assignments are what `GroupMetadataValue` holds. Everything else (members that are still
joining, requests that are parked) is known only to the coordinator in office, and a group that was loaded begins without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ottla.base import ErrorCode, KafkaError, Uuid, WireError
from ottla.groups.decision import Committed, GroupKind, Record
from ottla.wire import decode
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.group_metadata_value import GroupMetadataValue, MemberMetadata

__all__ = ["CONSUMER_PROTOCOL", "NO_MEMBER_ID", "ClassicGroup", "Member", "State", "group_from_record", "group_record"]

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of Kafka's consumers, whose subscriptions the coordinator reads."""
NO_MEMBER_ID = ""
SUBSCRIPTION_VERSION_MAX = 3


class State(Enum):
    """States of a classic group, by the names that DescribeGroups uses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Member:
    """A member; `joining` and `syncing` are the tokens of its requests that are parked."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    joining: int | None = None
    syncing: int | None = None
    is_new: bool = False
    """True until its first generation begins: until then it does not know its id, and sends no heartbeats."""

    def metadata(self, protocol: str | None) -> bytes:
        """Return what the member says under a protocol; empty for one that it lacks."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first of its protocols that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """A group of the classic protocol; with neither protocol type nor members it only holds offsets (a "simple" group).

    `members` is in the order of joining and is never changed in place.
    """

    group_id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    state_since_ms: int = -1
    members: Mapping[str, Member] = field(default_factory=dict)
    subscribed: frozenset[str] | None = None
    """The topics of a consumer group's members; None where they are not known."""
    static_ids: Mapping[str, str] = field(default_factory=dict)
    """Member ids of static members by their instance ids (KIP-345)."""
    protocol_counts: Mapping[str, int] = field(default_factory=dict)
    """How many members support each protocol."""
    awaiting_join: int = 0
    """How many members have a JoinGroup parked."""
    pending_joins: frozenset[str] = frozenset()
    """Ids given out with MEMBER_ID_REQUIRED whose bearers have yet to return (KIP-394)."""
    pending_syncs: frozenset[str] = frozenset()
    """Members of this generation that have yet to send SyncGroup."""
    was_empty: bool = False
    """True while the first rebalance after Empty is prepared."""
    member_added: bool = False
    """True where somebody new joined since the initial rebalance delay last began."""
    initial_delay_ms: int = 0
    initial_remaining_ms: int = 0

    @property
    def kind(self) -> GroupKind:
        """Classic."""
        return GroupKind.CLASSIC

    def state_name(self) -> str:
        """Return the state as it is listed."""
        return self.state.value

    def is_empty(self) -> bool:
        """Return whether it has no members, not even ones that are joining."""
        return self.state is State.EMPTY

    # -- who may do what

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raise UNKNOWN_MEMBER_ID or, for an instance that goes by another member id now, FENCED_INSTANCE_ID."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_generation(self, generation: int) -> None:
        """Raise ILLEGAL_GENERATION for any but the current one."""
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, transactional: bool
    ) -> None:
        """Let members of this generation commit, and anyone without a generation while the group is empty."""
        if epoch < 0 and self.state is State.EMPTY:
            return
        if epoch >= 0 or member_id != NO_MEMBER_ID or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        elif not transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is State.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_commit_partition(self, member_id: str, epoch: int, topic_id: Uuid, partition: int) -> None:
        """Take every partition: who owns which is the members' own affair."""

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Let everyone read."""

    def check_offset_delete(self) -> None:
        """Refuse while it has members that are not consumers, since only consumers' topics are known."""
        if self.state is not State.EMPTY and self.protocol_type != CONSUMER_PROTOCOL:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Refuse while it has members."""
        if self.state is not State.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    # -- offsets

    def is_subscribed(self, topic: str) -> bool:
        """Return whether members subscribe to a topic; of consumers that cannot be read, that is assumed."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.subscribed

    def expires_from(self, committed: Committed) -> int | None:
        """Count from when the group became empty, or from the commit where nobody is in it or asks for the topic."""
        if not self.protocol_type:
            return committed.commit_ms
        if self.state is State.EMPTY:
            return committed.commit_ms if self.state_since_ms < 0 else self.state_since_ms
        is_known = self.protocol_type == CONSUMER_PROTOCOL and self.subscribed is not None
        return committed.commit_ms if is_known and self.state is State.STABLE else None

    # -- the log

    def tombstones(self) -> Sequence[Record]:
        """Return the record that removes the group."""
        return (Record(GroupMetadataKey(group=self.group_id), None),)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Record:
    """Return the record of a group whose members have these assignments."""
    members = [
        MemberMetadata(
            member_id=each.member_id,
            group_instance_id=each.instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout=each.rebalance_timeout_ms,
            session_timeout=each.session_timeout_ms,
            subscription=each.metadata(group.protocol),
            assignment=assignments.get(each.member_id, b""),
        )
        for each in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=members,
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group that a record describes: Stable with its members, or Empty."""
    members = {each.member_id: _member(value, each) for each in value.members}
    counts = {value.protocol: len(members)} if members and value.protocol is not None else {}
    return ClassicGroup(
        group_id=group_id,
        state=State.STABLE if members else State.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type,
        protocol=value.protocol,
        leader=value.leader,
        state_since_ms=value.current_state_timestamp,
        members=members,
        subscribed=subscribed_topics(value.protocol_type, value.protocol, members),
        static_ids={each.instance_id: each.member_id for each in members.values() if each.instance_id is not None},
        protocol_counts=counts,
    )


def _member(group: GroupMetadataValue, stored: MemberMetadata) -> Member:
    rebalance_timeout = stored.rebalance_timeout
    return Member(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.session_timeout if rebalance_timeout == -1 else rebalance_timeout,
        session_timeout_ms=stored.session_timeout,
        protocols=((group.protocol or "", stored.subscription),),
        assignment=stored.assignment,
    )


def subscribed_topics(protocol_type: str, protocol: str | None, members: Mapping[str, Member]) -> frozenset[str] | None:
    """Return what consumers subscribe to; None for other protocol types and for what cannot be read."""
    if protocol_type != CONSUMER_PROTOCOL:
        return None
    if not members:
        return frozenset()
    if protocol is None:
        return None
    topics: set[str] = set()
    for each in members.values():
        try:
            topics.update(_subscription_topics(each.metadata(protocol)))
        except WireError:
            return None
    return frozenset(topics)


def _subscription_topics(metadata: bytes) -> Sequence[str]:
    if len(metadata) < 2:
        raise WireError("a subscription is shorter than its version")
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        raise WireError(f"subscription version {version} is not known")
    version = min(version, SUBSCRIPTION_VERSION_MAX)  # later ones begin as the last that is known
    return decode(ConsumerProtocolSubscription, metadata, version, 2)[0].topics
