"""Consumer groups under random joins, deaths, leaves and topic changes: never two owners, and everything converges."""

from __future__ import annotations

from random import Random

import pytest

from ottla.base import KafkaError
from ottla.groups.consumer import ConsumerGroup
from tests.groups.consumer_world import Consumer, World, fold, topic_id

TOPICS = ("t1", "t2", "t3", "t4")


class Crowd:
    """Members that come and go at random; answers and requests may be lost."""

    def __init__(self, seed: int, members_max: int) -> None:
        self.rng = Random(f"crowd {seed}")
        self.world = World("group.consumer.assignment.interval.ms=500", seed=seed, t1=7, t2=20, t3=3)
        self.members_max = members_max
        self.members: list[Consumer] = []
        self.names = 0

    def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.25 and len(self.members) < self.members_max:
            self.join()
        elif choice < 0.28 and self.members:
            self.leave()
        elif choice < 0.30 and self.members:
            self.members.pop(self.rng.randrange(len(self.members)))  # it dies, and says nothing
        elif choice < 0.31:
            self.change_topics()
        elif choice < 0.33:
            self.world.pass_time(self.rng.randrange(4000))
        elif self.members:
            self.beat(self.rng.choice(self.members))

    def join(self) -> None:
        self.names += 1
        if self.rng.random() < 0.2:
            member = Consumer(self.world, f"m{self.names}", None, regex=self.rng.choice(["t[12]", "t.*"]))
        else:
            topics = tuple(self.rng.sample(TOPICS, self.rng.randrange(1, 4)))
            member = Consumer(self.world, f"m{self.names}", topics)
        if self.rng.random() < 0.2:
            member.instance_id = f"i{self.rng.randrange(self.members_max)}"
        self.members.append(member)
        self.beat(member)

    def leave(self) -> None:
        member = self.members.pop(self.rng.randrange(len(self.members)))
        try:
            member.leave()
        except KafkaError:
            assert member.epoch == 0 or member.id not in self.world.group.members

    def change_topics(self) -> None:
        name = self.rng.choice(TOPICS)
        known = self.world.topics.topic(name)
        if known is not None and self.rng.random() < 0.2:
            self.world.topics.drop(name)
        else:
            self.world.topics.put(name, (known.partitions if known else 0) + self.rng.randrange(1, 4))

    def beat(self, member: Consumer) -> None:
        """Let a member heartbeat; the answer may be lost, and who is refused joins again or gives up."""
        before = member.epoch, {topic: set(each) for topic, each in member.owned.items()}
        try:
            member.beat()
        except KafkaError as error:
            member.epoch, member.owned = 0, {}
            if error.code.name == "UNRELEASED_INSTANCE_ID":
                self.members.remove(member)
            return
        if self.rng.random() < 0.05 and before[0] != 0:
            member.epoch, member.owned = before

    def check(self) -> None:
        """Nobody who would not be fenced reads what the group does not know to be theirs."""
        self.world.check()
        group = self.world.groups.get("g")
        for each in self.members if isinstance(group, ConsumerGroup) else ():
            member = group.members.get(each.id)
            if member is not None and each.epoch not in (0, member.epoch, member.previous_epoch):
                continue
            for topic, partitions in each.owned.items() if member is not None else ():
                assert all(member.holds(topic_id(topic), partition) for partition in partitions)

    def settle(self) -> None:
        """Let time pass, with everyone alive, until the dead are gone and nobody waits."""
        for _ in range(24):
            self.world.pass_time(5000)
            for member in list(self.members):
                try:
                    member.beat()
                except KafkaError as error:
                    member.epoch, member.owned = 0, {}
                    if error.code.name == "UNRELEASED_INSTANCE_ID":
                        self.members.remove(member)

    def check_converged(self) -> None:
        world, group = self.world, self.world.group
        assert group.state_name() in ("Stable", "Empty")
        assert set(group.members) == {each.id for each in self.members}
        for each in self.members:
            member = group.members[each.id]
            assert {topic: set(epochs) for topic, epochs in member.assigned.items()} == {
                topic: set(partitions) for topic, partitions in group.target[each.id].items()
            }
            assert each.owned == {name: owned for name, owned in world.assigned()[each.id].items() if owned}
        for name, facts in world.topics.facts.items():
            asked = any(name in group.subscribed_names(each) for each in group.members.values())
            owned = {p for p in range(facts.partitions) if group.owner(topic_id(name), p) is not None}
            assert owned == (set(range(facts.partitions)) if asked else set())


@pytest.mark.parametrize(("seed", "members_max", "steps"), [(1, 4, 600), (2, 12, 900), (3, 40, 1200), (4, 200, 1500)])
def test_no_partition_ever_has_two_owners_and_everything_converges(seed: int, members_max: int, steps: int) -> None:
    crowd = Crowd(seed, members_max)
    for number in range(steps):
        crowd.step()
        if number % 30 == 0:
            crowd.check()
    assert len(crowd.members) > members_max // 2
    crowd.settle()
    crowd.world.check()
    crowd.check_converged()
    written = len(crowd.world.records)
    for until in (written // 3, written // 2, written):
        crowd.world.check_same(fold(crowd.world.compacted(until))["g"])
