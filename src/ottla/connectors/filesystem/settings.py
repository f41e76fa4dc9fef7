"""What the file-system sink can be configured with: its own plain keys, and those of the HDFS connectors as aliases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import ConfigDef, Importance
from ottla.connectors.filesystem.paths import PartitionBy, spark_pattern

__all__ = ["FORMATS", "Settings", "filesystem_def"]

FORMATS = ("parquet", "json", "orc", "csv", "avro", "text")
CODECS = ("none", "snappy", "gzip", "zstd", "lz4")
OF_CLASS = {"Parquet": "parquet", "Json": "json", "Orc": "orc", "Avro": "avro", "String": "text"}
"""The format that a class named by `format.class` stands for."""
OF_PARTITIONER = {
    "Default": "partition",
    "Field": "field",
    "TimeBased": "time",
    "Hourly": "hour",
    "Daily": "day",
}
BY_DAY = "'year'=YYYY/'month'=MM/'day'=dd"
HOUR_MS = 3_600_000
FIXED = {
    "hour": (BY_DAY + "/'hour'=HH", HOUR_MS),
    "day": (BY_DAY, 24 * HOUR_MS),
    "month": ("'year'=YYYY/'month'=MM", 1),
}
BY = ("partition", "hour", "day", "month", "time", "field", "none")
LOGS_DIR, TOPICS_DIR = "_ottla", "topics"
ROTATE_MS_DEFAULT = 60_000
HADOOP = "hadoop."


def filesystem_def() -> ConfigDef:
    """Return the keys of the sink."""
    return _tuning(_layout(_place(ConfigDef())))


def _place(found: ConfigDef) -> ConfigDef:
    high, medium, text = Importance.HIGH, Importance.MEDIUM, ConfigType.STRING
    group = "Place"
    doc = (
        "The folder to write to, as an address that Spark knows: /data/lake, hdfs://host:8020/lake, s3a://bucket/lake."
    )
    found.define("path", text, None, importance=high, doc=doc, group=group)
    doc = "As path, under the HDFS connector's name; files lie below topics.dir in it."
    found.define("hdfs.url", text, None, importance=high, doc=doc, group=group)
    found.define("store.url", text, None, importance=high, doc=doc, group=group)
    doc = "The folder below the address that holds the topics' folders; none by default with path, else topics."
    found.define("topics.dir", text, None, importance=high, doc=doc, group=group)
    doc = (
        "The folder below the address that holds what the sink remembers; readers pass over a name that begins with an "
        "underscore."
    )
    found.define("logs.dir", text, LOGS_DIR, importance=medium, doc=doc, group=group)
    doc = "Must be false: logging in by Kerberos is the Spark session's part."
    return found.define(
        "hdfs.authentication.kerberos", ConfigType.BOOLEAN, False, importance=medium, doc=doc, group=group
    )


def _layout(found: ConfigDef) -> ConfigDef:
    high, medium, low, text = Importance.HIGH, Importance.MEDIUM, Importance.LOW, ConfigType.STRING
    group = "Files"
    doc = "One of parquet, json, orc, csv, avro (where Spark has the package spark-avro) and text."
    found.define("format", text, None, importance=high, doc=doc, group=group)
    doc = "As format, by the HDFS connectors' class names: ParquetFormat, JsonFormat, OrcFormat, AvroFormat, StringFormat."
    found.define("format.class", text, None, importance=high, doc=doc, group=group)
    doc = "One of none, snappy, gzip, zstd and lz4; snappy by default for Parquet, ORC and Avro, none for others."
    found.define("compression", text, None, importance=medium, doc=doc, group=group)
    found.define("parquet.codec", text, None, importance=low, doc="As compression, for Parquet.", group=group)
    found.define("avro.codec", text, None, importance=low, doc="As compression, for Avro.", group=group)
    doc = "What files are divided by: partition (the topic's), hour, day, month, time (path.format), field, or none."
    found.define("partition.by", text, None, importance=high, doc=doc, group=group)
    doc = (
        "As partition.by, by class names: DefaultPartitioner, FieldPartitioner, TimeBasedPartitioner, Hourly…, Daily…."
    )
    found.define("partitioner.class", text, None, importance=high, doc=doc, group=group)
    doc = "The fields of the value that partition.by=field divides by."
    found.define("partition.field.name", ConfigType.LIST, "", importance=medium, doc=doc, group=group)
    doc = f"The folders of a time for partition.by=time, in Joda-Time's letters, such as {BY_DAY}."
    found.define("path.format", text, "", importance=medium, doc=doc, group=group)
    doc = "The milliseconds that a time's folder covers, for partition.by=time."
    found.define("partition.duration.ms", ConfigType.LONG, -1, importance=medium, doc=doc, group=group)
    found.define("locale", text, "", importance=low, doc="The language of names in path.format: English.", group=group)
    doc = "The time zone of folders, by its name, such as Europe/Oslo."
    found.define("timezone", text, "UTC", importance=medium, doc=doc, group=group)
    doc = "Which time counts: Wallclock (when it is written), Record (the record's) or RecordField (timestamp.field)."
    found.define("timestamp.extractor", text, "Record", importance=medium, doc=doc, group=group)
    doc = "The field of the value with the time: milliseconds since 1970, a timestamp, or ISO 8601 text."
    found.define("timestamp.field", text, "timestamp", importance=medium, doc=doc, group=group)
    doc = "How many digits offsets in file names have at least."
    return found.define("filename.offset.zero.pad.width", ConfigType.INT, 10, importance=low, doc=doc, group=group)


def _tuning(found: ConfigDef) -> ConfigDef:
    high, medium, low = Importance.HIGH, Importance.MEDIUM, Importance.LOW
    group = "Rotation"
    doc = "How many records of a partition a file has; fewer only once rotate.interval.ms is over. Unset: as many as wait."
    found.define("flush.size", ConfigType.INT, None, importance=high, doc=doc, group=group)
    doc = (
        "How long records may wait for others before their file is written, in milliseconds. -1 is for ever where "
        f"flush.size is set, and else {ROTATE_MS_DEFAULT}."
    )
    found.define("rotate.interval.ms", ConfigType.LONG, -1, importance=high, doc=doc, group=group)
    doc = "The same as rotate.interval.ms; the smaller one holds."
    found.define("rotate.schedule.interval.ms", ConfigType.LONG, -1, importance=medium, doc=doc, group=group)
    doc = "About how many records one round of writing takes at most."
    found.define("batch.max.rows", ConfigType.INT, 1_000_000, importance=low, doc=doc, group=group)
    doc = "What a record without a value does: fail, or ignore to leave it out."
    found.define("behavior.on.null.values", ConfigType.STRING, "fail", importance=low, doc=doc, group=group)
    doc = "Whether CSV files begin with the columns' names."
    found.define("csv.header", ConfigType.BOOLEAN, True, importance=low, doc=doc, group=group)
    doc = "Must be false: a table in Hive is made over the folder by Spark or Hive itself."
    return found.define("hive.integration", ConfigType.BOOLEAN, False, importance=low, doc=doc, group=group)


@dataclass(frozen=True, slots=True)
class Settings:
    """A sink's configuration, checked."""

    base: str
    """The address, without a slash at its end."""

    topics: str
    """The folder with the topics' folders."""

    logs: str
    format: str
    codec: str
    by: PartitionBy
    flush_size: int | None
    rotate_ms: int | None
    rows_max: int
    fail_on_null: bool
    pad_width: int
    csv_header: bool
    hadoop: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, props: Mapping[str, Any]) -> Settings:
        """Read a configuration; raises ConfigError, which names the key and what was expected."""
        given = filesystem_def().parse(props)
        _refuse_unsupported(given)
        base, topics = _address(given)
        chosen = _format(given)
        flush, rotate = _rotation(given)
        null = _one_of("behavior.on.null.values", given["behavior.on.null.values"], ("fail", "ignore"))
        return cls(
            base,
            "/".join(each for each in (base, topics) if each),
            f"{base}/{given['logs.dir'].strip('/')}",
            chosen,
            _codec(given, chosen),
            _partition_by(given),
            flush,
            rotate,
            _at_least("batch.max.rows", given["batch.max.rows"], 1),
            null == "fail",
            _at_least("filename.offset.zero.pad.width", given["filename.offset.zero.pad.width"], 0),
            given["csv.header"],
            {key[len(HADOOP) :]: str(value) for key, value in props.items() if key.startswith(HADOOP + "fs.")},
        )


