"""How new this node's image of the metadata is, by what the quorum's leader has answered."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base import LeaderEpoch, Offset
from ottla.raft import FetchReply

__all__ = ["Freshness"]


@dataclass(slots=True)
class Freshness:
    """Times are those of the event loop."""

    informed_s: float
    """Since when something may have been committed of which the image knows nothing."""
    leader_watermark: Offset | None = None
    """How far the leader had committed when it answered first: a node that starts is ready once it has come so far."""

    def heard(self, reply: FetchReply, epoch: LeaderEpoch) -> None:
        """Note the first answer of a leader that is none of the past."""
        if self.leader_watermark is None and reply.high_watermark >= 0 and reply.epoch >= epoch:
            self.leader_watermark = reply.high_watermark

    def took_in(self, reply: FetchReply, epoch: LeaderEpoch, *, known_end: int, asked_s: float) -> None:
        """Note when the leader was asked, if its answer leaves nothing that is committed and not in the image."""
        if reply.epoch == epoch and known_end >= reply.high_watermark >= 0 and not reply.snapshot:
            self.informed_s = asked_s
