"""What a sink's task sends by itself: batches that a topic does not take are split, and order stays what it was."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from ottla.client import BlockingClient, RecordTooLargeError, TransactionalProducer
from ottla.client.arrow.batches import Rows, TopicRows, encode_rows
from ottla.spark.source.client_pool import PooledClient, pooled_client
from ottla.spark.source.options import WriteOptions, write_options
from ottla.spark.source.sender import Sender
from ottla.wire import Record, iter_records, pack_batch
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.spark.running import records_of

NOW_MS = 1_700_000_000_000
LIMIT = 5_000


@pytest.fixture
def topic(client: BlockingClient, request: pytest.FixtureRequest) -> str:
    name = "small-" + "".join(each if each.isalnum() else "-" for each in request.node.name)[-60:]
    small = CreatableTopicConfig(name="max.message.bytes", value=str(LIMIT))
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[small])
    answer = client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), controller=True)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    return name


@pytest.fixture
def options(broker: str, topic: str) -> WriteOptions:
    return write_options({"kafka.bootstrap.servers": broker, "topic": topic, "kafka.batch.size": "20000"})


@pytest.fixture
def pooled(options: WriteOptions) -> Iterator[PooledClient]:
    with pooled_client(options.connecting) as opened:
        yield opened


def table(values: list[bytes]) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%d" % n for n in range(count)], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array([NOW_MS + n for n in range(count)], pa.int64()),
        }
    )


@pytest.mark.parametrize("guarantee", ["transactional", "idempotent"])
def test_batches_too_large_for_a_topic_are_split_and_keep_their_order(
    guarantee: str, pooled: PooledClient, options: WriteOptions, topic: str, broker: str
) -> None:
    by = None
    if guarantee == "transactional":
        by = TransactionalProducer(pooled.client.client, f"id-{topic}", timeout_ms=60_000)
        pooled.client.run(by.begin())
    sender = Sender(pooled, options, by)
    values = [b"%04d" % n + b"x" * 300 for n in range(600)]
    for first in range(0, 600, 200):
        sender.send(table(values[first : first + 200]))
    sender.finish()
    if by is not None:
        pooled.client.run(by.end(commit=True))
    found = [each.value for each in records_of(broker, topic)]
    assert found[:600] == values and len(found) == 600 + (by is not None)  # and the commit marker


def test_a_record_too_large_by_itself_is_the_error_that_names_it(
    pooled: PooledClient, options: WriteOptions, topic: str
) -> None:
    sender = Sender(pooled, options)
    sender.send(table([b"a" * 100, b"b" * 100, b"c" * (2 * LIMIT), b"d"]))
    with pytest.raises(RecordTooLargeError, match=rf"key b'k2' for {topic}-0 has 10\d\d\d bytes") as caught:
        sender.finish()
    assert str(caught.value).endswith(f"topic {topic} takes {LIMIT}: raise max.message.bytes of the topic")


def test_rows_of_more_bytes_than_arrow_counts_are_encoded_in_parts() -> None:
    values = [b"%03d" % n + b"x" * 500 for n in range(100)]
    rows = Rows(pa.array(values, pa.binary()), pa.array([b"k"] * 100, pa.binary()))
    found = list(encode_rows(rows, TopicRows("t", 1, 0), batch_bytes=1 << 20, joined_bytes_max=6000))
    assert len(found) > 10 and all(len(each.records) <= 6000 for each in found)
    read: list[Record] = []
    for each in found:
        read += iter_records(pack_batch(each.records, count=each.count, timestamp_ms=0))
    assert [each.value for each in read] == values
