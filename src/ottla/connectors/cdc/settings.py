"""The connector's keys under Debezium's names, and what they choose: tables, columns, names of topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.config import ConfigType
from ottla.connect import REQUIRED, ConfigDef, Importance, JavaPattern, compile_java, validators
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.column_kinds import KindSettings

__all__ = [
    "CHOICES",
    "KEYS",
    "POSTGRES_DEF",
    "Choice",
    "Key",
    "Selection",
    "definition",
    "key_columns",
    "keys_without_effect",
    "kind_settings",
    "parts",
    "topic_name",
]

_STR, _INT, _LONG, _BOOL, _LIST = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.BOOLEAN,
    ConfigType.LIST,
)
SNAPSHOT_MODES: Final = ("initial", "always", "initial_only", "no_data", "never", "when_needed")
CHOICES: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "plugin.name": ("decoderbufs", ("pgoutput",), "The output plugin; pgoutput is the one that is read here."),
    "publication.autocreate.mode": (
        "all_tables",
        ("all_tables", "disabled", "filtered", "no_tables"),
        "Whether a publication that is not there is made, and for which tables.",
    ),
    "lsn.flush.mode": (
        "connector",
        ("connector", "manual", "connector_and_driver"),
        "Who tells the server what it may remove: the connector once offsets are stored, nobody, or the connector "
        "also where nothing of its tables has changed.",
    ),
    "decimal.handling.mode": ("precise", ("precise", "string", "double"), "How numeric and money are written."),
    "time.precision.mode": (
        "adaptive",
        ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"),
        "How dates and times are written.",
    ),
    "interval.handling.mode": ("numeric", ("numeric", "string"), "How intervals are written."),
    "hstore.handling.mode": ("json", ("json", "map"), "How hstore is written."),
    "binary.handling.mode": ("bytes", ("bytes", "base64", "base64-url-safe", "hex"), "How bytea is written."),
    "schema.name.adjustment.mode": ("none", ("none", "avro", "avro_unicode"), "How schemas' names are made fit."),
    "field.name.adjustment.mode": ("none", ("none", "avro", "avro_unicode"), "How fields' names are made fit."),
    "snapshot.mode": ("initial", SNAPSHOT_MODES, "When the tables are read whole."),
    "incremental.snapshot.watermarking.strategy": (
        "insert_insert",
        ("insert_insert", "insert_delete"),
        "How a chunk's marks are written: two rows, or one that is deleted again.",
    ),
    "snapshot.isolation.mode": (
        "serializable",
        ("serializable", "repeatable_read"),
        "The isolation of the snapshot's transaction; serializable is read as repeatable_read, which sees the same rows.",
    ),
}
KEYS: Final[Sequence[tuple[str, ConfigType, Any, str]]] = (
    ("database.hostname", _STR, REQUIRED, "The server's address."),
    ("database.port", _INT, 5432, "Its port."),
    ("database.user", _STR, REQUIRED, "A user that may replicate."),
    ("database.password", ConfigType.PASSWORD, None, "That user's password. It is shown nowhere."),
    ("database.dbname", _STR, REQUIRED, "The database."),
    ("database.sslmode", _STR, "prefer", "libpq's sslmode: disable, allow, prefer, require, verify-ca or verify-full."),
    ("database.sslcert", _STR, None, "The client's certificate."),
    ("database.sslkey", _STR, None, "Its key."),
    ("database.sslrootcert", _STR, None, "The authorities that are trusted."),
    ("database.tcpKeepAlive", _BOOL, True, "Whether a connection that is silent is probed."),
    (
        "database.initial.statements",
        _STR,
        None,
        "Statements for every connection but the stream's, between semicolons.",
    ),
    ("topic.prefix", _STR, REQUIRED, "Begins every topic's name, and names the source in records and offsets."),
    ("slot.name", _STR, "debezium", "The replication slot, of this connector alone."),
    ("slot.drop.on.stop", _BOOL, False, "Whether the slot goes with the connector; what happens meanwhile is lost."),
    ("slot.max.retries", _INT, 6, "How often a slot that another process reads is tried."),
    ("slot.retry.delay.ms", _LONG, 10_000, "Between two tries."),
    ("slot.failover", _BOOL, False, "Whether the slot is kept in step on standbys (PostgreSQL 17)."),
    ("status.update.interval.ms", _INT, 10_000, "How often the server hears of the connector at least."),
    ("publication.name", _STR, "dbz_publication", "The publication."),
    ("publish.via.partition.root", _BOOL, False, "Whether changes of parts are told under the table that is divided."),
    *(
        (
            f"{what}.{how}.list",
            _STR,
            None,
            f"Regular expressions of whole names, between commas: {what}s that are "
            f"{'captured' if how == 'include' else 'left out'}.",
        )
        for what in ("schema", "table", "column", "message.prefix")
        for how in ("include", "exclude")
    ),
    *(
        (
            f"{what}.propagate.source.type",
            _STR,
            None,
            f"Regular expressions of schema.table.{part}, between commas: columns whose type, length, scale and name in "
            "the database their schemas say.",
        )
        for what, part in (("column", "column"), ("datatype", "type"))
    ),
    ("skipped.operations", _LIST, "t", "Operations that are left out: c, u, d, t, or none."),
    ("message.key.columns", _STR, None, "Keys of tables: table:column,column;…"),
    ("money.fraction.digits", _INT, 2, "Digits behind the point of money."),
    ("include.unknown.datatypes", _BOOL, False, "Whether columns of types that are not known are written as bytes."),
    (
        "unavailable.value.placeholder",
        _STR,
        "__debezium_unavailable_value",
        "Stands for large values that have not changed.",
    ),
    ("tombstones.on.delete", _BOOL, True, "Whether a delete is followed by a tombstone."),
    ("extended.headers.enabled", _BOOL, True, "Whether records carry headers that name the connector."),
    ("snapshot.fetch.size", _INT, 10_240, "Rows that are read at once."),
    ("snapshot.delay.ms", _LONG, 0, "How long a snapshot waits."),
    ("snapshot.include.collection.list", _STR, None, "Tables that are read, of those that are captured."),
    ("max.batch.size", _INT, 2048, "Records of one poll at most."),
    ("poll.interval.ms", _LONG, 500, "How long a poll waits for the first change."),
    ("heartbeat.interval.ms", _INT, 0, "How often a record says where reading is; 0 never."),
    ("heartbeat.topics.prefix", _STR, "__debezium-heartbeat", "Begins that topic's name."),
    (
        "heartbeat.action.query",
        _STR,
        None,
        "A statement that is run with each heartbeat, on a table of the publication.",
    ),
    ("provide.transaction.metadata", _BOOL, False, "Whether transactions are told in a topic, and in each record."),
    ("topic.delimiter", _STR, ".", "Stands between the parts of a topic's name."),
    ("signal.data.collection", _STR, None, "The table of signals, schema.table: columns id, type and data, all texts."),
    ("signal.enabled.channels", _LIST, "source", "Where signals come from: source (that table), file, kafka."),
    ("signal.kafka.topic", _STR, None, "The topic of signals, of one partition; keys are topic.prefix. PREFIX-signal."),
    ("signal.kafka.bootstrap.servers", _STR, None, "Its brokers."),
    ("signal.kafka.groupId", _STR, "kafka-signal", "The consumer's group, which commits nothing."),
    ("signal.file", _STR, "file-signals.txt", "The file of signals, a JSON object a line."),
    ("signal.poll.interval.ms", _LONG, 5000, "How often the file and the topic are looked at."),
    ("notification.enabled.channels", _LIST, "", "Where is told what snapshots have come to: sink (a topic), log."),
    ("notification.sink.topic.name", _STR, None, "The topic of notifications."),
    ("incremental.snapshot.chunk.size", _INT, 1024, "Rows of an incremental snapshot that are read at once."),
    (
        "read.only",
        _BOOL,
        False,
        "Whether incremental snapshots write no marks, and go by the end of the log; signals come from elsewhere.",
    ),
)


Key = tuple[str, ConfigType, Any, str]
"""A setting: name, type, default, and what it is for."""
Choice = tuple[str, tuple[str, ...], str]
"""Of a setting that is one of some words: its default, the words, and what it is for."""


def definition(keys: Sequence[Key], choices: Mapping[str, Choice]) -> ConfigDef:
    """Return the settings of a connector."""
    found = ConfigDef()
    for name, type_, default, doc in keys:
        rule = (
            validators.Lambda(_expressions, "regular expressions")
            if name.endswith((".include.list", ".exclude.list", ".propagate.source.type"))
            else None
        )
        importance = Importance.HIGH if default is REQUIRED else Importance.MEDIUM
        found.define(name, type_, default, importance=importance, doc=doc, validator=rule)
    for name, (default, words, doc) in choices.items():
        allowed = words if default in words else (default, *words)
        found.define(
            name, _STR, default, importance=Importance.MEDIUM, doc=doc, validator=validators.ValidString(*allowed)
        )
    return found


def _expressions(name: str, value: Any) -> None:
    for each in parts(value):
        validators.Regex()(name, each)


def parts(text: str | None) -> list[str]:
    """Return what stands between commas that no backslash escapes."""
    return [each.strip() for each in re.split(r"(?<!\\),", text or "") if each.strip()]


def kind_settings(settings: Mapping[str, Any]) -> KindSettings:
    """Return what says how values are written."""
    return KindSettings(
        decimal=settings["decimal.handling.mode"],
        time=settings["time.precision.mode"],
        interval=settings["interval.handling.mode"],
        hstore=settings["hstore.handling.mode"],
        binary=settings["binary.handling.mode"],
        money_digits=settings["money.fraction.digits"],
        placeholder=settings["unavailable.value.placeholder"],
        unknown=settings["include.unknown.datatypes"],
    )


def _matcher(include: str | None, exclude: str | None) -> Callable[[str], bool]:
    wanted, unwanted = ([compile_java(f"(?i){each}") for each in parts(text)] for text in (include, exclude))

    def holds(name: str) -> bool:
        if wanted:
            return any(each.fullmatch(name) for each in wanted)
        return not any(each.fullmatch(name) for each in unwanted)

    return holds


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tables, columns and logical messages are captured."""

    _schema: Callable[[str], bool]
    _table: Callable[[str], bool]
    _column: Callable[[str], bool]
    _prefix: Callable[[str], bool]
    _snapshot: Callable[[str], bool]
    signals: str | None = None
    """The table of signals, `schema.table`."""

    @classmethod
    def of(cls, settings: Mapping[str, Any], schemas: str = "schema") -> Selection:
        """Take the settings; `schemas` is what they call that in which tables are."""

        def both(what: str) -> Callable[[str], bool]:
            return _matcher(settings.get(f"{what}.include.list"), settings.get(f"{what}.exclude.list"))

        snapshot = _matcher(settings["snapshot.include.collection.list"], None)
        signals = settings.get("signal.data.collection")
        return cls(both(schemas), both("table"), both("column"), both("message.prefix"), snapshot, signals)

    def has_schema(self, name: str) -> bool:
        """Whether tables of a schema, or a database, may be captured."""
        return self._schema(name)

    def has_table(self, table: TableId) -> bool:
        """Whether a table is captured."""
        return self._schema(table.schema) and self._table(str(table))

    def is_published(self, table: TableId) -> bool:
        """Whether changes of a table are written: it is captured, or has the signals."""
        return self.has_table(table) or str(table) == self.signals

    def has_column(self, table: TableId, column: str) -> bool:
        """Whether a column is written."""
        return self._column(f"{table}.{column}")

    def has_prefix(self, prefix: str) -> bool:
        """Whether logical messages of a prefix are captured."""
        return self._prefix(prefix)

    def is_read(self, table: TableId) -> bool:
        """Whether a snapshot reads a table."""
        return self._snapshot(str(table))


