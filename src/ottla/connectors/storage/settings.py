"""The keys that every connector has which writes topics to files of a store: format, rotation, names, partitioner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import REQUIRED, ConfigDef, ConnectError, Importance, Width, validators
from ottla.connectors.storage.avro import AvroFormat
from ottla.connectors.storage.formats import BytesFormat, FileFormat, JsonFormat, checked_format, format_name
from ottla.connectors.storage.names import Names
from ottla.connectors.storage.parquet import ENDINGS, ParquetFormat
from ottla.connectors.storage.partitioners import PARTITIONERS, partitioner_name, partitioner_of
from ottla.connectors.storage.path_format import PathFormat, zone_of
from ottla.connectors.storage.projection import Compatibility
from ottla.connectors.storage.rotation import RotationRules
from ottla.connectors.storage.timestamps import extractor_of, needs_record
from ottla.connectors.storage.topic_writer import WriterPlan

__all__ = ["Key", "define", "file_format", "format_rule", "names_of", "storage_keys", "writer_plan"]

_LONG_MAX = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1
AVRO_CODECS = ("null", "deflate", "snappy", "bzip2")
PACKAGE = "io.confluent.connect.s3.format."
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


class Key(NamedTuple):
    """One key of a definition."""

    name: str
    type: ConfigType
    default: Any
    importance: Importance
    doc: str
    rule: validators.Validator | None = None


def define(definition: ConfigDef, group: str, keys: tuple[Key, ...]) -> None:
    """Add keys to a definition, in their order."""
    for place, key in enumerate(keys):
        definition.define(
            key.name,
            key.type,
            key.default,
            importance=key.importance,
            doc=key.doc,
            validator=key.rule,
            group=group,
            order=place,
            width=Width.MEDIUM,
        )


class Sensible:
    """A rule of a text that may be empty: what a function raises of it as ConnectError is what is wrong with the key."""

    def __init__(self, check: Callable[[str], object], text: str) -> None:
        self._check, self._text = check, text

    def __call__(self, name: str, value: Any) -> None:
        if not value:
            return
        try:
            self._check(value)
        except ConnectError as error:
            raise ConfigError(name, value, str(error)) from error

    def __str__(self) -> str:
        return self._text


def _partitioner_rule(name: str, value: Any) -> None:
    if value is None or partitioner_name(value) is None:
        raise ConfigError(name, value, "expected one of " + ", ".join(PARTITIONERS))


def _interval(name: str, value: Any) -> None:
    if value is None or not (value == -1 or 0 < value <= _LONG_MAX):
        raise ConfigError(name, value, "expected -1 for none, or at least 1 ms")


format_rule = validators.Lambda(checked_format, "a format's class")
_INTERVAL = validators.Lambda(_interval, "-1 or at least 1")
_ZONE = Sensible(zone_of, "a time zone")
_EXTRACTOR = Sensible(lambda text: extractor_of(text, "", lambda: 0), "[Wallclock, Record, RecordField]")

_FORMATS = (
    Key("format.class", ConfigType.CLASS, REQUIRED, HIGH, "The format of the files.", format_rule),
    Key(
        "flush.size",
        ConfigType.INT,
        REQUIRED,
        HIGH,
        "How many records of a topic partition are written before its files are ended.",
        validators.Range(1, _INT_MAX),
    ),
    Key(
        "rotate.interval.ms",
        ConfigType.LONG,
        -1,
        HIGH,
        "After how much time, by the records' timestamps as timestamp.extractor has them, files are ended; -1 for never. A "
        "record of another directory then ends them too.",
        _INTERVAL,
    ),
    Key(
        "rotate.schedule.interval.ms",
        ConfigType.LONG,
        -1,
        MEDIUM,
        "After how much time by the clock, counted from midnight in `timezone`, files are ended; -1 for never. Where files "
        "end then depends on the clock, so that records may be there twice after a failure.",
        _INTERVAL,
    ),
    Key(
        "schema.compatibility",
        ConfigType.STRING,
        "NONE",
        HIGH,
        "Which other schemas a file may have records of, which are then projected to the file's: NONE, BACKWARD (older "
        "versions), FORWARD (newer versions) or FULL.",
        validators.ValidString(*(each.value for each in Compatibility)),
    ),
    Key(
        "avro.codec",
        ConfigType.STRING,
        "null",
        LOW,
        "How blocks of Avro files are compressed.",
        validators.ValidString(*AVRO_CODECS),
    ),
    Key(
        "parquet.codec",
        ConfigType.STRING,
        "snappy",
        LOW,
        "How columns of Parquet files are compressed.",
        validators.ValidString(*ENDINGS),
    ),
    Key("connect.meta.data", ConfigType.BOOLEAN, True, LOW, "Whether Avro schemas say what Connect's schemas were."),
    Key(
        "scrub.invalid.names",
        ConfigType.BOOLEAN,
        False,
        LOW,
        "Whether signs that Avro does not allow in names become underscores; without it such records are errors.",
    ),
    Key("format.bytearray.extension", ConfigType.STRING, ".bin", LOW, "The extension of files of ByteArrayFormat."),
    Key(
        "format.bytearray.separator",
        ConfigType.STRING,
        None,
        LOW,
        "What stands behind each record of ByteArrayFormat and StringFormat; the line feed if not set.",
    ),
    Key(
        "json.decimal.format",
        ConfigType.STRING,
        "BASE64",
        LOW,
        "How decimals stand in JSON.",
        validators.CaseInsensitiveValidString("BASE64", "NUMERIC"),
    ),
    Key(
        "store.kafka.keys",
        ConfigType.BOOLEAN,
        False,
        LOW,
        "Whether keys are written, to files of their own beside those of the values.",
    ),
    Key(
        "keys.format.class",
        ConfigType.CLASS,
        PACKAGE + "avro.AvroFormat",
        LOW,
        "The format of the files of keys.",
        format_rule,
    ),
    Key(
        "store.kafka.headers",
        ConfigType.BOOLEAN,
        False,
        LOW,
        "Whether headers are written, to files of their own beside those of the values.",
    ),
    Key(
        "headers.format.class",
        ConfigType.CLASS,
        PACKAGE + "avro.AvroFormat",
        LOW,
        "The format of the files of headers: JSON, Avro or Parquet.",
        format_rule,
    ),
    Key(
        "behavior.on.null.values",
        ConfigType.STRING,
        "fail",
        LOW,
        "What is done with records whose value is null: fail, ignore, or write (their keys, in a directory of their own).",
        validators.CaseInsensitiveValidString("fail", "ignore", "write"),
    ),
    Key(
        "tombstone.encoded.partition",
        ConfigType.STRING,
        "tombstone",
        LOW,
        "The directory of keys without a value.",
        validators.NonEmptyString(),
    ),
    Key(
        "filename.offset.zero.pad.width",
        ConfigType.INT,
        10,
        LOW,
        "How many digits offsets have in names, with zeros in front.",
        validators.Range(0, 100),
    ),
    Key(
        "retry.backoff.ms",
        ConfigType.LONG,
        5000,
        LOW,
        "How long to wait before records are tried again that the store did not take.",
        validators.Range(0, _LONG_MAX),
    ),
)
_STORAGE = (
    Key("topics.dir", ConfigType.STRING, "topics", HIGH, "The directory above the topics' directories."),
    Key("directory.delim", ConfigType.STRING, "/", MEDIUM, "What stands between directories in names."),
    Key("file.delim", ConfigType.STRING, "+", MEDIUM, "What stands between topic, partition and offset in names."),
)
_PARTITIONER = (
    Key(
        "partitioner.class",
        ConfigType.CLASS,
        PARTITIONERS[0],
        HIGH,
        "What divides the records of a topic among directories.",
        validators.Lambda(_partitioner_rule, "a partitioner's class"),
    ),
    Key(
        "partition.field.name",
        ConfigType.LIST,
        [],
        MEDIUM,
        "The fields whose values FieldPartitioner makes directories of; a point leads to a field of a field.",
    ),
    Key(
        "partition.duration.ms",
        ConfigType.LONG,
        -1,
        MEDIUM,
        "How long a directory of TimeBasedPartitioner lasts.",
        _INTERVAL,
    ),
    Key(
        "path.format",
        ConfigType.STRING,
        "",
        MEDIUM,
        "The directories of TimeBasedPartitioner, as a pattern: 'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH.",
        Sensible(PathFormat, "a pattern of Joda-Time"),
    ),
    Key("locale", ConfigType.STRING, "", MEDIUM, "Accepted for existing configurations: names of months are English."),
    Key("timezone", ConfigType.STRING, "", MEDIUM, "The time zone of directories and schedules, such as UTC.", _ZONE),
    Key(
        "timestamp.extractor",
        ConfigType.STRING,
        "Wallclock",
        MEDIUM,
        "Which time a record has: Wallclock, Record (its timestamp) or RecordField (a field of its value).",
        _EXTRACTOR,
    ),
    Key(
        "timestamp.field",
        ConfigType.STRING,
        "timestamp",
        MEDIUM,
        "The field that RecordField reads: milliseconds, a logical type or ISO 8601 text.",
    ),
)


def storage_keys(definition: ConfigDef) -> ConfigDef:
    """Add the keys to a definition and return it."""
    define(definition, "Connector", _FORMATS)
    define(definition, "Storage", _STORAGE)
    define(definition, "Partitioner", _PARTITIONER)
    return definition


def file_format(text: str, settings: Mapping[str, Any]) -> FileFormat:
    """Return the format of a class name that was checked; raises ConnectError where its library is not installed."""
    match format_name(text):
        case "Avro":
            return AvroFormat(settings)
        case "Parquet":
            return ParquetFormat(settings)
        case "ByteArray":
            return BytesFormat(settings)
        case "String":
            return BytesFormat(settings, text=True)
    return JsonFormat(settings)


def names_of(settings: Mapping[str, Any]) -> Names:
    """Return how names are made under these settings."""
    delimiter = settings["directory.delim"]
    return Names(
        settings["topics.dir"].strip(delimiter),
        delimiter,
        settings["file.delim"],
        settings.get("filename.offset.zero.pad.width", 10),
    )


def writer_plan(settings: Mapping[str, Any], now_ms: Callable[[], int]) -> WriterPlan:
    """Return how records become files; raises ConfigError for keys that do not go together, ConnectError for a library."""
    if settings["rotate.schedule.interval.ms"] > 0 and not settings["timezone"]:
        why = "rotate.schedule.interval.ms needs a time zone, such as UTC or Europe/Oslo"
        raise ConfigError("timezone", "", why)
    headers = settings["headers.format.class"]
    if settings["store.kafka.headers"] and format_name(headers) not in ("Json", "Avro", "Parquet"):
        raise ConfigError("headers.format.class", headers, "headers are written as JSON, Avro or Parquet")
    on_null = settings["behavior.on.null.values"].lower()
    if on_null == "write" and not settings["store.kafka.keys"]:
        why = "to write records without a value, store.kafka.keys=true is needed: nothing else is there of them"
        raise ConfigError("behavior.on.null.values", "write", why)
    extractor = settings["timestamp.extractor"]
    keys = file_format(settings["keys.format.class"], settings) if settings["store.kafka.keys"] else None
    return WriterPlan(
        names=names_of(settings),
        partitioner=partitioner_of(settings, now_ms),
        timestamp_of=extractor_of(extractor, settings["timestamp.field"], now_ms),
        rules=RotationRules(
            settings["flush.size"],
            settings["rotate.interval.ms"],
            settings["rotate.schedule.interval.ms"],
            zone_of(settings["timezone"] or "UTC"),
            not needs_record(extractor),
        ),
        compatibility=Compatibility(settings["schema.compatibility"]),
        value=file_format(settings["format.class"], settings),
        keys=keys,
        headers=file_format(headers, settings) if settings["store.kafka.headers"] else None,
        on_null=on_null,
        tombstone_path=settings["tombstone.encoded.partition"],
    )
