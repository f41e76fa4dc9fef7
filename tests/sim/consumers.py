"""Members of a consumer group (KIP-848) in a simulated world: no two of them hold one partition at a time.

A member holds what it was told until it is told otherwise, or until its session may have ended: then it is a zombie, whose
partitions the group may give away. A power loss may take back what the group had decided, and begins the account anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from ottla.base import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.sim.client import Connection, NoAnswer
from tests.sim.groups import PASSING, RETRY_S, TOPIC, Again, Consuming, coordinated
from tests.sim.ledger import Violation

__all__ = ["SETTINGS", "Holdings", "consume_in_group"]

SESSION_S = 2.0
SETTINGS = (
    "group.consumer.min.session.timeout.ms=1000",
    f"group.consumer.session.timeout.ms={int(SESSION_S * 1000)}",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
)
"""Sessions that end within the life of a world."""
REBALANCE_S = 5.0
"""How long a member may keep what it is to give back; longer than a session."""
FENCED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
COMMIT_CODES = {ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID, *FENCED}
BY_ID = 10
Partitions = Mapping[bytes, Set[int]]


@dataclass
class _Holder:
    name: str
    losses: int
    until_s: float


@dataclass
class Holdings:
    """Who holds what of a group's partitions, as its members know it."""

    group_id: str
    holders: dict[tuple[bytes, int], _Holder] = field(default_factory=dict)

    def took(self, name: str, partitions: Partitions, *, losses: int, now_s: float, until_s: float) -> None:
        """Note everything that a member holds from now on; nothing where its session may have ended before it was told.

        An answer waits until its decision is committed, which may take longer than the session that begins with it.
        """
        self.drop(name)
        if now_s >= until_s:
            return
        for topic_id, indexes in partitions.items():
            for index in indexes:
                holder = self.holders.get((topic_id, index))
                if holder is not None and holder.losses == losses and now_s < holder.until_s:
                    raise Violation(f"{self.group_id}: {name} was given {index}, which {holder.name} holds")
                self.holders[topic_id, index] = _Holder(name, losses, until_s)

    def renew(self, name: str, until_s: float) -> None:
        """Note that a member's session cannot end before this."""
        for holder in self.holders.values():
            if holder.name == name:
                holder.until_s = until_s

    def drop(self, name: str) -> None:
        """Note that a member holds nothing."""
        self.holders = {key: holder for key, holder in self.holders.items() if holder.name != name}


@dataclass
class _Member:
    clients: Consuming
    name: str
    holdings: Holdings
    regex: str | None
    epoch: int = 0
    owned: dict[bytes, frozenset[int]] = field(default_factory=dict)
    is_sure: bool = False
    """False where the last answer may have been lost: then the member says all that it knows."""
    unanswered_s: float = 0.0
    """When the first heartbeat was sent since the last that was answered."""

    async def beat(self, connection: Connection) -> None:
        """Send a heartbeat and do as it is told."""
        loop = asyncio.get_running_loop()
        losses = self.clients.ledger.partitions[TOPIC, 0].power_losses
        sent_s, was_sure = loop.time(), self.is_sure
        if was_sure or self.epoch == 0:
            self.unanswered_s = sent_s
        self.is_sure = False
        answer = await connection.ask(self._request(full=not was_sure), ConsumerGroupHeartbeatResponse, 1)
        code = ErrorCode(answer.error_code)
        if code in PASSING:
            raise Again
        if code in FENCED:
            self.fenced()
            return
        if code is not ErrorCode.NONE:
            raise Violation(f"{self.name}: a heartbeat was answered {code.name}: {answer.error_message}")
        self.is_sure = True
        self.epoch = answer.member_epoch
        until_s = sent_s + SESSION_S
        self.holdings.renew(self.name, until_s)
        if answer.assignment is not None:
            told = {bytes(each.topic_id): frozenset(each.partitions) for each in answer.assignment.topic_partitions}
            if any(indexes - told.get(topic_id, frozenset()) for topic_id, indexes in self.owned.items()):
                # It was to give this back when it was decided, which an answer that got lost may have been about.
                until_s = min(until_s, self.unanswered_s + REBALANCE_S)
            self.owned = told
            self.holdings.took(self.name, told, losses=losses, now_s=loop.time(), until_s=until_s)
            self.clients.trace.note(f"{self.name} epoch {self.epoch} holds {sum(map(len, told.values()))}")

    def _request(self, *, full: bool) -> ConsumerGroupHeartbeatRequest:
        says = full or self.epoch == 0
        names = [TOPIC] if self.regex is None else []
        return ConsumerGroupHeartbeatRequest(
            group_id=self.holdings.group_id,
            member_id=self.name,
            member_epoch=self.epoch,
            rebalance_timeout_ms=int(REBALANCE_S * 1000) if says else -1,
            subscribed_topic_names=names if says else None,
            subscribed_topic_regex=self.regex if says else None,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in sorted(self.owned.items())
            ],
        )

    def fenced(self) -> None:
        """Give everything up, to join again."""
        self.epoch, self.owned = 0, {}
        self.holdings.drop(self.name)

    async def commit(self, connection: Connection) -> None:
        """Commit for a partition that it holds."""
        if not self.owned:
            return
        topic_id = min(self.owned)
        place = OffsetCommitRequestPartition(partition_index=min(self.owned[topic_id], default=0), committed_offset=1)
        request = OffsetCommitRequest(
            group_id=self.holdings.group_id,
            member_id=self.name,
            generation_id_or_member_epoch=self.epoch,
            topics=[OffsetCommitRequestTopic(topic_id=topic_id, partitions=[place])],
        )
        answer = await connection.ask(request, OffsetCommitResponse, BY_ID)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code in PASSING:
            raise Again
        if code not in COMMIT_CODES:
            raise Violation(f"{self.name}: a commit was answered {code.name}")

    async def leave(self, connection: Connection) -> None:
        """Leave; what it held is free before it says so."""
        self.fenced()
        request = ConsumerGroupHeartbeatRequest(group_id=self.holdings.group_id, member_id=self.name, member_epoch=-1)
        await connection.ask(request, ConsumerGroupHeartbeatResponse, 1)


async def consume_in_group(
    clients: Consuming, name: str, holdings: Holdings, stop: asyncio.Event, *, regex: str | None = None
) -> None:
    """Be a member until the end: heartbeats, commits, silence that may cost the session, and leaving now and then."""
    member = _Member(clients, name, holdings, regex)
    while not stop.is_set():
        try:
            connection = await coordinated(clients, name, holdings.group_id)
            while not stop.is_set():
                await member.beat(connection)
                chance = clients.rng.random()
                if chance < 0.2:
                    await member.commit(connection)
                elif chance < 0.24:
                    await member.leave(connection)
                elif chance < 0.27:
                    await asyncio.sleep(SESSION_S * 1.2)
                await asyncio.sleep(0.3 * clients.rng.random())
        except (NoAnswer, Again):
            await asyncio.sleep(RETRY_S)
