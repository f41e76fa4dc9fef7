"""Change events as Debezium writes them: schemas of keys, rows and envelopes, and records of changes. Pure."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.connect import DataError, Header, Schema, SourceRecord
from ottla.connect.data import (
    INT64,
    OPTIONAL_INT64,
    STRING,
    SchemaBuilder,
    Struct,
)
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.column_events import ColumnEvents, ColumnShape
from ottla.connectors.cdc.column_kinds import ColumnKind
from ottla.connectors.cdc.column_masks import ColumnRule
from ottla.connectors.cdc.pgoutput import Unchanged
from ottla.connectors.cdc.settings import Selection, key_columns, topic_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BLOCK",
    "INCREMENTAL",
    "SNAPSHOT",
    "VERSION",
    "Column",
    "Dialect",
    "Events",
    "Row",
    "Table",
    "TableEvents",
    "Transaction",
    "made",
    "sent_with",
    "struct_schema",
    "table_told",
]

log = logging.getLogger(__name__)
VERSION: Final = "3.7.0.Final"
"""The version of Debezium whose records these are."""
INCREMENTAL: Final = "incremental"
SNAPSHOT: Final = (
    SchemaBuilder.string()
    .name("io.debezium.data.Enum")
    .version(1)
    .parameter("allowed", "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental")
    .optional()
    .default("false")
    .build()
)


Row = Sequence[Any]
"""A row's values as a database tells them: None for null, `Unchanged` for what was not sent."""


class Column(Protocol):
    """A column as a database's catalogue has it."""

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    @property
    def type(self) -> Any:
        """Return its type, of the database's own kind."""
        ...

    @property
    def is_required(self) -> bool:
        """Whether it may not be null."""
        ...

    @property
    def comment(self) -> str | None:
        """Return what people have written to it."""
        ...


class Table(Protocol):
    """A table as a database's catalogue has it; `key` are the columns of its key."""

    @property
    def id(self) -> TableId:
        """Return its name."""
        ...

    @property
    def columns(self) -> Sequence[Column]:
        """Return its columns, in order."""
        ...

    @property
    def key(self) -> Sequence[str]:
        """Return the columns of its key."""
        ...

    @property
    def trouble(self) -> str | None:
        """Return why nothing of it can be told, None where it can."""
        ...


def struct_schema(
    name: str | None, version: int | None, fields: Mapping[str, Schema], *, optional: bool = False
) -> Schema:
    """Return the schema of a struct."""
    builder = SchemaBuilder.struct().name(name).version(version)
    for each, schema in fields.items():
        builder.field(each, schema)
    return (builder.optional() if optional else builder).build()


BLOCK: Final = struct_schema(
    "event.block",
    1,
    {"id": STRING, "total_order": INT64, "data_collection_order": INT64},
    optional=True,
)
_COMMON: Final = "io.debezium.connector.common"
TRANSACTION_KEY: Final = struct_schema(f"{_COMMON}.TransactionMetadataKey", 1, {"id": STRING})
_COLLECTION: Final = struct_schema(
    "event.collection", 1, {"data_collection": STRING, "event_count": INT64}, optional=True
)
TRANSACTION_VALUE: Final = struct_schema(
    f"{_COMMON}.TransactionMetadataValue",
    1,
    {
        "status": STRING,
        "id": STRING,
        "event_count": OPTIONAL_INT64,
        "data_collections": SchemaBuilder.array(_COLLECTION).optional().build(),
        "ts_ms": INT64,
    },
)
HEARTBEAT_KEY: Final = struct_schema(f"{_COMMON}.ServerNameKey", 1, {"serverName": STRING})
HEARTBEAT_VALUE: Final = struct_schema(f"{_COMMON}.Heartbeat", 1, {"ts_ms": INT64})


@dataclass(slots=True)
class Transaction:
    """A transaction under way, and how many changes of each table it had."""

    id: str
    total: int = 0
    tables: dict[str, int] = field(default_factory=dict)

    def block(self, table: str) -> Struct:
        """Count a change, and return its place."""
        self.total += 1
        self.tables[table] = self.tables.get(table, 0) + 1
        return made(BLOCK, [self.id, self.total, self.tables[table]])


