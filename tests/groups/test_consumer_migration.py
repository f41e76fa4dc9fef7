"""A group that changes its protocol while it is at work: up, side by side, and down again."""

from __future__ import annotations

from typing import Any

import pytest
from immutables import Map

from ottla.base import ErrorCode, KafkaError
from ottla.groups import Decision, Group, RequestOrigin, routing
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.consumer.classic_protocol import read_assignment
from ottla.groups.shard import Shard, ShardState
from ottla.wire import encode
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.groups.consumer_world import GROUP, Consumer, World

Owned = dict[str, set[int]]


class Mixed(World):
    """A world with a whole shard, in which classic clients ask too; their requests wait under tokens."""

    def __init__(self, *overrides: str, **topics: int) -> None:
        self.shard = Shard()
        super().__init__("group.initial.rebalance.delay.ms=0", *overrides, **topics)
        self.answers: dict[int, Any] = {}
        self.tokens = 0

    def apply(self, decision: Decision) -> Decision:
        self.shard.applied(decision, len(self.records))
        self.records += decision.records
        self.groups = self.shard.groups
        self.answers.update((each.token, each.response) for each in decision.replies)
        return decision

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for decision in self.shard.expire(self.context):
            self.apply(decision)

    def replayed(self) -> Map[str, Group]:
        state = ShardState()
        for offset, record in enumerate(self.records):
            state = state.apply(record, offset)
        return state.groups

    def ask(self, call: Any, request: Any, *, with_asker: bool = True) -> int:
        """Send a request of the classic protocol; return the token under which its answer is or will be."""
        self.tokens += 1
        origin = RequestOrigin("client", "/127.0.0.1", 9, self.tokens)
        arguments = (request, origin, self.context) if with_asker else (request, self.context)
        decision = self.apply(call(self.groups.get(GROUP), *arguments))
        if decision.response is not None:
            self.answers[self.tokens] = decision.response
        return self.tokens


class Classic:
    """A classic consumer with the cooperative assignor's manners: it says what it owns, and joins again when told to."""

    def __init__(self, world: Mixed, *topics: str, instance_id: str | None = None) -> None:
        self.world, self.topics, self.instance_id = world, topics, instance_id
        self.id, self.generation, self.owned = "", -1, Owned()

    def join(self) -> int:
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[TopicPartition(topic=each, partitions=sorted(p)) for each, p in self.owned.items()],
        )
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=self.id,
            group_instance_id=self.instance_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="cooperative-sticky", metadata=b"\0\1" + encode(subscription, 1))],
        )
        token = self.world.ask(routing.join, request)
        answer = self.world.answers.get(token)
        if isinstance(answer, JoinGroupResponse) and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            return self.join()
        return token

    def joined(self, token: int) -> JoinGroupResponse:
        answer: JoinGroupResponse = self.world.answers[token]
        assert not answer.error_code, ErrorCode(answer.error_code).name
        self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignments: dict[str, Owned] | None = None) -> int:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=self.id,
            group_instance_id=self.instance_id,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment(owned))
                for each, owned in (assignments or {}).items()
            ],
        )
        return self.world.ask(routing.sync, request)

    def synced(self, token: int) -> None:
        answer: SyncGroupResponse = self.world.answers[token]
        assert not answer.error_code, ErrorCode(answer.error_code).name
        self.owned = {
            each.topic: set(each.partitions) for each in read_assignment(bytes(answer.assignment)).assigned_partitions
        }

    def beat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, member_id=self.id, group_instance_id=self.instance_id, generation_id=self.generation
        )
        answer = self.world.answers[self.world.ask(routing.heartbeat, request, with_asker=False)]
        assert isinstance(answer, HeartbeatResponse)
        return ErrorCode(answer.error_code)

    def catch_up(self) -> None:
        """Join again as long as the coordinator says so, in a consumer group where every answer comes at once."""
        for _ in range(5):
            if self.beat() is not ErrorCode.REBALANCE_IN_PROGRESS:
                return
            self.joined(self.join())
            self.synced(self.sync())

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.id)])
        self.world.ask(routing.leave, request, with_asker=False)


