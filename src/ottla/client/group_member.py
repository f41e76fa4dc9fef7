"""`GroupMember`: one member of a classic group; it joins and syncs, says that it lives, and leaves.

The group may be of any protocol type: what members say of themselves, and what the leader assigns, are bytes here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.background import end, supervise
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.client.client import Client
from ottla.client.coordinators import Coordinated
from ottla.client.group_offsets import NO_GENERATION, ConsumerGroupMetadata
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["Assign", "GroupMember", "JoinRefusedError", "JoinedGeneration", "JoinedMember"]

log = logging.getLogger(__name__)
LEAVE_SECONDS_MAX = 3.0
MEMBERS_FROM = 3
"""The first version of LeaveGroup that names a list of members; from version 5 on it says why."""
RETRY_S = 0.1
"""Behind a heartbeat that was not answered the next one is sent after so long, which doubles up to the interval."""
ANSWER_MARGIN_S = 5.0
"""How much longer than a rebalance the answer to a join may take."""
FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
"""Codes after which a member is in no generation, and joins anew."""
PASSING = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED})
"""Codes after which a member joins once more."""


class JoinRefusedError(KafkaError):
    """The group does not take this member, and will not until its settings, its rights or the group's members change."""


@dataclass(frozen=True, slots=True)
class JoinedGeneration:
    """A generation that this member is in, and what it is to do in it."""

    generation: int
    member_id: str
    leader: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    metadata: bytes


Assign = Callable[[str, int, Sequence[JoinedMember]], Mapping[str, bytes]]
"""The leader's part: takes the chosen protocol, the generation and the members; returns assignments by member id."""


def _nothing() -> None: ...


