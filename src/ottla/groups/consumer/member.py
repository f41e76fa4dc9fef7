"""A member of a consumer group: what it asked for, how far it has been reconciled, and which partitions it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from immutables import Map

from ottla.base import Uuid

__all__ = [
    "LEAVE_EPOCH",
    "STATIC_LEAVE_EPOCH",
    "Assigned",
    "ClassicMember",
    "Member",
    "MemberState",
    "Target",
    "assigned_from",
    "assigned_union",
    "target_from",
    "target_of",
]

LEAVE_EPOCH = -1
"""The member epoch with which a member leaves for good."""
STATIC_LEAVE_EPOCH = -2
"""The member epoch with which a static member leaves and keeps its place."""

Assigned = Map[Uuid, Map[int, int]]
"""Topic id -> partition -> the epoch at which the member was given it (KIP-1251)."""
Target = Map[Uuid, frozenset[int]]
"""Topic id -> partitions."""

NO_ASSIGNED: Assigned = Map()


class MemberState(IntEnum):
    """Where a member stands on its way to the target assignment; the numbers are those of its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMember(NamedTuple):
    """What a member that still speaks the classic protocol has said of itself (online migration)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names of client-side assignors with their metadata, the preferred one first."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member as its three records tell; `epoch` -1 is one whose assignment has been withdrawn by a tombstone."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_names: frozenset[str] = frozenset()
    subscribed_regex: str = ""
    server_assignor: str | None = None
    assigned: Assigned = field(default_factory=Map)
    pending_revocation: Assigned = field(default_factory=Map)
    classic: ClassicMember | None = None

    def holds(self, topic_id: Uuid, partition: int) -> bool:
        """Return whether the member may still read a partition: assigned to it, or not yet given back."""
        return self.assignment_epoch(topic_id, partition) is not None

    def held_of(self, topic_id: Uuid) -> tuple[Map[int, int], Map[int, int]]:
        """Return the partitions of a topic that are assigned to the member, and those that it has to give back."""
        return self.assigned.get(topic_id, _NO_PARTITIONS), self.pending_revocation.get(topic_id, _NO_PARTITIONS)

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch at which a partition that the member holds was given to it; None for any other."""
        for held in (self.assigned, self.pending_revocation):
            epoch = held.get(topic_id, _NO_PARTITIONS).get(partition)
            if epoch is not None:
                return epoch
        return None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has reached a target assignment and waits for nothing."""
        return self.state == MemberState.STABLE and self.epoch == assignment_epoch


_NO_PARTITIONS: Map[int, int] = Map()


def assigned_from(partitions: Mapping[Uuid, Mapping[int, int]]) -> Assigned:
    """Return topics that have partitions as persistent maps."""
    return Map({topic_id: Map(epochs) for topic_id, epochs in partitions.items() if epochs})


def assigned_union(one: Assigned, other: Assigned) -> Assigned:
    """Return what either holds; they share no partition."""
    out = {topic_id: dict(epochs) for topic_id, epochs in one.items()}
    for topic_id, epochs in other.items():
        out.setdefault(topic_id, {}).update(epochs)
    return assigned_from(out)


def target_from(partitions: Mapping[Uuid, Iterable[int]]) -> Target:
    """Return topics that have partitions as a persistent map."""
    made = {topic_id: frozenset(each) for topic_id, each in partitions.items()}
    return Map({topic_id: each for topic_id, each in made.items() if each})


def target_of(assigned: Assigned) -> Target:
    """Return partitions without their epochs."""
    return Map({topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()})
