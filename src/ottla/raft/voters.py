"""Who votes: replicas by node id and directory id (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ottla.base import ZERO_UUID, NodeId, Uuid

__all__ = ["ReplicaKey", "Voter", "VoterEndpoint", "VoterSet"]


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One replica of the log: a node, and the directory it keeps the log in (all zeros where that is not known)."""

    id: NodeId
    directory_id: Uuid = ZERO_UUID

    def same_replica(self, other: ReplicaKey) -> bool:
        """True where both name one replica; a directory that is not known matches any."""
        known = self.directory_id != ZERO_UUID and other.directory_id != ZERO_UUID
        return self.id == other.id and (not known or self.directory_id == other.directory_id)


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """Where a voter's controller listener is reached."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter: which replica, where it is reached, and the `kraft.version` levels that it understands."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_version_min: int = 0
    kraft_version_max: int = 1


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of the quorum, by ascending id; a majority of them elects and commits."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        """Return the set of these voters; two of one id are a mistake."""
        ordered = tuple(sorted(voters, key=lambda voter: voter.key))
        assert len({voter.key.id for voter in ordered}) == len(ordered), "one voter an id"
        return cls(ordered)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """The voters' node ids, ascending."""
        return tuple(voter.key.id for voter in self.voters)

    def get(self, node_id: int) -> Voter | None:
        """Return the voter of this node id."""
        return next((voter for voter in self.voters if voter.key.id == node_id), None)

    def has(self, key: ReplicaKey) -> bool:
        """True where this replica, and not merely another directory of its node, is a voter."""
        voter = self.get(key.id)
        return voter is not None and voter.key.same_replica(key)

    def others(self, node_id: int) -> tuple[NodeId, ...]:
        """Return the voters' ids without this one."""
        return tuple(each for each in self.ids if each != node_id)

    def one_change_from(self, other: VoterSet) -> bool:
        """True where the sets differ by one voter at most, so that any two majorities overlap (KIP-853)."""
        mine, theirs = {voter.key for voter in self}, {voter.key for voter in other}
        return len(mine ^ theirs) <= 1
