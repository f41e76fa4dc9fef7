"""Who leads the metadata quorum, as this node knows it: told to whoever wants to hear, and awaited at the start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.base import LeaderEpoch, NodeId

__all__ = ["LeadershipListener", "QuorumLeadership"]

LeadershipListener = Callable[[NodeId | None, LeaderEpoch, bool], None]
"""Called on the event loop with the quorum's leader, its epoch, and whether that is this node."""

log = logging.getLogger(__name__)

NO_EPOCH = LeaderEpoch(-1)

PROGRESS_SECONDS = 5
"""How often a node that waits for the quorum says so."""


@dataclass(slots=True)
class QuorumLeadership:
    """The leader, its epoch, and whether it is this node; at first nobody, in no epoch."""

    leader_id: NodeId | None = None
    epoch: LeaderEpoch = NO_EPOCH
    is_self: bool = False
    _listeners: list[LeadershipListener] = field(default_factory=list)
    _progressed: asyncio.Event = field(default_factory=asyncio.Event)

    def subscribe(self, listener: LeadershipListener) -> None:
        """Call this at each change; at once where a leader is known."""
        self._listeners.append(listener)
        if self.leader_id is not None:
            listener(self.leader_id, self.epoch, self.is_self)

    def changed(self, leader_id: NodeId | None, epoch: LeaderEpoch, is_self: bool, *, is_news: bool = True) -> None:
        """Take note of a change and tell everybody; that a node alone leads itself `is_news` for nobody."""
        is_first = self.epoch < 0
        self.leader_id, self.epoch, self.is_self = leader_id, epoch, is_self
        if leader_id is not None:
            log.log(
                logging.INFO if is_news else logging.DEBUG,
                "Node %d leads the metadata quorum in epoch %d",
                leader_id,
                epoch,
            )
        elif not is_first:
            log.info("The metadata quorum has no leader in epoch %d", epoch)
        for listener in self._listeners:
            listener(leader_id, epoch, is_self)
        self.progressed()

    def progressed(self) -> None:
        """Let whoever waits look again."""
        self._progressed.set()

    async def until(self, condition: Callable[[], bool], progress: Callable[[], str]) -> None:
        """Return once the condition holds, and say now and then how it stands."""
        waited_s = 0
        while not condition():
            self._progressed.clear()
            try:
                async with asyncio.timeout(PROGRESS_SECONDS):
                    await self._progressed.wait()
            except TimeoutError:
                waited_s += PROGRESS_SECONDS
                log.info("Waiting for the metadata quorum since %d s: %s", waited_s, progress())
