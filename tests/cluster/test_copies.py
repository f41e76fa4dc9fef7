"""Copies of real processes, written by librdkafka: whichever broker is killed, they come to have the same bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.world import World, running_world, until
from tests.ports import free_port

TOPIC = "copied"
COUNT = 600
PATIENCE_S = 120.0
"""How long a step may take: a failover takes ten seconds, and a machine that does much else several times that. Kafka's
clients give a message of a transaction up when the transaction's time is over, so that is as long."""


def log_of(world: World, number: int) -> bytes:
    """Return the bytes of a node's copy."""
    (folder,) = world.cluster.node(number).data.rglob(f"{TOPIC}-0")
    return b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))


def producer(world: World, **settings: object) -> Producer:
    return Producer(
        {"bootstrap.servers": world.bootstrap, "linger.ms": 2, "topic.metadata.refresh.interval.ms": 1000, **settings}
    )


def written_plainly(world: World, compression: str, values: list[bytes]) -> None:
    """Write values as an idempotent producer; every one must be acknowledged."""
    failed: list[KafkaError] = []
    writer = producer(world, **{"enable.idempotence": True, "compression.type": compression})
    for value in values:
        writer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None)
        writer.poll(0)
    assert writer.flush(PATIENCE_S) == 0 and not failed, failed


def asked_again(step: Callable[[float], None]) -> None:
    """Take a step of a transaction, again while the client says that it may be taken again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return step(10)
        except KafkaException as error:
            assert error.args[0].retriable() and time.monotonic() < deadline, error


def written_in_transactions(world: World, values: list[bytes]) -> list[bytes]:
    """Write values in transactions of ten, every third of which is aborted; return those that were committed."""
    writer = producer(world, **{"transactional.id": "copies", "transaction.timeout.ms": int(1000 * PATIENCE_S)})
    asked_again(writer.init_transactions)
    committed = []
    for at in range(0, len(values), 10):
        writer.begin_transaction()
        for value in values[at : at + 10]:
            writer.produce(TOPIC, value, partition=0)
        if at % 30 == 0:
            assert writer.flush(PATIENCE_S) == 0
            asked_again(writer.abort_transaction)
        else:
            asked_again(writer.commit_transaction)
            committed += values[at : at + 10]
    return committed


def read_committed(world: World, count: int) -> list[bytes]:
    reader = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "copies", "auto.offset.reset": "earliest"})
    reader.subscribe([TOPIC])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        for message in reader.consume(500, timeout=1):
            assert message.error() is None, message.error()
            found.append(message.value())
    reader.close()
    return found


@pytest.mark.compat
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_copies_have_the_same_bytes_after_their_leader_was_killed(tmp_path: Path) -> None:
    overrides = ("min.insync.replicas=2", "log.segment.bytes=1048576", "unclean.leader.election.enable=false")
    with running_world(tmp_path, free_port(), overrides=overrides) as world:
        admin = AdminClient({"bootstrap.servers": world.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(30)
        world.await_full([TOPIC])  # the broker that is asked for the leader next need not have heard of the topic yet
        values = [b"%06d " % at + b"x" * (at % 700) for at in range(5 * COUNT)]
        expected = []
        for at, compression in enumerate(("none", "lz4", "zstd")):
            part = values[at * COUNT : (at + 1) * COUNT]
            killed = world.leader_of(TOPIC)
            assert killed is not None
            if at:
                world.kill(killed)
            written_plainly(world, compression, part)
            expected += part
            if at:
                world.start(killed)
                world.await_full([TOPIC])
        expected += written_in_transactions(world, values[3 * COUNT : 4 * COUNT])
        killed = world.leader_of(TOPIC)
        assert killed is not None
        world.kill(killed)
        expected += written_in_transactions(world, values[4 * COUNT :])
        world.start(killed)
        world.await_full([TOPIC])
        assert read_committed(world, len(expected)) == expected
        assert until(lambda: len({log_of(world, each) for each in world.nodes}) == 1, PATIENCE_S)
