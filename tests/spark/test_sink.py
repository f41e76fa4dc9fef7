"""`format("ottla")` writes rows to topics, in batch and streaming; and the word count on both doors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.base import Millis, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient, FetchPosition
from ottla.spark import register, update_writer
from ottla.wire import Record, build_batch, iter_records
from tests.spark.conftest import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def contents(client: BlockingClient, topic: str) -> dict[int, list[Record]]:
    """Return every record of a topic by partition."""
    found: dict[int, list[Record]] = {}
    for partition in client.metadata([topic]).partitions_of(topic):
        records: list[Record] = []
        end = client.list_offsets({partition: LATEST})[partition].offset
        while len(records) < end:
            [fetched] = client.fetch([FetchPosition(partition, Offset(len(records)))])
            records += [record for record in iter_records(fetched.check().records) if record.offset >= len(records)]
        found[partition.partition] = records
    return found


def test_rows_land_with_key_headers_and_partition(spark: SparkSession, broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "written", 3)
    frame = spark.range(0, 300, 1, 2).selectExpr(
        "concat('key-', id) as key",
        "cast(id as string) as value",
        "if(id < 3, cast(id as int), null) as partition",
        "if(id < 290, timestamp_millis(1000 * unix_seconds(now()) + id), null) as timestamp",
        "if(id % 2 = 0, array(struct('h' as key, cast('x' as binary) as value)), null) as headers",
        "id as ignored",
    )
    writer = frame.write.format("ottla").option("kafka.bootstrap.servers", broker).option("topic", topic)
    writer.option("kafka.compression.type", "zstd").mode("append").save()
    found = contents(client, topic)
    rows = {int(record.value or b""): (partition, record) for partition, each in found.items() for record in each}
    assert sorted(rows) == list(range(300))
    assert [rows[n][0] for n in range(3)] == [0, 1, 2]
    times = [rows[n][1].timestamp for n in range(290)]
    assert [time - times[0] for time in times] == list(range(290))
    assert {rows[n][1].timestamp - times[0] for n in range(290, 300)} < set(range(60_000))
    assert all(record.key == b"key-%d" % n for n, (_, record) in rows.items())
    assert all(record.headers == ((("h", b"x"),) if n % 2 == 0 else ()) for n, (_, record) in rows.items())


def test_keys_go_where_kafkas_own_producer_sends_them(spark: SparkSession, broker: str, client: BlockingClient) -> None:
    from confluent_kafka import Producer

    ours, theirs = (create_topic(client, name, 5) for name in ("placed-by-spark", "placed-by-librdkafka"))
    spark.range(200).selectExpr("concat('k', id * id) as key", "'v' as value").write.format("ottla").option(
        "kafka.bootstrap.servers", broker
    ).option("topic", ours).mode("append").save()
    producer = Producer({"bootstrap.servers": broker, "partitioner": "murmur2_random"})
    for n in range(200):
        producer.produce(theirs, key=f"k{n * n}", value="v")
    producer.flush(30)

    def places(topic: str) -> dict[bytes | None, int]:
        return {record.key: partition for partition, each in contents(client, topic).items() for record in each}

    assert places(ours) == places(theirs)


def test_a_topic_column_spreads_rows_over_topics(spark: SparkSession, broker: str, client: BlockingClient) -> None:
    topics = [create_topic(client, name, 1) for name in ("spread-0", "spread-1")]
    frame = spark.range(10).selectExpr("concat('spread-', id % 2) as topic", "cast(id as string) as value")
    frame.write.format("ottla").option("kafka.bootstrap.servers", broker).mode("append").save()
    for parity, topic in enumerate(topics):
        assert sorted(int(r.value or b"") for r in contents(client, topic)[0]) == list(range(parity, 10, 2))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'a' as key", {"topic": "t"}, "a column value is needed"),
        ("1 as value", {"topic": "t"}, "column value"),
        ("'a' as value", {}, "the option topic or a column topic is needed"),
        ("'a' as value", {"topic": "t", "kafka.acks": "7"}, r"kafka\.acks"),
        ("'a' as value, '1' as timestamp", {"topic": "t"}, "column timestamp"),
        ("'a' as value, -5L as timestamp", {"topic": "refusing"}, "column timestamp says -5 ms"),
        ("'a' as value, 9 as partition", {"topic": "refusing"}, "topic refusing has partitions 0 to 0"),
    ],
)
def test_what_a_topic_cannot_take_is_refused_by_name(
    spark: SparkSession, broker: str, client: BlockingClient, columns: str, options: dict[str, str], message: str
) -> None:
    if options.get("topic") == "refusing" and "refusing" not in client.metadata().topics:
        create_topic(client, "refusing", 1)
    writer = spark.sql(f"select {columns}").write.format("ottla").option("kafka.bootstrap.servers", broker)
    with pytest.raises(Exception, match=message):
        writer.options(**options).mode("append").save()


def test_a_stream_runs_from_topic_to_topic(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    register(spark)  # does no harm where Spark has found it already
    source, target = create_topic(client, "from", 2), create_topic(client, "to", 2)
    batch = bytes(build_batch([Record(timestamp=Millis(1), key=b"k%d" % n, value=b"v%d" % n) for n in range(50)]))
    client.produce({TopicPartition(source, partition): batch for partition in range(2)})
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker).option("subscribe", source)
    frame = (
        reader.option("startingOffsets", "earliest").load().selectExpr("key", "upper(cast(value as string)) as value")
    )
    writer = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", broker).option("topic", target)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = Counter((record.key, record.value) for each in contents(client, target).values() for record in each)
    assert found == {(b"k%d" % n, b"V%d" % n): 2 for n in range(50)}


def test_changed_rows_of_an_aggregate_are_written_in_update_mode(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    source, target = create_topic(client, "words-on", 1), create_topic(client, "counts-on", 1)
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker).option("subscribe", source)
    counts = reader.option("startingOffsets", "earliest").load().groupBy("value").count()
    rows = counts.selectExpr("value as key", "cast(count as string) as value")
    writer = update_writer(rows, {"kafka.bootstrap.servers": broker, "topic": target})
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="0 seconds").start()
    try:
        for expected in ("1", "2"):
            client.produce({TopicPartition(source, 0): bytes(build_batch([Record(value=b"Hello!")]))})
            query.processAllAvailable()
            assert contents(client, target)[0][-1].value == expected.encode()
    finally:
        query.stop()
