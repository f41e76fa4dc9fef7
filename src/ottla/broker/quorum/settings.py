"""What configures a quorum's driver, and how the quorum stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.base import LeaderEpoch, NodeId, Offset
from ottla.broker.quorum.rpc import RpcLimits
from ottla.broker.quorum.times import state_name
from ottla.raft import Progress, Raft, RaftConfig, VoterSet

__all__ = ["QuorumSettings", "QuorumStatus", "progress_text"]

NOBODY = NodeId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """What the `metadata.*` and `controller.quorum.*` keys say."""

    raft: RaftConfig = field(default_factory=RaftConfig)
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_bytes: int = 104_857_600
    retention_ms: int = 604_800_000
    snapshot_bytes: int = 20_971_520
    snapshot_interval_ms: int = 3_600_000
    limits: RpcLimits = field(default_factory=RpcLimits)
    reserve_bytes: int = 0
    """Room of its own that the log has on a full disk (`Reserve`)."""
    min_insync_replicas: int = 1
    """What a new cluster's first records say (KIP-966)."""

    @classmethod
    def of(cls, settings: Any) -> QuorumSettings:
        """Return the settings from a broker's, by their keys."""
        return cls(
            raft=RaftConfig(
                election_timeout_ms=settings.controller_quorum_election_timeout_ms,
                election_backoff_max_ms=settings.controller_quorum_election_backoff_max_ms,
                fetch_timeout_ms=settings.controller_quorum_fetch_timeout_ms,
                request_timeout_ms=settings.controller_quorum_request_timeout_ms,
            ),
            segment_bytes=settings.internal_metadata_log_segment_bytes or settings.metadata_log_segment_bytes,
            segment_ms=settings.metadata_log_segment_ms,
            retention_bytes=settings.metadata_max_retention_bytes,
            retention_ms=settings.metadata_max_retention_ms,
            snapshot_bytes=settings.metadata_log_max_record_bytes_between_snapshots,
            snapshot_interval_ms=settings.metadata_log_max_snapshot_interval_ms,
            limits=RpcLimits(
                fetch_bytes=settings.controller_quorum_fetch_max_bytes,
                snapshot_bytes=settings.controller_quorum_fetch_snapshot_max_bytes,
            ),
            reserve_bytes=settings.ottla_metadata_reserve_bytes,
            min_insync_replicas=settings.min_insync_replicas,
        )


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """What DescribeQuorum tells: the leader, and how far every replica is as it knows."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    log_end_offset: Offset
    voters: VoterSet
    replicas: dict[NodeId, Progress]
    kraft_version: int
    state: str = "unattached"
    """What this node is in the quorum, in Kafka's word."""
    voted_id: NodeId = NOBODY
    """Whom it voted for in this epoch, -1 where for nobody."""

    @classmethod
    def of(cls, raft: Raft) -> QuorumStatus:
        """Return how it stands as this replica knows."""
        return cls(
            leader_id=NOBODY if raft.leader_id is None else raft.leader_id,
            leader_epoch=raft.epoch,
            high_watermark=raft.high_watermark,
            log_end_offset=raft.log.end_offset,
            voters=raft.voters,
            replicas=dict(raft.replicas),
            kraft_version=raft.voter_history.kraft_version,
            state=state_name(raft.role, is_voter=raft.is_voter, has_voted=raft.voted_id is not None),
            voted_id=NOBODY if raft.voted_id is None else raft.voted_id,
        )


def progress_text(raft: Raft, obstacles: Sequence[str] = ()) -> str:
    """Say how far a replica has come that is waited for, and what other nodes put in its way."""
    voters = ", ".join(str(each) for each in raft.voters.ids) or "not known yet"
    leader = "no leader is known" if raft.leader_id is None else f"node {raft.leader_id} leads"
    found = f"epoch {raft.epoch}, {leader}, committed to offset {raft.high_watermark}; voters: {voters}"
    return "; ".join((found, *obstacles))
