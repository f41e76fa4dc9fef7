"""Hours and days of a real broker pass as quickly as the machine can, with clients that nobody here wrote."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.testing import KafkaClock, running_clock
from tests.testing.project import run_project
from tests.waiting import until

HEARTBEAT_MS = 50


@pytest.fixture(scope="module")
def clock() -> Iterator[KafkaClock]:
    with running_clock({"group.consumer.heartbeat.interval.ms": HEARTBEAT_MS}) as found:
        yield found


def members_of(clock: KafkaClock, group: str, topic: str, **more: Any) -> list[Consumer]:
    """Return two consumers of a group that has one partition for each."""
    shared = {"bootstrap.servers": clock.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    made = [Consumer({**shared, "client.id": name, **more}) for name in ("first", "second")]
    for each in made:
        each.subscribe([topic])
    until(
        lambda: [each.poll(0.02) for each in made] and all(len(each.assignment()) == 1 for each in made), "two members"
    )
    return made


def test_records_are_kept_until_their_retention_has_passed(clock: KafkaClock) -> None:
    topic = clock.kafka.create_topic(config={"retention.ms": 3_600_000, "segment.bytes": 1 << 20})
    for _ in range(3):
        clock.kafka.produce(topic, os.urandom(600_000))
    begun = clock.now_ms()
    clock.advance(minutes=54)
    assert clock.kafka.starts(topic) == {0: 0}
    clock.advance(minutes=13)
    assert clock.kafka.starts(topic) == clock.kafka.ends(topic) == {0: 3}
    assert 67 * 60_000 <= clock.now_ms() - begun < 70 * 60_000


@pytest.mark.parametrize(
    "more",
    [
        {"session.timeout.ms": 45_000, "heartbeat.interval.ms": HEARTBEAT_MS, "group.protocol": "classic"},
        {"group.protocol": "consumer"},
    ],
    ids=["classic", "consumer"],
)
def test_who_lives_stays_in_the_group_and_who_is_silent_leaves_it(clock: KafkaClock, more: dict[str, Any]) -> None:
    group, topic = f"group-{more['group.protocol']}", clock.kafka.create_topic(partitions=2)
    made = members_of(clock, group, topic, **more)
    try:
        clock.advance(minutes=10)
        assert clock.kafka.members(group) == ["first", "second"]
        clock.silence("second")
        clock.advance(40)
        assert clock.kafka.members(group) == ["first", "second"]
        clock.advance(10)
        assert clock.kafka.members(group) == ["first"]
        until(lambda: made[0].poll(0.02) or len(made[0].assignment()) == 2, "both partitions")
        clock.advance(50, wait_for_members=False)
        assert clock.kafka.members(group) == []
    finally:
        clock.hear("second")
        for each in made:
            each.close()


@pytest.mark.slow  # kafka-python now and then assigns nothing at first: whether that is the test's fault is not known yet
def test_members_of_other_clients_stay_too(clock: KafkaClock) -> None:
    from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
    from kafka import KafkaConsumer  # type: ignore[import-untyped]

    topic = clock.kafka.create_topic()
    python = KafkaConsumer(
        bootstrap_servers=clock.bootstrap_servers,
        client_id="python",
        group_id="others",
        session_timeout_ms=45_000,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=200,
    )
    until(lambda: python.partitions_for_topic(topic), "the topic")  # a leader that does not know it yet assigns nothing
    python.subscribe([topic])
    until(lambda: python.poll(timeout_ms=50) or python.assignment(), "an assignment")

    async def story() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=clock.bootstrap_servers,
            client_id="aio",
            group_id="other",
            session_timeout_ms=45_000,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        async with consumer:
            await asyncio.to_thread(clock.advance, minutes=5)  # its heartbeats come from this loop
            assert clock.kafka.members("other") == ["aio"] and clock.kafka.members("others") == ["python"]

    asyncio.run(asyncio.wait_for(story(), 60))
    python.close()


def test_an_open_transaction_is_aborted_when_its_time_is_over(clock: KafkaClock) -> None:
    topic = clock.kafka.create_topic()
    settings = {"bootstrap.servers": clock.bootstrap_servers, "transactional.id": "t", "transaction.timeout.ms": 60_000}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "never")
    producer.flush(30)
    clock.kafka.produce(topic, "after")
    clock.advance(50)
    assert clock.kafka.records(topic, committed=True) == []
    clock.advance(40)  # a new coordinator counts from its first look, and looks every 10 s
    assert [each.text for each in clock.kafka.records(topic, committed=True)] == ["after"]
    with pytest.raises(KafkaException, match="FENCED"):
        producer.commit_transaction(30)


def test_offsets_of_a_group_without_members_expire_after_seven_days(clock: KafkaClock) -> None:
    topic = clock.kafka.create_topic(config={"retention.ms": -1})
    clock.kafka.produce(topic, "a", "b")
    consumer = Consumer({"bootstrap.servers": clock.bootstrap_servers, "group.id": "gone"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    clock.advance(days=6, hours=22)
    assert clock.kafka.lag("gone", topic) == 0
    clock.advance(hours=4)
    assert clock.kafka.lag("gone", topic) == 2


def test_the_clock_is_not_turned_backwards(clock: KafkaClock) -> None:
    with pytest.raises(ValueError, match=r"not turned backwards: -1 s"):
        clock.advance(-1)


def test_a_rebalance_delay_is_turned_away_and_a_member_without_heartbeats_is_not_waited_for() -> None:
    settings = {"group.initial.rebalance.delay.ms": 30_000}
    with running_clock(settings, heartbeat_seconds=0.2) as clock:
        topic = clock.kafka.create_topic()
        consumer = Consumer(
            {
                "bootstrap.servers": clock.bootstrap_servers,
                "group.id": "g",
                "client.id": "seldom",
                "session.timeout.ms": 45_000,
                "heartbeat.interval.ms": 40_000,
            }
        )
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.02) or clock.kafka.members("g"), "a member that waits")
        assert not consumer.assignment()
        clock.advance(31)
        until(lambda: consumer.poll(0.02) or consumer.assignment(), "an assignment")
        clock.advance(minutes=3)
        assert clock.kafka.members("g") == []
        consumer.close()


def test_a_foreign_project_turns_the_clock(pytester: pytest.Pytester) -> None:
    result = run_project(
        pytester,
        """
            def test_records_expire(kafka_clock):
                topic = kafka_clock.kafka.create_topic("orders", config={"retention.ms": 60_000})
                kafka_clock.kafka.produce(topic, "a")
                kafka_clock.advance(minutes=7)
                assert kafka_clock.kafka.records(topic) == []
                assert kafka_clock.kafka.topics() == []
        """,
        "-n0",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- Kafka at *", "topics:", "  orders-0: offsets 1 to 1", "groups: none"])
