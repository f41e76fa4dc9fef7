"""A shard in a test: requests by plain calls, every decision applied at once, a clock that stands until it is moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from ottla import groups
from ottla.base import Millis
from ottla.config import BrokerConfig, BrokerSettings
from ottla.groups import Decision, DecisionContext, Record, RequestOrigin, Shard, TopicFacts, encode_records
from ottla.wire import Record as LogRecord
from ottla.wire import encode
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["GROUP", "NoTopics", "World", "settings", "subscription"]

GROUP = "g"
START_MS = 1_700_000_000_000


def settings(**changes: object) -> BrokerSettings:
    """Return a broker's settings, with keys written with `_` for `.`."""
    overrides = [f"{name.replace('_', '.')}={value}" for name, value in changes.items()]
    return BrokerConfig.load(overrides=overrides, environment={}).settings


def subscription(*topics: str) -> bytes:
    """Return what a consumer says when it joins."""
    return b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=topics), 1)


class NoTopics:
    """A cluster without topics."""

    version = 0

    def topic(self, name: str) -> TopicFacts | None:
        return None

    def topic_by_id(self, topic_id: bytes) -> TopicFacts | None:
        return None

    def topic_names(self) -> Iterable[str]:
        return ()

    def group_config(self, group_id: str) -> Mapping[str, str]:
        return {}


class World:
    """One shard and what its clients have been told; `log` holds every record that was ever appended."""

    def __init__(self, seed: int = 0, **changes: object) -> None:
        self.shard = Shard()
        self.log: list[Record] = []
        self.answers: dict[int, Any] = {}
        self.settings = settings(**changes)
        self.now_ms = START_MS
        self.rng = Random(seed)
        self._token = 0

    def context(self) -> DecisionContext:
        return DecisionContext(Millis(self.now_ms), self.rng, self.settings, NoTopics(), Millis(self.now_ms))

    def perform(self, decision: Decision, token: int = -1) -> Any:
        base = len(self.log)
        self.log.extend(decision.records)
        self.shard.applied(decision, base)
        for reply in decision.replies:
            assert reply.token not in self.answers, "a request is answered once"
            self.answers[reply.token] = reply.response
        if decision.response is not None:
            assert token not in self.answers
            self.answers[token] = decision.response
        return self.answers.get(token)

    def pass_ms(self, ms: int) -> None:
        """Let time pass, and every timer come that is due on the way."""
        end = self.now_ms + ms
        while (due := self.shard.next_deadline()) is not None and due <= end:
            self.now_ms = max(due, self.now_ms)
            for decision in self.shard.expire(self.context()):
                self.perform(decision)
        self.now_ms = end

    def replayed(self) -> Shard:
        """Return what another coordinator makes of the same log, bytes included."""
        shard = Shard()
        for offset, (key, value) in enumerate(encode_records(self.log)):
            shard.replay(LogRecord(offset, START_MS, key, value), -1)
        return shard

    def take_over(self) -> None:
        """Let another coordinator load the shard; nothing that was parked is known to it."""
        self.shard = self.replayed()
        for decision in self.shard.loaded(self.context()):
            self.perform(decision)

    def group(self, group_id: str = GROUP) -> Any:
        return self.shard.groups.get(group_id)

    # -- requests

    def token(self) -> int:
        self._token += 1
        return self._token

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        version: int = 9,
        protocols: Mapping[str, bytes] | None = None,
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        client: str = "c",
    ) -> int:
        """Send a JoinGroup; return the token under which its answer will be found in `answers`."""
        token = self.token()
        named = {"range": subscription("t")} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in named.items()],
        )
        origin = RequestOrigin(client, "/127.0.0.1", version, token)
        self.perform(groups.join(self.group(group_id), request, origin, self.context()), token)
        return token

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol: str | None = "range",
    ) -> int:
        """Send a SyncGroup; return its token."""
        token = self.token()
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=getattr(self.group(), "protocol_type", None),
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (assignments or {}).items()
            ],
        )
        self.perform(
            groups.sync(self.group(), request, RequestOrigin("c", "/127.0.0.1", 5, token), self.context()), token
        )
        return token

    def heartbeat(self, member_id: str, generation: int, *, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        code: int = self.perform(groups.heartbeat(self.group(), request, self.context()), self.token()).error_code
        return code

    def leave(self, *members: str | tuple[str, str]) -> LeaveGroupResponse:
        """Send a LeaveGroup of members by id, or by (id, instance id)."""
        named = [each if isinstance(each, tuple) else (each, None) for each in members]
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in named],
        )
        answer: LeaveGroupResponse = self.perform(groups.leave(self.group(), request, self.context()), self.token())
        return answer

    def commit(
        self,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        version: int = 9,
        metadata: str | None = "",
        group_id: str = GROUP,
        instance: str | None = None,
        retention_ms: int = -1,
    ) -> int:
        """Commit one offset; return the partition's code."""
        place = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            group_instance_id=instance,
            generation_id_or_member_epoch=generation,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])],
        )
        origin = RequestOrigin("c", "/127.0.0.1", version)
        answer = self.perform(groups.commit(self.group(group_id), request, origin, self.context()), self.token())
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def committed(self, topic: str = "t", partition: int = 0, *, group_id: str = GROUP) -> int | None:
        found = self.shard.offsets.get(group_id, topic, partition)
        return None if found is None else found.offset

    # -- a whole rebalance

    def member(self, **options: Any) -> str:
        """Join as somebody new, as clients do it: once for an id, and once with it. Return the id."""
        first: JoinGroupResponse = self.answers[self.join(**options)]
        assert first.error_code == 79, first
        options["member_id"] = first.member_id
        self.join(**options)
        return first.member_id

    def stable(self, count: int, **options: Any) -> tuple[list[str], int]:
        """Bring a new group of so many members to Stable; return their ids, the leader first, and the generation."""
        members = [self.member(**options) for _ in range(count)]
        self.pass_ms(6_000)
        generation = self.group().generation
        leader = self.group().leader
        ordered = sorted(members, key=lambda each: each != leader)
        for each in reversed(ordered):
            assignments = {each: each.encode() for each in members} if each == leader else None
            self.sync(each, generation, assignments)
        assert self.group().state_name() == "Stable"
        return ordered, generation
