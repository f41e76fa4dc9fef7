"""What a leader concludes from how far the replicas are."""

from __future__ import annotations

from immutables import Map

from ottla.base import NodeId, Offset
from ottla.raft.roles import Leader, Progress
from ottla.raft.voters import Voter, VoterSet

__all__ = ["lost_majority", "majority_offset", "next_deadline", "silent", "successors", "without_forgotten"]


def majority_offset(leader: Leader, voters: VoterSet) -> Offset:
    """Return the offset before which a majority of the voters holds everything durably."""
    offsets = sorted((_end_offset(leader, voter.key.id) for voter in voters if _is(leader, voter)), reverse=True)
    offsets += [-1] * (len(voters) - len(offsets))
    return Offset(offsets[voters.majority - 1])


def _is(leader: Leader, voter: Voter) -> bool:
    """True where what is known under the voter's id is of its directory, and not of another one (KIP-853)."""
    progress = leader.progress.get(voter.key.id)
    return progress is not None and voter.key.same_replica(progress.key)


def _end_offset(leader: Leader, node_id: NodeId) -> int:
    progress = leader.progress.get(node_id)
    return -1 if progress is None or progress.end_offset is None else progress.end_offset


def _heard_at(leader: Leader, voter: Voter) -> int:
    progress = leader.progress.get(voter.key.id)
    if progress is None or progress.heard_at is None or not _is(leader, voter):
        return leader.since
    return progress.heard_at


def quorum_deadline(leader: Leader, voters: VoterSet, own_id: NodeId, timeout_ms: int) -> int | None:
    """Return when a majority will have been silent for too long; None where the leader is a majority by itself."""
    needed = voters.majority - (own_id in voters.ids)
    if needed <= 0:
        return None
    others = [each for each in voters if each.key.id != own_id]
    heard = sorted((_heard_at(leader, each) for each in others), reverse=True)
    return heard[needed - 1] + timeout_ms


def lost_majority(leader: Leader, voters: VoterSet, own_id: NodeId, *, now: int, timeout_ms: int) -> bool:
    """True where so many voters are silent that another leader may have been elected among them."""
    deadline = quorum_deadline(leader, voters, own_id, timeout_ms)
    return deadline is not None and now >= deadline


def next_deadline(leader: Leader, voters: VoterSet, own_id: NodeId, timeout_ms: int) -> int:
    """Return when the leader has something to do of itself."""
    deadlines = [each.parked_until for each in leader.progress.values() if each.parked is not None]
    quorum = quorum_deadline(leader, voters, own_id, timeout_ms)
    return min([leader.begin_at, *deadlines, *([] if quorum is None else [quorum])])


def silent(leader: Leader, voters: VoterSet, own_id: NodeId, since: int) -> list[NodeId]:
    """Return the other voters that have not fetched since then, or never in this epoch."""
    found = []
    for node_id in voters.others(own_id):
        progress = leader.progress.get(node_id)
        if progress is None or progress.heard_at is None or progress.heard_at < since:
            found.append(node_id)
    return found


def successors(leader: Leader, voters: VoterSet, own_id: NodeId) -> tuple[NodeId, ...]:
    """Return the other voters, the one with the most records first."""
    return tuple(sorted(voters.others(own_id), key=lambda each: (-_end_offset(leader, each), each)))


def without_forgotten(leader: Leader, voters: VoterSet, before: int) -> Map[NodeId, Progress]:
    """Return what is known of the replicas, without the observers last heard before then: their number has no bound."""
    progress = leader.progress
    for node_id, each in leader.progress.items():
        if node_id not in voters.ids and (each.heard_at or 0) < before:
            progress = progress.delete(node_id)
    return progress
