"""Producers and readers on three brokers: order and no duplicates while leaders change, and reading from the nearest."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests import peer
from tests.broker.node_client import NodeClient
from tests.chaos.world import World
from tests.compat import other_languages
from tests.compat.brokers import create, mend, rack_of, three_brokers

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300), pytest.mark.slow]
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three brokers, any of which consumers may read from."""
    selector = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with three_brokers(tmp_path_factory.mktemp("brokers"), overrides=(selector,)) as running:
        yield running


def read(world: World, topic: str, count: int, **settings: object) -> list[int]:
    """Return the first numbers of a partition."""
    consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "reader", **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"{topic} has only {len(found)} of {count} records"
        if not message.error():
            found.append(int(message.value() or b"-1"))
    consumer.close()
    return found


def test_an_idempotent_producer_keeps_order_and_writes_nothing_twice_while_leaders_die(
    world: World, topic: str
) -> None:
    create(world, topic)
    producer = Producer(
        {
            "bootstrap.servers": world.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 10,
            "delivery.timeout.ms": SECONDS_MAX * 1000,
        }
    )
    errors: list[object] = []
    acknowledged: list[int] = []
    going = threading.Event()
    going.set()

    def delivered(error: object, message: object) -> None:
        if error is None:
            acknowledged.append(int(message.value()))  # type: ignore[attr-defined]
        else:
            errors.append(error)

    def write() -> None:
        number = 0
        while going.is_set():
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=delivered)
            number += 1
            producer.poll(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(2):
            enough = len(acknowledged) + 500
            while len(acknowledged) < enough:
                thread.join(0.05)
            leader = world.leader_of(topic)
            assert leader is not None
            world.kill(leader)
            enough = len(acknowledged) + 500
            while len(acknowledged) < enough:
                thread.join(0.05)
            mend(world, topic)
    finally:
        going.clear()
        thread.join()
    assert producer.flush(SECONDS_MAX) == 0
    assert not errors, errors[:3]
    assert acknowledged == list(range(len(acknowledged)))
    assert read(world, topic, len(acknowledged)) == acknowledged


def test_a_consumer_reads_from_the_copy_in_its_rack(world: World, topic: str) -> None:
    create(world, topic)
    producer = Producer({"bootstrap.servers": world.bootstrap})
    for number in range(100):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    leader = world.leader_of(topic)
    for node in world.nodes:
        counted: dict[int, int] = {}

        def count(text: str, counted: dict[int, int] = counted) -> None:
            for broker in json.loads(text)["brokers"].values():
                counted[broker["nodeid"]] = broker["req"].get("Fetch", 0)

        settings = {"client.rack": rack_of(node), "statistics.interval.ms": 50, "stats_cb": count}
        consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "racks", **settings})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[int] = []
        while len(found) < 100 or counted.get(node, 0) < 3:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                found.append(int(message.value() or b"-1"))
        consumer.close()
        assert found == list(range(100))
        others = {each: fetches for each, fetches in counted.items() if each not in (node, leader) and each > 0}
        assert not any(others.values()), counted


def test_kcat_lists_every_broker_and_every_copy(world: World, topic: str) -> None:
    kcat = other_languages.kcat()
    create(world, topic)
    listed = subprocess.run(
        [kcat, "-b", world.bootstrap, "-L", "-J", "-t", topic], capture_output=True, text=True, timeout=60, check=True
    )
    described = json.loads(listed.stdout)
    assert sorted(each["id"] for each in described["brokers"]) == world.nodes
    (partition,) = described["topics"][0]["partitions"]
    assert sorted(each["id"] for each in partition["replicas"]) == world.nodes
    assert sorted(each["id"] for each in partition["isrs"]) == world.nodes


@pytest.mark.peer
@pytest.mark.skipif(peer.missing() is not None, reason=str(peer.missing()))
def test_kafkas_verifiable_producer_has_every_record_acknowledged_while_the_leader_dies(
    world: World, topic: str, tmp_path: Path
) -> None:
    create(world, topic)
    retries = tmp_path / "producer.properties"  # the tool's own default is not to retry
    retries.write_text("retries=2147483647\nenable.idempotence=true\n")
    options = ["--bootstrap-server", world.bootstrap, "--topic", topic, "--acks", "-1", "--max-messages", "2000"]
    command = peer.tool_command(
        "verifiable-producer", *options, "--throughput", "200", "--command-config", str(retries)
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    sent: list[int] = []
    try:
        for line in process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            assert event.get("name") != "producer_send_error", event
            if event.get("name") == "producer_send_success":
                sent.append(int(event["value"]))
                if len(sent) == 500:
                    leader = world.leader_of(topic)
                    assert leader is not None
                    world.kill(leader)
        assert process.wait(30) == 0
    finally:
        process.kill()
    mend(world, topic)
    assert sorted(sent) == list(range(2000))
    assert sorted(set(read(world, topic, 2000))) == list(range(2000))


def test_a_leader_that_slept_while_it_was_replaced_tells_nobody_where_the_log_ended_then(
    world: World, topic: str
) -> None:
    create(world, topic)
    patience = {"socket.timeout.ms": 3000, "request.timeout.ms": 2000}  # by default it waits a minute for who sleeps
    producer = Producer({"bootstrap.servers": world.bootstrap, "acks": "all", **patience})
    producer.produce(topic, b"0", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    leader = world.leader_of(topic)
    assert leader is not None
    port = int(world.bootstrap.split(",")[leader - 1].rpartition(":")[2])
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])], timeout_ms=1000
    )

    async def ask_who_sleeps() -> list[tuple[int, int]]:
        client = NodeClient(None, *await asyncio.open_connection("127.0.0.1", port))  # type: ignore[arg-type]
        first = (await client.ask(request, 10)).topics[0].partitions[0]
        world.pause(leader)
        for _ in range(3):
            client.send(request, 10)
        await asyncio.to_thread(write_elsewhere)
        world.resume(leader)
        later = [(await client.receive(request, 10)).topics[0].partitions[0] for _ in range(3)]
        later += [(await client.ask(request, 10)).topics[0].partitions[0] for _ in range(100)]
        client.close()
        return [(each.error_code, each.offset) for each in (first, *later)]

    def write_elsewhere() -> None:
        for number in range(1, 4):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(SECONDS_MAX) == 0

    first, *later = asyncio.run(ask_who_sleeps())
    assert first == (0, 1)
    stale = [each for each in later if each[0] == 0 and each[1] < 4]
    assert not stale, later[:10]
    mend(world, topic)
