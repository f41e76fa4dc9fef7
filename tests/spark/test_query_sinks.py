"""Query sinks on Spark, by the file-system sink: columns, files, offsets, and what is left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.dataset
import pyarrow.orc
import pyarrow.parquet
import pytest

from ottla.base import Offset, TopicPartition
from ottla.client import EARLIEST, BlockingClient, FetchPosition
from ottla.connect import QueryBatch, QuerySink, SinkConnector, discover, storage
from ottla.connectors import CONNECTORS
from ottla.spark.connect.query_sinks import MARK
from ottla.wire import iter_batch_records, iter_batches
from tests.spark import query_tasks
from tests.spark.conftest import create_topic, make_again
from tests.spark.query_tasks import produce, query_task, until, until_failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOON = {"connector.class": "FilesystemSink", "rotate.interval.ms": "250"}
HOUR_MS = 3_600_000


def texts(values: list[Any]) -> list[bytes]:
    return [json.dumps(each).encode() for each in values]


def files(folder: Path) -> list[str]:
    """Return what a reader finds: everything but what begins with an underscore or a dot."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    )


def test_json_becomes_parquet_by_hour_and_columns_grow_with_what_is_found(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "grows")
    produce(client, topic, texts([{"id": n, "in": {"a": n % 3}} for n in range(50)]), step_ms=HOUR_MS // 20)
    produce(client, topic, texts([{"id": 100 + n, "f": n / 2} for n in range(20)]), partition=1)
    config = {**SOON, "name": "grows", "topics": topic, "path": str(tmp_path), "partition.by": "hour", "tasks.max": "2"}
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 70)
        produce(client, topic, texts([{"id": 200, "f": 1, "late": "x"}]))
        until(port, lambda: port.records == 71)
        assert (port.metrics["records-lag-max"], port.metrics[f"{topic}-1.records-lag"]) == (0, 0)
    assert port.states == [storage.State.RUNNING, storage.State.UNASSIGNED]
    assert port.topics == {topic}

    rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / topic))
    assert {field.name: field.dataType.simpleString() for field in rows.schema}.items() >= {
        ("id", "bigint"),
        ("in", "struct<a:bigint>"),
        ("f", "double"),
        ("late", "string"),
    }
    assert sorted(row.id for row in rows.collect()) == [*range(50), *range(100, 120), 200]
    dataset = pyarrow.dataset.dataset(tmp_path / topic, format="parquet", partitioning="hive")
    assert dataset.count_rows() == 71
    [first] = [name for name in files(tmp_path) if name.endswith("hour=22/grows+0+0000000000+0000000049.parquet")]
    assert first.startswith("grows/year=2023/month=11/day=14/")
    assert pyarrow.parquet.read_table(tmp_path / first)["id"].to_pylist() == list(range(16)), "in the offsets' order"


def test_schemas_become_columns_of_their_types_in_orc(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "typed", 1)
    logical = "org.apache.kafka.connect.data."
    schema = {
        "type": "struct",
        "fields": [
            {"field": "id", "type": "int32"},
            {"field": "price", "type": "bytes", "name": logical + "Decimal", "parameters": {"scale": "2"}},
            {"field": "at", "type": "int64", "name": logical + "Timestamp"},
            {"field": "country", "type": "string", "optional": True},
        ],
    }
    payload = {"id": 7, "price": "BNI=", "at": 1_700_000_000_123, "country": "NO"}
    values = [{"schema": schema, "payload": payload}, {"schema": schema, "payload": {**payload, "country": None}}]
    produce(client, topic, texts(values))
    config = {
        **SOON,
        "name": "typed",
        "topics": topic,
        "path": str(tmp_path),
        "format": "orc",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "country",
    }
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 2)
    name = "typed+0+0000000000+0000000001.orc"
    assert files(tmp_path) == [f"typed/country=NO/{name}", f"typed/country=null/{name}"]
    [row] = pyarrow.orc.read_table(tmp_path / "typed/country=NO" / name).to_pylist()
    moment = row.pop("at")
    assert row == {"id": 7, "price": Decimal("12.34"), "country": "NO"}
    assert moment.replace(tzinfo=UTC) == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    kinds = {field.name: field.dataType.simpleString() for field in spark.read.orc(str(tmp_path / "typed")).schema}
    assert kinds == {"id": "int", "price": "decimal(38,2)", "at": "timestamp", "country": "string"}


