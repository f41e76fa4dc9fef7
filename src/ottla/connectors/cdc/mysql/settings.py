"""The keys of the MySQL and MariaDB connectors under Debezium's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.config import ConfigType
from ottla.connect import ConfigDef
from ottla.connectors.cdc.mysql.kinds import SqlKinds
from ottla.connectors.cdc.settings import CHOICES, KEYS, Choice, Key, definition

__all__ = ["BINLOG_DEF", "sql_kinds"]

_STR, _INT, _LONG, _BOOL = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN
SNAPSHOT_MODES: Final = (
    *("initial", "always", "initial_only", "no_data", "schema_only", "never", "when_needed"),
    *("recovery", "schema_only_recovery"),
)
_SHARED: Final = (
    *("database.hostname", "database.user", "database.password", "database.initial.statements", "topic.prefix"),
    *("table.include.list", "table.exclude.list", "column.include.list", "column.exclude.list", "skipped.operations"),
    *("message.key.columns", "tombstones.on.delete", "extended.headers.enabled", "snapshot.fetch.size"),
    *("snapshot.delay.ms", "snapshot.include.collection.list", "max.batch.size", "poll.interval.ms"),
    *("heartbeat.interval.ms", "heartbeat.topics.prefix", "heartbeat.action.query", "provide.transaction.metadata"),
    *("topic.delimiter", "signal.data.collection", "signal.enabled.channels", "signal.kafka.topic", "signal.file"),
    *("signal.kafka.bootstrap.servers", "signal.kafka.groupId", "signal.poll.interval.ms"),
    *("notification.enabled.channels", "notification.sink.topic.name", "incremental.snapshot.chunk.size", "read.only"),
)
_SHARED_CHOICES: Final = (
    *("decimal.handling.mode", "binary.handling.mode", "schema.name.adjustment.mode", "field.name.adjustment.mode"),
    "incremental.snapshot.watermarking.strategy",
)
_H: Final = "schema.history.internal"
_OWN: Final[Sequence[Key]] = (
    ("database.port", _INT, 3306, "The server's port."),
    (
        "database.server.id",
        _LONG,
        0,
        "The id under which the connector reads the binlog, its alone; 0 is one by chance.",
    ),
    (
        "database.ssl.mode",
        _STR,
        "preferred",
        "preferred (TLS where it is, unchecked), disabled, required, verify-ca, verify-full (verify_ca, verify_identity).",
    ),
    ("database.ssl.ca", _STR, None, "The authorities that are trusted, as PEM."),
    ("database.ssl.cert", _STR, None, "The client's certificate, as PEM."),
    ("database.ssl.key", _STR, None, "Its key, as PEM."),
    (
        "gtid.source.includes",
        _STR,
        None,
        "Regular expressions of sources of transactions, UUIDs or MariaDB's domain-server, between commas, that are read.",
    ),
    ("gtid.source.excludes", _STR, None, "The same of sources that are left out."),
    (
        "gtid.source.filter.dml.events",
        _BOOL,
        True,
        "Whether rows of other sources are left out; else they matter only where a server begins to be read.",
    ),
    ("connect.timeout.ms", _INT, 30_000, "How long connecting may take."),
    ("database.include.list", _STR, None, "Regular expressions of databases that are captured, between commas."),
    ("database.exclude.list", _STR, None, "Regular expressions of databases that are left out, between commas."),
    ("snapshot.lock.timeout.ms", _LONG, 10_000, "How long a snapshot waits for the lock with which it begins."),
    (
        "include.schema.changes",
        _BOOL,
        True,
        "Whether statements about tables are told in the topic of the prefix' name.",
    ),
    (
        "include.query",
        _BOOL,
        False,
        "Whether records carry the statement that has made them, where the server tells it.",
    ),
    (f"{_H}", _STR, "io.debezium.storage.kafka.history.KafkaSchemaHistory", "Where the tables' history is kept."),
    (f"{_H}.kafka.topic", _STR, None, "The topic of the tables' history, of one partition and kept for ever."),
    (f"{_H}.kafka.bootstrap.servers", _STR, None, "The brokers that have it."),
    (f"{_H}.kafka.query.timeout.ms", _INT, 30_000, "How long the brokers may take to answer."),
    (f"{_H}.file.filename", _STR, None, "The file of the tables' history, where it is kept in one."),
    (f"{_H}.store.only.captured.tables.ddl", _BOOL, False, "Whether only captured tables' history is kept."),
    (f"{_H}.store.only.captured.databases.ddl", _BOOL, False, "Whether only captured databases' history is kept."),
    (f"{_H}.skip.unparseable.ddl", _BOOL, False, "Whether statements that are not understood are passed over."),
)
_OWN_CHOICES: Final[Mapping[str, Choice]] = {
    "snapshot.mode": ("initial", SNAPSHOT_MODES, "When the tables are read whole."),
    "snapshot.locking.mode": (
        "minimal",
        ("minimal", "none"),
        "Whether writers wait for the moment at which a snapshot begins.",
    ),
    "time.precision.mode": (
        "adaptive_time_microseconds",
        ("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"),
        "How dates and times are written.",
    ),
    "bigint.unsigned.handling.mode": ("long", ("long", "precise"), "How BIGINT UNSIGNED is written."),
    "event.processing.failure.handling.mode": (
        "fail",
        ("fail", "warn", "skip"),
        "What becomes of changes that the binlog has as statements, and not as rows.",
    ),
}


def _binlog_def() -> ConfigDef:
    shared = [each for each in KEYS if each[0] in _SHARED]
    choices = {name: CHOICES[name] for name in _SHARED_CHOICES}
    return definition([*shared, *_OWN], {**choices, **_OWN_CHOICES})


BINLOG_DEF: Final = _binlog_def()


def sql_kinds(settings: Mapping[str, Any]) -> SqlKinds:
    """Return what says how values are written."""
    return SqlKinds(
        settings["decimal.handling.mode"],
        settings["time.precision.mode"],
        settings["binary.handling.mode"],
        settings["bigint.unsigned.handling.mode"],
    )
