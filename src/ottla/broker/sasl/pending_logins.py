"""Connections that have not logged in: each has so long for TLS and login together, and they are so many at most.

Where they are too many, the one that has waited longest has to go: who floods a listener pushes out himself first, and who
logs in at once is in before his turn comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from ottla.broker.requests.authentication_counts import AuthenticationCounts
from ottla.broker.requests.connection import Connection

__all__ = ["PendingLogins"]

log = logging.getLogger(__name__)

SAYS_AGAIN_S = 10.0
"""How often it is said, at most, that there were too many."""


class PendingLogins:
    """The connections of a node that have not logged in, the oldest first, under one timer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        counts: AuthenticationCounts,
        *,
        timeout_s: float,
        connections_max: int,
    ) -> None:
        self._loop = loop
        self._counts = counts
        self._timeout_s = timeout_s
        self._connections_max = connections_max
        self._until_s: OrderedDict[Connection, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._says_from_s = 0.0

    def add(self, connection: Connection) -> None:
        """Let a connection begin."""
        if len(self._until_s) >= self._connections_max:
            self._push_out()
        self._until_s[connection] = self._loop.time() + self._timeout_s
        self._counts.pending = len(self._until_s)
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._look)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has logged in, or is gone."""
        self._until_s.pop(connection, None)
        self._counts.pending = len(self._until_s)

    def _push_out(self) -> None:
        oldest, _ = self._until_s.popitem(last=False)
        self._counts.pushed_out += 1
        oldest.frames.transport.abort()
        now_s = self._loop.time()
        if now_s >= self._says_from_s:
            self._says_from_s = now_s + SAYS_AGAIN_S
            log.warning(
                "%s connections have not logged in: the oldest make room, %s until now",
                self._connections_max,
                self._counts.pushed_out,
            )

    def _look(self) -> None:
        """Close who has had his time."""
        self._timer = None
        now_s = self._loop.time()
        while self._until_s:
            connection, until_s = next(iter(self._until_s.items()))
            if until_s > now_s:
                self._timer = self._loop.call_at(until_s, self._look)
                return
            self.remove(connection)
            connection.complain(f"nobody has logged in after {self._timeout_s:g} s")
            connection.frames.transport.abort()
