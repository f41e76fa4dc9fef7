"""Batches and codecs against Apache Kafka itself: it stores and decodes ours, and we read what its clients wrote."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from struct import pack_into

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.wire import (
    BatchRules,
    Codec,
    Record,
    admit_batch,
    build_batch,
    encode_request,
    iter_records,
    read_response,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests import peer
from tests.ports import free_port
from tests.wire.test_records import DAMAGE, SEALED_DAMAGE, seal

pytestmark = pytest.mark.peer
VALUES = [b"value-%d-" % n + b"x" * (n % 500) for n in range(400)]  # several xerial and LZ4 blocks
CODECS = list(Codec)
STRICTER = {
    "bytes after the batch": "Kafka drops them",
    "a delete horizon": "Kafka lets clients set the bit",
    "log append time": "Kafka clears the bit where timestamps are in bounds",
    "a codec that is none": "Kafka answers UNKNOWN_SERVER_ERROR",
    "a codec that was not used": "Kafka answers by what its decompressor throws",
}
"""Where admission refuses more than Kafka, or says why where Kafka fails."""


NOT_THERE_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Kafka:
    """A running broker, one socket to it, and its folder."""

    def __init__(self, port: int, folder: Path) -> None:
        self.bootstrap = f"127.0.0.1:{port}"
        self.folder = folder
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")

    def ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        return self._file.read(int.from_bytes(self._file.read(4), "big"))

    def create(self, *names: str) -> None:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        _, response = read_response(CreateTopicsResponse, self.ask(encode_request(request, 7, 1, "t")), 19, 7)
        assert [topic.error_code for topic in response.topics] == [0] * len(names)

    def produce(self, topic: str, batch: bytearray) -> int:
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        frame = self.ask(encode_request(ProduceRequest(acks=-1, timeout_ms=9000, topic_data=[data]), 9, 1, "t"))
        _, response = read_response(ProduceResponse, frame, 0, 9)
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        # a topic that was just made takes its broker a moment
        return self.produce(topic, batch) if code in NOT_THERE_YET else int(code)

    def log_of(self, topic: str) -> bytes:
        return (self.folder / "data" / f"{topic}-0" / f"{0:020}.log").read_bytes()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    folder = tmp_path_factory.mktemp("kafka")
    port = free_port()
    with peer.running_broker(folder, port, heap="512m"):
        yield Kafka(port, folder)


def test_kafka_stores_and_its_consumer_decodes_every_codec_of_ours(kafka: Kafka) -> None:
    names = [f"ours-{codec.name.lower()}" for codec in CODECS]
    kafka.create(*names)
    for name, codec in zip(names, CODECS, strict=True):
        records = [Record(timestamp=1_000 + n, key=b"k%d" % n, value=value) for n, value in enumerate(VALUES)]
        assert kafka.produce(name, build_batch(records, codec=codec)) == 0
        assert [record.value for record in iter_records(kafka.log_of(name))] == VALUES
    options = ["--include", "ours-.*", "--from-beginning", "--max-messages", str(len(VALUES) * len(CODECS))]
    found = peer.tool("console-consumer", "--bootstrap-server", kafka.bootstrap, *options)
    assert sorted(found.stdout.encode().splitlines()) == sorted(VALUES * len(CODECS))


def test_records_of_its_java_and_c_producers_are_read(kafka: Kafka, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    payload = tmp_path / "payload"
    payload.write_bytes(b"\n".join(VALUES))
    for codec in CODECS:
        name = codec.name.lower()
        kafka.create(f"java-{name}", f"c-{name}")
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": name, "linger.ms": 50})
        for value in VALUES:
            producer.produce(f"c-{name}", value, headers={"h": b"1"})
        assert producer.flush(30) == 0
        records = list(iter_records(kafka.log_of(f"c-{name}")))
        assert [record.value for record in records] == VALUES
        assert {record.headers for record in records} == {(("h", b"1"),)}
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        name = codec.name.lower()
        options = [
            "--topic",
            f"java-{name}",
            "--num-records",
            "300",
            "--throughput",
            "-1",
            "--payload-file",
            str(payload),
        ]
        properties = [f"bootstrap.servers={kafka.bootstrap}", f"compression.type={name}", "linger.ms=50"]
        peer.tool("producer-perf", *options, "--producer-props", *properties)
        found = [record.value for record in iter_records(kafka.log_of(f"java-{name}"))]
        assert len(found) == 300 and set(found) <= set(VALUES)


def test_kafka_refuses_what_admission_refuses(kafka: Kafka) -> None:
    kafka.create("damage")
    for kind, (damage, _) in DAMAGE.items():
        batch = build_batch([Record(value=b"v", timestamp=5), Record(value=b"w", timestamp=6)])
        damage(batch)
        compare(kafka, batch, kind)
    for kind, (at, form, value, _) in SEALED_DAMAGE.items():
        batch = build_batch([Record(value=b"v", timestamp=5), Record(value=b"w", timestamp=6)])
        pack_into(form, batch, at, value)
        compare(kafka, seal(batch), kind)


def compare(kafka: Kafka, batch: bytearray, kind: str) -> None:
    theirs = kafka.produce("damage", batch)
    try:
        admit_batch(batch, BatchRules(walk=True), 1000)
        ours = 0
    except KafkaError as error:
        ours = int(error.code)
    if kind not in STRICTER:
        assert (kind, ours) == (kind, theirs)
