"""Which server of a service runs its queries: the leader of a group that all of them are members of.

Every server takes statements and answers queries; one of them has the hosts. When it is gone another takes its office, at
once where it left, after its session where it was killed. Its hosts' transactions go on under the same ids, so that whatever
the one before still tries to commit is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from ottla.background import end, keep_running
from ottla.base import OttlaError
from ottla.client import Client, GroupMember, JoinedMember

__all__ = ["Leading"]

log = logging.getLogger(__name__)
PROTOCOL_TYPE, PROTOCOL = "ottla-sql", "v0"
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS = 6_000, 10_000, 1_000
RETRY_S, RETRY_S_MAX = 0.1, 2.0


class Leading:
    """Takes part in the group; `take` is called when this server has the office, `leave` when it may have it no more."""

    def __init__(self, client: Client, group: str, *, take: Callable[[], None], leave: Callable[[], None]) -> None:
        self.is_leader = False
        self._client, self._take, self._leave = client, take, leave
        self._wake = asyncio.Event()
        self._member = GroupMember(
            client,
            group,
            protocol_type=PROTOCOL_TYPE,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            wake=self._wake.set,
            lost=self._lost,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take part from now on."""
        self._task = keep_running(self._run, name="leading", serves="the service's queries", reset=self._resign)

    async def close(self) -> None:
        """Leave the group, so that another server has the office at once; only when nothing runs here any more."""
        await end(self._task)
        self._resign()
        await self._member.close()
        await self._client.close()

    async def _run(self) -> None:
        retry_s = RETRY_S
        while True:
            self._wake.clear()
            try:
                joined = await self._member.join([(PROTOCOL, b"")], _assigned)
                retry_s = RETRY_S
            except OttlaError as error:
                log.warning("the service's group cannot be joined, which is tried again: %s", error)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)
                continue
            if joined is None:
                continue
            if joined.leader == joined.member_id:
                self._hold()
            else:
                self._resign()
            self._member.start_heartbeats()
            while not self._member.rejoins:
                self._wake.clear()
                await self._wake.wait()

    def _hold(self) -> None:
        if not self.is_leader:
            self.is_leader = True
            log.info("this server runs the service's queries")
            self._take()

    def _resign(self) -> None:
        if self.is_leader:
            self.is_leader = False
            self._leave()

    def _lost(self) -> None:
        log.warning("no heartbeat was answered for a session: another server may run the queries now")
        self._resign()


def _assigned(protocol: str, generation: int, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    """Nothing is divided: who leads the group leads."""
    return {each.member_id: b"" for each in members}
