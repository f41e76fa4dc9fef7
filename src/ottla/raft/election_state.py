"""What must survive a crash beside the log: the `quorum-state` file."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ottla.base import CorruptionError, LeaderEpoch, NodeId, parse_uuid, uuid_text
from ottla.raft.voters import ReplicaKey, VoterSet

__all__ = ["NO_ELECTION", "ElectionState", "parse_election_state", "render_election_state"]


_NO_EPOCH = LeaderEpoch(0)


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The newest epoch seen, its leader where known, and the replica voted for in it; durable before a vote leaves."""

    epoch: LeaderEpoch = _NO_EPOCH
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None


NO_ELECTION = ElectionState()
"""The state of a replica that has seen no election."""


def render_election_state(state: ElectionState, *, kraft_version: int, voters: VoterSet) -> str:
    """Return the content of Kafka's `quorum-state`: data version 0 under static voters, 1 under KIP-853."""
    leader_id = -1 if state.leader_id is None else state.leader_id
    voted_id = -1 if state.voted is None else state.voted.id
    data: dict[str, object]
    if kraft_version == 0:
        data = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": each} for each in voters.ids],
            "data_version": 0,
        }
    else:
        directory_id = bytes(16) if state.voted is None else state.voted.directory_id
        data = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_text(directory_id),  # type: ignore[arg-type]
            "data_version": 1,
        }
    return json.dumps(data, separators=(",", ":"))


def parse_election_state(text: str) -> ElectionState:
    """Return what `quorum-state` says, in either data version; raises CorruptionError on anything else."""
    try:
        data = json.loads(text)
        if data["data_version"] not in (0, 1):
            raise CorruptionError(f"quorum-state has data_version {data['data_version']}, known are 0 and 1")
        leader_id, voted_id = int(data["leaderId"]), int(data["votedId"])
        voted = None
        if voted_id >= 0:
            directory = data.get("votedDirectoryId")
            voted = ReplicaKey(NodeId(voted_id), parse_uuid(directory)) if directory else ReplicaKey(NodeId(voted_id))
        return ElectionState(
            epoch=LeaderEpoch(int(data["leaderEpoch"])),
            leader_id=NodeId(leader_id) if leader_id >= 0 else None,
            voted=voted,
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise CorruptionError(f"quorum-state is not readable: {error}") from error