def assignment(owned: Owned) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic=each, partitions=sorted(p)) for each, p in owned.items()]
    )
    return b"\0\1" + encode(message, 1)


def classic_group(world: Mixed) -> tuple[Classic, Classic]:
    """Return two members of a stable classic group who share four partitions."""
    a, b = Classic(world, "t"), Classic(world, "t")
    first = a.join()
    world.pass_time(1)
    a.joined(first)
    a.synced(a.sync({a.id: {"t": {0, 1, 2, 3}}}))
    second = b.join()
    again = a.join()
    a.joined(again), b.joined(second)
    waiting = b.sync()
    a.synced(a.sync({a.id: {"t": {0, 1}}, b.id: {"t": {2, 3}}}))
    b.synced(waiting)
    assert (a.owned, b.owned) == ({"t": {0, 1}}, {"t": {2, 3}})
    return a, b


def consumer_group(world: Mixed) -> ConsumerGroup:
    found = world.groups[GROUP]
    assert isinstance(found, ConsumerGroup)
    return found


def test_the_first_new_consumer_turns_a_classic_group_into_a_consumer_group() -> None:
    world = Mixed(t=4)
    a, b = classic_group(world)
    generation = a.generation
    c = Consumer(world, "c", ("t",))
    c.beat()
    group = consumer_group(world)
    assert set(group.members) == {a.id, b.id, "c"}
    assert (group.epoch, group.assignment_epoch, c.epoch) == (generation + 1, generation + 1, generation + 1)
    assert c.owned == {}, "what the others read is not given away"
    assert group.members[a.id].epoch == generation
    for _ in range(4):
        a.catch_up()
        b.catch_up()
        c.beat()
    assert sorted(len(each.get("t", ())) for each in (a.owned, b.owned, c.owned)) == [1, 1, 2]
    assert set().union(*(each.get("t", set()) for each in (a.owned, b.owned, c.owned))) == {0, 1, 2, 3}
    assert consumer_group(world).state_name() == "Stable"
    world.check()


def test_parked_requests_are_told_to_join_again_when_the_group_is_upgraded() -> None:
    world = Mixed(t=4)
    a, _ = classic_group(world)
    parked = a.join()
    assert parked not in world.answers
    Consumer(world, "c", ("t",)).beat()
    assert world.answers[parked].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    a.joined(a.join())
    a.synced(a.sync())


def test_when_the_last_new_consumer_leaves_the_group_is_classic_again() -> None:
    world = Mixed(t=4)
    a, b = classic_group(world)
    c = Consumer(world, "c", ("t",))
    for _ in range(4):
        c.beat()
        a.catch_up()
        b.catch_up()
    epoch = consumer_group(world).epoch
    c.leave()
    group = world.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state_name() == "PreparingRebalance"
    assert group.generation == epoch
    assert isinstance(world.replayed()[GROUP], ClassicGroup)
    assert (a.beat(), b.beat()) == (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS)
    first, second = a.join(), b.join()
    b.joined(second)
    leader, other = (a, b) if a.joined(first).leader == a.id else (b, a)
    waiting = other.sync()
    leader.synced(leader.sync({a.id: {"t": {0, 1}}, b.id: {"t": {2, 3}}}))
    other.synced(waiting)
    assert (a.beat(), b.beat()) == (ErrorCode.NONE, ErrorCode.NONE)


def test_a_new_consumer_that_dies_also_lets_the_group_go_back() -> None:
    world = Mixed(t=4)
    a, b = classic_group(world)
    c = Consumer(world, "c", ("t",))
    c.beat()
    for _ in range(10):
        world.pass_time(5000)
        for each in (a, b):
            if isinstance(world.groups[GROUP], ConsumerGroup):
                each.catch_up()
            else:
                each.beat()
    assert isinstance(world.groups[GROUP], ClassicGroup)
    assert set(world.groups[GROUP].members) == {a.id, b.id}


