"""A coordinator, its clock and its cluster for tests of consumer groups; members as a client would play them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from immutables import Map

from ottla.base import Millis, Uuid
from ottla.config import BrokerConfig
from ottla.groups import Decision, DecisionContext, Group, Record, RequestOrigin, TopicFacts, consumer, encode_records
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.consumer.member import Member
from ottla.groups.timers import Timers
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "g"


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().rjust(16, b"\0"))


class Topics:
    """The cluster's topics; a change gives it a new version."""

    def __init__(self, **partitions: int) -> None:
        self.version = 1
        self.facts = {name: TopicFacts(name, topic_id(name), count) for name, count in partitions.items()}
        self.configs: dict[str, str] = {}

    def topic(self, name: str) -> TopicFacts | None:
        return self.facts.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicFacts | None:
        return next((each for each in self.facts.values() if each.id == topic_id), None)

    def topic_names(self) -> Iterable[str]:
        return list(self.facts)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        return self.configs

    def put(self, name: str, partitions: int) -> None:
        self.version += 1
        self.facts[name] = TopicFacts(name, topic_id(name), partitions)

    def drop(self, name: str) -> None:
        self.version += 1
        self.facts.pop(name, None)


class World:
    """One group. Every decision is applied, and its records are kept, so that a replay can be compared."""

    def __init__(self, *overrides: str, seed: int = 0, **topics: int) -> None:
        self.topics = Topics(**topics)
        self.groups: Map[str, Group] = Map()
        self.timers = Timers()
        self.now_ms = 1_000_000
        self.rng = Random(seed)
        self.records: list[Record] = []
        self.settings = BrokerConfig.load(overrides=["group.consumer.assignment.interval.ms=0", *overrides]).settings
        self.may_describe = lambda name: True

    @property
    def context(self) -> DecisionContext:
        return DecisionContext(Millis(self.now_ms), self.rng, self.settings, self.topics, Millis(self.now_ms))

    @property
    def group(self) -> ConsumerGroup:
        found = self.groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    def origin(self, api_version: int = 1) -> RequestOrigin:
        return RequestOrigin("client", "/127.0.0.1", api_version, may_describe=lambda name: self.may_describe(name))

    def apply(self, decision: Decision) -> Decision:
        for record in decision.records:
            self.groups = consumer.apply(self.groups, record)
        if decision.group is not None and decision.group.group_id in self.groups:
            self.groups = self.groups.set(decision.group.group_id, decision.group)
        self.timers.change(decision.timers)
        self.records += decision.records
        return decision

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat; a join gets what every join has to say."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], **fields}
        if "owned" in fields:
            owned: Mapping[str, Iterable[int]] = fields.pop("owned")
            fields["topic_partitions"] = [
                TopicPartitions(topic_id=topic_id(name), partitions=list(each)) for name, each in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
        consumer.check_request(request, 1, consumer.assignor_names(self.settings))
        group = self.groups.get(GROUP)
        decision = self.apply(consumer.heartbeat(group, request, self.origin(), self.context))
        assert isinstance(decision.response, ConsumerGroupHeartbeatResponse)
        return decision.response

    def pass_time(self, ms: int) -> None:
        """Let time pass and timers come."""
        self.now_ms += ms
        while (timer := self.timers.take(self.now_ms)) is not None:
            self.apply(consumer.expired(self.group, timer, self.context))

    def replayed(self) -> Map[str, Group]:
        """Return what the records alone say."""
        return fold(self.records)

    def compacted(self, until: int) -> list[Record]:
        """Return the records as a cleaner leaves them that has come so far: of each key the newest, and no tombstones."""
        keys = [key for key, _ in encode_records(self.records)]
        newest = {key: offset for offset, key in enumerate(keys[:until])}
        old = [
            record
            for offset, record in enumerate(self.records[:until])
            if newest[keys[offset]] == offset and record.value is not None
        ]
        return old + self.records[until:]

    def assigned(self) -> dict[str, dict[str, set[int]]]:
        """Return what members hold, by topic name."""
        return {each.id: named(each) for each in self.group.members.values()}

    def check(self) -> None:
        """Hold what is always true: nothing has two owners, and the log alone gives the same group."""
        found = self.groups.get(GROUP)
        if not isinstance(found, ConsumerGroup):
            return
        held: dict[tuple[Uuid, int], str] = {}
        for member in found.members.values():
            for each in (member.assigned, member.pending_revocation):
                for topic, partitions in each.items():
                    for partition in partitions:
                        assert held.setdefault((topic, partition), member.id) == member.id, "a partition has two owners"
        assert {(t, p): owner for t, owners in found.owners.items() for p, owner in owners.items()} == held
        self.check_same(self.replayed()[GROUP])

    def check_same(self, again: Group) -> None:
        """Hold that a group that was read from a log is the one that is in memory."""
        found = self.group
        assert isinstance(again, ConsumerGroup)
        for name in ("epoch", "assignment_epoch", "members", "target", "owners", "regexes", "static_members",
                     "topic_counts", "regex_counts", "metadata_hash"):  # fmt: skip
            assert getattr(again, name) == getattr(found, name), name


def fold(records: Iterable[Record]) -> Map[str, Group]:
    """Return the groups that records make."""
    groups: Map[str, Group] = Map()
    for record in records:
        groups = consumer.apply(groups, record)
    return groups


def named(member: Member) -> dict[str, set[int]]:
    return {topic.lstrip(b"\0").decode(): set(partitions) for topic, partitions in member.assigned.items()}


@dataclass
class Consumer:
    """A member as a client plays it: it takes what it is given, and gives up what it is not given any more."""

    world: World
    id: str
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    epoch: int = 0
    owned: dict[str, set[int]] = field(default_factory=dict)
    instance_id: str | None = None
    is_lazy: bool = False
    """True where it does not give partitions back."""

    def beat(self) -> ConsumerGroupHeartbeatResponse:
        names = None if self.topics is None else list(self.topics)
        joins: dict[str, Any] = {}
        if self.epoch == 0:
            self.owned = {}
            joins = {"subscribed_topic_names": names or [], "subscribed_topic_regex": self.regex}
        answer = self.world.heartbeat(self.id, self.epoch, owned=self.owned, instance_id=self.instance_id, **joins)
        self.epoch = answer.member_epoch
        if answer.assignment is not None and not self.is_lazy:
            self.owned = {
                bytes(each.topic_id).lstrip(b"\0").decode(): set(each.partitions)
                for each in answer.assignment.topic_partitions
            }
        return answer

    def leave(self) -> None:
        self.world.heartbeat(self.id, -1 if self.instance_id is None else -2, instance_id=self.instance_id)


def settle(*members: Consumer, rounds: int = 12) -> None:
    """Let everyone heartbeat until nothing changes."""
    for _ in range(rounds):
        for each in members:
            each.beat()