class GroupMember:
    """One member of a group: `join` whenever it `rejoins`, `heartbeat` (or `start_heartbeats`) between, `leave` at the end.

    `wake` is called when the group has something to do; `lost` when no heartbeat was answered for a session, so that
    others may have this member's work. A join waits for the other members, and holds up what else the client's
    connection to the coordinator is asked: give it a client of its own.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        *,
        protocol_type: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_interval_ms: int,
        wake: Callable[[], None] = _nothing,
        lost: Callable[[], None] = _nothing,
    ) -> None:
        self.group = group
        self.member_id = ""
        self.generation = NO_GENERATION
        self.last_completed_generation = NO_GENERATION
        self._client, self._coordinator, self._protocol_type = client, Coordinated(group), protocol_type
        self._session_timeout_ms, self._rebalance_timeout_ms = session_timeout_ms, rebalance_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._wake, self._lost = wake, lost
        self._rejoin: str | None = "the member has started"
        self._heartbeats: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()

    @property
    def rejoins(self) -> bool:
        """Whether this member has to join (again)."""
        return self._rejoin is not None

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """The member as it is now, for whom offsets are committed."""
        return ConsumerGroupMetadata(self.group, self.member_id, self.generation)

    def use(self, client: Client) -> None:
        """Send what follows through another client; the one before is not closed."""
        self._client = client

    def request_rejoin(self, reason: str) -> None:
        """Note that this member has to join again."""
        log.debug("Joining %s again: %s", self.group, reason)
        self._rejoin = reason
        self._wake()

    async def join(self, offered: Sequence[tuple[str, bytes]], assign: Assign) -> JoinedGeneration | None:
        """Join, with protocols' names and what each says of this member; None where the round came to nothing.

        Then it is to be tried again. Raises JoinRefusedError where that is no use, KafkaError where no coordinator
        answers.
        """
        await self._stop_heartbeats()
        answer = await self._ask_to_join(offered)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = await self._ask_to_join(offered)
        if answer.error_code:
            self._refused(ErrorCode(answer.error_code), "join")
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assignments: Mapping[str, bytes] = {}
        if answer.leader == answer.member_id:
            members = [JoinedMember(each.member_id, bytes(each.metadata)) for each in answer.members]
            assignments = assign(answer.protocol_name, self.generation, members)
        sync = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=self._protocol_type,
            protocol_name=answer.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in assignments.items()
            ],
        )
        synced = await self._ask_with_patience(sync)
        if synced.error_code:
            self._refused(ErrorCode(synced.error_code), "sync")
            return None
        self._rejoin = None
        self.last_completed_generation = self.generation
        assignment = bytes(synced.assignment)
        return JoinedGeneration(self.generation, self.member_id, answer.leader, answer.protocol_name, assignment)

    async def _ask_to_join(self, offered: Sequence[tuple[str, bytes]]) -> Any:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=self._protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered],
            reason=self._rejoin,
        )
        return await self._ask_with_patience(request)

    async def _ask_with_patience(self, request: Any) -> Any:
        """Ask what is answered when the other members have come, which is given a rebalance's time."""
        wait_s = self._rebalance_timeout_ms / 1000 + ANSWER_MARGIN_S
        return await self._client.request(request, coordinator_of=self._coordinator, timeout_s=wait_s)

    def _refused(self, code: ErrorCode, what: str) -> None:
        log.info("The coordinator of group %s refused to %s: %s", self.group, what, code.name)
        if code in FORGOTTEN:
            self._forget(code)
        elif code not in PASSING:
            raise JoinRefusedError(code, f"group {self.group} does not take this member: {code.name}")

    def _forget(self, code: ErrorCode) -> None:
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        self.generation = NO_GENERATION
        self._rejoin = f"the coordinator answered {code.name}"

    async def heartbeat(self) -> None:
        """Say once that this member lives, and hear whether it has to join again. Raises KafkaError without an answer."""
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        answer = await self._client.request(request, coordinator_of=self._coordinator)
        code = ErrorCode(answer.error_code)
        if code in FORGOTTEN:
            self._forget(code)
        elif code:
            self._rejoin = f"a heartbeat was answered with {code.name}"

    def start_heartbeats(self) -> None:
        """Begin to say that this member lives, until it has to join again; each join ends what was begun before it."""
        assert self._heartbeats is None, "a join comes between"
        self._heartbeats = supervise(
            self._beat(), name="heartbeats", serves=f"a member of group {self.group}", failed=self._beats_no_more
        )

    def _beats_no_more(self, error: BaseException) -> None:
        """Have this member join again: nobody says that it lives until then."""
        self._rejoin = f"its heartbeats have ended: {error!r}"
        self._wake()

    def hurry(self) -> None:
        """Have the next heartbeat sent now: there is a reason to think that the group has changed."""
        self._hurried.set()

    async def _pause(self, due: float) -> None:
        """Wait until the next heartbeat is due by the loop's clock, or is wanted."""
        try:
            async with asyncio.timeout_at(due):
                await self._hurried.wait()
        except TimeoutError:
            pass
        self._hurried.clear()

    async def _beat(self) -> None:
        """Send heartbeats; without an answer for a session, the membership is lost.

        One that was not answered is followed soon by the next, and none is waited for beyond the session: by then the group
        gives this member's work to others.
        """
        loop, interval_s = asyncio.get_running_loop(), self._heartbeat_interval_ms / 1000
        answered, wait_s, retry_s = loop.time(), interval_s, RETRY_S
        while self._rejoin is None:
            until = answered + self._session_timeout_ms / 1000
            await self._pause(min(loop.time() + wait_s, until))
            asked = loop.time()
            try:
                async with asyncio.timeout_at(until):
                    await self.heartbeat()
            except (KafkaError, TimeoutError) as error:
                why = str(error) or f"{self._session_timeout_ms} ms of a session are over"
                log.warning("No answer to a heartbeat from the coordinator of %s: %s", self.group, why)
                if loop.time() >= until:
                    self.generation = NO_GENERATION
                    self._rejoin = "no heartbeat was answered for a whole session"
                    self._lost()
                wait_s, retry_s = min(retry_s, interval_s), 2 * retry_s
                continue
            answered, wait_s, retry_s = asked, interval_s, RETRY_S
        self._wake()

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            await end(self._heartbeats)
            self._heartbeats = None

    async def leave(self, reason: str) -> None:
        """Leave the group at once, so that others get this member's work; what goes wrong is left to the session."""
        await self._stop_heartbeats()
        member_id, self.member_id, self.generation = self.member_id, "", NO_GENERATION
        self._rejoin = self._rejoin or reason
        if not member_id:
            return
        member = MemberIdentity(member_id=member_id, reason=reason)
        request = LeaveGroupRequest(group_id=self.group, members=[member])
        try:
            async with asyncio.timeout(LEAVE_SECONDS_MAX):
                await self._client.request(request, coordinator_of=self._coordinator, lowest=MEMBERS_FROM)
        except (OttlaError, TimeoutError) as error:
            why = str(error) or f"no answer within {LEAVE_SECONDS_MAX:g} s"
            log.warning("Leaving group %s is left to its session: %s", self.group, why)

    async def close(self, *, leave: bool = True) -> None:
        """End the membership, and close the client; without `leave` as a member that dies does."""
        if leave:
            await self.leave("the member is shutting down")
        await self._stop_heartbeats()
        await self._client.close()
