"""Clients that nobody here wrote, in consumer groups of the new protocol: librdkafka and Kafka's own Java consumer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests import peer
from tests.server import Server, running_server, start_server

SECONDS_MAX = 100.0
IN_A_HURRY = (
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.min.session.timeout.ms=500",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
    "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=500",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("ottla"), overrides=IN_A_HURRY) as running:
        yield running


def create(server: Server, topics: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    made = admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()])
    for each in made.values():
        each.result()


def produce(server: Server, topic: str, partitions: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(SECONDS_MAX) == 0


def consumer(server: Server, group: str, *topics: str, protocol: str = "consumer", **settings: Any) -> Consumer:
    """Return a consumer that has subscribed; in the new protocol its timeouts are the broker's affair."""
    named = {"bootstrap.servers": server.bootstrap, "group.id": group, "group.protocol": protocol}
    classic = {
        "session.timeout.ms": 3000,
        "heartbeat.interval.ms": 200,
        # librdkafka's sticky assignor leaves data of its own in assignments, with which no group is migrated (as in Kafka)
        "partition.assignment.strategy": "range",
    }
    chosen = classic if protocol == "classic" else {}
    made = Consumer({**named, **chosen, "auto.offset.reset": "earliest", **settings})
    made.subscribe(list(topics))
    return made


def poll_until(condition: Callable[[], bool], *consumers: Consumer) -> list[Message]:
    """Poll all consumers until the condition holds; return what came."""
    found: list[Message] = []
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, [each.assignment() for each in consumers]
        for each in consumers:
            message = each.poll(0.05)
            if message is not None and message.error() is None:
                found.append(message)
    return found


def owned(*consumers: Consumer) -> list[set[tuple[str, int]]]:
    return [{(each.topic, each.partition) for each in one.assignment()} for one in consumers]


def test_two_consumers_share_and_one_takes_over_when_the_other_closes(server: Server) -> None:
    create(server, {"shared": 4})
    produce(server, "shared", 4, 100)
    a = consumer(server, "two", "shared")
    found: list[Message] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < 100 and time.monotonic() < deadline:
        found += poll_until(lambda: True, a) or [m for m in a.consume(100, timeout=0.2) if m.error() is None]
    assert sorted(int(each.value() or b"") for each in found) == list(range(100))
    committed = a.commit(asynchronous=False)
    assert committed is not None and sum(each.offset for each in committed) == 100
    b = consumer(server, "two", "shared")
    poll_until(lambda: [len(each) for each in owned(a, b)] == [2, 2], a, b)
    assert not set.intersection(*owned(a, b))
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    described = admin.describe_consumer_groups(["two"])["two"].result()
    assert described.state == ConsumerGroupState.STABLE
    assert sorted(len(each.assignment.topic_partitions) for each in described.members) == [2, 2]
    a.close()
    poll_until(lambda: len(owned(b)[0]) == 4, b)
    assert all(each.offset == 25 for each in b.committed([TopicPartition("shared", each) for each in range(4)]))
    b.close()


def test_a_consumer_subscribes_by_expression(server: Server) -> None:
    create(server, {"log-a": 1, "log-b": 2, "other": 1})
    a = consumer(server, "expression", "^log-.*")
    poll_until(lambda: owned(a) == [{("log-a", 0), ("log-b", 0), ("log-b", 1)}], a)
    a.close()


def test_a_group_migrates_while_it_works(server: Server) -> None:
    create(server, {"migrating": 4})
    a = consumer(server, "migrating", "migrating", protocol="classic")
    b = consumer(server, "migrating", "migrating", protocol="classic")
    poll_until(lambda: [len(each) for each in owned(a, b)] == [2, 2], a, b)
    c = consumer(server, "migrating", "migrating")
    poll_until(lambda: sorted(len(each) for each in owned(a, b, c)) == [1, 1, 2], a, b, c)
    a.close()
    poll_until(lambda: [len(each) for each in owned(b, c)] == [2, 2], b, c)
    c.close()
    poll_until(lambda: len(owned(b)[0]) == 4, b)
    produce(server, "migrating", 4, 8)
    found: list[Message] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < 8:
        assert time.monotonic() < deadline
        found += [each for each in b.consume(8, timeout=0.2) if each.error() is None]
    b.close()


def test_the_group_survives_a_restart_of_the_broker(tmp_path: Path) -> None:
    with running_server(tmp_path, overrides=IN_A_HURRY) as first:
        create(first, {"lasting": 2})
        produce(first, "lasting", 2, 10)
        a = consumer(first, "lasting", "lasting")
        assert len([m for m in a.consume(10, timeout=SECONDS_MAX) if m.error() is None]) == 10
        a.commit(asynchronous=False)
        first.kill()
        second = start_server(tmp_path, port=first.port, overrides=IN_A_HURRY)
    try:
        produce(second, "lasting", 2, 4)
        found: list[Message] = []
        errors: list[str] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(found) < 4:
            assert time.monotonic() < deadline, (len(found), a.assignment(), errors, second.lines)
            for each in a.consume(4, timeout=0.2):
                if each.error() is None:
                    found.append(each)
                else:
                    errors.append(str(each.error()))
        assert sorted(int(each.value() or b"") for each in found) == [0, 1, 2, 3]
        a.close()
    finally:
        second.stop()


@pytest.mark.peer
def test_kafkas_console_consumer_reads_in_a_consumer_group(server: Server) -> None:
    create(server, {"java": 2})
    produce(server, "java", 2, 20)
    at = ("--bootstrap-server", server.bootstrap)
    protocol = ("--consumer-property", "group.protocol=consumer", "--group", "java")
    command = ("console-consumer", *at, "--topic", "java", *protocol, "--from-beginning", "--max-messages", "20")
    read = peer.tool(*command, "--timeout-ms", "30000")
    values = [
        int(line) for line in read.stdout.splitlines() if line.isdigit()
    ]  # a notice about options may be there too
    assert sorted(values) == list(range(20)), read.stdout + read.stderr
    described = peer.tool("groups", *at, "--describe", "--group", "java")
    lines = [each.split() for each in described.stdout.splitlines() if each.startswith("java")]
    assert sorted((each[2], each[3], each[5]) for each in lines) == [("0", "10", "0"), ("1", "10", "0")], described
    state = peer.tool("groups", *at, "--describe", "--group", "java", "--state")
    assert "Empty" in state.stdout and "uniform" in state.stdout, state.stdout + state.stderr
