"""A consumer group (KIP-848) as one immutable value: the fold of its records, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from immutables import Map

from ottla.base import ErrorCode, KafkaError, Uuid
from ottla.groups.consumer import records
from ottla.groups.consumer.member import Member, Target
from ottla.groups.consumer.regex import ResolvedRegex
from ottla.groups.decision import Cluster, Committed, GroupKind, Record

__all__ = ["EMPTY_TARGET", "PROTOCOL_TYPE", "ConsumerGroup", "metadata_hash", "unknown_member"]

PROTOCOL_TYPE = "consumer"
FIRST_EPOCH = 1
"""The epoch of a group and of its target before anyone subscribed to anything."""
_COMMIT_VERSION_WITH_EPOCH = 9
EMPTY_TARGET: Target = Map()
_NOBODY: Map[int, str] = Map()


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group.

    `target` is what each member shall hold once it is reconciled to `assignment_epoch`. `owners` says who holds a
    partition now, or has not given it back yet: there is one place for one member, so no partition has two owners.
    `topic_counts`, `regex_counts` and `static_members` follow from `members` and spare walks over them.

    The last four are in no record: the version of the cluster's metadata with which the topics were last compared, the
    version and time at which expressions were last looked up in it, and the classic members that were told to join again.
    """

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = 0
    members: Map[str, Member] = field(default_factory=Map)
    static_members: Map[str, str] = field(default_factory=Map)
    target: Map[str, Target] = field(default_factory=Map)
    owners: Map[Uuid, Map[int, str]] = field(default_factory=Map)
    regexes: Map[str, ResolvedRegex] = field(default_factory=Map)
    topic_counts: Map[str, int] = field(default_factory=Map)
    regex_counts: Map[str, int] = field(default_factory=Map)
    has_subscription_metadata: bool = False
    checked_version: int = -1
    regexes_version: int = -1
    regexes_checked_ms: int = -1
    asked_to_join: Map[str, int] = field(default_factory=Map)

    @property
    def kind(self) -> GroupKind:
        """The group's kind."""
        return GroupKind.CONSUMER

    @property
    def protocol_type(self) -> str:
        """Always `consumer`."""
        return PROTOCOL_TYPE

    def state_name(self) -> str:
        """Return `Empty`, `Assigning`, `Reconciling` or `Stable`."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def owner(self, topic_id: Uuid, partition: int) -> str | None:
        """Return the id of the member that holds a partition or has yet to give it back."""
        return self.owners.get(topic_id, _NOBODY).get(partition)

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """Return the epoch of the member that holds a partition, -1 where none does."""
        owner = self.owner(topic_id, partition)
        return -1 if owner is None else self.members[owner].epoch

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member that has this instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def member(self, member_id: str) -> Member:
        """Return a member; raises UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise unknown_member(self.group_id, member_id)
        return found

    def subscribed_names(self, member: Member) -> frozenset[str]:
        """Return the topics that a member asks for, by name and by expression, whether they exist or not."""
        resolved = self.regexes.get(member.subscribed_regex)
        return member.subscribed_names | resolved.topics if resolved is not None else member.subscribed_names

    def all_subscribed_names(self) -> set[str]:
        """Return the topics that any member asks for."""
        names = set(self.topic_counts)
        for pattern in self.regex_counts:
            resolved = self.regexes.get(pattern)
            if resolved is not None:
                names |= resolved.topics
        return names

    def classic_members(self) -> list[Member]:
        """Return the members that still speak the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, transactional: bool
    ) -> None:
        """Raise the KafkaError for which a commit is refused, whatever its partitions."""
        if epoch < 0 and not self.members:
            return  # an admin client, or a consumer without a group
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return
        member = self.member(member_id)
        if not transactional and member.classic is None and api_version < _COMMIT_VERSION_WITH_EPOCH:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"A member of a consumer group commits with version {_COMMIT_VERSION_WITH_EPOCH} of OffsetCommit or later",
            )
        if epoch > member.epoch:
            raise _stale(member, f"Epoch {epoch} is newer than the epoch {member.epoch} of member {member.id}")

    def check_commit_partition(self, member_id: str, epoch: int, topic_id: Uuid, partition: int) -> None:
        """Raise the KafkaError for which a partition of a commit that passed `check_offset_commit` is refused.

        An epoch that the member has left behind is good for the partitions it was given no later (KIP-1251).
        """
        member = self.members.get(member_id)
        if member is None or epoch < 0 or epoch >= member.epoch:
            return
        given = member.assignment_epoch(topic_id, partition)
        if given is None:
            raise _stale(member, f"Partition {partition} is not held by member {member.id}")
        if epoch < given:
            raise _stale(
                member, f"Partition {partition} was given to member {member.id} in epoch {given}, after epoch {epoch}"
            )

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise the KafkaError for which reading offsets as this member is refused."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise _stale(member, f"Epoch {epoch} is not the epoch {member.epoch} of member {member.id}")

    def check_offset_delete(self) -> None:
        """Let offsets go; those of subscribed topics are refused one by one."""

    def check_delete(self) -> None:
        """Raise NON_EMPTY_GROUP while there are members."""
        if self.members:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP,
                f"Group {self.group_id} has {len(self.members)} members; they have to leave first",
            )

    def is_subscribed(self, topic: str) -> bool:
        """Return whether any member asks for a topic."""
        return topic in self.topic_counts or any(
            topic in resolved.topics for pattern, resolved in self.regexes.items() if pattern in self.regex_counts
        )

    def expires_from(self, committed: Committed) -> int | None:
        """Return the time of the commit: retention counts from there."""
        return committed.commit_ms

    def is_empty(self) -> bool:
        """Return whether it has no members."""
        return not self.members

    def tombstones(self) -> Sequence[Record]:
        """Return the records that remove the group."""
        return records.group_tombstones(
            self.group_id,
            {*self.members, *self.target},
            self.regexes,
            has_subscription_metadata=self.has_subscription_metadata,
        )


def unknown_member(group_id: str, member_id: str) -> KafkaError:
    """Return the error for a member id that the group does not have."""
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}")


def _stale(member: Member, message: str) -> KafkaError:
    is_classic = member.classic is not None
    return KafkaError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH, message)


def metadata_hash(names: set[str], cluster: Cluster) -> int:
    """Return a number that differs when subscribed topics come, go, are made anew or get partitions; 0 for none.

    It is kept with the group's epoch as a signed 64-bit integer; what it is made of is this broker's own affair.
    """
    hasher = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = cluster.topic(name)
        if topic is not None:
            found = True
            hasher.update(b"%s %b %d\n" % (name.encode(), bytes(topic.id), topic.partitions))
    return int.from_bytes(hasher.digest(), "big", signed=True) if found else 0