def topic_name(*parts_: str, delimiter: str = ".") -> str:
    """Return a topic's name: what topics may not have in theirs becomes `_`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", delimiter.join(parts_))


def key_columns(text: str | None) -> list[tuple[JavaPattern, tuple[str, ...]]]:
    """Return the tables' patterns of `message.key.columns`, each with its columns."""
    found = []
    for each in (text or "").split(";"):
        table, colon, columns = each.strip().partition(":")
        if colon:
            found.append((compile_java(table.strip()), tuple(name.strip() for name in columns.split(","))))
    return found


POSTGRES_DEF: Final = definition(KEYS, CHOICES)
_WITHOUT_EFFECT = (
    *(
        "signal.",
        "incremental.snapshot.",
        "notification.",
        "snapshot.",
    ),
    *("slot.", "lsn.flush.", "replica.identity.", "offset.mismatch.", "errors.max.retries", "retriable.restart."),
    *("event.processing.", "max.queue.", "skip.messages.", "database.query.", "database.sslpassword", "database.ssl."),
    *(
        "converters",
        "post.processors",
        "topic.",
        "transaction.metadata.",
        "sourceinfo.",
        "custom.metric.",
        "xmin.fetch.",
    ),
    *("flush.lsn.", "publication.", "publish.", "gtid.", "binlog.", "table.ignore.", "min.row.count.", "connect.keep."),
    *("inconsistent.schema.", "enable.time.", "include.schema.", "use.nongraceful.", "driver.", "database.connection"),
)


def keys_without_effect(props: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return keys of Debezium's that are given and do nothing here, as those do that are `known`."""
    return sorted(
        each
        for each in props
        if each.startswith(_WITHOUT_EFFECT) and each not in known and not each.startswith("signal.consumer.")
    )
