"""The client against Apache Kafka itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, MAX_TIMESTAMP, BlockingClient, FetchPosition, Limits
from ottla.wire import Codec, Record, build_batch, iter_records
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests import peer
from tests.ports import free_port

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    port = free_port()
    with peer.running_broker(folder, port, heap="512m"):
        yield f"127.0.0.1:{port}"


def test_batches_go_in_and_come_out_of_apache_kafka(kafka: str) -> None:
    partitions = [TopicPartition("words", index) for index in range(2)]
    with BlockingClient(kafka, limits=Limits(call_s=2)) as client:
        topic = CreatableTopic(name="words", num_partitions=2, replication_factor=1)
        created = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), controller=True)
        assert created.topics[0].error_code == 0
        for codec in Codec:
            records = [Record(timestamp=Millis(1_000 + n), key=b"k", value=b"v%d" % n) for n in range(10)]
            batch = bytes(build_batch(records, codec=codec))
            calls = [client.begin(client.client.produce({partition: batch})) for partition in partitions]
            assert [call.result()[0].base_offset for call in calls] == [codec * 10] * 2
        found = client.fetch([FetchPosition(partition, Offset(0)) for partition in partitions])
        assert [[record.value for record in iter_records(each.check().records)] for each in found] == [
            [b"v%d" % n for n in range(10)] * len(Codec)
        ] * 2
        for timestamp, offset in (
            (EARLIEST, 0),
            (LATEST, 50),
            (MAX_TIMESTAMP, 9),
            (Millis(1_005), 5),
            (Millis(9_999), -1),
        ):
            listed = client.list_offsets(dict.fromkeys(partitions, timestamp))
            assert [listed[partition].offset for partition in partitions] == [offset] * 2
        with pytest.raises(KafkaError, match=r"CORRUPT_MESSAGE|corrupt") as caught:
            client.run(client.client.produce({partitions[0]: batch[:-1] + b"\x7f"}))
        assert caught.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
