"""What replicas say to each other; each stands for one of KRaft's RPCs (KIP-595, KIP-630, KIP-853, KIP-996).

A reply repeats what it answers as far as a receiver needs that to recognise a late or doubled one: nothing here relies
on the network for order or for delivery once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base import LeaderEpoch, NodeId, Offset
from ottla.raft.log_view import EpochEnd, SnapshotId
from ottla.raft.voters import ReplicaKey

__all__ = [
    "BeginEpoch",
    "EndEpoch",
    "Envelope",
    "EpochRefused",
    "Fetch",
    "FetchReply",
    "FetchSnapshot",
    "LogRange",
    "Message",
    "SnapshotChunk",
    "SnapshotRange",
    "Vote",
    "VoteReply",
]


@dataclass(frozen=True, slots=True)
class Vote:
    """Asks for a vote, or with `pre_vote` whether one would be given, which costs nobody an epoch (KIP-996)."""

    epoch: LeaderEpoch
    candidate: ReplicaKey
    last_epoch: LeaderEpoch
    end_offset: Offset
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteReply:
    """Answers a Vote; `epoch` and `leader_id` are the voter's own."""

    epoch: LeaderEpoch
    leader_id: NodeId | None
    granted: bool
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """A new leader tells a voter to fetch from it."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """A leader resigns; the replica with the longest log stands first among the successors."""

    epoch: LeaderEpoch
    successors: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class EpochRefused:
    """Answers a request of another epoch, or one that only the leader can serve."""

    epoch: LeaderEpoch
    leader_id: NodeId | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Asks for records from `offset`, and by that says that everything before it is durable here."""

    epoch: LeaderEpoch
    replica: ReplicaKey
    offset: Offset
    last_epoch: LeaderEpoch
    high_watermark: Offset
    """The follower's, so that the leader answers at once when its own is further on (KIP-1166)."""
    max_wait_ms: int = 500
    """How long the leader may keep it until there is news."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes of the log that the sender's driver reads: whole batches from `start`, up to `end`, at least one."""

    start: Offset
    end: Offset


@dataclass(frozen=True, slots=True)
class FetchReply:
    """Answers a Fetch of (`offset`, `last_epoch`): records, or where history differs, or which snapshot to load."""

    epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch
    high_watermark: Offset
    records: bytes | memoryview | LogRange = b""
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """Asks for a snapshot's bytes from a position (KIP-630)."""

    epoch: LeaderEpoch
    snapshot: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """Bytes of a snapshot that the sender's driver reads."""

    snapshot: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """Answers a FetchSnapshot; `size` is the whole snapshot's, and the sender's driver fills both it and the data."""

    epoch: LeaderEpoch
    snapshot: SnapshotId
    position: int
    data: bytes | memoryview | SnapshotRange
    size: int = -1


Message = Vote | VoteReply | BeginEpoch | EndEpoch | EpochRefused | Fetch | FetchReply | FetchSnapshot | SnapshotChunk


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message on its way between two nodes."""

    source: NodeId
    to: NodeId
    message: Message
    request: int = 0
    """Which request this is or answers, by the driver's count: the core copies it from one to the other."""
