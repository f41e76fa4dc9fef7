"""The metadata quorum's state machine (KRaft): who leads, what is in the log, what is committed.

`Raft` takes messages, time and proposals and gives back `Ready` values that say what to persist, append, send and
apply, in that order; it touches neither disk nor network nor clock. A quorum of one takes the same path as one of five.
"""

from ottla.raft.control import (
    ControlRecord,
    ReplicatedBatch,
    VoterHistory,
    control_batch,
    observed,
    read_batches,
    record_batch,
)
from ottla.raft.core import RaftConfig
from ottla.raft.election_state import NO_ELECTION, ElectionState, parse_election_state, render_election_state
from ottla.raft.log_view import EpochEnd, EpochStart, LogView, SnapshotId
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Envelope,
    EpochRefused,
    Fetch,
    FetchReply,
    FetchSnapshot,
    LogRange,
    Message,
    SnapshotChunk,
    SnapshotRange,
    Vote,
    VoteReply,
)
from ottla.raft.raft import Raft
from ottla.raft.ready import Append, Ready, SnapshotWrite
from ottla.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Progress,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet

__all__ = [
    "NO_ELECTION",
    "Append",
    "BeginEpoch",
    "Candidate",
    "ControlRecord",
    "ElectionState",
    "EndEpoch",
    "Envelope",
    "EpochEnd",
    "EpochRefused",
    "EpochStart",
    "Fetch",
    "FetchReply",
    "FetchSnapshot",
    "Follower",
    "Leader",
    "LogRange",
    "LogView",
    "Message",
    "Progress",
    "Prospective",
    "Raft",
    "RaftConfig",
    "Ready",
    "ReplicaKey",
    "ReplicatedBatch",
    "Resigned",
    "Role",
    "SnapshotChunk",
    "SnapshotId",
    "SnapshotRange",
    "SnapshotWrite",
    "Unattached",
    "Vote",
    "VoteReply",
    "Voter",
    "VoterEndpoint",
    "VoterHistory",
    "VoterSet",
    "control_batch",
    "observed",
    "parse_election_state",
    "read_batches",
    "record_batch",
    "render_election_state",
]
