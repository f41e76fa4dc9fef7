"""`format("ottla")` reads what is in topics: every column, in batch and streaming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.base import Millis, TopicPartition
from ottla.client import BlockingClient
from ottla.wire import Codec, Record, build_batch
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests import spark_connector
from tests.spark.conftest import create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
HOUR = 3_600_000


def fill(client: BlockingClient, topic: str, partitions: int = 2, rows: int = 10, codec: Codec = Codec.NONE) -> None:
    """Append rows `<partition>-<n>` with timestamps an hour apart, every third without key, every second with headers."""
    for partition in range(partitions):
        records = [
            Record(
                timestamp=Millis(n * HOUR),
                key=None if n % 3 == 0 else b"key-%d" % n,
                value=b"%d-%d" % (partition, n),
                headers=(("trace", b"\x00\xff"), ("none", None)) if n % 2 else (),
            )
            for n in range(rows)
        ]
        client.produce({TopicPartition(topic, partition): bytes(build_batch(records, codec=codec))})


def read(spark: SparkSession, broker: str, **options: str) -> DataFrame:
    return spark.read.format("ottla").option("kafka.bootstrap.servers", broker).options(**options).load()


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.collect())


@pytest.mark.parametrize("codec", list(Codec))
def test_every_column_of_every_record_is_read(
    spark: SparkSession, broker: str, client: BlockingClient, codec: Codec
) -> None:
    topic = create_topic(client, f"columns-{codec.name.lower()}")
    fill(client, topic, codec=codec)
    frame = read(spark, broker, subscribe=topic, includeHeaders="true")
    assert [(name, kind) for name, kind in frame.dtypes] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = sorted(
        frame.selectExpr("*", "unix_millis(timestamp) as ms").collect(), key=lambda row: (row.partition, row.offset)
    )
    assert [(row.topic, row.partition, row.offset, row.ms, row.timestampType) for row in rows] == [
        (topic, partition, n, n * HOUR, 0) for partition in range(2) for n in range(10)
    ]
    for row in rows:
        n = row.offset
        assert (row.key, row.value) == (None if n % 3 == 0 else b"key-%d" % n, b"%d-%d" % (row.partition, n))
        assert row.headers == ([("trace", b"\x00\xff"), ("none", None)] if n % 2 else None)


def test_sparks_own_connector_reads_the_same(spark: SparkSession, broker: str, client: BlockingClient) -> None:
    if reason := spark_connector.missing():
        pytest.skip(reason)
    topic = create_topic(client, "compared")
    fill(client, topic, rows=100, codec=Codec.ZSTD)
    frames = [
        spark.read.format(name)
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        for name in ("ottla", "kafka")
    ]
    assert frames[0].schema == frames[1].schema
    ours, theirs = (frame.orderBy("partition", "offset").collect() for frame in frames)
    assert ours == theirs


def test_starting_and_ending_points_bound_a_batch(spark: SparkSession, broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "bounded")
    fill(client, topic)
    offsets = {
        "startingOffsets": f'{{"{topic}":{{"0":8,"1":-2}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":-1,"1":2}}}}',
    }
    assert values(read(spark, broker, subscribe=topic, **offsets)) == ["0-8", "0-9", "1-0", "1-1"]
    times = {"startingTimestamp": str(7 * HOUR + 1), "endingTimestamp": str(9 * HOUR)}
    assert values(read(spark, broker, subscribe=topic, **times)) == ["0-8", "1-8"]
    each = {
        "startingOffsetsByTimestamp": f'{{"{topic}":{{"0":{9 * HOUR},"1":{99 * HOUR}}}}}',
        "startingOffsetsByTimestampStrategy": "latest",
    }
    assert values(read(spark, broker, subscribe=topic, **each)) == ["0-9"]


def test_partitions_are_found_by_pattern_and_assignment_and_split(
    spark: SparkSession, broker: str, client: BlockingClient
) -> None:
    for name in ("pattern-a", "pattern-b", "other-pattern-c"):
        fill(client, create_topic(client, name, 1), 1, 3)
    frame = read(spark, broker, subscribePattern="pattern-.*")
    assert {row.topic for row in frame.select("topic").distinct().collect()} == {"pattern-a", "pattern-b"}
    assigned = read(spark, broker, assign='{"pattern-b":[0]}', minPartitions="3")
    assert assigned.rdd.getNumPartitions() == 3
    assert values(assigned) == ["0-0", "0-1", "0-2"]


def test_a_schema_with_fewer_columns_reads_only_those(spark: SparkSession, broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "narrow", 1)
    fill(client, topic, 1, 3)
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker).option("subscribe", topic)
    rows = reader.schema("offset bigint, value binary").load().orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(n, b"0-%d" % n) for n in range(3)]
    with pytest.raises(Exception, match="the columns are key binary, value binary"):
        reader.schema("value string").load().collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "t", "startingOffsets": "latest"}, "startingOffsets"),
        ({"subscribe": "t", "colour": "red"}, "colour"),
        ({}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": "no-such-topic"}, "no-such-topic"),
    ],
)
def test_a_wrong_option_fails_the_query_and_is_named(
    spark: SparkSession, broker: str, options: dict[str, str], message: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=message):
        read(spark, broker, **options).collect()


def stream(spark: SparkSession, broker: str, checkpoint: Path, rows: list[list[str]], **options: str) -> Any:
    """Run an availableNow query to its end; `rows` gets one list of values for each micro-batch."""
    frame = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker).options(**options).load()
    writer = frame.writeStream.foreachBatch(lambda batch, number: rows.append(values(batch)))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(120)
    return query


def test_a_stream_goes_on_where_it_ended_in_batches_of_the_size_asked(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "streamed")
    fill(client, topic)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    batches: list[list[str]] = []
    stream(spark, broker, tmp_path, batches, **options)
    everything = sorted(f"{partition}-{n}" for partition in range(2) for n in range(10))
    assert sorted(value for batch in batches for value in batch) == everything
    assert [len(batch) for batch in batches] == [8, 8, 4]
    fill(client, topic, rows=1)
    more: list[list[str]] = []
    query = stream(spark, broker, tmp_path, more, **options)
    assert [value for batch in more for value in batch] == ["0-0", "1-0"]
    assert json.loads(query.lastProgress["sources"][0]["endOffset"]) == {topic: {"0": 11, "1": 11}}


def test_records_that_are_gone_fail_the_query_unless_it_may_lose_them(
    spark: SparkSession, broker: str, client: BlockingClient
) -> None:
    topic = create_topic(client, "lossy", 1)
    fill(client, topic, 1)
    partition = DeleteRecordsPartition(partition_index=0, offset=6)
    message = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000)
    response = client.request(message, leader_of=TopicPartition(topic, 0))
    assert response.topics[0].partitions[0].error_code == 0
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":2}}}}'}
    with pytest.raises(Exception, match="failOnDataLoss=false"):
        read(spark, broker, **options).collect()
    assert values(read(spark, broker, **options, failOnDataLoss="false")) == ["0-6", "0-7", "0-8", "0-9"]