class _Sizes(QuerySink):
    """Notes how many bytes a Python worker is given at once, as its own function of Arrow batches sees it."""

    seen: ClassVar[list[tuple[int, int]]] = []

    def write(self, batch: QueryBatch) -> None:
        def measured(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            for each in batches:
                yield pyarrow.RecordBatch.from_pydict({"rows": [each.num_rows], "bytes": [each.nbytes]})

        for frame in batch.frames:
            found = frame.rows.mapInArrow(measured, "rows long, bytes long").collect()
            self.seen.extend((row.rows, row.bytes) for row in found)


class SizesConnector(SinkConnector):
    task_class = _Sizes


def test_large_records_do_not_come_to_a_worker_all_at_once(
    spark: SparkSession, broker: str, client: BlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(client, "large", 1)
    monkeypatch.setattr(query_tasks, "plugins", lambda: discover([], more=(*CONNECTORS, SizesConnector)))
    for _ in range(100):
        produce(client, topic, [b"x" * 900_000])  # 90 MB in all, of which a batch may have 64 MiB
    text = "org.apache.kafka.connect.storage.StringConverter"
    config = {"connector.class": "SizesConnector", "name": "large", "topics": topic, "value.converter": text}
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 100)
    assert sum(rows for rows, _ in _Sizes.seen) == 100
    assert max(size for _, size in _Sizes.seen) < (64 << 20) + 1_000_000


def test_flush_size_is_how_many_records_a_file_has_and_a_pause_is_a_pause(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "flushed", 1)
    produce(client, topic, texts([{"n": n} for n in range(8)]))
    config = {
        "name": "flushed",
        "connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector",
        "topics": topic,
        "hdfs.url": tmp_path.as_uri(),
        "flush.size": "3",
        "format.class": "io.confluent.connect.hdfs.json.JsonFormat",
    }
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 6)
        until(port, lambda: port.told.records == 6 and port.told.waiting == 2)  # for a file that is full
        place = {"kafka_topic": topic, "kafka_partition": 0}
        until(port, lambda: list(port.told.position) == [{"partition": place, "offset": {"kafka_offset": 6}}])
        assert port.told.trouble is None
        port.aim(storage.TargetState.PAUSED)
        until(port, lambda: port.states[-1] is storage.State.PAUSED)
        produce(client, topic, texts([{"n": 8}]))
        assert len(files(tmp_path)) == 2
        port.aim(storage.TargetState.STARTED)
        until(port, lambda: port.records == 9)
    place = "topics/flushed/partition=0/flushed+0+"
    assert files(tmp_path) == [
        f"{place}0000000000+0000000002.json",
        f"{place}0000000003+0000000005.json",
        f"{place}0000000006+0000000008.json",
    ]
    assert (tmp_path / f"{place}0000000003+0000000005.json").read_text() == '{"n":3}\n{"n":4}\n{"n":5}\n'


