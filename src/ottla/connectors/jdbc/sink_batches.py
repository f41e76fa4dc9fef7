"""Records gathered by table and written in order: rows of one shape together, keys that come twice once.

Rows of one key in one batch of upserts are one row, the last: all have the same columns, so nothing of the others would
be left. A deleted key is deleted before rows of the batch are written, and what was gathered for it earlier is dropped.

Where the database may take two keys for one that are two here (padded or caseless texts, rounded numbers, NaN), each record
of the table is a statement of its own, in their order. Databases that get a statement for each row anyway have only to be
asked to delete behind the rows that came before.

What a delivery changes of tables comes before its first row, for MySQL commits by itself there. Behind its last row the
tables that it wrote, and holds now, are compared with what was known of them: somebody may have changed a column's type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from ottla.connect import ConnectError, SchemaType, SinkRecord
from ottla.connectors.jdbc.database import passes_by_itself
from ottla.connectors.jdbc.dialects import Dialect
from ottla.connectors.jdbc.sink_shapes import SHAPES_MAX, UNKNOWN, Shape, Shaped, Shapes
from ottla.connectors.jdbc.sink_tables import SinkTables, parse_table_name
from ottla.connectors.jdbc.sink_types import Bind, Binders
from ottla.connectors.jdbc.sink_writers import Target, writer_of
from ottla.connectors.jdbc.tables import TableName

__all__ = ["Batches", "TableAlteredError", "TableChangeError"]

PREPARED_MAX = SHAPES_MAX
"""How many shapes on tables are kept prepared."""


class TableAlteredError(ConnectError):
    """A table was changed by somebody since it was looked at, so that values were bound for other columns."""


class TableChangeError(Exception):
    """Creating or widening a table failed, perhaps because another task was quicker; its cause is the database's error."""


