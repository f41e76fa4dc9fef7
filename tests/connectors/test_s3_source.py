"""The S3 source against an S3 server: the sink's objects come back as they were, and each record once."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.connect import ConnectError, Header, SinkRecord, SourceColumns, SourceRecord, data
from ottla.connectors.s3 import S3SinkTask, S3SourceConnector, S3SourceTask
from tests.connectors.s3_server import KEYS, S3Server, SourceContext, Worker
from tests.connectors.test_s3_sink import PLACE, orders, properties, texts

Stored = dict[tuple[tuple[str, Any], ...], Mapping[str, Any]]


def source_properties(server: S3Server, bucket: str, form: str = "JsonFormat", **more: str) -> dict[str, str]:
    own = {"s3.bucket.name": bucket, "store.url": server.url, "format.class": form, "s3.settle.ms": "0"}
    pause = {"s3.poll.interval.ms": "1"}
    return {**KEYS, **own, **pause, **{key.replace("_", "."): value for key, value in more.items()}}


def started(props: Mapping[str, str], stored: Stored, *, task: int = 0, tasks: int = 1) -> S3SourceTask:
    connector = S3SourceConnector()
    connector.start(props)
    made = S3SourceTask()
    made.context = SourceContext(stored)
    made.start(connector.task_configs(tasks)[task])
    return made


def polled(task: S3SourceTask, stored: Stored, *, polls: int = 10_000, idle: int = 2) -> list[SourceRecord]:
    """Poll until nothing comes, storing offsets as a worker does."""
    found: list[SourceRecord] = []
    while polls and idle:
        polls -= 1
        batch = task.poll()
        if batch is None:
            idle -= 1
            continue
        records = batch.records() if isinstance(batch, SourceColumns) else batch
        assert records
        found += records
        for each in records:
            stored[tuple(sorted(each.source_partition.items()))] = each.source_offset
    return found


def by_partition(count: int, partitions: int) -> dict[TopicPartition, list[SinkRecord]]:
    places = [TopicPartition("connect-test", number) for number in range(partitions)]
    return {place: texts(count, place=place) for place in places}


@pytest.mark.parametrize("form", ["AvroFormat", "ParquetFormat", "JsonFormat"])
def test_what_the_sink_wrote_comes_back_in_order_into_its_partition(s3: S3Server, form: str) -> None:
    bucket = s3.bucket("back-" + form.lower())
    Worker(S3SinkTask, properties(s3, bucket, format_class=form, flush_size="4"), {PLACE: orders(12)}).run()
    stored: Stored = {}
    found = polled(started(source_properties(s3, bucket, form), stored), stored)
    assert [(each.topic, each.partition) for each in found] == [("connect-test", 0)] * 12
    if form == "JsonFormat":
        assert [each.value["id"] for each in found] == list(range(12))
        return
    values = [each.value for each in found]
    assert [each.to_dict() for each in values] == [each.value.to_dict() for each in orders(12)]
    if form == "AvroFormat":
        assert found[0].value_schema == orders(1)[0].value_schema


@pytest.mark.parametrize("form", ["StringFormat", "JsonFormat"])
def test_an_object_that_is_deleted_behind_its_listing_ends_nothing(s3: S3Server, form: str) -> None:
    bucket = s3.bucket("deleted-" + form.lower())
    Worker(S3SinkTask, properties(s3, bucket, format_class=form, flush_size="2"), {PLACE: texts(6)}).run()
    stored: Stored = {}
    task = started(source_properties(s3, bucket, form), stored)
    first = polled(task, stored, polls=1)
    names = sorted(s3.objects(bucket))
    task._client.delete_object(Bucket=bucket, Key=names[1])
    assert [each.value for each in (*first, *polled(task, stored))] == [f'line "{number}"' for number in (0, 1, 4, 5)]


def test_keys_headers_and_records_without_a_value_come_back(s3: S3Server) -> None:
    bucket = s3.bucket("whole")
    records = [each.replace(headers=(Header("trace", "t", data.STRING),)) for each in orders(4)]
    records[3] = records[3].replace(value=None)
    own = {"store.kafka.keys": "true", "store.kafka.headers": "true"}
    sink = properties(s3, bucket, flush_size="4", format_class="AvroFormat", behavior_on_null_values="write") | own
    Worker(S3SinkTask, sink, {PLACE: records}).run()
    stored: Stored = {}
    found = polled(started(source_properties(s3, bucket, "AvroFormat") | own, stored), stored)
    assert [each.key for each in found] == ["k0", "k1", "k2", "k3"]
    assert [each.key_schema for each in found] == [data.STRING] * 4
    assert [each.value and each.value["id"] for each in found] == [0, 1, 2, None]
    assert [(each.headers[0].key, each.headers[0].value) for each in found] == [("trace", "t")] * 4


@pytest.mark.parametrize("form", ["JsonFormat", "StringFormat", "ByteArrayFormat"])
def test_a_task_that_is_stopped_anywhere_goes_on_behind_the_last_record_stored(s3: S3Server, form: str) -> None:
    bucket = s3.bucket("resumed-" + form.lower())
    half = 1_500 if form == "JsonFormat" else 10_000
    lines = [f"{number}" for number in range(2 * half)]
    for place in range(2):
        body = "\n".join(lines[place * half : (place + 1) * half]).encode()
        key = f"topics/t/partition=3/t+3+{place * half:010d}.json.gz"
        s3.client.put_object(Bucket=bucket, Key=key, Body=gzip.compress(body))
    stored: Stored = {}
    found: list[SourceRecord] = []
    props = source_properties(s3, bucket, form, record_batch_max_size="444")
    for _ in range(100):
        task = started(props, stored)
        batch = polled(task, stored, polls=1)
        task.stop()
        found += batch
        if len(found) == 2 * half:
            break
    convert = {"JsonFormat": str, "StringFormat": str, "ByteArrayFormat": bytes.decode}[form]
    assert [convert(each.value) for each in found] == lines
    assert {each.partition for each in found} == {3}
    assert polled(started(props, stored), stored) == []


def test_new_objects_are_found_and_those_of_anybody_are_told_apart_by_expressions(s3: S3Server) -> None:
    bucket = s3.bucket("generic")

    def put(key: str, body: str) -> None:
        s3.client.put_object(Bucket=bucket, Key=key, Body=body.encode())

    put("logs/web/b.log", "3\n4\n")
    put("logs/web/a.log", "1\n2")
    put("logs/db/a.csv", "x;y\n")
    put("logs/other", "nobody's\n")
    put("elsewhere/a.log", "not under the prefix\n")
    stored: Stored = {}
    own = {"mode": "GENERIC", "topics.dir": "logs", "topic.regex.list": r"web:\.log$, tables:/db/"}
    task = started(source_properties(s3, bucket, "StringFormat") | own, stored)
    found = [(each.topic, each.partition, each.value) for each in polled(task, stored)]
    assert found == [("tables", None, "x;y"), *(("web", None, str(number)) for number in (1, 2, 3, 4))]
    put("logs/web/c.log", "5\n")
    put("logs/db/z/empty.csv", "")
    assert [each.value for each in polled(task, stored)] == ["5"]
    assert polled(started(source_properties(s3, bucket, "StringFormat") | own, stored), stored) == []


def test_tasks_divide_topic_partitions_and_read_each_object_once(s3: S3Server) -> None:
    bucket = s3.bucket("divided")
    Worker(S3SinkTask, properties(s3, bucket), by_partition(6, 7)).run()
    stored: Stored = {}
    props = source_properties(s3, bucket)
    shares = [polled(started(props, stored, task=task, tasks=3), stored) for task in range(3)]
    assert sorted(len(share) for share in shares) == [12, 12, 18]
    read = [(each.partition, each.value) for share in shares for each in share]
    assert sorted(read) == sorted((number, f'line "{line}"') for number in range(7) for line in range(6))
    assert len({each.partition for each in shares[0]} & {each.partition for each in shares[1]}) == 0


def test_an_object_waits_for_an_earlier_one_that_is_young(s3: S3Server) -> None:
    from datetime import timedelta

    from ottla.connectors.s3.objects import ReadObject, settled

    def of(group: str, offset: int, seconds: int) -> ReadObject:
        return ReadObject("t", 0, group, (offset,), 0, {"": f"{group}/{offset}"}, timedelta(seconds=seconds))

    objects = [of("a", 0, 9), of("a", 3, 1), of("a", 6, 9), of("b", 0, 9), of("b", 3, 9)]
    ready = settled(objects, timedelta(seconds=2), lambda name: False)
    assert [each.name for each in ready] == ["a/0", "b/0", "b/3"]


def test_an_object_of_another_format_fails_by_its_name_or_is_left_out(s3: S3Server) -> None:
    bucket = s3.bucket("broken")
    for offset, body in ((0, b"1\n"), (1, b"{broken\n"), (2, b"3\n")):
        s3.client.put_object(Bucket=bucket, Key=f"topics/t/partition=0/t+0+{offset:010d}.json", Body=body)
    stored: Stored = {}
    with pytest.raises(
        ConnectError, match=r"s3://broken/topics/t/partition=0/t\+0\+0000000001\.json cannot be read as"
    ):
        polled(started(source_properties(s3, bucket), stored), stored)
    found = polled(started(source_properties(s3, bucket, behavior_on_error="log"), {}), {})
    assert [each.value for each in found] == [1, 3]


def test_settings_of_the_source_are_checked_before_anything_runs() -> None:
    connector = S3SourceConnector()
    lines = {"s3.bucket.name": "b", "format.class": "JsonFormat"}

    def errors(**more: str) -> list[str]:
        props = lines | {key.replace("_", "."): value for key, value in more.items()}
        return [name for name, each in connector.validate(props).items() if each.errors]

    assert errors() == []
    assert errors(mode="GENERIC") == ["topic.regex.list"]
    assert errors(mode="GENERIC", topic_regex_list="logs") == ["topic.regex.list"]
    assert errors(mode="GENERIC", topic_regex_list="logs:(") == ["topic.regex.list"]
    assert errors(mode="OTHER") == ["mode"]
    assert connector.exactly_once_support({}) is True
    with pytest.raises(ConnectError, match="has the keys bucket and key"):
        connector.alter_offsets({}, [({"file": "x"}, None)])
