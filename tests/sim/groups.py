"""Consumers of a world: offsets committed with and without a group, and read again after whatever has happened.

What was acknowledged last is what is read, until a power loss, which may bring back anything committed before (the offsets
topic is not flushed). In one generation no partition has two owners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from ottla.base import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.sim.client import Connection, NoAnswer
from tests.sim.ledger import Violation
from tests.sim.trace import Trace

__all__ = [
    "PASSING",
    "RETRY_S",
    "TOPIC",
    "Again",
    "Consuming",
    "Membership",
    "commit_alone",
    "coordinated",
    "take_part",
]

TOPIC = "flushed"
RETRY_S = 0.2
SESSION_MS, REBALANCE_MS = 6_000, 3_000
PASSING = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
"""What a healthy client hears while a coordinator comes and goes."""
OUT = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
"""What a member hears that has to join again."""


class _Losing(Protocol):
    @property
    def power_losses(self) -> int: ...


class _Losses(Protocol):
    @property
    def partitions(self) -> Mapping[tuple[str, int], _Losing]: ...


class Consuming(Protocol):
    """What those who consume need of a world, of one broker or of a cluster."""

    @property
    def ledger(self) -> _Losses: ...
    @property
    def trace(self) -> Trace: ...
    @property
    def rng(self) -> Random: ...
    @property
    def lands_late(self) -> bool: ...

    async def connect(self, name: str) -> Connection:
        """Open a connection; raises NoAnswer."""
        ...

    async def connect_at(self, name: str, connection: Connection, host: str, port: int) -> Connection:
        """Return a connection to the broker at an address that was learnt from another."""
        ...


class Again(Exception):
    """The coordinator is not there now."""


async def coordinated(clients: Consuming, name: str, group_id: str) -> Connection:
    """Return a connection to the broker that coordinates the group; raises NoAnswer."""
    connection = await clients.connect(name)
    request = FindCoordinatorRequest(key=group_id)
    answer = await connection.ask(request, FindCoordinatorResponse, 2)
    if answer.error_code:
        connection.close()
        raise NoAnswer("no coordinator yet")
    return await clients.connect_at(name, connection, answer.host, answer.port)


# -- without a group


async def commit_alone(clients: Consuming, name: str, stop: asyncio.Event) -> None:
    """Commit ever higher offsets, and look now and then at what is committed."""
    offset, acknowledged, possible = 0, -1, {-1}
    ever = {-1}
    losses = 0
    while not stop.is_set():
        try:
            connection = await coordinated(clients, name, name)
            found = await _fetch(connection, name)
            lost = clients.ledger.partitions[TOPIC, 0].power_losses
            if found not in (ever if lost > losses else {acknowledged, *possible}):
                raise Violation(f"{name}: read {found}, acknowledged was {acknowledged}, unanswered {possible}")
            later = possible if clients.lands_late else set()
            losses, acknowledged, possible = lost, found, {found, *later}
            for _ in range(1 + clients.rng.randrange(8)):
                offset += 1
                ever.add(offset)
                possible.add(offset)
                await _commit(connection, name, offset)
                acknowledged, possible = offset, {offset}
                clients.trace.note(f"committed {name} {offset}")
                await asyncio.sleep(0.2 * clients.rng.random())
            connection.close()
        except (NoAnswer, Again):
            await asyncio.sleep(RETRY_S)


async def _fetch(connection: Connection, group_id: str) -> int:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    answer = (await connection.ask(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 9)).groups[0]
    if answer.error_code in PASSING:
        raise Again
    if answer.error_code:
        raise Violation(f"{group_id}: reading offsets: {ErrorCode(answer.error_code).name}")
    return answer.topics[0].partitions[0].committed_offset


async def _commit(
    connection: Connection, group_id: str, offset: int, *, partition: int = 0, member_id: str = "", generation: int = -1
) -> ErrorCode:
    """Commit; return the code where it is one that a member may hear, or NONE."""
    place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[place])],
    )
    version = 2 + connection.rng.randrange(8)
    answer = await connection.ask(request, OffsetCommitResponse, version)
    code = ErrorCode(answer.topics[0].partitions[0].error_code)
    if code in PASSING:
        raise Again
    if code is not ErrorCode.NONE and (generation < 0 or code not in {*OUT, ErrorCode.GROUP_ID_NOT_FOUND}):
        raise Violation(f"{group_id}: committing {offset}: {code.name}")
    return code


# -- in a group


@dataclass
class Membership:
    """Who was given what: by generation and partition, the member. A power loss may give out generations again."""

    group_id: str
    owners: dict[tuple[int, int, int], str] = field(default_factory=dict)

    def took(self, losses: int, generation: int, partitions: bytes, member_id: str) -> None:
        """Note an assignment; nobody else has any of it."""
        for partition in partitions:
            owner = self.owners.setdefault((losses, generation, partition), member_id)
            if owner != member_id:
                raise Violation(
                    f"{self.group_id}: {partition} is {owner}'s and {member_id}'s in generation {generation}"
                )


async def take_part(clients: Consuming, name: str, group: Membership, stop: asyncio.Event) -> None:
    """Be a member: join, sync, send heartbeats, commit for what is owned, leave now and then."""
    member_id = ""
    while not stop.is_set():
        try:
            connection = await coordinated(clients, name, group.group_id)
            while not stop.is_set():
                member_id = await _generation(clients, connection, group, member_id, stop)
        except (NoAnswer, Again):
            await asyncio.sleep(RETRY_S)


async def _generation(
    clients: Consuming, connection: Connection, group: Membership, member_id: str, stop: asyncio.Event
) -> str:
    """Live through one generation; return the member id to go on with."""
    losses = clients.ledger.partitions[TOPIC, 0].power_losses
    joined = await _join(connection, group.group_id, member_id)
    code = ErrorCode(joined.error_code)
    if code in PASSING:
        raise Again
    if code is ErrorCode.MEMBER_ID_REQUIRED:
        return joined.member_id
    if code is not ErrorCode.NONE:
        if code not in OUT:
            raise Violation(f"{group.group_id}: joining: {code.name}")
        return "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member_id
    member_id, generation = joined.member_id, joined.generation_id
    ids = sorted(each.member_id for each in joined.members)
    plan = [SyncGroupRequestAssignment(member_id=each, assignment=bytes([at])) for at, each in enumerate(ids)]
    request = SyncGroupRequest(
        group_id=group.group_id,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=plan,
    )
    synced = await connection.ask(request, SyncGroupResponse)
    if (code := _member_code(synced.error_code)) is not ErrorCode.NONE:
        return "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member_id
    group.took(losses, generation, synced.assignment, member_id)
    for beat in range(2 + clients.rng.randrange(20)):
        if stop.is_set():
            break
        heartbeat = HeartbeatRequest(group_id=group.group_id, generation_id=generation, member_id=member_id)
        code = _member_code((await connection.ask(heartbeat, HeartbeatResponse)).error_code)
        if code is ErrorCode.NONE and synced.assignment[:1] in (b"\0", b"\1"):
            partition = synced.assignment[0]
            code = await _commit(
                connection, group.group_id, beat, partition=partition, member_id=member_id, generation=generation
            )
        if code is not ErrorCode.NONE:
            return "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member_id
        await asyncio.sleep(0.5 * clients.rng.random())
    leaving = LeaveGroupRequest(group_id=group.group_id, members=[MemberIdentity(member_id=member_id)])
    await connection.ask(leaving, LeaveGroupResponse, 5)
    return ""


def _member_code(code: int) -> ErrorCode:
    """Return what a member has heard; raises where the coordinator is elsewhere, or says what it never should."""
    found = ErrorCode(code)
    if found in PASSING:
        raise Again
    if found is not ErrorCode.NONE and found not in OUT:
        raise Violation(f"a member heard {found.name}")
    return found


async def _join(connection: Connection, group_id: str, member_id: str) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")],
    )
    return await connection.ask(request, JoinGroupResponse, 1 + connection.rng.randrange(9))
