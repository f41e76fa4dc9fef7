"""Requests that no sound client sends: the answer is an error of the protocol, and the group stays whole."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.base import KafkaError
from ottla.groups import Group, RequestOrigin, consumer, routing
from ottla.groups.consumer import ConsumerGroup
from ottla.wire import encode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.groups.consumer_world import GROUP, topic_id
from tests.groups.test_consumer_migration import Mixed

IDS = ("", "a", "b", "c", "d", "\0", "ü" * 300)
TOPICS = ("t", "u", "missing", "", "\n")
PATTERNS = ("", "t", ".*", "(", "[[:alpha:]]+", "a{1000}", "\\C", "(?i)T", "\0")
EPOCHS = (-(1 << 31), -3, -2, -1, 0, 1, 2, 3, 4, 5, (1 << 31) - 1)


class Vandal:
    """Sends anything that the protocol can carry."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"vandal {seed}")
        self.world = Mixed("group.consumer.max.size=5", t=3, u=2)

    def maybe(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def send(self) -> None:
        call = self.maybe(self.heartbeat, self.heartbeat, self.heartbeat, self.join, self.sync, self.alive, self.leave)
        try:
            call()
        except KafkaError as error:
            assert error.message

    def epoch(self, member_id: str) -> int:
        """Return the member's own epoch mostly, so that requests get past the first check."""
        group = self.world.groups.get(GROUP)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        return member.epoch if member is not None and self.rng.random() < 0.7 else self.maybe(*EPOCHS)

    def partitions(self) -> list[TopicPartitions]:
        ids = [topic_id(name) for name in TOPICS] + [bytes(16), b"\xff" * 16]
        numbers = (-(1 << 31), -1, 0, 1, 2, 3, (1 << 31) - 1)
        return [
            TopicPartitions(topic_id=self.maybe(*ids), partitions=[self.maybe(*numbers) for _ in range(3)])
            for _ in range(self.rng.randrange(4))
        ]

    def heartbeat(self) -> None:
        member_id = self.maybe(*IDS)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=self.epoch(member_id),
            instance_id=self.maybe(None, None, None, "i", "j"),
            rack_id=self.maybe(None, "r"),
            rebalance_timeout_ms=self.maybe(-1, 0, 1, -7, 60_000, (1 << 31) - 1),
            subscribed_topic_names=self.maybe(None, [], ["t"], ["t", "u", "t"], list(TOPICS)),
            subscribed_topic_regex=self.maybe(None, None, *PATTERNS),
            server_assignor=self.maybe(None, "range", "uniform"),
            topic_partitions=self.maybe(None, [], self.partitions()),
        )
        settings = self.world.settings
        consumer.check_request(request, self.maybe(0, 1), consumer.assignor_names(settings))
        origin = self.world.origin()
        self.world.apply(consumer.heartbeat(self.world.groups.get(GROUP), request, origin, self.world.context))

    def join(self) -> None:
        owned = [TopicPartition(topic=self.maybe(*TOPICS), partitions=[self.maybe(-1, 0, 1, 2, 99)]) for _ in range(2)]
        sound = ConsumerProtocolSubscription(topics=self.maybe([], ["t"], list(TOPICS)), owned_partitions=owned)
        version = self.maybe(0, 1, 2, 3)
        metadata = self.maybe(b"", b"\0", b"\xff\xff", b"\0\1", b"\x7f\xff" + encode(sound, 3))
        if self.rng.random() < 0.8:
            metadata = version.to_bytes(2, "big") + encode(sound, version)
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.maybe([], ["x"], ["x", "y"])
        ]
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=self.maybe(*IDS),
            group_instance_id=self.maybe(None, None, "i", "j"),
            session_timeout_ms=self.maybe(-1, 0, 10_000, 10_000, 10_000, (1 << 31) - 1),
            rebalance_timeout_ms=self.maybe(-1, 0, 30_000),
            protocol_type=self.maybe("consumer", "consumer", "connect", ""),
            protocols=protocols,
        )
        self.ask(routing.join, request, with_asker=True)

    def sync(self) -> None:
        member_id = self.maybe(*IDS)
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=self.maybe(None, None, "i"),
            generation_id=self.epoch(member_id),
            protocol_type=self.maybe(None, "consumer", "x"),
            protocol_name=self.maybe(None, "x", "y"),
        )
        self.ask(routing.sync, request, with_asker=True)

    def alive(self) -> None:
        member_id = self.maybe(*IDS)
        instance_id = self.maybe(None, None, "i")
        request = HeartbeatRequest(
            group_id=GROUP, member_id=member_id, generation_id=self.epoch(member_id), group_instance_id=instance_id
        )
        self.ask(routing.heartbeat, request, with_asker=False)

    def leave(self) -> None:
        members = [
            MemberIdentity(member_id=self.maybe(*IDS), group_instance_id=self.maybe(None, None, "i"))
            for _ in range(self.rng.randrange(3))
        ]
        self.ask(routing.leave, LeaveGroupRequest(group_id=GROUP, members=members), with_asker=False)

    def ask(self, call: Any, request: Any, *, with_asker: bool) -> None:
        group: Group | None = self.world.groups.get(GROUP)
        origin = RequestOrigin("vandal", "/127.0.0.1", self.maybe(0, 3, 9), self.rng.randrange(1000))
        arguments = (request, origin, self.world.context) if with_asker else (request, self.world.context)
        self.world.apply(call(group, *arguments))


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_can_be_sent_breaks_a_group(seed: int) -> None:
    vandal = Vandal(seed)
    for number in range(600):
        vandal.send()
        if number % 5 == 0:
            vandal.world.check()
        if number % 50 == 0:
            vandal.world.pass_time(vandal.maybe(1, 6000, 50_000, 400_000))
