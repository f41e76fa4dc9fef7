"""The JDBC sink's keys: Confluent's names, so that existing configurations run."""

from __future__ import annotations

from typing import Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import REQUIRED, ConfigDef, Importance, Width, validators
from ottla.connectors.jdbc.keys import Key, adder, connection_keys

__all__ = ["INSERT_MODES", "PK_MODES", "sink_def"]

INSERT_MODES = ("insert", "upsert", "update")
PK_MODES = ("none", "kafka", "record_key", "record_value")


def sink_def() -> ConfigDef:
    """Return the sink's keys."""
    found = ConfigDef()
    connection_keys(found, REQUIRED)
    _writes(found)
    _mapping(found)
    _tables(found)
    return found


def _writes(found: ConfigDef) -> None:
    add = adder(found, "Writes")
    add(
        "insert.mode",
        ConfigType.STRING,
        "insert",
        "insert: each record is a new row. upsert: a row of the same key is changed, so writing twice does no harm. "
        "update: rows that are there are changed.",
        title="Insert mode",
        importance=Importance.HIGH,
        validator=validators.CaseInsensitiveValidString(*INSERT_MODES),
    )
    add(
        "batch.size",
        ConfigType.INT,
        3000,
        "How many records one statement writes at most. What one delivery brings is one transaction for each table.",
        title="Batch size",
        validator=validators.Range(least=0),
    )
    add(
        "delete.enabled",
        ConfigType.BOOLEAN,
        False,
        "Whether a record without a value deletes the row of its key; needs pk.mode=record_key.",
        title="Enable deletes",
    )
    add(
        "max.retries",
        ConfigType.INT,
        10,
        "How often a failed batch is tried again before the task fails.",
        title="Maximum retries",
        validator=validators.Range(least=0),
    )
    add(
        "retry.backoff.ms",
        ConfigType.INT,
        3000,
        "How long to wait before a failed batch is tried again, in milliseconds.",
        title="Retry backoff (millis)",
        validator=validators.Range(least=0),
    )


def _mapping(found: ConfigDef) -> None:
    add = adder(found, "Data Mapping")
    add(
        "table.name.format",
        ConfigType.STRING,
        "${topic}",
        "The table that a topic's records go to; ${topic} stands for the topic, and a dot parts a schema from the table.",
        title="Table name format",
        width=Width.LONG,
        validator=validators.Lambda(_not_empty, "a name, with ${topic} in it"),
    )
    add(
        "table.types",
        ConfigType.LIST,
        "TABLE",
        "What may be written to: TABLE, VIEW, or both.",
        title="Table types",
        importance=Importance.LOW,
    )
    add(
        "pk.mode",
        ConfigType.STRING,
        "none",
        "Where the primary key comes from: none, kafka (topic, partition and offset), record_key, record_value.",
        title="Primary key mode",
        importance=Importance.HIGH,
        validator=validators.CaseInsensitiveValidString(*PK_MODES),
    )
    add(
        "pk.fields",
        ConfigType.LIST,
        "",
        "The primary key's columns. kafka: three names, or __connect_topic, __connect_partition, __connect_offset. "
        "record_key: the fields of a struct, or the one name for a plain key. record_value: fields of the value. Nothing "
        "stands for every field.",
        title="Primary key fields",
        width=Width.LONG,
    )
    add(
        "fields.whitelist",
        ConfigType.LIST,
        "",
        "The value's fields that are written, beside the primary key; all where nothing is given.",
        title="Fields whitelist",
        width=Width.LONG,
    )
    _values(add)


def _values(add: Key) -> None:
    add(
        "date.timezone",
        ConfigType.STRING,
        "DB_TIMEZONE",
        "The time zone of which a timestamp's day is taken where it goes into a column of dates: DB_TIMEZONE or UTC.",
        title="Date time zone",
        validator=validators.CaseInsensitiveValidString("DB_TIMEZONE", "UTC"),
    )
    add(
        "timestamp.precision.mode",
        ConfigType.STRING,
        "microseconds",
        "The unit of numbers in timestamp.fields.list: microseconds or nanoseconds since 1970.",
        title="Timestamp precision mode",
        importance=Importance.LOW,
        validator=validators.CaseInsensitiveValidString("microseconds", "nanoseconds"),
    )
    add(
        "timestamp.fields.list",
        ConfigType.LIST,
        "",
        "Fields of 64-bit numbers that are times, in the unit of timestamp.precision.mode.",
        title="Timestamp fields",
        importance=Importance.LOW,
    )
    add(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        "Whether a field that is null is written as its schema's default, where it has one.",
        title="Replace null with default",
        importance=Importance.LOW,
    )


def _tables(found: ConfigDef) -> None:
    add = adder(found, "DDL Support")
    add("auto.create", ConfigType.BOOLEAN, False, "Whether a table that is missing is created.", title="Auto-create")
    doc = "Whether columns that a table lacks are added to it."
    add("auto.evolve", ConfigType.BOOLEAN, False, doc, title="Auto-evolve")


def _not_empty(name: str, value: Any) -> None:
    if not (value or "").strip():
        raise ConfigError(name, value, "a table's name, in which ${topic} stands for the topic")