@dataclass(slots=True)
class _Gathered:
    """What waits to be written to one table."""

    shape: Shape | None = None
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    by_key: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    deleted: dict[tuple[Any, ...], None] = field(default_factory=dict)
    delete_shape: Shape | None = None

    @property
    def count(self) -> int:
        return len(self.rows) + len(self.by_key) + len(self.deleted)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A shape on a table: where its values go and how they are bound; `places` are those that are written."""

    target: Target
    binds: tuple[Bind, ...]
    places: tuple[int, ...]


class Batches:
    """Writes records through a connection, within its transaction."""

    def __init__(self, dialect: Dialect, shapes: Shapes, settings: Mapping[str, Any]) -> None:
        self.dialect, self.shapes = dialect, shapes
        self._mode: str = settings["insert.mode"].lower()
        self._format: str = settings["table.name.format"]
        self._rows_max: int = settings["batch.size"] or 1
        self._tables = SinkTables(
            dialect, create=settings["auto.create"], evolve=settings["auto.evolve"], types=settings["table.types"]
        )
        zone = ZoneInfo(settings["db.timezone"])
        utc = settings["date.timezone"].upper() == "UTC"
        unit = settings["timestamp.precision.mode"].lower()
        numbers = dict.fromkeys(settings["timestamp.fields.list"], unit)
        date_zone = ZoneInfo("UTC") if utc else zone
        self._binders = Binders(dialect.name, zone=zone, date_zone=date_zone, number_times=numbers)
        self._writer = writer_of(dialect)
        self._names: dict[str, TableName] = {}
        self._meeting: dict[tuple[TableName, int], tuple[Shape, bool]] = {}
        self._prepared: dict[tuple[TableName, int], tuple[Shape, _Prepared | None]] = {}

    def forget(self) -> None:
        """Look at tables again: what was done to them has been undone, or somebody else has changed them."""
        self._tables.forget()
        self._prepared.clear()
        self._meeting.clear()

    def _forget_prepared(self, name: TableName) -> None:
        """Prepare every shape anew on a table that was looked at again."""
        for kept in (self._prepared, self._meeting):
            for key in [each for each in kept if each[0] == name]:
                del kept[key]

    def write(self, connection: Connection, records: Sequence[Shaped], *, apart: bool = False) -> None:
        """Write records, each by a statement of its own where they are to be kept `apart`.

        Raises ConnectError, SQLAlchemyError or TableChangeError, and TableAlteredError where all has to be written again.
        """
        names = self._change_tables(connection, records)
        self._write(connection, records, apart=apart)
        altered = self._tables.altered(connection, names)
        if altered:
            raise TableAlteredError(f"Table {', '.join(map(str, altered))} was changed while it was written")

    def altered(self, connection: Connection) -> bool:
        """Return whether somebody has changed a table since it was looked at; raises SQLAlchemyError."""
        return bool(self._tables.altered(connection, list(self._names.values())))

    def _change_tables(self, connection: Connection, records: Sequence[Shaped]) -> list[TableName]:
        """Make and widen what the records need, and return the tables that they are for."""
        seen = set()
        for shape, record in records:
            pair = (record.topic, id(shape))
            if pair not in seen and not self.shapes.is_delete(record):
                seen.add(pair)
                self._prepare(connection, self._name(record.topic or ""), shape, deletes=False)
        return list(dict.fromkeys(self._name(record.topic or "") for _, record in records))

    def _write(self, connection: Connection, records: Sequence[Shaped], *, apart: bool) -> None:
        waiting: dict[TableName, _Gathered] = {}
        keyed = self._mode in ("upsert", "update")
        for shape, record in records:
            name = self._name(record.topic or "")
            gathered = waiting.setdefault(name, _Gathered())
            if self.shapes.is_delete(record):
                self._gather_delete(connection, name, gathered, shape, record)
            else:
                if gathered.shape is not shape and gathered.shape is not None:
                    self._flush(connection, name, gathered)
                gathered.shape = shape
                row = shape.row(record)
                if keyed:
                    key = row[: shape.keys]
                    gathered.by_key.pop(key, None)
                    gathered.by_key[key] = row
                else:
                    gathered.rows.append(row)
            if apart or gathered.count >= self._rows_max or (keyed and self._is_apart(connection, name, shape)):
                self._flush(connection, name, gathered)
        for name, gathered in waiting.items():
            self._flush(connection, name, gathered)

    def _is_apart(self, connection: Connection, name: TableName, shape: Shape) -> bool:
        """Return whether a record's statement must not have another's key, for that may be its own in the database."""
        return self.dialect.name == "postgresql" and self._keys_may_meet(connection, name, shape)

    def _keys_may_meet(self, connection: Connection, name: TableName, shape: Shape) -> bool:
        """Return whether the table may hold two keys for one that differ here."""
        if self.dialect.name != "postgresql":
            kinds = (each.schema for each in shape.fields[: shape.keys])
            return not all(each.name is None and each.type in _WHOLE for each in kinds)
        known = self._meeting.get((name, id(shape)))
        if known is not None:
            return known[1]
        table = self._tables.find(connection, name)
        if table is None:  # one that is made here has texts as they are
            return any(each.schema.type in _FLOATS for each in shape.fields[: shape.keys])
        columns = [table.column(each.name) for each in shape.fields[: shape.keys]]
        found = any(
            each is not None and (each in table.merging or not _exact(table.casts[each], table.types[each]))
            for each in columns
        )
        if len(self._meeting) >= PREPARED_MAX:
            self._meeting.clear()
        self._meeting[name, id(shape)] = (shape, found)
        return found

    def _gather_delete(
        self, connection: Connection, name: TableName, gathered: _Gathered, shape: Shape, record: SinkRecord
    ) -> None:
        if gathered.rows or (gathered.delete_shape is not None and gathered.delete_shape is not shape):
            self._flush(connection, name, gathered)
        key = shape.key(record)
        gathered.by_key.pop(key, None)
        if gathered.by_key and self._keys_may_meet(connection, name, shape):
            self._flush(connection, name, gathered)
        gathered.deleted[key] = None
        gathered.delete_shape = shape

    def _name(self, topic: str) -> TableName:
        found = self._names.get(topic)
        if found is None:
            text = self._format.replace("${topic}", topic)
            found = self._names[topic] = parse_table_name(text, self.dialect)
            if not found.table:
                raise ConnectError(f"table.name.format={self._format} makes no table's name of topic {topic}")
        return found

    def _flush(self, connection: Connection, name: TableName, gathered: _Gathered) -> None:
        if gathered.deleted and gathered.delete_shape is not None:
            prepared = self._prepare(connection, name, gathered.delete_shape, deletes=True)
            if prepared is not None:  # where there is no table, there is nothing to delete
                self._writer.delete(connection, prepared.target, _columns(list(gathered.deleted), prepared))
        rows = gathered.rows or list(gathered.by_key.values())
        if rows and gathered.shape is not None:
            prepared = self._prepare(connection, name, gathered.shape, deletes=False)
            assert prepared is not None
            write = {"insert": self._writer.insert, "upsert": self._writer.upsert, "update": self._writer.update}
            write[self._mode](connection, prepared.target, _columns(rows, prepared))
        gathered.rows, gathered.by_key, gathered.deleted = [], {}, {}
        gathered.delete_shape = gathered.shape = None

    def _prepare(self, connection: Connection, name: TableName, shape: Shape, *, deletes: bool) -> _Prepared | None:
        known = self._prepared.get((name, id(shape)))
        if known is None:
            if len(self._prepared) >= PREPARED_MAX:
                self._prepared.clear()
            known = self._prepared[name, id(shape)] = (shape, self._made(connection, name, shape, deletes=deletes))
        if known[1] is None:
            del self._prepared[name, id(shape)]  # it may be created any time
        return known[1]

    def _made(self, connection: Connection, name: TableName, shape: Shape, *, deletes: bool) -> _Prepared | None:
        if deletes and self._tables.find(connection, name) is None:
            return None
        before = self._tables.known(name)
        try:
            table = self._tables.ready(connection, name, shape.fields)
        except DBAPIError as error:
            if passes_by_itself(error):
                raise
            raise TableChangeError(str(error.orig)) from error
        if before is not None and table is not before:  # somebody may have changed it before it was widened
            self._forget_prepared(name)
        columns = [table.column(each.name) for each in shape.fields]
        places = tuple(place for place, each in enumerate(columns) if each is not None)
        lost = [
            each.name
            for each, column in zip(shape.fields, columns, strict=True)
            if column is None and each.schema != UNKNOWN
        ]
        if lost:
            raise TableChangeError(f"The database lists column {', '.join(lost)} of table {name} under another name")
        written = tuple(each for each in columns if each is not None)
        binds = tuple(
            self._binders.of(each.name, each.schema, table.types[column], cast=table.casts.get(column, ""))
            for each, column in zip(shape.fields, columns, strict=True)
            if column is not None
        )
        return _Prepared(Target(table, written, shape.keys), binds, places)


def _exact(cast: str, type_: Any) -> bool:
    """Return whether a column keeps each value as it is, so that what differs outside differs inside."""
    if cast.startswith(("timestamp", "time ")):
        return getattr(type_, "precision", None) is None
    if cast == "numeric":
        return getattr(type_, "precision", None) is None
    return cast in _EXACT and getattr(type_, "length", None) is None


_EXACT = frozenset(
    ("smallint", "integer", "bigint", "boolean", "bytea", "text", "character varying", "date")  # no floats: NaN is NaN
)
_FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_WHOLE = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.BOOLEAN)


def _columns(rows: Sequence[Sequence[Any]], prepared: _Prepared) -> list[list[Any]]:
    """Return rows column by column, bound; where rows are only as long as a key, so are the columns."""
    turned = list(zip(*rows, strict=True))
    found: list[list[Any]] = []
    for place, bind in zip(prepared.places, prepared.binds, strict=True):
        if place < len(turned):
            values = turned[place]
            found.append(list(values) if bind is None else [None if each is None else bind(each) for each in values])
    return found
