"""What a replica can be. A role holds only what it needs while it lasts; deadlines are in the caller's milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from immutables import Map

from ottla.base import NodeId, Offset
from ottla.raft.log_view import SnapshotId
from ottla.raft.messages import Fetch
from ottla.raft.voters import ReplicaKey

__all__ = [
    "Candidate",
    "Download",
    "Follower",
    "Leader",
    "Progress",
    "Prospective",
    "Resigned",
    "Role",
    "Unattached",
]


@dataclass(frozen=True, slots=True)
class Unattached:
    """Knows an epoch and perhaps its leader, but follows nobody; an observer here asks voters who leads."""

    deadline: int
    """When a voter begins to campaign, or an observer asks again."""


@dataclass(frozen=True, slots=True)
class Prospective:
    """Asks whether it would win before it takes a new epoch (pre-vote, KIP-996)."""

    deadline: int
    resend_at: int
    granted: frozenset[NodeId]
    rejected: frozenset[NodeId] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidate:
    """Has voted for itself in a new epoch and asks the others."""

    deadline: int
    resend_at: int
    granted: frozenset[NodeId]
    rejected: frozenset[NodeId] = frozenset()
    backing_off: bool = False
    """True once it has lost, until its next try."""


@dataclass(frozen=True, slots=True)
class Download:
    """A snapshot on its way from the leader, and how much of it is here."""

    snapshot: SnapshotId
    position: int = 0
    complete: bool = False
    """True once the driver has every byte and loads it."""


@dataclass(frozen=True, slots=True)
class Follower:
    """Fetches from the leader; a voter that hears nothing until the deadline begins to campaign."""

    leader_id: NodeId
    deadline: int
    heard: bool = False
    """True once the leader has answered a fetch: from then on no pre-vote is granted to others."""
    resend_at: int | None = None
    """When the request under way counts as lost; None where none is."""
    download: Download | None = None

    def waiting_until(self, deadline: int) -> Follower:
        """Return the role with a request under way that counts as lost from then on."""
        return replace(self, resend_at=deadline)


@dataclass(frozen=True, slots=True)
class Progress:
    """What a leader knows of one replica."""

    key: ReplicaKey
    end_offset: Offset | None = None
    """Everything before this is durable there; None until it has fetched in this epoch."""
    heard_at: int | None = None
    caught_up_at: int | None = None
    """When it last held all that the leader held."""
    leader_end: Offset | None = None
    """Where the leader's log ended when it last fetched."""
    parked: Fetch | None = None
    """A fetch that waits for something new to answer with."""
    parked_until: int = 0
    parked_request: int = 0


@dataclass(frozen=True, slots=True)
class Leader:
    """Appends, and counts who has what."""

    epoch_start_offset: Offset
    since: int
    begin_at: int
    """When voters that have not fetched are told again."""
    progress: Map[NodeId, Progress] = field(default_factory=Map)


@dataclass(frozen=True, slots=True)
class Resigned:
    """Led this epoch and does not any more: neither leads nor votes in it again."""

    deadline: int
    resend_at: int
    successors: tuple[NodeId, ...] = ()


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned
