"""A worker's membership of its group: join and sync, heartbeats between, leaving; the group's coordinator is a broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError
from ottla.client import Client, Coordinated
from ottla.connect.distributed.settings import DistributedSettings
from ottla.connect.errors import ConnectError
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["GroupMember", "JoinRefusedError", "Joined", "Joiner"]

log = logging.getLogger(__name__)
PROTOCOL_TYPE = "connect"
NO_GENERATION = -1
LEAVE_SECONDS_MAX = 3.0
MEMBERS_FROM = 3
"""The first version of LeaveGroup that says why (from 5) and names a list of members."""
_ANSWER_MARGIN_S = 5.0
_FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)


class JoinRefusedError(ConnectError):
    """The group does not take this worker, and will not: its settings have to change."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A generation that this worker is in, and what it is to do in it."""

    generation: int
    member_id: str
    leader: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Joiner:
    """A member as the leader sees it."""

    member_id: str
    metadata: bytes


Divide = Callable[[str, int, Sequence[Joiner]], Mapping[str, bytes]]
"""Takes the chosen protocol, the generation and the members, and returns each one's assignment."""


class GroupMember:
    """One member. `wake` is called when the group has something to do; `lost` when this worker may be in it no more.

    `client` is the member's own: a join waits for the others, and would hold up what else its connection is asked.
    """

    def __init__(
        self, client: Client, settings: DistributedSettings, *, wake: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        self._client, self._settings, self._wake, self._lost = client, settings, wake, lost
        self._group = Coordinated(settings.group_id)
        self.member_id = ""
        self.generation = NO_GENERATION
        self.last_completed_generation = NO_GENERATION
        self._rejoin: str | None = "the worker has started"
        self._heartbeats: asyncio.Task[None] | None = None

    @property
    def rejoins(self) -> bool:
        """Whether this worker has to join (again)."""
        return self._rejoin is not None

    def request_rejoin(self, reason: str) -> None:
        """Join again when the worker comes to it."""
        log.debug("Joining again: %s", reason)
        self._rejoin = reason
        self._wake()

    async def join(self, offered: Sequence[tuple[str, bytes]], divide: Divide) -> Joined | None:
        """Join with what protocols say of this worker; None where the round came to nothing and is to be tried again.

        Raises JoinRefusedError where trying again is no use, KafkaError where no coordinator answers.
        """
        await self._stop_heartbeats()
        settings = self._settings
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered],
            reason=self._rejoin,
        )
        wait_s = settings.rebalance_timeout_ms / 1000 + _ANSWER_MARGIN_S
        answer = await self._client.request(request, coordinator_of=self._group, timeout_s=wait_s)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return await self.join(offered, divide)
        if code.value:
            self._refused(code, "join")
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assignments: Mapping[str, bytes] = {}
        if answer.leader == answer.member_id:
            members = [Joiner(each.member_id, bytes(each.metadata)) for each in answer.members]
            assignments = divide(answer.protocol_name, self.generation, members)
        sync = SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=answer.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in assignments.items()
            ],
        )
        synced = await self._client.request(sync, coordinator_of=self._group, timeout_s=wait_s)
        if synced.error_code:
            self._refused(ErrorCode(synced.error_code), "sync")
            return None
        self._rejoin = None
        self.last_completed_generation = self.generation
        self._heartbeats = asyncio.get_running_loop().create_task(self._beat(), name="heartbeats")
        return Joined(self.generation, self.member_id, answer.leader, answer.protocol_name, bytes(synced.assignment))

    def _refused(self, code: ErrorCode, what: str) -> None:
        log.info("The group's coordinator refused to %s: %s", what, code.name)
        if code in _FORGOTTEN:
            self._forget(code)
        elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
            raise JoinRefusedError(
                f"Group {self._settings.group_id} does not take this worker: {code.name}" + _HINTS.get(code, "")
            )

    def _forget(self, code: ErrorCode) -> None:
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        self.generation = NO_GENERATION
        self._rejoin = f"the coordinator answered {code.name}"

    async def _beat(self) -> None:
        """Say that the worker lives, until it has to join again; without an answer for a session, it is lost."""
        settings, loop = self._settings, asyncio.get_running_loop()
        answered = loop.time()
        while self._rejoin is None:
            await asyncio.sleep(settings.heartbeat_interval_ms / 1000)
            request = HeartbeatRequest(
                group_id=settings.group_id, generation_id=self.generation, member_id=self.member_id
            )
            asked = loop.time()
            until = answered + settings.session_timeout_ms / 1000
            try:
                async with asyncio.timeout_at(until):
                    answer = await self._client.request(request, coordinator_of=self._group)
            except (KafkaError, TimeoutError) as error:
                log.warning("No answer to a heartbeat from the coordinator of %s: %s", settings.group_id, error)
                if loop.time() >= until:
                    self.generation = NO_GENERATION
                    self._rejoin = "no heartbeat was answered for a whole session"
                    self._lost()
                continue
            answered = asked
            code = ErrorCode(answer.error_code)
            if code in _FORGOTTEN:
                self._forget(code)
            elif code.value:
                self._rejoin = f"a heartbeat was answered with {code.name}"
        self._wake()

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
            self._heartbeats = None

    async def leave(self, reason: str) -> None:
        """Leave the group at once, so that others get this worker's work; what goes wrong is left to the session."""
        await self._stop_heartbeats()
        member_id, self.member_id, self.generation = self.member_id, "", NO_GENERATION
        self._rejoin = self._rejoin or reason
        if not member_id:
            return
        member = MemberIdentity(member_id=member_id, reason=reason)
        request = LeaveGroupRequest(group_id=self._settings.group_id, members=[member])
        try:
            async with asyncio.timeout(LEAVE_SECONDS_MAX):
                await self._client.request(request, coordinator_of=self._group, lowest=MEMBERS_FROM)
        except (KafkaError, TimeoutError) as error:
            log.warning("Leaving group %s failed: %s", self._settings.group_id, error)

    async def close(self, *, leave: bool = True) -> None:
        """End the membership; without `leave` as a worker that dies does."""
        if leave:
            await self.leave("the worker is shutting down")
        await self._stop_heartbeats()
        await self._client.close()


_HINTS = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        ". Its members speak another protocol: group.id is another kind of group's, or connect.protocol does not fit"
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        ". session.timeout.ms has to lie between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ". The worker needs the right to read group.id",
}
