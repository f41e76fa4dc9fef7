"""A broker that fails as the test says, met by clients that nobody here wrote; one broker for all, to be quick."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ottla.base import ErrorCode, Offset, TopicPartition
from ottla.client import BlockingClient, FetchPosition
from ottla.testing import KafkaFaults, running_faults
from tests.waiting import until


@pytest.fixture(scope="module")
def running() -> Iterator[KafkaFaults]:
    with running_faults() as found:
        yield found


@pytest.fixture
def faults(running: KafkaFaults) -> Iterator[KafkaFaults]:
    yield running
    running.clear()


def producer_of(faults: KafkaFaults, **more: object) -> Producer:
    return Producer({"bootstrap.servers": faults.bootstrap_servers, "linger.ms": 0, **more})


def outcome(producer: Producer, topic: str, value: str) -> str | None:
    """Send a record and return the name of the error that it was refused with; None for none."""
    told: list[str | None] = []
    producer.produce(topic, value, on_delivery=lambda error, _: told.append(None if error is None else error.name()))
    producer.flush(60)
    assert told, "nothing was told of the record"
    return told[0]


def values(faults: KafkaFaults, topic: str) -> list[str]:
    return [each.text for each in faults.kafka.records(topic)]


def test_the_next_produce_fails_with_an_error_and_the_one_after_does_not(faults: KafkaFaults) -> None:
    topic, other = faults.kafka.create_topic(), faults.kafka.create_topic()
    producer = producer_of(faults)
    fault = faults.fail_produce("INVALID_RECORD", topic=topic)
    assert outcome(producer, other, "of another topic") is None and fault.met == 0
    assert outcome(producer, topic, "refused") == "INVALID_RECORD"
    assert outcome(producer, topic, "taken") is None
    assert values(faults, topic) == ["taken"] and fault.met == 1
    faults.kafka.produce(topic, "by the test's own hand")


def test_a_fault_meets_a_topic_that_comes_to_be_after_it_was_said(faults: KafkaFaults) -> None:
    fault = faults.fail_next("Fetch", "KAFKA_STORAGE_ERROR", topic="later")
    other, later = (TopicPartition(faults.kafka.create_topic(each), 0) for each in (None, "later"))
    with BlockingClient(faults.bootstrap_servers, client_id="by topics' ids") as client:
        assert [each.error for each in client.fetch([FetchPosition(other, Offset(0), 1)], max_wait_ms=0)]
        assert fault.met == 0
        client.fetch([FetchPosition(later, Offset(0), 1)], max_wait_ms=0)
    assert fault.met == 1


def test_errors_that_pass_are_tried_again_by_the_client(faults: KafkaFaults) -> None:
    topic = faults.kafka.create_topic()
    fault = faults.fail_produce(ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
    assert outcome(producer_of(faults, **{"retry.backoff.ms": 10}), topic, "once") is None
    assert values(faults, topic) == ["once"] and (fault.met, fault.left) == (2, 0)


def test_a_record_whose_answer_was_lost_is_there_once_or_twice_as_the_producer_is(faults: KafkaFaults) -> None:
    for idempotent, found in (True, ["x"]), (False, ["x", "x"]):
        topic = faults.kafka.create_topic()
        fault = faults.lose_answer("Produce", topic=topic)
        producer = producer_of(faults, **{"enable.idempotence": idempotent, "retry.backoff.ms": 10})
        assert outcome(producer, topic, "x") is None
        assert values(faults, topic) == found and fault.met == 1


def test_a_producer_and_a_consumer_follow_a_leader_that_has_moved(faults: KafkaFaults) -> None:
    topic = faults.kafka.create_topic()
    producer = producer_of(faults, **{"client.id": "sends", "retry.backoff.ms": 10})
    assert outcome(producer, topic, "before") is None
    moved = faults.move_leader(topic)
    assert outcome(producer, topic, "after") is None
    assert moved.met >= 1 and values(faults, topic) == ["before", "after"]
    by_producer = moved.met
    consumer = Consumer(
        {
            "bootstrap.servers": faults.bootstrap_servers,
            "group.id": "follows",
            "client.id": "reads",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    read = [consumer.poll(30) for _ in range(2)]
    consumer.close()
    assert [each.value() for each in read if each is not None] == [b"before", b"after"]
    assert moved.met > by_producer


def test_a_producer_that_waits_for_no_answer_loses_its_connection_and_its_record(faults: KafkaFaults) -> None:
    topic = faults.kafka.create_topic()
    fault = faults.fail_produce("NOT_ENOUGH_REPLICAS", topic=topic)
    producer = producer_of(faults, acks=0)
    assert outcome(producer, topic, "lost") is None
    until(lambda: outcome(producer, topic, "sent") is None and values(faults, topic), "a record by another connection")
    assert set(values(faults, topic)) == {"sent"} and fault.met == 1


def test_a_consumer_with_fetch_sessions_meets_a_leader_that_has_moved(faults: KafkaFaults) -> None:
    from kafka import KafkaConsumer  # type: ignore[import-untyped]
    from kafka import TopicPartition as Place

    topic = faults.kafka.create_topic()
    faults.kafka.produce(topic, "before")
    consumer = KafkaConsumer(
        bootstrap_servers=faults.bootstrap_servers, client_id="sessions", consumer_timeout_ms=60_000
    )
    place = Place(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    assert next(consumer).value == b"before"
    moved = faults.move_leader(topic)
    until(lambda: consumer.poll(timeout_ms=20) or moved.met, "the fault")
    faults.kafka.produce(topic, "after")
    assert next(consumer).value == b"after"
    consumer.close()


def test_any_api_fails_and_what_cannot_is_told(faults: KafkaFaults) -> None:
    topic = faults.kafka.create_topic()
    faults.kafka.produce(topic, "a")
    consumer = Consumer(
        {"bootstrap.servers": faults.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    faults.fail_next("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.commit(asynchronous=False)
    consumer.commit(asynchronous=False)
    consumer.close()
    for api, error, said in (
        ("Produced", "NONE", "no API of Kafka's"),
        ("Produce", "NOT_ENOUGH", "no error of Kafka's"),
        ("CreateTopics", "NOT_CONTROLLER", "has no error of the whole"),
    ):
        with pytest.raises(ValueError, match=said):
            faults.fail_next(api, error)


def test_a_consumer_of_aiokafka_reads_on_behind_a_leader_that_has_moved(faults: KafkaFaults) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]

    topic = faults.kafka.create_topic()

    async def story() -> list[bytes | None]:
        bootstrap = faults.bootstrap_servers
        async with (
            AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="aio-sends") as producer,
            AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            await producer.send_and_wait(topic, b"before")
            first = await consumer.getone()
            faults.move_leader(topic)
            await producer.send_and_wait(topic, b"after")
            return [first.value, (await consumer.getone()).value]

    assert asyncio.run(asyncio.wait_for(story(), 60)) == [b"before", b"after"]


def test_a_killed_broker_comes_back_with_its_data_at_its_address(faults: KafkaFaults) -> None:
    topic = faults.kafka.create_topic()
    producer = producer_of(faults, **{"retry.backoff.ms": 10, "reconnect.backoff.max.ms": 100})
    assert outcome(producer, topic, "before") is None
    faults.kill()
    assert not faults.is_running
    with pytest.raises(RuntimeError, match="does not run"):
        faults.kill()
    producer.produce(topic, "while it is away")
    assert producer.flush(0.1) == 1
    faults.start()
    assert producer.flush(60) == 0
    assert values(faults, topic) == ["before", "while it is away"]


def test_a_full_disk_refuses_records_until_it_has_room(faults: KafkaFaults) -> None:
    topic = faults.kafka.create_topic()
    producer = producer_of(faults, **{"message.timeout.ms": 1000})
    assert outcome(producer, topic, "before") is None
    with faults.full_disk():
        assert outcome(producer, topic, "x" * 1000) is not None
        assert values(faults, topic) == ["before"]
    assert outcome(producer_of(faults), topic, "after") is None
    assert values(faults, topic) == ["before", "after"]
