"""Partitioners, names, rotation, compatibility and formats by plain calls; layout facts are those of Confluent's pages."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from ottla.base import ConfigError
from ottla.connect import ConfigDef, ConnectError, DataError, SinkRecord, Struct, data
from ottla.connectors.storage import (
    AvroFormat,
    Compatibility,
    Names,
    ParquetFormat,
    PathFormat,
    Rotation,
    RotationRules,
    partitioner_of,
    read_avro,
    read_parquet,
    storage_keys,
)
from ottla.connectors.storage.formats import format_name
from ottla.connectors.storage.path_format import truncated_ms, zone_of
from ottla.connectors.storage.projection import ends_file, projected

AT = 1_449_500_400_000 + 25 * 60_000  # 2015-12-07 15:25 UTC
PACKAGE = "io.confluent.connect.storage.partitioner."
S = data.SchemaBuilder


def record(value: Any = "v", *, timestamp: int | None = AT, topic: str = "orders", partition: int = 2) -> SinkRecord:
    return SinkRecord(topic=topic, partition=partition, value=value, offset=7, timestamp=timestamp)


def encoded(one: SinkRecord, name: str, **more: str) -> str:
    props = {"format.class": "JsonFormat", "flush.size": "1", "partitioner.class": name}
    props |= {key.replace("_", "."): value for key, value in more.items()}
    return partitioner_of(storage_keys(ConfigDef()).parse(props), lambda: AT).encode(one)


def test_names_are_those_of_confluents_sink() -> None:
    names = Names()
    key = names.key("my-topic", 0, 0, path="partition=0", ending=".avro")
    assert key == "topics/my-topic/partition=0/my-topic+0+0000000000.avro"
    assert names.key("t", 12, 12_345_678_901, path="", ending=".json.gz") == "topics/t/t+12+12345678901.json.gz"
    assert Names("", "/", "_", 3).key("t", 1, 7, path="partition=1", ending=".bin") == "t/partition=1/t_1_007.bin"


def test_a_name_says_what_it_was_made_of() -> None:
    names = Names("a/b")
    for topic in ("orders", "a.b+c", "x-1"):
        for ending, part in ((".json.gz", ""), (".keys.avro", ".keys"), (".headers.snappy.parquet", ".headers")):
            key = names.key(topic, 3, 42, path="year=2026/month=01", ending=ending)
            found = names.parse(key)
            assert found is not None and (found.topic, found.partition, found.offset) == (topic, 3, 42)
            assert (found.path, found.part, part + found.extension) == ("year=2026/month=01", part, ending)
            moved = names.parse(names.key("all", 3, 42, path="", ending=ending, origin=topic))
            assert moved is not None and (moved.topic, moved.origin, moved.partition) == ("all", topic, 3)
            assert (moved.offset, moved.part, part + moved.extension) == (42, part, ending)
    for other in ("a/b", "a/b/orders", "a/b/orders/x.json", "a/b/orders/orders+x+1.json", "b/orders/orders+1+1.json"):
        assert names.parse(other) is None


def test_partitioners_make_the_directories_of_confluents() -> None:
    assert encoded(record(), PACKAGE + "DefaultPartitioner") == "partition=2"
    by_hour = encoded(record(), PACKAGE + "HourlyPartitioner", timezone="UTC", timestamp_extractor="Record")
    assert by_hour == "year=2015/month=12/day=07/hour=15"
    assert encoded(record(), "DailyPartitioner", timezone="America/Los_Angeles") == "year=2015/month=12/day=07"
    assert encoded(record(), "DailyPartitioner", timezone="+10:00") == "year=2015/month=12/day=08"
    value = {"country": "NO", "kind": {"n": 3, "on": True, "none": None}}
    by_field = encoded(record(value), "FieldPartitioner", partition_field_name="country, kind.n,kind.on,kind.none")
    assert by_field == "country=NO/kind.n=3/kind.on=true/kind.none=null"
    with pytest.raises(DataError, match=r"no field kind\.x"):
        encoded(record(value), "FieldPartitioner", partition_field_name="kind.x")
    with pytest.raises(DataError, match="cannot name a partition"):
        encoded(record({"at": 1.5}), "FieldPartitioner", partition_field_name="at")


def test_time_based_directories_begin_with_their_stretch() -> None:
    shape = {"timezone": "Asia/Kolkata", "timestamp_extractor": "RecordField", "timestamp_field": "a.at"}
    by_time = {"partition_duration_ms": "900000", "path_format": "YYYY-MM-dd/HH-mm", **shape}
    moment = datetime(2015, 12, 7, 15, 25, 59, tzinfo=UTC)
    for at in (AT, float(AT), moment, "2015-12-07T15:25:00Z", "2015-12-07T16:25:00+01:00", "2015-12-07T15:25:00"):
        assert encoded(record({"a": {"at": at}}), "TimeBasedPartitioner", **by_time) == "2015-12-07/20-45"
    for bad in (None, True, "soon", [1]):
        with pytest.raises(DataError, match=r"The field a\.at is no time"):
            encoded(record({"a": {"at": bad}}), "TimeBasedPartitioner", **by_time)
    with pytest.raises(DataError, match="no timestamp"):
        encoded(record(timestamp=None), "HourlyPartitioner", timezone="UTC", timestamp_extractor="Record")
    for missing in ({"timezone": "UTC"}, {"timezone": "UTC", "partition_duration_ms": "1"}):
        with pytest.raises(ConfigError, match="TimeBasedPartitioner needs"):
            encoded(record(), "TimeBasedPartitioner", **missing)


def test_one_partitioner_follows_records_back_and_forth_over_a_change_of_clocks() -> None:
    props = {"format.class": "JsonFormat", "flush.size": "1", "partitioner.class": "HourlyPartitioner"}
    props |= {"timezone": "Europe/Oslo", "timestamp.extractor": "Record"}
    one = partitioner_of(storage_keys(ConfigDef()).parse(props), lambda: 0)
    begin = round(datetime(2026, 10, 24, 23, 30, tzinfo=UTC).timestamp() * 1000)
    times = [begin + step * 600_000 for step in (0, 12, 3, 20, 1, 19, 2, 6, 18)]
    assert [one.encode(record(timestamp=at)) for at in times] == [
        partitioner_of(storage_keys(ConfigDef()).parse(props), lambda: 0).encode(record(timestamp=at)) for at in times
    ]


def test_patterns_have_joda_times_letters() -> None:
    at, zone = round(datetime(2024, 12, 30, 13, 5, 9, 123000, tzinfo=UTC).timestamp() * 1000), zone_of("UTC")
    for pattern, text in {
        "YYYY-MM-dd": "2024-12-30",
        "xxxx-'W'ww-e": "2025-W01-1",
        "yy/MMM/MMMM/EEE/EEEE": "24/Dec/December/Mon/Monday",
        "DDD hh a KK kk HH mm ss SSS": "365 01 PM 01 13 13 05 09 123",
        "'it''s' d/M ''": "it's 30/12 '",
        "Z ZZ z": "+0000 +00:00 UTC",
    }.items():
        assert PathFormat(pattern).format(at, zone) == text
    for pattern, why in (("QQ", "Illegal pattern component: QQ"), ("'open", "not closed")):
        with pytest.raises(ConnectError, match=why):
            PathFormat(pattern)
    with pytest.raises(ConnectError, match="Atlantis is no time zone"):
        zone_of("Atlantis")


def test_stretches_are_counted_in_local_time() -> None:
    day, noon = 86_400_000, round(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)
    assert truncated_ms(noon, day, zone_of("UTC")) == noon - day // 2
    assert truncated_ms(noon, day, zone_of("Asia/Kolkata")) == noon - 17 * 3_600_000 - 1_800_000
    assert truncated_ms(-1, 1000, zone_of("UTC")) == -1000


class Clock:
    now = 10_000

    def __call__(self) -> int:
        return self.now


def test_files_end_after_so_many_records() -> None:
    rotation = Rotation(RotationRules(3), Clock())
    for count in range(3):
        assert not rotation.is_full() and not rotation.ends_before(None, "p")
        rotation.add(None, "p")
        assert rotation.room == 2 - count
    assert rotation.is_full()
    rotation.reset()
    assert not rotation.is_full() and rotation.room == 3


def test_files_end_when_a_record_is_later_than_the_interval_or_of_another_directory() -> None:
    clock = Clock()
    rotation = Rotation(RotationRules(100, interval_ms=1000, wallclock=False), clock)
    assert not rotation.ends_before(5000, "a")
    rotation.add(5000, "a")
    assert not rotation.ends_before(5999, "a") and not rotation.ends_before(1, "a")
    assert rotation.ends_before(6000, "a") and rotation.ends_before(5001, "b")
    clock.now += 10_000
    assert not rotation.is_due(), "the clock has no say over the records' own time"
    by_clock = Rotation(RotationRules(100, interval_ms=1000), clock)
    by_clock.add(clock.now, "a")
    clock.now += 999
    assert not by_clock.is_due()
    clock.now += 1
    assert by_clock.is_due()


def test_files_end_by_schedule_from_midnight_on() -> None:
    clock = Clock()
    rotation = Rotation(RotationRules(100, schedule_ms=60_000, zone=zone_of("UTC")), clock)
    clock.now = 59_000
    assert not rotation.is_due()
    rotation.add(None, "a")
    clock.now = 59_999
    assert not rotation.is_due() and not rotation.ends_before(None, "b")
    clock.now = 60_000
    assert rotation.is_due() and rotation.ends_before(None, "a")
    rotation.reset()
    assert not rotation.is_due(), "there are no files"


def versioned(version: int, *fields: tuple[str, data.Schema]) -> data.Schema:
    builder = S.struct().name("v").version(version)
    for name, schema in fields:
        builder.field(name, schema)
    return builder.build()


def test_compatibility_says_which_schemas_share_a_file() -> None:
    old = versioned(1, ("id", data.INT32))
    new = versioned(2, ("id", data.INT64), ("more", S.string().default("none").build()))
    for kind, newer_ends, older_ends in (
        (Compatibility.NONE, True, True),
        (Compatibility.BACKWARD, True, False),
        (Compatibility.FORWARD, False, True),
        (Compatibility.FULL, True, False),
    ):
        assert (ends_file(kind, old, new), ends_file(kind, new, old)) == (newer_ends, older_ends)
        assert not ends_file(kind, old, old) and not ends_file(kind, None, None)
    with pytest.raises(DataError, match="needs schemas with a version"):
        ends_file(Compatibility.FULL, old, data.STRING)
    assert projected(old, Struct(old, id=7), new).to_dict() == {"id": 7, "more": "none"}
    with pytest.raises(DataError, match="type INT64 cannot be written as INT32"):
        projected(new, Struct(new, id=7), old)
    required = versioned(3, ("id", data.INT32), ("must", data.STRING))
    with pytest.raises(DataError, match="The field must is required"):
        projected(old, Struct(old, id=7), required)


def test_class_names_of_formats_are_known_with_and_without_package() -> None:
    for package in ("", "io.confluent.connect.s3.format.json.", "io.confluent.connect.hdfs.json."):
        assert format_name(package + "JsonFormat") == "Json"
    assert format_name("io.confluent.connect.s3.format.bytearray.ByteArrayFormat") == "ByteArray"
    assert [format_name(each) for each in ("parquet", "Avro", "StringFormat")] == ["Parquet", "Avro", "String"]
    assert [format_name(each) for each in ("", "os.system", "com.example.JsonFormat")] == [None] * 3


INNER = S.struct().field("x", data.INT32).optional().build()
WHOLE = (
    *(("i8", S.int8().build()), ("i16", S.int16().optional().build()), ("i64", data.INT64), ("f32", data.FLOAT32)),
    *(("b", data.OPTIONAL_BYTES), ("ok", data.BOOLEAN), ("at", data.TIMESTAMP_SCHEMA), ("on", data.DATE_SCHEMA)),
    *(("t", data.TIME_SCHEMA), ("price", data.decimal_schema(2)), ("map", S.map(data.STRING, data.INT32).build())),
    *(("pairs", S.map(data.INT32, data.OPTIONAL_STRING).build()), ("list", S.array(data.OPTIONAL_STRING).build())),
    *(("in", INNER), ("again", INNER), ("text", S.string().optional().doc("said").build())),
)


def whole() -> Struct:
    schema = versioned(1, *WHOLE)
    made = Struct(schema, i8=-3, i64=1 << 60, f32=1.5, b=b"\x00\xff", ok=True, text="å😀", list=["q", None])
    made["at"] = datetime(1969, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    made["on"], made["t"], made["price"] = date(2025, 5, 6), time(1, 2, 3, 4000), Decimal("-12.34")
    made["map"], made["pairs"], made["in"] = {"a": 1}, {4: None, 5: "z"}, Struct(INNER, x=9)
    return made


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
def test_avro_keeps_every_type_and_its_schema(codec: str) -> None:
    value, files = whole(), []
    for _ in range(2):
        form, file = AvroFormat({"avro.codec": codec}), io.BytesIO()
        encoder = form.encoder(value.schema, file, "name")
        for _ in range(3):
            encoder.add(form.convert("t", value.schema, value))
        encoder.finish()
        files.append(file.getvalue())
    assert files[0] == files[1], "the same records make the same bytes"
    schema, values = read_avro(io.BytesIO(files[0]))
    assert schema == value.schema
    assert list(values) == [value] * 3


@pytest.mark.parametrize(
    ("entry", "of_array"),
    [
        ({"name": "io.confluent.connect.avro.MapEntry"}, {}),
        ({"name": "Pairs", "connect.internal.type": "MapEntry"}, {}),
        ({"name": "Pairs"}, {"connect.internal.type": "MapEntry"}),
    ],
)
def test_avro_maps_are_known_by_their_entries(entry: dict[str, Any], of_array: dict[str, Any]) -> None:
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}]
    schema = {"type": "array", "items": {"type": "record", "fields": fields, **entry}, **of_array}
    file = io.BytesIO()
    fastavro.writer(file, schema, [[{"key": 1, "value": "one"}]])
    assert list(read_avro(io.BytesIO(file.getvalue()))[1]) == [{1: "one"}]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "brotli", "zstd"])
def test_parquet_keeps_every_type(codec: str) -> None:
    value, file = whole(), io.BytesIO()
    form = ParquetFormat({"parquet.codec": codec})
    encoder = form.encoder(value.schema, file, "name")
    encoder.add(form.convert("t", value.schema, value))
    encoder.finish()
    schema, values = read_parquet(io.BytesIO(file.getvalue()))
    assert [each.to_dict() for each in values] == [value.to_dict()]
    kept = [(each.name, each.schema.type, each.schema.name, each.schema.optional) for each in schema.fields]
    assert kept == [(name, each.type, each.name, each.optional) for name, each in WHOLE]


def test_what_a_format_cannot_write_is_refused_before_it_counts() -> None:
    odd = S.struct().field("my-field", data.STRING).build()
    with pytest.raises(DataError, match=r"does not allow the field name my-field; scrub\.invalid\.names=true"):
        AvroFormat({}).convert("t", odd, Struct(odd, {"my-field": "x"}))
    assert AvroFormat({"scrub.invalid.names": True}).convert("t", odd, Struct(odd, {"my-field": "x"})) == b"\x02x"
    decimals = S.struct().field("d", data.decimal_schema(0)).build()
    with pytest.raises(DataError, match="more than 38 digits"):
        ParquetFormat({}).convert("t", decimals, Struct(decimals, d=Decimal("1" * 39)))
    for form in (AvroFormat({}), ParquetFormat({})):
        with pytest.raises(DataError, match="null used for required"):
            form.convert("t", odd, Struct(odd)) if isinstance(form, ParquetFormat) else form.convert(
                "t", decimals, Struct(decimals)
            )
        with pytest.raises(DataError, match="needs values with a schema"):
            form.convert("t", None, {"a": 1})
