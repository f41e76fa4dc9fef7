"""ConsumerGroupHeartbeat: joining, being assigned, giving back before others receive, fencing, leaving."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.config import BrokerConfig
from ottla.groups import Decision, consumer
from ottla.groups.committing_in_transaction import commit_in_transaction
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.groups.consumer_world import GROUP, Consumer, World, settle, topic_id


def refused(code: ErrorCode, call: object, *args: object, **fields: object) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        call(*args, **fields)  # type: ignore[operator]
    assert caught.value.code == code
    return caught.value


def test_the_first_member_gets_everything_in_its_first_answer() -> None:
    world = World(t=3)
    answer = world.heartbeat("a", 0, subscribed_topic_names=["t"])
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5000)
    assert answer.assignment is not None
    assert [(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions] == [
        (topic_id("t"), [0, 1, 2])
    ]
    assert world.group.state_name() == "Stable"
    world.check()


def test_answers_carry_the_assignment_only_when_it_changed_or_was_asked_for() -> None:
    world = World(t=3)
    world.heartbeat("a", 0, subscribed_topic_names=["t"])
    assert world.heartbeat("a", 2, owned={"t": [0, 1, 2]}).assignment is None
    full = world.heartbeat("a", 2, owned={"t": [0, 1, 2]}, rebalance_timeout_ms=5, subscribed_topic_names=["t"])
    assert full.assignment is not None


def test_a_quiet_heartbeat_writes_nothing() -> None:
    world = World(t=3)
    world.heartbeat("a", 0, subscribed_topic_names=["t"])
    written = len(world.records)
    world.heartbeat("a", 2, owned={"t": [0, 1, 2]})
    assert len(world.records) == written


def test_a_partition_goes_to_a_newcomer_only_after_it_was_given_back() -> None:
    world = World(t=2)
    a, b = Consumer(world, "a", ("t",)), Consumer(world, "b", ("t",))
    a.beat()
    b.beat()
    assert b.epoch == 3
    assert b.owned == {}
    assert world.group.state_name() == "Reconciling"
    a.is_lazy = True
    assert a.beat().member_epoch == 2, "it stays in its epoch until it has given back"
    b.beat()
    assert b.owned == {}, "its partition is still read by the other"
    a.is_lazy = False
    a.owned = {"t": {0}}
    assert a.beat().member_epoch == 3
    b.beat()
    assert b.owned == {"t": {1}}
    assert world.group.state_name() == "Stable"
    world.check()


def test_a_member_that_does_not_give_back_in_time_is_fenced() -> None:
    world = World(t=2)
    a, b = Consumer(world, "a", ("t",)), Consumer(world, "b", ("t",))
    a.beat()
    b.beat()
    a.is_lazy = True
    for _ in range(6):
        a.beat()
        b.beat()
        world.pass_time(10_000)
    assert set(world.group.members) == {"b"}
    refused(ErrorCode.UNKNOWN_MEMBER_ID, a.beat)
    b.beat()
    assert b.owned == {"t": {0, 1}}
    world.check()


def test_a_silent_member_is_removed_after_its_session() -> None:
    world = World(t=2)
    a, b = Consumer(world, "a", ("t",)), Consumer(world, "b", ("t",))
    settle(a, b)
    for _ in range(5):
        world.pass_time(10_000)
        b.beat()
    assert set(world.group.members) == {"b"}
    assert b.owned == {"t": {0, 1}}


def test_members_leave_with_epoch_minus_one() -> None:
    world = World(t=2)
    a, b = Consumer(world, "a", ("t",)), Consumer(world, "b", ("t",))
    settle(a, b)
    answer = world.heartbeat("a", -1)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", -1, 0)
    settle(b)
    assert b.owned == {"t": {0, 1}}
    world.heartbeat("b", -1)
    assert world.group.state_name() == "Empty"
    world.check()


def test_epochs_are_fenced() -> None:
    world = World(t=2)
    refused(ErrorCode.GROUP_ID_NOT_FOUND, world.heartbeat, "a", 1)
    refused(ErrorCode.GROUP_ID_NOT_FOUND, world.heartbeat, "a", -1)
    world.heartbeat("a", 0, subscribed_topic_names=["t"])
    refused(ErrorCode.UNKNOWN_MEMBER_ID, world.heartbeat, "b", 1)
    refused(ErrorCode.FENCED_MEMBER_EPOCH, world.heartbeat, "a", 3)
    world.heartbeat("a", 2, subscribed_topic_names=["t", "u"], owned={"t": [0, 1]})
    assert world.group.members["a"].epoch == 3
    refused(ErrorCode.FENCED_MEMBER_EPOCH, world.heartbeat, "a", 2)
    refused(ErrorCode.FENCED_MEMBER_EPOCH, world.heartbeat, "a", 2, owned={"u": [7]})
    assert world.heartbeat("a", 2, owned={"t": [0]}).member_epoch == 3, "it missed the answer that moved it on"


def test_a_member_that_was_fenced_joins_again_under_its_id() -> None:
    world = World(t=2)
    world.heartbeat("a", 0, subscribed_topic_names=["t"])
    again = world.heartbeat("a", 0, subscribed_topic_names=["t"])
    assert again.assignment is not None
    assert world.assigned() == {"a": {"t": {0, 1}}}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "none"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_requests_that_make_no_sense_are_refused(fields: dict[str, object], code: ErrorCode) -> None:
    world = World(t=1)
    asked = {"member_id": "a", "epoch": 0, "subscribed_topic_names": ["t"], **fields}
    refused(code, world.heartbeat, asked.pop("member_id"), asked.pop("epoch"), **asked)
    assert not world.records


def test_a_full_group_lets_only_its_members_in() -> None:
    world = World("group.consumer.max.size=1", t=1)
    world.heartbeat("a", 0, subscribed_topic_names=["t"])
    refused(ErrorCode.GROUP_MAX_SIZE_REACHED, world.heartbeat, "b", 0, subscribed_topic_names=["t"])
    world.heartbeat("a", 0, subscribed_topic_names=["t"])


def test_topics_that_come_later_are_assigned_when_they_come() -> None:
    world = World()
    a = Consumer(world, "a", ("t",))
    a.beat()
    assert a.owned == {}
    world.topics.put("t", 2)
    a.beat()
    assert a.owned == {"t": {0, 1}}
    world.topics.put("t", 3)
    a.beat()
    assert a.owned == {"t": {0, 1, 2}}
    world.topics.put("other", 3)
    before = world.group.epoch
    a.beat()
    assert world.group.epoch == before, "a topic that nobody asked for changes nothing"
    world.topics.drop("t")
    settle(a, rounds=3)
    assert a.owned == {}
    world.check()


def test_assignments_wait_for_the_assignment_interval() -> None:
    world = World("group.consumer.assignment.interval.ms=1000", t=2)
    a, b = Consumer(world, "a", ("t",)), Consumer(world, "b", ("t",))
    a.beat()
    b.beat()
    assert world.group.state_name() == "Assigning"
    assert (world.group.epoch, world.group.assignment_epoch) == (3, 2)
    world.pass_time(1000)
    b.beat()
    assert (world.group.epoch, world.group.assignment_epoch) == (3, 3)


def test_a_group_may_have_its_own_timeouts_within_the_brokers_bounds() -> None:
    world = World("group.consumer.max.session.timeout.ms=60000", t=2)
    world.topics.configs = {"consumer.session.timeout.ms": "100", "consumer.heartbeat.interval.ms": "6000"}
    assert world.heartbeat("a", 0, subscribed_topic_names=["t"]).heartbeat_interval_ms == 6000
    world.pass_time(44_000)
    assert world.group.members
    world.pass_time(1_001)
    assert not world.group.members, "45 s is the lowest that the broker allows"


def test_the_assignor_that_most_ask_for_is_taken() -> None:
    world = World(t=4, u=4)
    names = ["t", "u"]
    world.heartbeat("a", 0, subscribed_topic_names=names, server_assignor="range")
    world.heartbeat("b", 0, subscribed_topic_names=names)
    target = world.group.target
    assert all(each[topic_id("t")] == each[topic_id("u")] for each in target.values())


def test_a_static_member_comes_back_to_what_it_had() -> None:
    world = World(t=4)
    a = Consumer(world, "a", ("t",), instance_id="one")
    b = Consumer(world, "b", ("t",), instance_id="two")
    settle(a, b)
    had, epoch = a.owned, world.group.epoch
    again = Consumer(world, "a2", ("t",), instance_id="one")
    refused(ErrorCode.UNRELEASED_INSTANCE_ID, again.beat)
    a.leave()
    assert set(world.group.members) == {"a", "b"}
    again.beat()
    assert set(world.group.members) == {"a2", "b"}
    assert again.owned == had
    assert world.group.epoch == epoch, "nothing had to be assigned anew"
    refused(ErrorCode.FENCED_INSTANCE_ID, world.heartbeat, "a", epoch, instance_id="one")
    refused(ErrorCode.UNKNOWN_MEMBER_ID, world.heartbeat, "x", epoch, instance_id="three")
    world.check()


def test_a_static_member_that_stays_away_loses_its_place_with_its_session() -> None:
    world = World(t=4)
    a = Consumer(world, "a", ("t",), instance_id="one")
    a.beat()
    a.leave()
    world.pass_time(45_001)
    assert not world.group.members
    assert not world.group.static_members


def test_an_unsubscribed_topic_is_given_back_before_the_next_assignment() -> None:
    world = World("group.consumer.assignment.interval.ms=10000", t=2, u=2)
    world.heartbeat("a", 0, subscribed_topic_names=["t", "u"])
    answer = world.heartbeat("a", 2, subscribed_topic_names=["t"], owned={"t": [0, 1], "u": [0, 1]})
    assert answer.assignment is not None
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [topic_id("t")]
    assert world.group.assignment_epoch == 2
    world.check()


def test_expressions_subscribe_to_whole_names_that_the_member_may_know() -> None:
    world = World(foo=1, foobar=2, barfoo=1)
    world.may_describe = lambda name: name != "foo"
    a = Consumer(world, "a", None, regex="^foo.*")
    a.beat()
    assert a.owned == {"foobar": {0, 1}}
    assert world.group.is_subscribed("foobar")
    assert not world.group.is_subscribed("barfoo")
    world.topics.put("foox", 1)
    a.beat()
    assert "foox" not in a.owned, "expressions are looked up again every ten seconds at most"
    world.pass_time(10_000)
    a.beat()
    assert a.owned == {"foobar": {0, 1}, "foox": {0}}
    world.check()
    a.leave()
    assert not world.group.regexes
    world.check()


def test_expressions_that_re2_refuses_are_answered_with_the_reason() -> None:
    world = World(t=1)
    error = refused(
        ErrorCode.INVALID_REGULAR_EXPRESSION, world.heartbeat, "a", 0, subscribed_topic_regex="foo(", owned={}
    )
    assert "foo(" in error.message
    assert not world.records
    for pattern in ("(?=a)", "a" * 40_000):
        refused(ErrorCode.INVALID_REGULAR_EXPRESSION, world.heartbeat, "a", 0, subscribed_topic_regex=pattern, owned={})


def test_assignors_that_do_not_exist_stop_the_start() -> None:
    settings = BrokerConfig.load(overrides=["group.consumer.assignors=uniform,lucky"]).settings
    with pytest.raises(ConfigError, match=r"lucky for configuration group.consumer.assignors: assignors are uniform"):
        consumer.check_assignors(settings)
    named = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    settings = BrokerConfig.load(overrides=[f"group.consumer.assignors={named}"]).settings
    consumer.check_assignors(settings)
    assert consumer.assignor_names(settings) == ("range",)


def test_names_and_expressions_add_up() -> None:
    world = World(a1=1, a2=1, b=1)
    world.heartbeat("m", 0, subscribed_topic_names=["b"], subscribed_topic_regex="a.")
    assert world.assigned() == {"m": {"a1": {0}, "a2": {0}, "b": {0}}}
    world.heartbeat("m", 2, subscribed_topic_regex="", owned={"a1": [0], "a2": [0], "b": [0]})
    world.heartbeat("m", 2, owned={"b": [0]})
    assert world.assigned() == {"m": {"b": {0}}}
    assert not world.group.regexes


def test_members_of_an_older_protocol_version_get_their_id_from_the_broker() -> None:
    world = World(t=1)
    request = world.heartbeat
    refused(ErrorCode.INVALID_REQUEST, request, "", 0, subscribed_topic_names=["t"])


def test_commits_are_good_for_partitions_that_were_held_in_that_epoch() -> None:
    world = World(t=2)
    a, b = Consumer(world, "a", ("t",)), Consumer(world, "b", ("t",))
    settle(a, b)
    group = world.group
    (mine,) = a.owned["t"]
    assert a.epoch == 3
    group.check_offset_commit("a", None, 3, api_version=9, transactional=False)
    group.check_offset_commit("a", None, 2, api_version=9, transactional=False)
    group.check_commit_partition("a", 2, topic_id("t"), mine)
    refused(ErrorCode.STALE_MEMBER_EPOCH, group.check_commit_partition, "a", 2, topic_id("t"), 1 - mine)
    refused(ErrorCode.STALE_MEMBER_EPOCH, group.check_commit_partition, "b", 2, topic_id("t"), 1 - mine)
    commit = group.check_offset_commit
    refused(ErrorCode.STALE_MEMBER_EPOCH, commit, "a", None, 4, api_version=9, transactional=False)
    refused(ErrorCode.UNKNOWN_MEMBER_ID, commit, "x", None, 2, api_version=9, transactional=False)
    refused(ErrorCode.UNSUPPORTED_VERSION, commit, "a", None, 3, api_version=8, transactional=False)
    group.check_offset_fetch("a", 3)
    group.check_offset_fetch(None, -1)
    refused(ErrorCode.STALE_MEMBER_EPOCH, group.check_offset_fetch, "a", 1)
    refused(ErrorCode.UNKNOWN_MEMBER_ID, group.check_offset_fetch, "x", 1)
    refused(ErrorCode.NON_EMPTY_GROUP, group.check_delete)


def test_commits_in_transactions_are_checked_by_the_same_epochs() -> None:
    world = World(t=2)
    a, b = Consumer(world, "a", ("t",)), Consumer(world, "b", ("t",))
    settle(a, b)
    (mine,) = a.owned["t"]

    def commit(member: str, epoch: int, partition: int) -> ErrorCode:
        asked = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
        topic = TxnOffsetCommitRequestTopic(name="t", partitions=[asked])
        request = TxnOffsetCommitRequest(
            group_id=GROUP, producer_id=1, member_id=member, generation_id=epoch, topics=[topic]
        )
        response = commit_in_transaction(world.group, request, world.origin(3), world.context).response
        assert isinstance(response, TxnOffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    assert commit("a", 3, mine) is ErrorCode.NONE
    assert commit("a", 2, mine) is ErrorCode.NONE
    assert commit("a", 2, 1 - mine) is ErrorCode.ILLEGAL_GENERATION
    assert commit("b", 2, 1 - mine) is ErrorCode.ILLEGAL_GENERATION
    assert commit("x", 3, mine) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1, mine) is ErrorCode.NONE


def test_a_group_is_removed_by_its_tombstones() -> None:
    world = World(t=2)
    a = Consumer(world, "a", None, regex="t")
    a.beat()
    a.leave()
    world.apply(Decision(tuple(world.group.tombstones())))
    assert GROUP not in world.groups
    assert GROUP not in world.replayed()
