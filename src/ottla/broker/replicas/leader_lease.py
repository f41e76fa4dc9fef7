"""How long this broker may take itself for the leader that the image says it is.

A broker that is cut off from the controllers, and not from its clients, does not hear that others lead its partitions now.
What they answer may be newer than what it has, so it must not answer from what it has. Two things say that it may:

- *The lease.* The controller gives the partitions of a silent broker away when it has heard nothing for
  `broker.session.timeout.ms`. The broker goes by half of that: since it sent the last heartbeat that was answered, and
  since it last asked for metadata and got all there was (after a pause, a heartbeat alone says nothing of what happened
  meanwhile). While no controller can be in office at all, nobody counts (`Vacancy`). The lease ends with the first word
  that others may lead at once: when this broker asks to leave, is fenced or superseded.
- *The copies.* Whoever might lead instead follows this broker still: each has fetched in its epoch, and sent that fetch
  after the question came (`Confirmation`). That needs no clock.

A leader that another replaces while it stays in sync (a preferred election) needs neither: the new one commits nothing
before the old one has fetched from it. Which reads that makes exact, and what it costs, is in docs/design/reads.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.base import TopicPartition
from ottla.replica import Replica

__all__ = ["LeaderLease"]

LATELY_S = 1.0
"""How old the word of the copies may be for a write: it is not acknowledged by a leader that they have left anyway."""
NEVER = float("-inf")
ALWAYS = float("inf")


class LeaderLease:
    """Whether partitions that have other copies may be answered for; without limit until the first heartbeat."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session_s: Callable[[], float],
        informed_s: Callable[[], float],
        is_strict: Callable[[], bool] = lambda: True,
    ) -> None:
        self._loop = loop
        self._session_s = session_s
        self._informed_s = informed_s
        self._is_strict = is_strict
        self._until_s = ALWAYS
        self._left = False
        self._vacant_s = NEVER
        self._asked: dict[asyncio.Task[Any], float] = {}
        self.departing: set[TopicPartition] = set()
        """Partitions that are led here while a reassignment takes this copy away: that may be decided at any time."""

    def renew(self, sent_s: float) -> None:
        """Called when a controller has answered a heartbeat that was sent at this time of the loop."""
        if self._left:
            return
        until_s = sent_s + self._session_s() / 2
        if self._until_s == ALWAYS or until_s > self._until_s:
            self._until_s = until_s

    def found_vacant(self, asked_s: float) -> None:
        """Called when no controller was in office at this time; to be told only while the lease lasts."""
        self._vacant_s = asked_s

    def suspend(self) -> None:
        """Called when others may lead from now on, until a later heartbeat says otherwise."""
        self._until_s = self._vacant_s = NEVER

    def end(self) -> None:
        """Called when this broker asks others to lead, for good."""
        self._left = True
        self._until_s = self._vacant_s = NEVER

    @property
    def lasts(self) -> bool:
        """True while no controller can have given this broker's partitions to others without its knowing."""
        now_s = self._loop.time()
        if self._until_s == ALWAYS:
            return True
        half_s = self._session_s() / 2
        if now_s < self._vacant_s + half_s:
            return True
        return now_s < self._until_s and now_s < self._informed_s() + half_s

    @property
    def is_sure(self) -> bool:
        """True where the copies need not be asked about any partition before a request is answered."""
        return (self.lasts and not self.departing) or not self._is_strict()

    def covers(self, replica: Replica) -> bool:
        """Return whether nobody else can have been answering for a partition that is led here, if it is."""
        if not replica.has_followers or not self._is_strict():  # a follower has none, either
            return True
        if self.lasts and not replica.is_departing:
            return True
        task = asyncio.current_task() if self._asked else None
        since_s = ALWAYS if task is None else self._asked.get(task, ALWAYS)
        return replica.confirmed_s() >= since_s

    def covers_writes(self, replica: Replica) -> bool:
        """Return whether a write is worth taking: nobody else leads, as far as was known a moment ago."""
        if not replica.has_followers or self.lasts or not self._is_strict():
            return True
        return replica.confirmed_s() >= self._loop.time() - LATELY_S

    @contextmanager
    def asked_since(self, since_s: float) -> Iterator[None]:
        """While this task runs, take what copies have confirmed since then for an answer to its question.

        A task may ask again meanwhile: a fetch that waited does, before it answers.
        """
        task = asyncio.current_task()
        assert task is not None
        before = self._asked.get(task)
        self._asked[task] = since_s
        try:
            yield
        finally:
            if before is None:
                del self._asked[task]
            else:
                self._asked[task] = before
