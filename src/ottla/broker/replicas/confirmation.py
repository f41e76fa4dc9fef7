"""Asking the copies whether this broker leads still, where no controller says so (as Raft's ReadIndex does).

A round ends the followers' fetches that wait here, so that they ask again. A follower that sends a fetch after it got that
answer followed this broker after the round began; so whatever was acknowledged before the round was acknowledged here.
Requests that come while a round runs share the next one. Who does not fetch lately is not waited for, and not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.background import awaited
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.requests.answers import Answer, Reply, reply_of
from ottla.replica import FetchSessionCache

__all__ = ["Confirmation"]

ROUND_S_MAX = 0.5
"""How long a round waits for the followers: then whoever has not confirmed has not."""
LOOK_S = 0.002
"""Between two looks at who has confirmed."""
LATELY_S = 1.0
"""Whose last fetch is older does not follow: twice the time for which a fetch waits."""


class Confirmation:
    """Rounds of questions to all followers, one after another."""

    def __init__(
        self, *, lease: LeaderLease, sessions: FetchSessionCache, purgatory: Purgatory, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._lease = lease
        self._sessions = sessions
        self._purgatory = purgatory
        self._loop = loop
        self._running: asyncio.Task[float] | None = None
        self._next: asyncio.Task[float] | None = None
        self.rounds = 0

    async def before(self, work: Callable[[], Answer]) -> Reply:
        """Ask the copies, then do this and return what comes of it: it finds partitions covered that they confirm."""
        since_s = await self._round_from_now()
        with self._lease.asked_since(since_s):
            return await reply_of(work())

    async def _round_from_now(self) -> float:
        """Return when a round began that has ended now, and began after this was called."""
        if self._next is None:
            self._next = awaited(self._round(self._running), loop=self._loop)
        return await asyncio.shield(self._next)

    async def _round(self, before: asyncio.Task[float] | None) -> float:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        self.rounds += 1
        since_s = self._loop.time()
        left = [each for each in self._sessions.of_followers() if since_s - each.used_s <= LATELY_S]
        while left and self._loop.time() - since_s < ROUND_S_MAX:
            for each in left:
                if each.waiting is not None and not each.waiting.done:
                    self._purgatory.finish(each.waiting)
            await asyncio.sleep(LOOK_S)
            left = [each for each in left if each.last_fetch.confirmed_s < since_s]
        return since_s