@pytest.mark.parametrize("how", ["leaves", "dies", "is a classic one that leaves"])
def test_no_partition_is_without_a_reader_where_the_group_may_not_go_back(how: str) -> None:
    world = Mixed("group.consumer.migration.policy=upgrade", t=4)
    a, b = classic_group(world)
    c = Consumer(world, "c", ("t",))
    for _ in range(4):
        c.beat()
        a.catch_up()
        b.catch_up()
    assert c.owned
    staying = [a, b]
    if how == "dies":
        for _ in range(10):
            world.pass_time(5000)
            a.catch_up(), b.catch_up()
    else:
        c.leave()
    if how == "is a classic one that leaves":
        for _ in range(4):
            a.catch_up(), b.catch_up()
        staying.remove(b)
        b.leave()
    for _ in range(4):
        for each in staying:
            each.catch_up()
    assert set(consumer_group(world).members) == {each.id for each in staying}
    assert sorted(each for member in staying for each in member.owned["t"]) == [0, 1, 2, 3]
    assert consumer_group(world).state_name() == "Stable"
    world.check()


def test_new_partitions_are_read_where_only_classic_members_are_left() -> None:
    world = Mixed("group.consumer.migration.policy=upgrade", t=4)
    a, b = classic_group(world)
    c = Consumer(world, "c", ("t",))
    c.beat()
    c.leave()
    world.topics.put("t", 6)
    for _ in range(4):
        a.catch_up(), b.catch_up()
    assert sorted((*a.owned["t"], *b.owned["t"])) == [0, 1, 2, 3, 4, 5]
    world.check()


def test_classic_members_come_into_a_consumer_group_and_leave_it() -> None:
    world = Mixed(t=4)
    c = Consumer(world, "c", ("t",))
    c.beat()
    a = Classic(world, "t")
    a.joined(a.join())
    a.synced(a.sync())
    for _ in range(3):
        c.beat()
        a.catch_up()
    assert (len(a.owned["t"]), len(c.owned["t"])) == (2, 2)
    world.check()
    a.leave()
    for _ in range(3):
        c.beat()
    assert c.owned == {"t": {0, 1, 2, 3}}
    assert consumer_group(world).state_name() == "Stable"


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    world = Mixed(t=4)
    a, b = classic_group(world)
    c = Consumer(world, "c", ("t",))
    c.beat()
    for _ in range(7):
        assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS, "it is told, and does nothing about it"
        b.catch_up()
        c.beat()
        world.pass_time(5000)
        if a.id not in consumer_group(world).members:
            break
    assert set(consumer_group(world).members) == {b.id, "c"}
    assert a.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_consumer_becomes_a_new_one_under_its_instance_id() -> None:
    world = Mixed(t=4)
    a = Classic(world, "t", instance_id="one")
    first = a.join()
    world.pass_time(1)
    a.joined(first)
    a.synced(a.sync({a.id: {"t": {0, 1, 2, 3}}}))
    new = Consumer(world, "n", ("t",), instance_id="one")
    new.beat()
    assert new.owned == {"t": {0, 1, 2, 3}}
    assert set(consumer_group(world).members) == {"n"}
    back = Classic(world, "t", instance_id="one")
    answer = world.answers[back.join()]
    assert not answer.error_code
    assert isinstance(world.groups[GROUP], ClassicGroup) == isinstance(world.replayed()[GROUP], ClassicGroup)


def test_migration_can_be_forbidden() -> None:
    world = Mixed("group.consumer.migration.policy=disabled", t=4)
    classic_group(world)
    with pytest.raises(KafkaError) as caught:
        Consumer(world, "c", ("t",)).beat()
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(world.groups[GROUP], ClassicGroup)


def test_empty_groups_change_their_kind_without_ado() -> None:
    world = Mixed("group.consumer.migration.policy=disabled", t=4)
    a, b = classic_group(world)
    a.leave(), b.leave()
    c = Consumer(world, "c", ("t",))
    c.beat()
    assert c.owned == {"t": {0, 1, 2, 3}}
    c.leave()
    assert consumer_group(world).is_empty()
    d = Classic(world, "t")
    token = d.join()
    world.pass_time(1)
    d.joined(token)
    assert isinstance(world.groups[GROUP], ClassicGroup)
    assert isinstance(world.replayed()[GROUP], ClassicGroup)
