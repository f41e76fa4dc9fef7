"""The S3 sink against an S3 server: what objects are there, under which names, and that a crash changes none of them."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from ottla.base import TopicPartition, bring_extra
from ottla.connect import ConnectError, SinkColumns, SinkRecord, Struct, data
from ottla.connectors.s3 import S3SinkConnector, S3SinkTask
from tests.connectors.s3_server import CONFLUENT_SINK_FILE, KEYS, S3Server, Worker

ORDER = (
    data.SchemaBuilder.struct()
    .name("org.example.Order")
    .field("id", data.INT64)
    .field("item", data.STRING)
    .field("note", data.OPTIONAL_STRING)
    .field("price", data.decimal_schema(2))
    .field("at", data.TIMESTAMP_SCHEMA)
    .build()
)
PLACE = TopicPartition("connect-test", 0)


def properties(server: S3Server, bucket: str, **more: str) -> dict[str, str]:
    lines = dict(line.split("=", 1) for line in CONFLUENT_SINK_FILE.splitlines())
    named = {key.replace("_", "."): value for key, value in more.items()}
    return {**lines, **KEYS, "s3.bucket.name": bucket, "store.url": server.url, **named}


def texts(count: int, *, place: TopicPartition = PLACE, first: int = 0) -> list[SinkRecord]:
    return [
        SinkRecord(
            topic=place.topic,
            partition=place.partition,
            value_schema=data.OPTIONAL_STRING,
            value=f'line "{number}"',
            offset=number,
            timestamp=1_700_000_000_000 + number * 1000,
        )
        for number in range(first, first + count)
    ]


def orders(count: int) -> list[SinkRecord]:
    from datetime import UTC, datetime
    from decimal import Decimal

    return [
        SinkRecord(
            topic=PLACE.topic,
            partition=0,
            key_schema=data.STRING,
            key=f"k{number}",
            value_schema=ORDER,
            value=Struct(
                ORDER,
                id=number,
                item=f"item {number}",
                note=None if number % 2 else "note",
                price=Decimal(number).scaleb(-2),
                at=datetime(2026, 1, 1, 0, 0, number % 60, tzinfo=UTC),
            ),
            offset=number,
            timestamp=1_700_000_000_000 + number * 1000,
        )
        for number in range(count)
    ]


def test_the_configuration_file_of_confluents_connector_works_as_it_stands(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    props = dict(line.split("=", 1) for line in CONFLUENT_SINK_FILE.splitlines())
    assert not [each for each in S3SinkConnector().validate(props).values() if each.errors]
    bucket = s3.bucket("kafka-connect-s3-sink-example")
    worker = Worker(S3SinkTask, props, {PLACE: texts(7)})
    worker.run()
    worker.stop()
    assert s3.objects(bucket) == {
        "topics/connect-test/partition=0/connect-test+0+0000000000.json": (
            b'"line \\"0\\""\n"line \\"1\\""\n"line \\"2\\""\n'
        ),
        "topics/connect-test/partition=0/connect-test+0+0000000003.json": (
            b'"line \\"3\\""\n"line \\"4\\""\n"line \\"5\\""\n'
        ),
    }
    assert worker.committed == {PLACE: 6}, "the seventh record is in no object yet"


@pytest.mark.parametrize("form", ["json.Json", "avro.Avro", "parquet.Parquet"])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_a_crash_between_upload_and_commit_gives_the_same_objects(s3: S3Server, form: str, batch: int) -> None:
    bucket = s3.bucket(f"crash-{form.split('.')[0]}-{batch}")
    props = properties(s3, bucket, format_class=f"io.confluent.connect.s3.format.{form}Format", flush_size="5")
    worker = Worker(S3SinkTask, props, {PLACE: orders(23)})
    worker.deliver(batch)
    worker.deliver(batch)
    worker.task.pre_commit(dict(worker.next))  # stored, and the commit is lost
    before = s3.objects(bucket)
    worker.kill()
    worker.run(batch)
    after = s3.objects(bucket)
    assert {key: after[key] for key in before} == before
    assert sorted(after) == [
        f"topics/connect-test/partition=0/connect-test+0+{first:010d}.{form.split('.')[0]}".replace(
            ".parquet", ".snappy.parquet"
        )
        for first in (0, 5, 10, 15)
    ]
    assert [each["id"] for key in sorted(after) for each in read(key, after[key])] == list(range(20))
    assert worker.committed == {PLACE: 20}


def read(key: str, body: bytes) -> list[dict[str, Any]]:
    """Read an object with what others have written."""
    if key.endswith(".avro"):
        return list(fastavro.reader(io.BytesIO(body)))  # type: ignore[arg-type]
    if key.endswith(".parquet"):
        return pq.read_table(io.BytesIO(body)).to_pylist()
    text = gzip.decompress(body) if key.endswith(".gz") else body
    return [json.loads(line) for line in text.splitlines()]


def test_objects_hold_what_the_schema_says(s3: S3Server) -> None:
    for form, codec in (("avro.Avro", "deflate"), ("parquet.Parquet", "zstd")):
        bucket = s3.bucket("values-" + form.split(".")[0])
        props = properties(s3, bucket, format_class=f"io.confluent.connect.s3.format.{form}Format", flush_size="2")
        own = {f"{form.split('.')[0]}.codec": codec}
        worker = Worker(S3SinkTask, props | own, {PLACE: orders(2)})
        worker.run()
        [(key, body)] = s3.objects(bucket).items()
        rows = read(key, body)
        assert [str(each["price"]) for each in rows] == ["0.00", "0.01"]
        assert [each["note"] for each in rows] == ["note", None]
        assert rows[1]["at"].isoformat() == "2026-01-01T00:00:01+00:00"
        if key.endswith(".avro"):
            schema = fastavro.reader(io.BytesIO(body)).writer_schema
            assert isinstance(schema, dict) and schema["name"] == "org.example.Order"


def test_large_objects_go_in_parts_and_appear_as_a_whole(s3: S3Server) -> None:
    bucket = s3.bucket("parts")
    mebibyte = "x" * (1 << 20)
    records = [each.replace(value=mebibyte) for each in texts(12)]
    props = properties(s3, bucket, flush_size="12", s3_part_size=str(5 << 20), format_class="StringFormat")
    worker = Worker(S3SinkTask, props, {PLACE: records})
    worker.deliver(11)
    worker.commit()
    assert s3.objects(bucket) == {}
    assert worker.committed == {PLACE: 0}
    worker.run()
    [(key, body)] = s3.objects(bucket).items()
    assert key.endswith("connect-test+0+0000000000.txt")
    assert body == (mebibyte.encode() + b"\n") * 12
    assert s3.client.head_object(Bucket=bucket, Key=key)["ETag"].endswith('-3"'), "sent in three parts"


def test_an_object_that_was_put_together_though_the_answer_was_lost_is_stored(s3: S3Server) -> None:
    bucket = s3.bucket("answer-lost")
    props = properties(s3, bucket, format_class="ByteArrayFormat", s3_part_size=str(5 << 20), s3_part_retries="0")
    rows = [each.replace(value=b"x" * (2 << 20), value_schema=data.BYTES) for each in texts(6)]
    worker = Worker(S3SinkTask, props, {PLACE: rows})
    client, lost = worker.task._bucket.client, []
    from botocore.exceptions import ClientError

    complete = client.complete_multipart_upload

    def ended(**arguments: Any) -> Any:
        if lost and arguments["UploadId"] == lost[0]:  # Amazon's answers once more, others know the upload no longer
            answer = {"Error": {"Code": "NoSuchUpload"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
            raise ClientError(answer, "CompleteMultipartUpload")
        found = complete(**arguments)
        if not lost:
            lost.append(arguments["UploadId"])
            raise ConnectionResetError("the answer is lost")
        return found

    client.complete_multipart_upload = ended
    worker.deliver()
    for _ in range(200):
        worker.put([])
        worker.commit()
        if worker.committed[PLACE] == 6:
            break
    assert lost and [len(body) for body in s3.objects(bucket).values()] == [3 * (2 << 20) + 3] * 2
    worker.stop()


def test_parts_of_an_object_that_is_not_ended_are_deleted_when_the_partition_goes(s3: S3Server) -> None:
    bucket = s3.bucket("aborted")
    records = [each.replace(value="x" * (1 << 20)) for each in texts(7)]
    worker = Worker(
        S3SinkTask,
        properties(s3, bucket, flush_size="12", s3_part_size=str(5 << 20), format_class="StringFormat"),
        {PLACE: records},
    )
    worker.run()
    worker.stop()
    assert s3.client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    assert s3.objects(bucket) == {}


def test_compressed_objects_are_equal_however_the_records_came(s3: S3Server) -> None:
    found = []
    for batch in (1, 7, 5000):
        bucket = s3.bucket(f"gzip-{batch}")
        props = properties(s3, bucket, flush_size="2500", s3_compression_type="gzip")
        worker = Worker(S3SinkTask, props, {PLACE: texts(5000)})
        if batch == 1:
            worker.put(worker.topic[PLACE])
            worker.next[PLACE] = 5000
            worker.commit()
        else:
            worker.run(batch * 100)
        found.append(s3.objects(bucket))
    assert found[0] == found[1] == found[2]
    assert sorted(found[0]) == [
        f"topics/connect-test/partition=0/connect-test+0+{first:010d}.json.gz" for first in (0, 2500)
    ]
    rows = [each for key in sorted(found[0]) for each in read(key, found[0][key])]
    assert rows == [f'line "{number}"' for number in range(5000)]


@pytest.mark.parametrize("form", ["JsonFormat", "StringFormat", "ByteArrayFormat"])
def test_columns_become_the_same_objects_as_records(s3: S3Server, form: str) -> None:
    import pyarrow as pa

    raw = form == "ByteArrayFormat"
    values: list[Any] = [f"plain {number}" for number in range(10)] + ['"quoted" \\ ', "æ ø", "tab\t", "😀", ""] * 2
    values = [each.encode() for each in values] if raw else values
    schema = data.OPTIONAL_BYTES if raw else data.OPTIONAL_STRING
    records = [
        SinkRecord(topic="connect-test", partition=0, value_schema=schema, value=value, offset=place)
        for place, value in enumerate(values)
    ]
    by_record = Worker(
        S3SinkTask, properties(s3, s3.bucket(f"rows-{form.lower()}"), format_class=form), {PLACE: records}
    )
    by_record.run()
    by_record.stop()

    def columns(first: int, end: int) -> SinkColumns:
        return SinkColumns(
            topic="connect-test",
            partition=0,
            values=pa.array(values[first:end], pa.binary() if raw else pa.string()),
            schema=schema,
            offsets=pa.array(range(first, end), pa.int64()),
            timestamps=pa.array([-1] * (end - first), pa.int64()),
        )

    by_columns = Worker(
        S3SinkTask, properties(s3, s3.bucket(f"columns-{form.lower()}"), format_class=form), {PLACE: []}
    )
    for first, end in ((0, 4), (0, 5), (3, 19), (19, 20)):
        by_columns.task.put_columns(columns(first, end))
    assert by_columns.task.pre_commit({PLACE: 20}) == {PLACE: 18}
    assert s3.objects(f"columns-{form.lower()}") == s3.objects(f"rows-{form.lower()}")


def test_records_that_cannot_be_written_are_reported_and_the_rest_is_there(s3: S3Server) -> None:
    bucket = s3.bucket("reported")
    good = orders(4)
    bad = [good[1].replace(value_schema=None, value={"id": 1}), good[2].replace(value=None)]
    records = [good[0], *bad, good[3]]
    worker = Worker(S3SinkTask, properties(s3, bucket, format_class="AvroFormat", flush_size="2"), {PLACE: records})
    worker.run()
    [(key, body)] = s3.objects(bucket).items()
    assert [each["id"] for each in read(key, body)] == [0, 3]
    assert [(record.offset, text.split(" ")[0]) for record, text in worker.reports.reported] == [
        (1, "AvroFormat"),
        (2, "The"),
    ]
    assert worker.committed == {PLACE: 4}
    worker.start()
    worker.context.errant_records = None
    with pytest.raises(
        ConnectError, match="connect-test-0 at offset 1 cannot be written: AvroFormat needs values with"
    ):
        worker.put(bad)


def test_keys_headers_and_records_without_a_value_have_objects_of_their_own(s3: S3Server) -> None:
    from ottla.connect import Header

    bucket = s3.bucket("kept")
    records = [each.replace(headers=(Header("trace", 7), Header("none", None))) for each in orders(4)]
    records[3] = records[3].replace(value=None)
    props = properties(s3, bucket, flush_size="4", behavior_on_null_values="write") | {
        "store.kafka.keys": "true",
        "keys.format.class": "JsonFormat",
        "store.kafka.headers": "true",
        "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    }
    Worker(S3SinkTask, props, {PLACE: records}).run()
    found = s3.objects(bucket)
    name = "topics/connect-test/partition=0/connect-test+0+0000000000"
    tomb = "topics/connect-test/tombstone/connect-test+0+0000000003"
    assert set(found) == {
        f"{name}.json",
        f"{name}.keys.json",
        f"{name}.headers.json",
        f"{tomb}.keys.json",
        f"{tomb}.headers.json",
    }
    assert found[f"{name}.keys.json"] == b'"k0"\n"k1"\n"k2"\n'
    assert found[f"{tomb}.keys.json"] == b'"k3"\n'
    assert found[f"{name}.headers.json"].splitlines()[0] == (
        b'[{"key":"trace","value":"7"},{"key":"none","value":null}]'
    )


def test_time_and_fields_divide_records_among_directories(s3: S3Server) -> None:
    by_time = s3.bucket("by-time")
    props = properties(
        s3, by_time, partitioner_class="HourlyPartitioner", timezone="Asia/Kolkata", flush_size="100"
    ) | {
        "timestamp.extractor": "Record",
        "rotate.interval.ms": "600000",
        "locale": "en",
    }
    records = [each.replace(timestamp=1_700_000_000_000 + place * 300_000) for place, each in enumerate(texts(13))]
    worker = Worker(S3SinkTask, props, {PLACE: records})
    worker.run(5)
    names = [key.removeprefix("topics/connect-test/") for key in s3.objects(by_time)]
    assert names == [
        f"year=2023/month=11/day=15/hour={hour:02d}/connect-test+0+{first:010d}.json"
        for hour, first in ((3, 0), (3, 2), (4, 4), (4, 6), (4, 8), (4, 10))
    ]
    by_field = s3.bucket("by-field")
    props = properties(
        s3, by_field, partitioner_class="io.confluent.connect.storage.partitioner.FieldPartitioner", flush_size="4"
    )
    worker = Worker(S3SinkTask, props | {"partition.field.name": "note,item"}, {PLACE: orders(4)})
    worker.run()
    assert sorted(s3.objects(by_field)) == [
        *(f"topics/connect-test/note=note/item=item {n}/connect-test+0+{n:010d}.json" for n in (0, 2)),
        *(f"topics/connect-test/note=null/item=item {n}/connect-test+0+{n:010d}.json" for n in (1, 3)),
    ]
    assert worker.committed == {PLACE: 4}


def test_objects_follow_a_record_that_a_transformation_moved(s3: S3Server) -> None:
    bucket = s3.bucket("moved")
    records = [each.replace(topic="elsewhere") for each in texts(3)]
    worker = Worker(S3SinkTask, properties(s3, bucket), {PLACE: records})
    worker.run()
    assert list(s3.objects(bucket)) == ["topics/elsewhere/partition=0/elsewhere+connect-test+0+0000000000.json"]
    assert worker.committed == {PLACE: 3}


def test_topics_that_a_transformation_makes_one_keep_all_their_records(s3: S3Server) -> None:
    bucket = s3.bucket("merged")
    places = [PLACE, TopicPartition("connect-other", 0)]
    records = {place: [each.replace(topic="all") for each in texts(4, place=place)] for place in places}
    worker = Worker(S3SinkTask, properties(s3, bucket, flush_size="2"), records)
    worker.run()
    objects = s3.objects(bucket)
    assert sorted(objects) == [
        f"topics/all/partition=0/all+{place.topic}+0+{first:010d}.json"
        for place in reversed(places)
        for first in (0, 2)
    ]
    assert sum(len(body.splitlines()) for body in objects.values()) == 8
    assert worker.committed == dict.fromkeys(places, 4)


def test_a_store_that_fails_for_a_while_loses_and_repeats_nothing(s3: S3Server) -> None:
    from ottla.connect import RetriableError

    bucket = s3.bucket("failing")
    props = properties(s3, bucket, s3_part_retries="0", retry_backoff_ms="1")
    worker = Worker(S3SinkTask, props, {PLACE: texts(30)})
    client = worker.task._bucket.client
    sent, failing = [], {"left": 12}

    def refuse(params: dict[str, Any], **_: Any) -> None:
        sent.append(params["Key"])
        if failing["left"]:
            failing["left"] -= 1
            raise ConnectionRefusedError("nobody is there")

    client.meta.events.register("before-parameter-build.s3.PutObject", refuse)
    refused = 0
    while worker.committed[PLACE] < 30:
        try:
            worker.task.put([each for each in worker.topic[PLACE] if each.offset >= worker.next[PLACE]])
            worker.next[PLACE] = 30
        except RetriableError:
            refused += 1
        worker.commit()
    assert refused and worker.context.timeouts == [1] * refused
    assert len(s3.objects(bucket)) == 10
    assert len(sent) == 22


def again(first: int, end: int) -> list[SinkRecord]:
    """Return records that a partition has where it had others before, as after an unclean election."""
    return [each.replace(value=f"new {each.offset}") for each in texts(end - first, first=first)]


def columns_of(records: list[SinkRecord]) -> SinkColumns:
    import pyarrow as pa

    return SinkColumns(
        topic=PLACE.topic,
        partition=0,
        values=pa.array([each.value for each in records], pa.string()),
        schema=data.OPTIONAL_STRING,
        offsets=pa.array([each.offset for each in records], pa.int64()),
        timestamps=pa.array([each.timestamp for each in records], pa.int64()),
    )


@pytest.mark.parametrize("by_columns", [False, True])
def test_records_that_come_below_earlier_ones_are_written_as_a_stretch_of_their_own(
    s3: S3Server, by_columns: bool
) -> None:
    bucket = s3.bucket(f"below-{by_columns}".lower())
    worker = Worker(S3SinkTask, properties(s3, bucket, format_class="StringFormat", flush_size="5"), {PLACE: []})

    def put(records: list[SinkRecord]) -> None:
        worker.task.put_columns(columns_of(records)) if by_columns else worker.task.put(records)

    def stored() -> dict[int, list[str]]:
        return {int(key[-14:-4]): body.decode().split() for key, body in s3.objects(bucket).items()}

    def old(first: int, end: int) -> list[str]:
        return " ".join(f'line "{number}"' for number in range(first, end)).split()

    def new(first: int, end: int) -> list[str]:
        return " ".join(f"new {number}" for number in range(first, end)).split()

    put(texts(9))
    assert worker.task.pre_commit({PLACE: 9}) == {PLACE: 5}
    put(again(7, 9))
    assert worker.task.pre_commit({PLACE: 9}) == {PLACE: 7}, "of the new records no object has one yet"
    assert stored() == {0: old(0, 5), 5: old(5, 9)}, "what begins before is kept: its first records do not come again"
    put(again(6, 16))
    assert worker.task.pre_commit({PLACE: 16}) == {PLACE: 16}
    assert stored() == {0: old(0, 5), 5: old(5, 9), 6: new(6, 11), 11: new(11, 16)}
    put(again(2, 4))
    assert worker.task.pre_commit({PLACE: 4}) == {PLACE: 2}, "not what was stored of the stretch before"
    worker.stop()


def test_a_batch_that_is_put_again_is_taken_from_where_it_was_broken_off(s3: S3Server) -> None:
    from ottla.connect import RetriableError

    bucket = s3.bucket("broken-off")
    props = properties(s3, bucket, format_class="StringFormat", flush_size="1", s3_part_retries="0")
    worker = Worker(S3SinkTask, props, {PLACE: []})
    keys, failing = [], [True]

    def refuse(params: dict[str, Any], **_: Any) -> None:
        keys.append(params["Key"])
        if failing[0] and params["Key"].endswith("0003.txt"):
            raise ConnectionRefusedError("nobody is there")

    worker.task._bucket.client.meta.events.register("before-parameter-build.s3.PutObject", refuse)
    records, refused = texts(90), 0
    for number in range(20):
        failing[0] = number < 4
        try:
            worker.task.put(records)
            break
        except RetriableError:
            refused += 1
    assert refused
    assert worker.task.pre_commit({PLACE: 90}) == {PLACE: 90}
    assert len(s3.objects(bucket)) == 90
    assert len([key for key in keys if not key.endswith("0003.txt")]) == 89, "each was sent once"
    worker.stop()


def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    with pytest.raises(ConnectError, match=r"s3\.bucket\.name=nowhere: there is no bucket of that name"):
        Worker(S3SinkTask, properties(s3, "nowhere"), {PLACE: []})


def test_keys_that_need_one_another_are_checked_before_anything_runs() -> None:
    connector = S3SinkConnector()
    lines = dict(line.split("=", 1) for line in CONFLUENT_SINK_FILE.splitlines())

    def errors(**more: str) -> dict[str, list[str]]:
        props = lines | {key.replace("_", "."): value for key, value in more.items()}
        return {name: each.errors for name, each in connector.validate(props).items() if each.errors}

    assert errors() == {}
    assert list(errors(partitioner_class="FieldPartitioner")) == ["partition.field.name"]
    assert list(errors(partitioner_class="TimeBasedPartitioner", timezone="UTC")) == ["partition.duration.ms"]
    assert list(errors(partitioner_class="DailyPartitioner")) == ["timezone"]
    assert list(errors(rotate_schedule_interval_ms="60000")) == ["timezone"]
    assert list(errors(timezone="Atlantis")) == ["timezone"]
    assert list(errors(format_class="XmlFormat")) == ["format.class"]
    assert list(errors(partitioner_class="com.example.Mine")) == ["partitioner.class"]
    assert list(errors(s3_part_size="1")) == ["s3.part.size"]
    assert list(errors(flush_size="0")) == ["flush.size"]
    assert list(errors(behavior_on_null_values="write")) == ["behavior.on.null.values"]
    assert list(errors(aws_access_key_id="only")) == ["aws.secret.access.key"]
    assert list(errors(s3_credentials_provider_class="com.example.Mine")) == ["s3.credentials.provider.class"]
    assert list(errors(path_format="'year'=QQ")) == ["path.format"]


def test_a_missing_library_is_told_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    lines = dict(line.split("=", 1) for line in CONFLUENT_SINK_FILE.splitlines())
    monkeypatch.setitem(sys.modules, "fastavro", None)
    [text] = S3SinkConnector().validate(lines | {"format.class": "AvroFormat"})["format.class"].errors
    assert text == f"AvroFormat needs the Python package fastavro, which is not installed: {bring_extra('connect')}"
    monkeypatch.setitem(sys.modules, "boto3", None)
    [text] = S3SinkConnector().validate(lines)["s3.bucket.name"].errors
    assert "boto3" in text and bring_extra("connect") in text


def test_a_role_is_assumed_where_the_provider_says_so(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.connectors.s3.client import made_client

    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.url)
    props = properties(s3, s3.bucket("with-role"))
    settings = S3SinkConnector.config_def.parse(
        props
        | {
            "s3.credentials.provider.class": "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider",
            "s3.credentials.provider.sts.role.arn": "arn:aws:iam::123456789012:role/writer",
        }
    )
    client = made_client(settings)
    client.put_object(Bucket="with-role", Key="x", Body=b"y")
    used = client._request_signer._credentials.get_frozen_credentials()
    assert used.access_key.startswith("ASIA") and used.token
    worker = Worker(S3SinkTask, props, {PLACE: texts(3)})
    worker.run()
    assert len(s3.keys("with-role")) == 2


def test_encryption_and_access_are_asked_for_with_each_object(s3: S3Server) -> None:
    bucket = s3.bucket("encrypted")
    own = {"s3.ssea.name": "AES256", "s3.acl.canned": "bucket-owner-full-control"}
    Worker(S3SinkTask, properties(s3, bucket) | own, {PLACE: texts(3)}).run()
    [key] = s3.keys(bucket)
    assert s3.client.head_object(Bucket=bucket, Key=key)["ServerSideEncryption"] == "AES256"


@pytest.mark.parametrize("part_size", ["5242880", "26214400"])
def test_objects_are_encrypted_by_a_key_of_kms_and_tagged_with_what_they_hold(s3: S3Server, part_size: str) -> None:
    bucket = s3.bucket(f"tagged-{part_size}")
    key_id = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    own = {"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": key_id, "s3.object.tagging": "true"}
    own |= {"s3.object.tagging.key.value.pairs": "team:data, cost : 7"}
    own |= {"s3.object.behavior.on.tagging.error": "fail"}
    records = [each.replace(value="x" * (1 << 20)) for each in texts(12, first=100)]
    props = properties(s3, bucket, flush_size="12", s3_part_size=part_size, format_class="StringFormat") | own
    Worker(S3SinkTask, props, {PLACE: records}).run()
    [key] = s3.keys(bucket)
    head = s3.client.head_object(Bucket=bucket, Key=key)
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", key_id)
    assert head["ETag"].endswith('-3"') == (part_size == "5242880")
    found = s3.client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    tags = {each["Key"]: each["Value"] for each in found}
    assert tags == {"startOffset": "100", "endOffset": "111", "recordCount": "12", "team": "data", "cost": "7"}


@pytest.mark.parametrize("form", ["JsonFormat", "AvroFormat"])
def test_columns_are_tagged_as_records_are(s3: S3Server, form: str) -> None:
    bucket = s3.bucket(f"tagged-{form.lower()}")
    records = orders(5)
    props = properties(s3, bucket, flush_size="3", format_class=form) | {"s3.object.tagging": "true"}
    Worker(S3SinkTask, props, {PLACE: records}).run()
    tagged = [s3.client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"] for key in s3.keys(bucket)]
    assert [{each["Key"]: each["Value"] for each in one} for one in tagged] == [
        {"startOffset": "0", "endOffset": "2", "recordCount": "3"}
    ]


@pytest.mark.parametrize(("behaviour", "fails"), [("ignore", False), ("fail", True)])
def test_an_object_that_cannot_be_tagged_stays_or_fails_the_task(s3: S3Server, behaviour: str, fails: bool) -> None:
    bucket = s3.bucket(f"untagged-{behaviour}")
    own = {"s3.object.tagging": "true", "s3.object.behavior.on.tagging.error": behaviour}
    own |= {"s3.object.tagging.key.value.pairs": f"{'k' * 200}:too long a name"}
    worker = Worker(S3SinkTask, properties(s3, bucket) | own, {PLACE: texts(3)})
    if fails:
        with pytest.raises(ConnectError, match="Cannot tag"):
            worker.run()
    else:
        worker.run()
        assert worker.committed == {PLACE: 3}
    assert len(s3.keys(bucket)) == 1


@pytest.mark.parametrize("pairs", ["a", ":b", ",".join(f"k{each}:v" for each in range(8))])
def test_tags_that_are_none_are_refused(s3: S3Server, pairs: str) -> None:
    found = S3SinkConnector().validate(properties(s3, "b") | {"s3.object.tagging.key.value.pairs": pairs})
    assert "key:value" in repr(found)


def test_secrets_are_in_no_error_and_no_answer(s3: S3Server) -> None:
    props = properties(s3, "nowhere", format_class="XmlFormat")
    found = S3SinkConnector().validate(props)
    assert "a-secret" not in repr(found)
    assert str(found["aws.secret.access.key"].value) == "[hidden]"
