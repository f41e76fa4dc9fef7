"""Which replica a consumer should read from (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base import NodeId, Offset
from ottla.replica.replica import FollowerView

__all__ = ["nearest_follower"]


def nearest_follower(
    rack: str, racks: Mapping[NodeId, str | None], leader: NodeId, followers: Iterable[FollowerView], *, offset: Offset
) -> NodeId | None:
    """Return the follower in the consumer's rack that has the offset and is furthest; None where the leader should serve.

    `racks` tells the rack of every broker that can be reached; `followers` are those in sync.
    """
    if racks.get(leader) == rack:
        return None
    near = [
        (each.log_end_offset, each.caught_up_s, each.node)
        for each in followers
        if racks.get(each.node) == rack and each.log_start_offset <= offset <= each.log_end_offset
    ]
    return max(near)[2] if near else None