def _refuse_unsupported(given: Mapping[str, Any]) -> None:
    for key, why in (
        (
            "hdfs.authentication.kerberos",
            "log in with the Spark session: spark.kerberos.keytab and spark.kerberos.principal",
        ),
        ("hive.integration", "make a table over the folder with Spark or Hive"),
    ):
        if given[key]:
            raise _invalid(key, True, f"only false is supported; {why}")
    language = given["locale"].replace("_", "-").partition("-")[0].lower()
    if language not in ("", "en"):
        raise _invalid("locale", given["locale"], "names in folders are English: en or en-US is expected")


def _address(given: Mapping[str, Any]) -> tuple[str, str]:
    keys = [key for key in ("path", "hdfs.url", "store.url") if given[key]]
    if len(keys) != 1:
        found = " and ".join(keys) or None
        raise _invalid(
            "path", found, "exactly one of path, hdfs.url and store.url is expected, such as hdfs://host:8020/lake"
        )
    base = given[keys[0]].rstrip("/") or "/"
    if "://" not in base and not base.startswith(("/", "file:")):
        raise _invalid(
            keys[0], base, "an absolute path or an address with a scheme is expected, such as /lake or s3a://b/lake"
        )
    if base.startswith("/"):
        base = f"file://{base}"
    topics = given["topics.dir"]
    if topics is None:
        topics = "" if keys == ["path"] else TOPICS_DIR
    return base, topics.strip("/")


