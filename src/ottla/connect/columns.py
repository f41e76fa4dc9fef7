"""Many records at once: what a source task may return from `poll`, and a sink task may take, instead of single records.

Tasks and converters that know columns are used so where nothing stands between them that wants single records: no
transformations, and converters that convert an array as a whole. Everywhere else the worker makes records of the columns,
with the same result. So a task that has columns needs nothing besides, and a sink task needs `put` all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ottla.connect.data.arrow import values_of_column
from ottla.connect.data.schema import Schema
from ottla.connect.records import Header, SinkRecord, SourceRecord

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnsConverter", "ColumnsSinkTask", "SinkColumns", "SourceColumns"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceColumns:
    """Rows of one source partition for one topic.

    `poll` returns one of these, or a list of them, with single records between them where it has such. The offset is stored
    once every row is acknowledged; there is none between the rows.
    """

    topic: str
    values: pa.Array
    """As `ottla.connect.data.arrow` has values of the schema; nulls are allowed where the schema allows them."""

    schema: Schema | None
    """Of every value; None for values without schema, which are `pa.string()` or `pa.binary()`."""

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any] | None
    """Where reading goes on behind the last row; None where there is no such place yet."""

    partition: int | None = None
    """The topic's partition; None lets the producer choose: by the keys, or one for all rows without keys."""

    timestamp: int | None = None
    """Of every row, milliseconds since 1970; None for the time of sending."""

    key_schema: Schema | None = None
    keys: pa.Array | None = None
    """As `values`; None where no row has a key."""

    headers: Sequence[Header] = ()
    """Of every row."""

    def slice(self, first: int, count: int) -> SourceColumns:
        """Return some of the rows, with the offset behind all of them."""
        keys = None if self.keys is None else self.keys.slice(first, count)
        return replace(self, values=self.values.slice(first, count), keys=keys)

    def take(self, rows: pa.Array) -> SourceColumns:
        """Return the rows at some places, with the offset behind all of them."""
        return replace(self, values=self.values.take(rows), keys=None if self.keys is None else self.keys.take(rows))

    def records(self) -> list[SourceRecord]:
        """Return the rows one by one; only the last has an offset, since there is none between the rows."""
        last = len(self.values) - 1
        keys = [None] * (last + 1) if self.keys is None else values_of_column(self.key_schema, self.keys)
        values = values_of_column(self.schema, self.values)
        return [
            SourceRecord(
                topic=self.topic,
                partition=self.partition,
                key_schema=self.key_schema,
                key=key,
                value_schema=self.schema,
                value=value,
                timestamp=self.timestamp,
                headers=tuple(self.headers),
                source_partition=self.source_partition,
                source_offset=self.source_offset if row == last else None,
            )
            for row, (key, value) in enumerate(zip(keys, values, strict=True))
        ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SinkColumns:
    """Rows of one topic partition in the order of their offsets, without headers."""

    topic: str
    partition: int
    values: pa.Array
    """`pa.string()` or `pa.binary()`."""

    schema: Schema | None
    offsets: pa.Array
    """`pa.int64()`; not always without gaps."""

    timestamps: pa.Array
    """`pa.int64()`, milliseconds since 1970; -1 where a record has none."""

    timestamp_type: str = "CREATE_TIME"
    key_schema: Schema | None = None
    keys: pa.Array | None = None
    """As `values`; None where no row has a key."""

    def __len__(self) -> int:
        return len(self.values)

    def records(self) -> list[SinkRecord]:
        """Return the rows one by one."""
        keys = [None] * len(self) if self.keys is None else self.keys.to_pylist()
        columns = (keys, self.values.to_pylist(), self.offsets.to_pylist(), self.timestamps.to_pylist())
        return [
            SinkRecord(
                topic=self.topic,
                partition=self.partition,
                key_schema=self.key_schema,
                key=key,
                value_schema=self.schema,
                value=value,
                offset=offset,
                timestamp=None if timestamp < 0 else timestamp,
                timestamp_type=self.timestamp_type,
            )
            for key, value, offset, timestamp in zip(*columns, strict=True)
        ]


@runtime_checkable
class ColumnsSinkTask(Protocol):
    """What a `SinkTask` has besides, to take columns where they come: `put` and this are called in the records' order."""

    def put_columns(self, columns: SinkColumns) -> None:
        """Take rows as `put` takes records; RetriableError asks for the same ones again."""
        ...


@runtime_checkable
class ColumnsConverter(Protocol):
    """What a `Converter` has besides, to convert many values of one schema at once."""

    def columns_from_connect(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return `pa.binary()` with each value's bytes; None to be asked value by value."""
        ...

    def columns_to_connect(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return the schema that all values of `pa.binary()` have, and the values; None to be asked one by one."""
        ...
