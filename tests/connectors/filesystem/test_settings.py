"""The sink's keys: its own, those of the HDFS connectors, and what is said about wrong ones."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.connect import discover
from ottla.connectors import CONNECTORS
from ottla.connectors.filesystem import FilesystemSinkConnector
from ottla.connectors.filesystem.paths import spark_pattern
from ottla.connectors.filesystem.settings import Settings

HDFS = {
    "connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector",
    "hdfs.url": "hdfs://localhost:9000",
    "flush.size": "3",
    "format.class": "io.confluent.connect.hdfs.parquet.ParquetFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "partition.duration.ms": "3600000",
    "locale": "en-US",
    "timezone": "Europe/Oslo",
    "timestamp.extractor": "RecordField",
    "timestamp.field": "at",
    "rotate.interval.ms": "60000",
    "topics.dir": "lake",
    "schema.compatibility": "BACKWARD",
}


def test_a_configuration_of_the_hdfs_connector_is_read_as_it_stands() -> None:
    settings = Settings.of(HDFS)
    assert (settings.base, settings.topics) == ("hdfs://localhost:9000", "hdfs://localhost:9000/lake")
    assert (settings.format, settings.codec, settings.flush_size, settings.rotate_ms) == (
        "parquet",
        "snappy",
        3,
        60_000,
    )
    assert settings.by.patterns == ("'year='yyyy", "'month='MM", "'day='dd", "'hour='HH")
    assert (settings.by.zone, settings.by.extractor, settings.by.time_field) == ("Europe/Oslo", "RecordField", "at")


@pytest.mark.parametrize("name", [HDFS["connector.class"], "io.confluent.connect.hdfs3.Hdfs3SinkConnector", "HdfsSink"])
def test_the_class_names_of_the_hdfs_connectors_are_ours(name: str) -> None:
    assert discover([], more=CONNECTORS).connector(name).cls is FilesystemSinkConnector


def test_plain_keys_are_enough() -> None:
    settings = Settings.of({"path": "/lake", "partition.by": "hour"})
    assert (settings.base, settings.topics, settings.logs) == ("file:///lake", "file:///lake", "file:///lake/_ottla")
    assert (settings.format, settings.rotate_ms, settings.flush_size) == ("parquet", 60_000, None)
    assert settings.by.patterns == ("'year='yyyy", "'month='MM", "'day='dd", "'hour='HH")


def test_hadoop_settings_are_handed_on() -> None:
    assert Settings.of({"path": "s3a://b", "hadoop.fs.s3a.endpoint": "http://x"}).hadoop == {
        "fs.s3a.endpoint": "http://x"
    }


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ({}, "path", "exactly one of path, hdfs.url and store.url"),
        ({"path": "/a", "hdfs.url": "hdfs://b"}, "path", "exactly one of"),
        ({"path": "lake"}, "path", "an absolute path"),
        ({"path": "/a", "format": "xml"}, "format", "parquet, json, orc, csv, avro, text"),
        ({"path": "/a", "format.class": "x.XmlFormat"}, "format.class", "ParquetFormat"),
        ({"path": "/a", "format": "json", "compression": "snappy"}, "compression", "none or gzip"),
        ({"path": "/a", "compression": "rar"}, "compression", "none, snappy, gzip, zstd, lz4"),
        ({"path": "/a", "partition.by": "moon"}, "partition.by", "partition, hour, day"),
        ({"path": "/a", "partition.by": "field"}, "partition.field.name", "one field or more"),
        ({"path": "/a", "partition.by": "time"}, "path.format", "'year'=YYYY"),
        ({"path": "/a", "partition.by": "time", "path.format": "YYYY"}, "partition.duration.ms", "3600000"),
        ({"path": "/a", "partition.by": "time", "path.format": "Q"}, "path.format", "letter Q"),
        ({"path": "/a", "partition.by": "time", "path.format": "'Q"}, "path.format", "quote"),
        ({"path": "/a", "partition.by": "day", "timezone": "Mars"}, "timezone", "Europe/Oslo"),
        ({"path": "/a", "partition.by": "day", "timestamp.extractor": "x.Mine"}, "timestamp.extractor", "Wallclock"),
        ({"path": "/a", "flush.size": "0"}, "flush.size", "at least 1"),
        ({"path": "/a", "locale": "fr"}, "locale", "en"),
        ({"path": "/a", "hive.integration": "true"}, "hive.integration", "only false"),
        ({"path": "/a", "hdfs.authentication.kerberos": "true"}, "hdfs.authentication.kerberos", "spark.kerberos"),
        ({"path": "/a", "behavior.on.null.values": "write"}, "behavior.on.null.values", "fail, ignore"),
    ],
)
def test_a_wrong_value_is_refused_by_key_with_what_was_expected(given: dict[str, str], key: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.of(given)
    assert refused.value.key == key
    assert expected in str(refused.value)
    found = FilesystemSinkConnector().validate(dict(given))
    if key in found:
        assert any(expected in each for each in found[key].errors)


@pytest.mark.parametrize(
    ("joda", "spark"),
    [
        ("YYYY-MM-dd", "yyyy'-'MM'-'dd"),
        ("'dt'=YYYYMMdd", "'dt='yyyyMMdd"),
        ("h 'o''clock'", "h' o''clock'"),
        ("''", "''''"),
    ],
)
def test_letters_of_path_format_are_joda_times(joda: str, spark: str) -> None:
    assert spark_pattern(joda) == spark
