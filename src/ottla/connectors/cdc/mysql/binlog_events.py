"""What is MySQL's and MariaDB's own in records: `source`, and statements about tables. Pure but for the time of day."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect import Header, Schema, SourceRecord
from ottla.connect.data import (
    INT32,
    INT64,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    SchemaBuilder,
    Struct,
)
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.events import SNAPSHOT, VERSION, Dialect, Events, made, struct_schema
from ottla.connectors.cdc.mysql.ddl import Effect
from ottla.connectors.cdc.mysql.kinds import SqlKinds, default_of, kind_of
from ottla.connectors.cdc.mysql.tables import SqlTable, id_text, table_json

__all__ = ["BinlogMoment", "SchemaChanges", "binlog_dialect", "stands_at"]

_SOURCE: Final = 2
"""Where `source` is in an envelope."""
_PLACE: Final = slice(10, 14)
"""Where in that the server, the GTID, the file and the position are."""


@dataclass(slots=True)
class BinlogMoment:
    """Where and when a change was made."""

    file: str
    pos: int
    at_us: int
    server_id: int = 0
    gtid: str | None = None
    row: int = 0
    thread: int | None = None
    query: str | None = None
    snapshot: str = "false"


def _source(name: str) -> Schema:
    return struct_schema(
        f"io.debezium.connector.{name}.Source",
        1,
        {
            **dict.fromkeys(("version", "connector", "name"), STRING),
            "ts_ms": INT64,
            "snapshot": SNAPSHOT,
            "db": STRING,
            "sequence": OPTIONAL_STRING,
            **dict.fromkeys(("ts_us", "ts_ns"), OPTIONAL_INT64),
            "table": OPTIONAL_STRING,
            "server_id": INT64,
            "gtid": OPTIONAL_STRING,
            "file": STRING,
            "pos": INT64,
            "row": INT32,
            "thread": OPTIONAL_INT64,
            "query": OPTIONAL_STRING,
        },
    )


def binlog_dialect(name: str, kinds: SqlKinds) -> Dialect:
    """Return what is a server's own in records; `name` is mysql or mariadb."""

    def source_values(prefix: str, moment: BinlogMoment, table: TableId | None) -> list[Any]:
        us = moment.at_us
        return [
            *(VERSION, name, prefix, us // 1000, moment.snapshot, "" if table is None else table.schema, None),
            *(us, us * 1000, None if table is None else table.table or None),
            *(moment.server_id, moment.gtid, moment.file, moment.pos, moment.row, moment.thread, moment.query),
        ]

    return Dialect(name, _source(name), source_values, lambda type_: kind_of(type_, kinds), default_of)


def stands_at(record: SourceRecord, moment: BinlogMoment) -> None:
    """Say that a record stands at a place of the binlog that was not known when it was made."""
    record.value.values[_SOURCE].values[_PLACE] = [moment.server_id, moment.gtid, moment.file, moment.pos]


def _optional_strings() -> Schema:
    return SchemaBuilder.array(STRING).optional().build()


_COLUMN = struct_schema(
    "io.debezium.connector.schema.Column",
    1,
    {
        "name": STRING,
        "jdbcType": INT32,
        "nativeType": OPTIONAL_INT32,
        "typeName": STRING,
        **dict.fromkeys(("typeExpression", "charsetName"), OPTIONAL_STRING),
        **dict.fromkeys(("length", "scale"), OPTIONAL_INT32),
        "position": INT32,
        **{each: SchemaBuilder.boolean().optional().build() for each in ("optional", "autoIncremented", "generated")},
        **dict.fromkeys(("comment", "defaultValueExpression"), OPTIONAL_STRING),
        "enumValues": _optional_strings(),
    },
)
_TABLE = struct_schema(
    "io.debezium.connector.schema.Table",
    1,
    {
        "defaultCharsetName": OPTIONAL_STRING,
        "primaryKeyColumnNames": _optional_strings(),
        "columns": SchemaBuilder.array(_COLUMN).build(),
        "comment": OPTIONAL_STRING,
    },
    optional=True,
)
_CHANGE = struct_schema("io.debezium.connector.schema.Change", 1, {"type": STRING, "id": STRING, "table": _TABLE})


class SchemaChanges:
    """Makes the records of statements about tables."""

    def __init__(self, events: Events) -> None:
        name = events.dialect.name
        self._events = events
        self._topic = events.topic(events.prefix)
        self._key = struct_schema(f"io.debezium.connector.{name}.SchemaChangeKey", 1, {"databaseName": STRING})
        self._value = struct_schema(
            f"io.debezium.connector.{name}.SchemaChangeValue",
            1,
            {
                "source": events.dialect.source,
                "ts_ms": INT64,
                **dict.fromkeys(("databaseName", "schemaName", "ddl"), OPTIONAL_STRING),
                "tableChanges": SchemaBuilder.array(_CHANGE).build(),
            },
        )

    def record(
        self, moment: BinlogMoment, database: str, ddl: str, effect: Effect, headers: Sequence[Header]
    ) -> SourceRecord:
        """Return the record of a statement."""
        changes = [each for each in effect.changes if each.kind != "TRUNCATE"]
        table = effect.changes[0].id.table if effect.changes else None
        source = self._events.source(moment, TableId(database, table or ""))
        values = [source, time.time_ns() // 1_000_000, database, None, ddl, [_change(each) for each in changes]]
        return SourceRecord(
            topic=self._topic,
            key_schema=self._key,
            key=made(self._key, [database]),
            value_schema=self._value,
            value=made(self._value, values),
            source_partition=self._events.partition,
            source_offset=None,
            headers=tuple(headers),
        )


def _change(change: Any) -> Struct:
    return made(_CHANGE, [change.kind, id_text(change.id), None if change.table is None else _table(change.table)])


def _table(table: SqlTable) -> Struct:
    told = table_json(table)
    columns = [_column(each) for each in told["columns"]]
    return made(_TABLE, [told["defaultCharsetName"], told["primaryKeyColumnNames"], columns, table.comment])


def _column(told: Mapping[str, Any]) -> Struct:
    fields = [each.name for each in _COLUMN.struct_fields]
    return made(_COLUMN, [told.get(name) or None if name == "enumValues" else told.get(name) for name in fields])