made = Struct.of


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is a kind of database's own in its records. A moment is where and when a change was made, in its own terms."""

    name: str
    """The connector's, in `source` and in headers."""
    source: Schema
    """Of `source`: its fifth field is `snapshot`."""
    source_values: Callable[[str, Any, TableId | None], list[Any]]
    """Makes the values of `source` of the topics' prefix, a moment and a table."""
    kind: Callable[[Any], ColumnKind | None]
    """How a column of a type is written; None for one that is left out."""
    default: Callable[[Any, ColumnKind], Any]
    """A column's default as a value, None where there is none."""
    about: Callable[[TableId, Any], Mapping[str, str]] = lambda table, column: {}
    """What more a column's schema says of it."""
    source_columns: Callable[[str, TableId, Any, int], Sequence[pa.Array]] | None = None
    """Makes the columns of `source` of the prefix, a table, moments and how many rows; None where there are no columns."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: ColumnKind
    is_required: bool
    default: Any
    comment: str | None
    plain: ColumnKind
    """How it is written where nothing is hidden, as in keys."""
    about: Mapping[str, str]
    """More parameters of its schema, but in keys."""


class Events:
    """Makes records of one connector; `table` gives what makes those of a table."""

    def __init__(
        self, settings: Mapping[str, Any], dialect: Dialect, selection: Selection, rules: Sequence[ColumnRule] = ()
    ) -> None:
        self.prefix: str = settings["topic.prefix"]
        self.selection, self.dialect = selection, dialect
        self.delimiter: str = settings["topic.delimiter"]
        self.has_tombstones: bool = settings["tombstones.on.delete"]
        self.partition = {"server": self.prefix}
        self.adjusts_schemas = settings["schema.name.adjustment.mode"] != "none"
        self.adjusts_fields = settings["field.name.adjustment.mode"] != "none"
        self.keys = key_columns(settings["message.key.columns"])
        self.rules = rules
        context = {
            "connectorLogicalName": self.prefix,
            "taskId": "0",
            "connectorName": dialect.name,
            "runId": str(uuid.uuid4()),
        }
        self.headers = (
            tuple(Header(f"__debezium.context.{name}", value, STRING) for name, value in context.items())
            if settings["extended.headers.enabled"]
            else ()
        )
        self._tables: dict[TableId, tuple[Table, TableEvents]] = {}
        self._heartbeats = self.topic(settings["heartbeat.topics.prefix"], self.prefix)
        self._transactions = self.topic(self.prefix, "transaction")

    def topic(self, *parts: str) -> str:
        """Return a topic's name of its parts."""
        return topic_name(*parts, delimiter=self.delimiter)

    def table(self, table: Table) -> TableEvents:
        """Return what makes a table's records; of an equal table the same, so that converters know its schemas at once."""
        known = self._tables.get(table.id)
        if known is None or known[0] != table:
            known = self._tables[table.id] = table, TableEvents(self, table)
        return known[1]

    @property
    def tables(self) -> Collection[TableId]:
        """Return the tables whose records were asked for; none is ever taken out."""
        return self._tables.keys()

    def source(self, moment: Any, table: TableId | None) -> Struct:
        """Return the `source` of a record."""
        return made(self.dialect.source, self.dialect.source_values(self.prefix, moment, table))

    def transaction(self, status: str, id_: str, commit_us: int, found: Transaction | None = None) -> SourceRecord:
        """Return the record of a transaction's beginning or end."""
        tables = None if found is None else [made(_COLLECTION, [*each]) for each in found.tables.items()]
        values = [status, id_, None if found is None else found.total, tables, commit_us // 1000]
        return SourceRecord(
            topic=self._transactions,
            key_schema=TRANSACTION_KEY,
            key=made(TRANSACTION_KEY, [id_]),
            value_schema=TRANSACTION_VALUE,
            value=made(TRANSACTION_VALUE, values),
            source_partition=self.partition,
            source_offset=None,
        )

    def heartbeat(self) -> SourceRecord:
        """Return a record that says nothing but where reading is."""
        return SourceRecord(
            topic=self._heartbeats,
            key_schema=HEARTBEAT_KEY,
            key=made(HEARTBEAT_KEY, [self.prefix]),
            value_schema=HEARTBEAT_VALUE,
            value=made(HEARTBEAT_VALUE, [time.time_ns() // 1_000_000]),
            source_partition=self.partition,
            source_offset=None,
        )


def table_told(record: SourceRecord) -> TableId | None:
    """Return the table that a change is of, by what its value says; None of what is no change of a table's."""
    value = record.value
    if not isinstance(value, Struct) or "source" not in (each.name for each in value.schema.struct_fields):
        return None
    source = value.get("source")
    names = [each.name for each in source.schema.struct_fields]
    return TableId(source.get("schema"), source.get("table")) if "schema" in names else None


class TableEvents:
    """Makes the records of one table as it is now."""

    def __init__(self, events: Events, table: Table) -> None:
        self._events, self.id = events, table.id
        self.topic = topic_name(events.prefix, table.id.schema, table.id.table, delimiter=events.delimiter)
        self._name = _avro_namespace(self.topic) if events.adjusts_schemas else self.topic
        self._columns = [self._column(table.id, each) for each in table.columns]
        used = [each for each in self._columns if each is not None]
        fields = {self._field(each.name): _schema(each) for each in used}
        self._row = struct_schema(f"{self._name}.Value", None, fields, optional=True)
        self._places = {each.name: place for place, each in enumerate(used)}
        self._used = used
        self._structs = _structs_of(self._row)
        self._key_names = [each for each in self._key_of(table) if each in self._places]
        raw_places = {each.name: place for place, each in enumerate(self._columns) if each is not None}
        self._key_places = {name: raw_places[name] for name in self._key_names}
        """Where the columns of the key stand in what the server sends."""
        self._hidden_keys = [
            (at, used[self._places[name]], raw_places[name])
            for at, name in enumerate(self._key_names)
            if used[self._places[name]].kind is not used[self._places[name]].plain
        ]
        """Columns of the key that are hidden in rows: place in the key, column, place in what the server sends."""
        self._key: Schema | None = None
        self._key_structs: list[tuple[int, Schema]] = []
        if self._key_names:
            own = {name: _schema(used[self._places[name]], plain=True) for name in self._key_names}
            self._key = struct_schema(
                f"{self._name}.Key", None, {self._field(name): each for name, each in own.items()}
            )
            self._key_structs = _structs_of(self._key)
        self._envelope = struct_schema(
            f"{self._name}.Envelope",
            2,
            {
                "before": self._row,
                "after": self._row,
                "source": self._events.dialect.source,
                "transaction": BLOCK,
                "op": STRING,
                **dict.fromkeys(("ts_ms", "ts_us", "ts_ns"), OPTIONAL_INT64),
            },
        )
        self.columns = self._column_events()
        """What makes many records at once; None where they can only be made one by one."""

    def _column_events(self) -> ColumnEvents | None:
        events = self._events
        source = events.dialect.source_columns
        if source is None:
            return None
        fields = iter(self._row.struct_fields)
        shapes: list[ColumnShape | None] = []
        for place, each in enumerate(self._columns):
            if each is None:
                shapes.append(None)
                continue
            field = next(fields)
            missing = each.is_required and each.default is None
            instead = each.kind.zero if missing else each.kind.null
            shapes.append(ColumnShape(place, field.name, each.kind, field.schema, instead))
        by_name = {each.name: shape for each, shape in zip(self._columns, shapes, strict=True) if each and shape}
        key = None
        if self._key is not None:
            plain = {each.name: each.plain for each in self._used}
            named = zip(self._key_names, self._key.struct_fields, strict=True)
            of_key = [
                ColumnShape(by_name[name].place, field.name, plain[name], field.schema, by_name[name].instead)
                for name, field in named
            ]
            key = self._key, of_key
        found = ColumnEvents(
            self.topic,
            shapes,
            key,
            self._envelope,
            lambda moments, count: source(events.prefix, self.id, moments, count),
            (events.partition, events.headers),
        )
        return found if found.is_possible else None

    def _column(self, table: TableId, column: Column) -> _Column | None:
        """How a column is written, None for one that is not."""
        plain = self._events.dialect.kind(column.type)
        if plain is None or not self._events.selection.has_column(table, column.name):
            return None
        rule = next((each for each in self._events.rules if each.matches(f"{table}.{column.name}")), None)
        kind = plain if rule is None else rule.applied(plain, column.type)
        if rule is not None and not rule.hides(column.type) and rule.kind != "truncate":
            log.warning("%s hides texts alone, and %s.%s is written as it is", rule.name, table, column.name)
        default = self._events.dialect.default(column, plain)
        if isinstance(default, Struct):  # its schema would have to hold itself
            default = None
        about = self._events.dialect.about(table, column)
        return _Column(column.name, kind, column.is_required, default, column.comment, plain, about)

    def _field(self, name: str) -> str:
        return _avro_name(name) if self._events.adjusts_fields else name

    def _key_of(self, table: Table) -> Sequence[str]:
        for pattern, columns in self._events.keys:
            if pattern.fullmatch(str(table.id)):
                return columns
        return table.key

    def row(self, row: Row) -> Struct:
        """Return a row's struct; raises DataError. What was not sent is a placeholder.

        Null where it is not allowed, in a row that has the key alone, is the type's zero.
        """
        values: list[Any] = []
        for column, raw in zip(self._columns, row, strict=False):
            if column is None:
                continue
            if raw is None:
                missing = column.is_required and column.default is None
                values.append(column.kind.zero if missing else column.kind.null)
            elif isinstance(raw, Unchanged):
                values.append(column.kind.unavailable)
            else:
                values.append(self._parsed(column, raw))
        values += [each.kind.null for each in self._used[len(values) :]]
        return made(self._row, _of_schemas(values, self._structs))

    def _parsed(self, column: _Column, raw: Any, kind: ColumnKind | None = None) -> Any:
        try:
            return (kind or column.kind).parse(raw)
        except (DataError, ValueError, ArithmeticError) as error:
            raise DataError(f"Column {self.id}.{column.name} cannot be written: {error}") from error

    def read(self, row: Row, moment: Any) -> SourceRecord:
        """Return the record of a row that a snapshot has read."""
        found = self.row(row)
        return self._record("r", self._key_in(found, row), None, found, moment, None)

    def inserted(self, row: Row, moment: Any, transaction: Transaction | None) -> list[SourceRecord]:
        """Return the record of a new row."""
        found = self.row(row)
        return [self._record("c", self._key_in(found, row), None, found, moment, transaction)]

    def updated(
        self, old: Row | None, new: Row, moment: Any, transaction: Transaction | None, *, old_is_key: bool
    ) -> list[SourceRecord]:
        """Return the records of an update: one, or a deletion and an insertion where the key has changed."""
        new = sent_with(old, new)
        before = None if old is None else self.row(old)
        after = self.row(new)
        key = self._key_in(after, new)
        old_key = key if before is None or old is None else self._key_in(before, old)
        if key is None or old_key is None or old_key.values == key.values:
            return [self._record("u", key, None if old_is_key else before, after, moment, transaction)]
        assert before is not None
        made = self._deleted(old_key, before, moment, transaction, Header("__debezium.newkey", key, self._key))
        header = Header("__debezium.oldkey", old_key, self._key)
        return [*made, self._record("c", key, None, after, moment, transaction, header)]

    def deleted(self, old: Row, moment: Any, transaction: Transaction | None) -> list[SourceRecord]:
        """Return the records of a deletion."""
        before = self.row(old)
        return self._deleted(self._key_in(before, old), before, moment, transaction)

    def truncated(self, moment: Any, transaction: Transaction | None) -> list[SourceRecord]:
        """Return the record of a table that was emptied."""
        return [self._record("t", None, None, None, moment, transaction)]

    def _deleted(
        self, key: Struct | None, before: Struct, moment: Any, transaction: Transaction | None, *headers: Header
    ) -> list[SourceRecord]:
        found = self._record("d", key, before, None, moment, transaction, *headers)
        if key is None or not self._events.has_tombstones:
            return [found]
        return [found, found.replace(value_schema=None, value=None)]

    def _key_in(self, row: Struct, raw: Row) -> Struct | None:
        """Return a row's key; of a column that is hidden in rows it has the value itself."""
        if self._key is None:
            return None
        for name, place in self._key_places.items():
            if place < len(raw) and isinstance(raw[place], Unchanged):
                raise DataError(
                    f"The key of a row of {self.id} is not known: column {name} is large, not changed, and was not sent. "
                    f"ALTER TABLE {self.id} REPLICA IDENTITY FULL has it sent from then on; or leave the table, or the "
                    "column in message.key.columns, out"
                )
        values = [row.values[self._places[name]] for name in self._key_names]
        for at, column, place in self._hidden_keys:
            text = raw[place]
            is_sent = text is not None and not isinstance(text, Unchanged)
            values[at] = self._parsed(column, text, column.plain) if is_sent else None
        return made(self._key, _of_schemas(values, self._key_structs))

    @property
    def key_names(self) -> Sequence[str]:
        """Return the columns of its records' keys."""
        return self._key_names

    def key_of(self, raw: Row) -> tuple[Any, ...] | None:
        """Return the values of a row's key, None where it has none: as `read` gives it to the same row. Raises DataError."""
        key = self._key_in(self.row(raw), raw)
        return None if key is None else tuple(key.values)

    def _record(
        self,
        op: str,
        key: Struct | None,
        before: Struct | None,
        after: Struct | None,
        moment: Any,
        transaction: Transaction | None,
        *headers: Header,
    ) -> SourceRecord:
        events = self._events
        now_ns = time.time_ns()
        block = None if transaction is None else transaction.block(str(self.id))
        values = [
            *(before, after, events.source(moment, self.id), block, op),
            *(now_ns // 1_000_000, now_ns // 1000, now_ns),
        ]
        return SourceRecord(
            topic=self.topic,
            key_schema=None if key is None else self._key,
            key=key,
            value_schema=self._envelope,
            value=made(self._envelope, values),
            source_partition=events.partition,
            source_offset=None,
            headers=(*headers, *events.headers) if headers else events.headers,
        )


def sent_with(old: Row | None, new: Row) -> Row:
    """Return a row with what was not sent of it and stands in the row before, which may have its key alone."""
    if old is None or not any(isinstance(each, Unchanged) for each in new):
        return new
    before = [*old, *([None] * (len(new) - len(old)))]
    return [
        was if isinstance(each, Unchanged) and was is not None else each for was, each in zip(before, new, strict=False)
    ]


def _structs_of(row: Schema) -> list[tuple[int, Schema]]:
    """Return the places of columns whose values are structs, which have to be of the column's own schema."""
    return [(at, each.schema) for at, each in enumerate(row.fields) if each.schema.struct_fields]


def _of_schemas(values: list[Any], structs: Sequence[tuple[int, Schema]]) -> list[Any]:
    for at, schema in structs:
        if values[at] is not None:
            values[at] = made(schema, values[at].values)
    return values


def _schema(column: _Column, *, plain: bool = False) -> Schema:
    builder = column.plain.builder() if plain else column.kind.builder().parameters(column.about)
    if not column.is_required:
        builder.optional()
    if column.comment:
        builder.doc(column.comment)
    return (builder if column.default is None else builder.default(column.default)).build()


def _avro_name(name: str) -> str:
    """Return a name that Avro takes."""
    found = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{found}" if found[:1].isdigit() else found


def _avro_namespace(name: str) -> str:
    return ".".join(_avro_name(each) for each in name.split("."))
