"""How long this broker may take itself for the leader that the image says it is.

A broker that is cut off from the controllers, and not from its clients, does not hear that others lead its partitions now.
What they answer may be newer than what it has, so it must stop answering before they can begin. The controller gives its
partitions away when it has heard nothing for `broker.session.timeout.ms`, so the broker goes by half of that: since it sent
the last heartbeat that was answered, and since it last asked for metadata and got all there was (after a pause, a heartbeat
alone says nothing of what happened meanwhile). Where no controller can be reached at all, the copies in sync can still
confirm a leader by fetching from it in its epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.replica import Replica

__all__ = ["Tenure"]

CONFIRMED_S = 1.0
"""How old the oldest of the last fetches of the copies in sync may be: twice the time that a fetch waits for records."""


class Tenure:
    """Whether partitions that have other copies may be answered for; without limit until the first heartbeat."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, session_s: Callable[[], float], informed_s: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._session_s = session_s
        self._informed_s = informed_s
        self._until_s = float("inf")

    def renew(self, sent_s: float) -> None:
        """Hear that a controller has answered a heartbeat that was sent at this time of the loop."""
        until_s = sent_s + self._session_s() / 2
        if self._until_s == float("inf") or until_s > self._until_s:
            self._until_s = until_s

    @property
    def lasts(self) -> bool:
        """True while no controller can have given this broker's partitions to others without its knowing."""
        now_s = self._loop.time()
        if self._until_s == float("inf"):
            return True
        return now_s < self._until_s and now_s < self._informed_s() + self._session_s() / 2

    def covers(self, replica: Replica) -> bool:
        """Return whether nobody else can have been answering for a partition that is led here, if it is."""
        if not replica.has_followers:  # a follower has none, either
            return True
        return self.lasts or self._loop.time() - replica.confirmed_s() <= CONFIRMED_S
