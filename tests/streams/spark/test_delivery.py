"""A batch is delivered at least once or exactly once, whatever was attempted before."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.base import ConfigError, KafkaError, Millis, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient, FetchPosition, Isolation, TransactionalProducer
from ottla.spark import Delivered, Delivery, deliver, delivery_writer
from ottla.spark.private_api.batches import ARROW_OVERFLOWS
from ottla.wire import Record, build_batch, iter_batches, iter_records
from tests.spark.conftest import create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
NOW_MS = time.time_ns() // 1_000_000
QUERY_ID = "sql.streaming.queryId"
NO_QUERY: Any = None
"""What removes a local property; PySpark's type says text alone."""
Batches = Callable[..., "DataFrame"]


def records(client: BlockingClient, topic: str) -> dict[int, list[Record]]:
    """Return what readers of committed records see; waits for the ends of transactions, which are written afterwards."""
    found: dict[int, list[Record]] = {}
    for partition in client.metadata([topic]).partitions_of(topic):
        end = client.list_offsets({partition: LATEST})[partition].offset
        while client.list_offsets({partition: LATEST}, isolation=Isolation.READ_COMMITTED)[partition].offset < end:
            time.sleep(0.01)
        found[partition.partition] = []
        if end:
            position = FetchPosition(partition, Offset(0), 1 << 24)
            [fetched] = client.fetch([position], isolation=Isolation.READ_COMMITTED)
            found[partition.partition] = list(_committed(fetched.check().records, dict(fetched.aborted)))
    return found


def _committed(data: memoryview, aborted: dict[int, int]) -> Iterator[Record]:
    open_aborts: set[int] = set()
    for header, at in iter_batches(data):
        if header.is_control:
            open_aborts.discard(header.producer_id)
            continue
        if aborted.get(header.producer_id, -1) == header.base_offset:
            open_aborts.add(header.producer_id)
        if header.producer_id not in open_aborts:
            yield from iter_records(data[at : at + header.size])


def values(client: BlockingClient, topic: str) -> list[bytes]:
    return sorted(each.value or b"" for found in records(client, topic).values() for each in found)


@pytest.fixture
def out(client: BlockingClient, request: pytest.FixtureRequest) -> str:
    return create_topic(client, "out-" + "".join(c if c.isalnum() else "-" for c in request.node.name)[:80], 3)


@pytest.fixture
def batch(spark: SparkSession, out: str) -> Iterator[Batches]:
    """Makes batches of rows `first` to `last` in so many tasks, in the place of a streaming query with an id."""
    spark.sparkContext.setLocalProperty(QUERY_ID, str(uuid.uuid4()))

    def made(first: int = 0, last: int = 6, tasks: int = 2, value: str = "concat('v', id)") -> DataFrame:
        return spark.range(first, last, 1, tasks).selectExpr(
            f"'{out}' as topic",
            "cast(concat('k', id) as binary) as key",
            f"cast({value} as binary) as value",
            f"cast({NOW_MS} + id as bigint) as timestamp",
            "array(struct('h' as key, cast('x' as binary) as value)) as headers",
            "cast(if(id % 2 = 0, id % 3, null) as int) as partition",
        )

    yield made
    spark.sparkContext.setLocalProperty(QUERY_ID, NO_QUERY)


@pytest.fixture
def delivery(broker: str, out: str) -> Delivery:
    return Delivery("app", out, {"kafka.bootstrap.servers": broker}, "exactly_once")


