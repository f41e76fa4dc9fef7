"""A broker's view of one partition that it holds: role, epochs, in-sync replicas and the high watermark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Offset

__all__ = ["NO_EPOCH", "Replica", "Role"]

NO_EPOCH = LeaderEpoch(-1)
"""In a request: the sender does not say which leader epoch it knows (KIP-320)."""
UNKNOWN_END = Offset(-1)


class Role(IntEnum):
    """What this broker is to the partition."""

    OFFLINE = 0
    FOLLOWER = 1
    LEADER = 2


@dataclass(slots=True)
class _Copy:
    """What the leader knows of another replica's log."""

    log_end_offset: Offset = UNKNOWN_END
    log_start_offset: Offset = UNKNOWN_END
    caught_up_s: float = float("-inf")


class Replica:
    """One copy of a partition, on the broker `node_id`.

    `become` follows the metadata image; `appended` and `fetched_by` follow the logs. The high watermark is the smallest
    log end offset among the in-sync replicas, it never goes back while an epoch lasts, and a consumer never reads
    above it.
    """

    __slots__ = (
        "_copies",
        "high_watermark",
        "isr",
        "leader",
        "leader_epoch",
        "log_end_offset",
        "node_id",
        "partition_epoch",
        "replicas",
        "role",
    )

    def __init__(self, node_id: NodeId, *, high_watermark: Offset, log_end_offset: Offset) -> None:
        """Begin offline; the high watermark is the checkpointed one, and no more than what the log has."""
        self.node_id = node_id
        self.role = Role.OFFLINE
        self.leader = NodeId(-1)
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[NodeId, ...] = ()
        self.isr: tuple[NodeId, ...] = ()
        self.log_end_offset = log_end_offset
        self.high_watermark = min(high_watermark, log_end_offset)
        self._copies: dict[NodeId, _Copy] = {}

    def become(
        self,
        *,
        leader: NodeId,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        replicas: tuple[NodeId, ...],
        isr: tuple[NodeId, ...],
    ) -> bool:
        """Take in the partition's state from the image; return True where this broker has begun a new leader epoch.

        What is older than the known partition epoch is ignored, so replaying an image is harmless.
        """
        if partition_epoch < self.partition_epoch or leader_epoch < self.leader_epoch:
            return False
        new_epoch = leader_epoch > self.leader_epoch
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        if leader != self.node_id:
            self.role = Role.FOLLOWER if leader >= 0 else Role.OFFLINE
            self._copies.clear()
            return False
        began = new_epoch or self.role is not Role.LEADER
        self.role = Role.LEADER
        if began:
            self._copies = {node: _Copy() for node in replicas if node != self.node_id}
        else:
            known = self._copies
            self._copies = {node: known.get(node) or _Copy() for node in replicas if node != self.node_id}
        self._advance()
        return began

    @property
    def is_leader(self) -> bool:
        """True where this broker serves the partition's reads and writes."""
        return self.role is Role.LEADER

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> ErrorCode:
        """Return the error for a request to the leader that names the epoch which its sender knows, or NONE."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def has_enough_in_sync(self, min_insync_replicas: int) -> bool:
        """Return whether a write with acks=all may be accepted; no topic can ask for more copies than it has."""
        return len(self.isr) >= min(min_insync_replicas, len(self.replicas))

    def appended(self, log_end_offset: Offset) -> bool:
        """Note this log's new end; return True where the high watermark moved."""
        self.log_end_offset = log_end_offset
        if not self._copies:  # the only copy: what it has is what is replicated
            if self.role is Role.LEADER and log_end_offset > self.high_watermark:
                self.high_watermark = log_end_offset
                return True
            return False
        return self._advance()

    def fetched_by(self, follower: NodeId, *, fetch_offset: Offset, log_start_offset: Offset, now_s: float) -> bool:
        """Note that a follower has everything before `fetch_offset`; return True where the high watermark moved."""
        copy = self._copies.get(follower)
        if copy is None:
            return False
        copy.log_end_offset = fetch_offset
        copy.log_start_offset = log_start_offset
        if fetch_offset >= self.log_end_offset:
            copy.caught_up_s = now_s
        return self._advance()

    def followed(self, log_end_offset: Offset, leader_high_watermark: int) -> bool:
        """Note what was appended from the leader, and its high watermark; return True where this copy's moved.

        It never goes back by hearing of a lower one: what a new leader does not know yet to be committed stays so.
        """
        self.log_end_offset = log_end_offset
        known = min(leader_high_watermark, log_end_offset)
        if known <= self.high_watermark:
            return False
        self.high_watermark = Offset(known)
        return True

    def truncated(self, log_end_offset: Offset) -> None:
        """Note that this log was cut: nothing above its end is committed as far as this copy can tell."""
        self.log_end_offset = log_end_offset
        self.high_watermark = min(self.high_watermark, log_end_offset)

    def log_start_moved(self, log_start_offset: Offset) -> None:
        """Note that records before an offset are gone: they no longer count as not replicated."""
        self.high_watermark = max(self.high_watermark, log_start_offset)

    def follows(self, node: NodeId) -> bool:
        """Return whether a broker is a replica of this partition other than this one."""
        return node in self._copies

    def _advance(self) -> bool:
        """Move the high watermark to the smallest end among the in-sync replicas; never back."""
        if self.role is not Role.LEADER:
            return False
        lowest = self.log_end_offset
        for node in self.isr:
            copy = self._copies.get(node)
            if copy is not None and copy.log_end_offset < lowest:
                lowest = copy.log_end_offset
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True