def test_a_lost_commit_repeats_nothing_and_an_operators_offset_is_followed(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "lost", 1)
    place = TopicPartition(topic, 0)
    produce(client, topic, [f"line {n}".encode() for n in range(10)])
    config = {
        **SOON,
        "name": "lost",
        "topics.regex": "los[t]",
        "path": str(tmp_path),
        "format": "text",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 10)
    last = client.committed_offsets("connect-lost")[place]
    assert last.offset == 10 and last.metadata.startswith(MARK)

    # as if the last commit had not arrived
    client.commit_offsets("connect-lost", {place: Offset(0)}, metadata=last.metadata)
    produce(client, topic, [b"line 10"])
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 1)
    assert files(tmp_path) == [
        "lost/partition=0/lost+0+0000000000+0000000009.txt",
        "lost/partition=0/lost+0+0000000010+0000000010.txt",
    ]

    client.commit_offsets("connect-lost", {place: Offset(5)})  # as the REST interface does for an operator
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 6)
    again = tmp_path / "lost/partition=0/lost+0+0000000005+0000000010.txt"
    assert again.read_text() == "".join(f"line {n}\n" for n in range(5, 11))


def test_a_topic_that_is_made_again_under_a_running_query_is_read_from_its_beginning(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "renewed", 1)
    produce(client, topic, [b"old"] * 3)
    config = {
        **SOON,
        "name": "renewed",
        "topics": topic,
        "path": str(tmp_path),
        "format": "text",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 3)
        make_again(client, topic)
        produce(client, topic, [b"%d" % number for number in range(5)])
        place = tmp_path / "renewed/partition=0"
        until(port, lambda: (place / "renewed+0+0000000000+0000000004.txt").exists())
        until(port, lambda: client.committed_offsets("connect-renewed")[TopicPartition(topic, 0)].offset == 5)
    assert (place / "renewed+0+0000000000+0000000004.txt").read_text() == "0\n1\n2\n3\n4\n"


def test_records_that_cannot_be_converted_are_dead_letters_and_the_others_are_transformed(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic, dead_letters = create_topic(client, "mixed", 1), create_topic(client, "mixed-letters", 1)
    produce(client, topic, [b'{"a":1,"secret":"s"}', b"no json", b'{"a":2}'])
    config = {
        **SOON,
        "name": "mixed",
        "topics": topic,
        "path": str(tmp_path),
        "format": "json",
        "partition.by": "none",
        "transforms": "route,hide",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "mixed",
        "transforms.route.replacement": "routed",
        "transforms.hide.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.hide.exclude": "secret",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead_letters,
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with query_task(spark, broker, config) as port:
        until(port, lambda: port.records == 3)
    assert files(tmp_path) == ["routed/mixed+0+0000000000+0000000002.json"]
    assert (tmp_path / "routed/mixed+0+0000000000+0000000002.json").read_text() == '{"a":1}\n{"a":2}\n'
    at = TopicPartition(dead_letters, 0)
    begin = client.list_offsets({at: EARLIEST})[at].offset
    [fetched] = client.fetch([FetchPosition(at, begin, 1 << 20)], max_wait_ms=0)
    found = [
        record
        for header, start in iter_batches(fetched.check().records)
        for record in iter_batch_records(fetched.records, start, header)
    ]
    assert [bytes(record.value or b"") for record in found] == [b"no json"]
    context = {key: bytes(value or b"").decode() for key, value in found[0].headers}
    assert context["__connect.errors.stage"] == "VALUE_CONVERTER"
    assert (context["__connect.errors.topic"], context["__connect.errors.offset"]) == ("mixed", "1")


def test_what_cannot_be_written_fails_the_task_and_says_where_it_is(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "tombstones", 1)
    produce(client, topic, [b'{"a":1}', None])
    config = {**SOON, "name": "tombstones", "topics": topic, "path": str(tmp_path)}
    with query_task(spark, broker, config) as port:
        until_failed(port)
    assert "a record without value" in port.trace and "tombstones-0, offset 1" in port.trace
    assert files(tmp_path) == []
    with query_task(spark, broker, {**config, "behavior.on.null.values": "ignore"}) as port:
        until(port, lambda: port.records == 2)
    assert spark.read.parquet(str(tmp_path / topic)).count() == 1

    config = {**SOON, "name": "nowhere", "topics": topic, "path": "s3a://bucket/lake"}
    with query_task(spark, broker, config) as port:
        until_failed(port)
    assert "Hadoop has no file system for it" in port.trace