def _format(given: Mapping[str, Any]) -> str:
    if given["format"] and given["format.class"]:
        raise _invalid("format", given["format"], "only one of format and format.class is expected")
    if given["format.class"]:
        simple = given["format.class"].rpartition(".")[2].removesuffix("Format")
        if simple not in OF_CLASS:
            raise _invalid(
                "format.class", given["format.class"], f"one of {', '.join(f'{each}Format' for each in OF_CLASS)}"
            )
        return OF_CLASS[simple]
    return _one_of("format", (given["format"] or "parquet").lower(), FORMATS)


def _codec(given: Mapping[str, Any], chosen: str) -> str:
    key = next((key for key in (f"{chosen}.codec", "compression") if given.get(key)), "compression")
    codec = (given.get(key) or ("snappy" if chosen in ("parquet", "orc", "avro") else "none")).lower()
    codec = {"null": "none", "uncompressed": "none", "zstandard": "zstd"}.get(codec, codec)
    _one_of(key, codec, CODECS)
    if chosen in ("json", "csv", "text") and codec in ("snappy", "lz4", "zstd"):
        raise _invalid(key, codec, f"{chosen} files are written with none or gzip, which every reader knows")
    return codec


def _rotation(given: Mapping[str, Any]) -> tuple[int | None, int | None]:
    flush = given["flush.size"]
    if flush is not None:
        _at_least("flush.size", flush, 1)
    waits = [given[key] for key in ("rotate.interval.ms", "rotate.schedule.interval.ms") if given[key] > 0]
    if waits:
        return flush, min(waits)
    return flush, None if flush is not None else ROTATE_MS_DEFAULT


def _partition_by(given: Mapping[str, Any]) -> PartitionBy:
    by, key = given["partition.by"], "partition.by"
    if by and given["partitioner.class"]:
        raise _invalid("partition.by", by, "only one of partition.by and partitioner.class is expected")
    if given["partitioner.class"]:
        key = "partitioner.class"
        simple = given[key].rpartition(".")[2].removesuffix("Partitioner")
        if simple not in OF_PARTITIONER:
            names = ", ".join(f"{each}Partitioner" for each in OF_PARTITIONER)
            raise _invalid(key, given[key], f"one of {names} is expected")
        by = OF_PARTITIONER[simple]
    by = _one_of("partition.by", (by or "partition").lower(), BY)
    if by in ("partition", "none"):
        return PartitionBy(by)
    if by == "field":
        fields = given["partition.field.name"]
        if not fields:
            raise _invalid("partition.field.name", "", f"the names of one field or more are expected with {key}")
        return PartitionBy(by, fields=tuple(fields))
    pattern, duration = FIXED.get(by) or (given["path.format"], given["partition.duration.ms"])
    if not pattern.strip("/"):
        raise _invalid("path.format", pattern, f"folders for a time are expected with {key}, such as {BY_DAY}")
    patterns = tuple(spark_pattern(each) for each in pattern.strip("/").split("/"))
    if duration <= 0:
        raise _invalid(
            "partition.duration.ms", duration, f"a number of milliseconds is expected with {key}, such as {HOUR_MS}"
        )
    extractor = given["timestamp.extractor"].rpartition(".")[2].removesuffix("TimestampExtractor").removesuffix("$")
    _one_of("timestamp.extractor", extractor, ("Wallclock", "Record", "RecordField"))
    return PartitionBy(
        "time",
        patterns=patterns,
        duration_ms=duration,
        zone=_zone(given["timezone"]),
        extractor=extractor,
        time_field=given["timestamp.field"],
    )


def _zone(name: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name or "UTC").key
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise _invalid("timezone", name, "the name of a time zone is expected, such as UTC or Europe/Oslo") from error


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise _invalid(key, value, f"one of {', '.join(allowed)} is expected")
    return value


def _at_least(key: str, value: int, least: int) -> int:
    if value < least:
        raise _invalid(key, value, f"a number of at least {least} is expected")
    return value


def _invalid(key: str, value: Any, why: str) -> ConfigError:
    return ConfigError(key, value, why, f"Invalid value {value} for configuration {key}: {why}")