def expected(first: int = 0, last: int = 6) -> list[bytes]:
    return [b"v%d" % n for n in range(first, last)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_rows_land_with_their_own_times_headers_and_partitions(
    guarantee: str, client: BlockingClient, batch: Batches, broker: str, out: str
) -> None:
    how = Delivery("app", out, {"kafka.bootstrap.servers": broker}, guarantee)  # type: ignore[arg-type]
    assert deliver(batch(), 0, how) == Delivered(rows=6, tasks=2, skipped=0)
    found = {each.value: (n, each) for n, several in records(client, out).items() for each in several}
    assert sorted(value or b"" for value in found) == expected()
    for n in range(6):
        partition, record = found[b"v%d" % n]
        assert (record.timestamp, record.key, record.headers) == (NOW_MS + n, b"k%d" % n, (("h", b"x"),))
        assert n % 2 or partition == n % 3


def test_a_batch_that_was_delivered_is_not_sent_again(
    client: BlockingClient, batch: Batches, delivery: Delivery, out: str
) -> None:
    for turn in range(3):
        done = deliver(batch(turn, turn + 6), turn, delivery)
        again = deliver(batch(turn, turn + 6), turn, delivery)
        assert (done.rows, done.skipped, again.rows, again.skipped) == (6, 0, 0, 2)
    assert values(client, out) == sorted(expected(0, 6) + expected(1, 7) + expected(2, 8))


def test_a_batch_that_failed_halfway_is_sent_whole_by_the_next_attempt(
    client: BlockingClient, batch: Batches, delivery: Delivery, out: str
) -> None:
    deliver(batch(), 0, delivery)
    failing = batch(6, 12, value="if(id = 10, raise_error('no'), concat('v', id))")
    with pytest.raises(Exception, match="no"):
        deliver(failing, 1, delivery)
    done = deliver(batch(6, 12), 1, delivery)
    assert done.rows + 3 * done.skipped == 6  # the task without the failing row may have been through
    assert values(client, out) == sorted(expected(0, 12))


def test_a_transaction_that_another_left_open_is_aborted_and_he_can_commit_nothing(
    client: BlockingClient, batch: Batches, delivery: Delivery, out: str
) -> None:
    deliver(batch(), 0, delivery)
    zombie = TransactionalProducer(client.client, f"app-{out}-1", timeout_ms=60_000)
    client.run(zombie.begin())
    left = build_batch(
        [Record(timestamp=Millis(NOW_MS), value=b"zombie")],
        producer_id=zombie.producer_id,
        producer_epoch=zombie.epoch,
        base_sequence=0,
        transactional=True,
    )
    client.run(zombie.produce({TopicPartition(out, 0): left}))
    deliver(batch(6, 12), 1, delivery)
    with pytest.raises(KafkaError):
        client.run(zombie.end(commit=True))
    assert values(client, out) == sorted(expected(0, 12))


def test_a_batch_delivered_in_part_is_refused_to_another_number_of_tasks(
    client: BlockingClient, batch: Batches, delivery: Delivery, out: str
) -> None:
    deliver(batch(), 0, delivery)
    with pytest.raises(ConfigError, match="batch 0 is delivered in part by 2 tasks"):
        deliver(batch(tasks=3), 0, delivery)
    assert deliver(batch(6, 12, tasks=3), 1, delivery).tasks == 3  # a new batch may have as many as it likes
    with pytest.raises(ConfigError, match=r"query .* has 4"):
        deliver(batch(12, 18), 2, Delivery("app", out, delivery.options, "exactly_once", task_partitions=4))
    assert values(client, out) == sorted(expected(0, 12))


def test_an_older_copy_of_a_checkpoint_is_refused_and_a_new_one_begins_anew(
    spark: SparkSession, client: BlockingClient, batch: Batches, delivery: Delivery, out: str
) -> None:
    for turn in range(3):
        deliver(batch(), turn, delivery)
    with pytest.raises(ConfigError, match="batch 2 was delivered: the checkpoint is an older copy"):
        deliver(batch(), 1, delivery)
    spark.sparkContext.setLocalProperty(QUERY_ID, str(uuid.uuid4()))
    assert deliver(batch(6, 12), 0, delivery) == Delivered(rows=6, tasks=2, skipped=0)
    assert values(client, out) == sorted(3 * expected(0, 6) + expected(6, 12))


def test_an_empty_batch_writes_nothing(client: BlockingClient, batch: Batches, delivery: Delivery, out: str) -> None:
    deliver(batch(), 0, delivery)
    commits = TopicPartition(f"app-{out}-commits", 0)
    before = client.list_offsets({commits: LATEST})[commits].offset
    assert deliver(batch().where("key = cast('none' as binary)"), 1, delivery) == Delivered(rows=0, tasks=2, skipped=0)
    assert client.list_offsets({commits: LATEST})[commits].offset == before


def test_the_commits_topic_says_who_delivered_what(
    spark: SparkSession, client: BlockingClient, batch: Batches, delivery: Delivery, out: str
) -> None:
    deliver(batch(), 7, delivery)
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
    told = {each.key: json.loads(each.value or b"") for each in records(client, f"app-{out}-commits")[0]}
    said = {"query_id": query_id, "batch": 7, "tasks": 2}
    assert told == {b"tasks": said, b"0": said, b"1": said}


def test_what_exactly_once_does_not_go_with_is_refused_by_name(
    spark: SparkSession, batch: Batches, delivery: Delivery
) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.enable\.idempotence"):
        Delivery("app", "q", {**delivery.options, "kafka.acks": "1"}, "exactly_once")
    with pytest.raises(ConfigError, match="guarantee"):
        Delivery("app", "q", delivery.options, "at_most_once")  # type: ignore[arg-type]
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        with pytest.raises(ConfigError, match=r"spark\.sql\.adaptive\.enabled"):
            deliver(batch(), 0, delivery)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.sparkContext.setLocalProperty(QUERY_ID, NO_QUERY)
    with pytest.raises(ConfigError, match="foreachBatch of a streaming query"):
        deliver(batch(), 0, delivery)


def test_rows_of_more_bytes_than_arrow_counts_are_refused_by_the_setting_to_lower(
    batch: Batches, delivery: Delivery
) -> None:
    for overflow in ARROW_OVERFLOWS:
        rows = batch(value=f"raise_error('{overflow}: as Spark says where a task has 2 GiB in one batch')")
        with pytest.raises(ConfigError, match=r"arrow\.maxRecordsPerBatch.*lower it, or raise spark\.driver\.memory"):
            deliver(rows, 0, delivery)


def test_a_stream_over_aborted_transactions_delivers_what_was_committed_once(
    spark: SparkSession, broker: str, client: BlockingClient, delivery: Delivery, out: str, tmp_path: Path
) -> None:
    source = create_topic(client, f"in-{out}"[:100], 1)
    by = TransactionalProducer(client.client, f"writer-{out}", timeout_ms=60_000)
    client.run(by.begin())

    def write(turn: int, commit: bool) -> None:
        rows = [Record(timestamp=Millis(NOW_MS), value=b"%d-%d" % (turn, n)) for n in range(5)]
        one = build_batch(
            rows, producer_id=by.producer_id, producer_epoch=by.epoch, base_sequence=0, transactional=True
        )
        client.run(by.produce({TopicPartition(source, 0): one}))
        if commit is not None:
            client.run(by.end(commit=commit))

    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker).option("subscribe", source)
    reader = reader.option("startingOffsets", "earliest").option("kafka.isolation.level", "read_committed")
    rows = reader.load().selectExpr(f"'{out}' as topic", "key", "value", "timestamp")
    query = None
    kept: list[bytes] = []
    try:
        for turn, commit in enumerate((True, False, True, False, False, True)):
            write(turn, commit)
            kept += [b"%d-%d" % (turn, n) for n in range(5)] if commit else []
            if turn in (1, 3, 5):  # a batch that ends in an aborted transaction, one of nothing else, and one with both
                client.run(by.begin())  # the marker is written
                query = query or delivery_writer(rows, delivery).option("checkpointLocation", str(tmp_path)).start()
                query.processAllAvailable()
                assert values(client, out) == sorted(kept)
        write(6, None)  # type: ignore[arg-type]  # left open: nobody reads it
        assert query is not None
        query.processAllAvailable()
        assert values(client, out) == sorted(kept)
    finally:
        if query is not None:
            query.stop()
