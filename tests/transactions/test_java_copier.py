"""Kafka's own TransactionalMessageCopier, whose Java clients speak the second protocol, with random aborts."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from tests import peer
from tests.server import Server
from tests.transactions.copying import create, records

COUNT = 300

pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,  # a JVM starts beside our broker, and only a change of these APIs breaks it: with `make compat`
    pytest.mark.xdist_group("peer"),
    pytest.mark.skipif(bool(peer.missing()), reason=peer.missing() or ""),
]


def test_kafkas_message_copier_copies_each_message_once(server: Server) -> None:
    create(server.bootstrap, "java-in", "java-out")
    writer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True})
    written = [b"%d" % number for number in range(COUNT)]
    for value in written:
        writer.produce("java-in", value, partition=0)
    assert writer.flush(30) == 0
    options = {
        "broker-list": server.bootstrap,
        "input-topic": "java-in",
        "input-partition": "0",
        "output-topic": "java-out",
        "consumer-group": "java-copier",
        "transactional-id": "java-copier",
        "transaction-size": "20",
        "max-messages": str(COUNT),
    }
    args = [part for name, value in options.items() for part in (f"--{name}", value)]
    done = peer.tool(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *args,
        *("--enable-random-aborts", "--use-group-metadata"),
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads(done.stdout.strip().splitlines()[-1])
    assert last["remaining"] == 0, last
    assert [value for _, _, value in records(server.bootstrap, "java-out")] == written
    everything = records(server.bootstrap, "java-out", isolation="read_uncommitted")
    assert len(everything) >= COUNT  # what was aborted before it was sent is nowhere
