"""Exactly once on three brokers, with librdkafka and with Kafka's own copier, while coordinators and leaders die."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.client import CoordinatorKind
from tests import peer
from tests.chaos.world import World
from tests.compat.brokers import coordinator, create, mend, three_brokers
from tests.compat.cluster_copying import copy_through
from tests.transactions.copying import records

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400), pytest.mark.slow]
COUNT = 600


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three brokers for every test here; each test leaves them mended."""
    with three_brokers(tmp_path_factory.mktemp("brokers")) as running:
        yield running


@pytest.mark.parametrize("what", ["transactions", "group", "leader", "controller"])
def test_each_record_is_copied_once_though_a_broker_dies(world: World, what: str) -> None:
    copy_through(world, f"copy-{what}", (what, what))


@pytest.mark.peer
@pytest.mark.skipif(peer.missing() is not None, reason=str(peer.missing()))
def test_kafkas_message_copier_copies_each_message_once_though_its_coordinator_dies(world: World) -> None:
    create(world, "java-in")
    create(world, "java-out")
    writer = Producer({"bootstrap.servers": world.bootstrap, "enable.idempotence": True})
    written = [b"%d" % number for number in range(COUNT)]
    for value in written:
        writer.produce("java-in", value, partition=0)
    assert writer.flush(30) == 0
    options = {
        "broker-list": world.bootstrap,
        "input-topic": "java-in",
        "input-partition": "0",
        "output-topic": "java-out",
        "consumer-group": "java-copier",
        "transactional-id": "java-copier",
        "transaction-size": "5",
        "max-messages": str(COUNT),
    }
    args = [part for name, value in options.items() for part in (f"--{name}", value)]
    command = peer.tool_command(
        "org.apache.kafka.tools.TransactionalMessageCopier", *args, "--enable-random-aborts", "--use-group-metadata"
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said: list[str] = []

    def follow() -> None:
        assert process.stdout is not None
        said.extend(iter(process.stdout.readline, ""))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        for share in (4, 2):
            while process.poll() is None and _copied(said) < COUNT // share:
                thread.join(0.05)
            world.kill(coordinator(world, "java-copier", CoordinatorKind.TRANSACTION))
            mend(world, "java-in", "java-out", "__transaction_state", "__consumer_offsets")
        assert process.wait(120) == 0, "".join(said[-5:])
    finally:
        process.kill()
    thread.join(10)
    assert json.loads(said[-1])["remaining"] == 0, said[-1]
    assert [value for _, _, value in records(world.bootstrap, "java-out")] == written


def _copied(said: list[str]) -> int:
    progress = [json.loads(each) for each in said[-3:] if each.startswith("{")]
    return max((int(each.get("consumed", 0)) for each in progress), default=0)
