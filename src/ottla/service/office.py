"""`Office`: of several instances of a service, the one that does what only one may do at a time.

The instances are members of a classic group. Its leader chooses a holder, and every member is told of it:

    joining ──joined, this one──▶ taking ──`take` has returned──▶ held
       ▲  └────joined, another──▶ waiting                           │
       └───────────── a rebalance, a lost session, `step_down` ◀────┘

A holder keeps the office during a rebalance, since its group has not said otherwise. It gives it up as soon as a session
has passed without an answered heartbeat: by then another one may have it. What keeps two holders apart is not here: each
service fences the one before it in its log (`take`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.background import end, keep_running
from ottla.base import OttlaError
from ottla.client import Client, GroupMember, JoinedGeneration, JoinedMember

__all__ = ["Membership", "Office", "Outcome"]

log = logging.getLogger(__name__)
H = TypeVar("H")
RETRY_S, RETRY_S_MAX = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class Membership:
    """How instances take part in their service's group; times are in milliseconds."""

    group: str
    protocol_type: str
    protocol: str
    metadata: bytes
    """What this instance says of itself to the one that chooses."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int


@dataclass(frozen=True, slots=True)
class Outcome(Generic[H]):
    """What a round of the group has said: who holds the office, as far as members can name it, and whether this one does."""

    holder: H | None
    is_ours: bool


class Office(Generic[H]):
    """Takes part in the group.

    `choose` is the leader's part: the members of a round → what each of them is told. `read` says what this one was told.
    `take` is awaited before this instance holds the office, and tried again while it raises OttlaError; `leave` is called
    once for each time that it was taken.
    """

    def __init__(
        self,
        client: Client,
        membership: Membership,
        *,
        serves: str,
        choose: Callable[[Sequence[JoinedMember]], Mapping[str, bytes]],
        read: Callable[[JoinedGeneration], Outcome[H]],
        take: Callable[[], Awaitable[None]],
        leave: Callable[[], None],
    ) -> None:
        self.holder: H | None = None
        self.is_held = False
        """Whether this instance is the holder."""
        self.times_taken = 0
        self.changed = asyncio.Condition()
        """Notified whenever the holder is another one, or is not known any more."""
        self._membership, self._serves = membership, serves
        self._choose, self._read, self._take, self._leave = choose, read, take, leave
        self._outcome: Outcome[H] = Outcome(None, False)
        self._is_lost = False
        self._wake = asyncio.Event()
        self._member = GroupMember(
            client,
            membership.group,
            protocol_type=membership.protocol_type,
            session_timeout_ms=membership.session_timeout_ms,
            rebalance_timeout_ms=membership.rebalance_timeout_ms,
            heartbeat_interval_ms=membership.heartbeat_interval_ms,
            wake=self._wake.set,
            lost=self._session_is_over,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take part."""
        self._task = keep_running(self._run, name="office", serves=self._serves, reset=self._lose)

    async def close(self) -> None:
        """Leave the group, so that another instance has the office at once, and close the client."""
        await end(self._task)
        await self._settle(Outcome(None, False))
        await self._member.close()

    def step_down(self, reason: str) -> None:
        """Have the group choose again: this instance was refused what only the holder may do."""
        if self.is_held:
            log.warning("this instance was refused what needs %s: %s", self._serves, reason)
        self._lose()
        self._member.request_rejoin(reason)

    def look(self) -> None:
        """Ask the group now whether it has changed: somebody waits for a holder, and none is known."""
        self._member.hurry()

    def _session_is_over(self) -> None:
        log.warning("no heartbeat was answered for a session: another instance may have %s now", self._serves)
        self._lose()

    def _lose(self) -> None:
        """Give the office up at once; the loop tells those who wait."""
        self._is_lost = True
        self._give_up()
        self._wake.set()

    def _give_up(self) -> None:
        if self.is_held:
            self.is_held = False
            log.info("this instance gives up %s", self._serves)
            self._leave()

    async def _run(self) -> None:
        retry_s = RETRY_S
        while True:
            self._wake.clear()
            try:
                if await self._round():
                    retry_s = RETRY_S
                    await self._wake.wait()
                    continue
            except OttlaError as error:
                log.warning("nobody is known to have %s now; trying again: %s", self._serves, error)
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _round(self) -> bool:
        """Do what is due; return whether nothing is left to do until somebody wakes this. Raises OttlaError."""
        if self._is_lost:
            self._is_lost = False
            await self._settle(Outcome(None, False))
        if self._member.rejoins:
            joined = await self._member.join([(self._membership.protocol, self._membership.metadata)], self._assign)
            if joined is None:
                return False
            self._outcome = self._read(joined)
            self._member.start_heartbeats()
            if not self._outcome.is_ours:
                await self._settle(self._outcome)
        if self._outcome.is_ours and not self.is_held:
            await self._take_office()
        return True

    async def _take_office(self) -> None:
        await self._take()
        if self._is_lost:  # meanwhile; the loop goes round once more
            self._leave()
            return
        self.times_taken += 1
        await self._settle(self._outcome)

    def _assign(self, protocol: str, generation: int, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        return self._choose(members)

    async def _settle(self, outcome: Outcome[H]) -> None:
        """Take in who the holder is, and tell those who wait for another one."""
        if outcome.is_ours:
            self.is_held = True
            log.info("this instance has %s", self._serves)
        else:
            self._give_up()
        self.holder = outcome.holder
        async with self.changed:
            self.changed.notify_all()
