"""Many changes of one table at once: columns of texts become columns of Debezium's records. Pure.

Made so are the records that have no row before the change: of a snapshot, of insertions, and of updates whose key stays.
Everything about them equals what `events` makes one by one, but that all rows of a piece have one time of making.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.connect import DataError, Header, Schema, SourceColumns
from ottla.connect.data import plain_type
from ottla.connectors.cdc.column_kinds import ColumnKind

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnEvents", "ColumnShape", "same"]


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """How one column is made."""

    place: int
    """Among the columns that the database sends."""
    name: str
    """Its field's."""
    kind: ColumnKind
    schema: Schema
    instead: Any
    """What null is written as."""

    @property
    def is_possible(self) -> bool:
        """Whether its values can stand in a column at all."""
        return self.kind.column is not None or plain_type(self.schema) is not None

    def made(self, raw: pa.Array) -> pa.Array:
        """Return the values; raises ValueError, DataError or ArithmeticError where one is beyond what a column can be."""
        import pyarrow as pa

        if self.kind.column is not None and (self.instead is None or not raw.null_count):
            return self.kind.column(raw)
        parse, instead = self.kind.parse, self.instead
        return pa.array([instead if each is None else parse(each) for each in raw.to_pylist()], plain_type(self.schema))


def same(value: Any, type_: pa.DataType, count: int) -> pa.Array:
    """Return a column whose rows all have one value; it costs next to nothing to make and to write."""
    import numpy as np
    import pyarrow as pa

    if value is None:
        return pa.nulls(count, type_)
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), pa.array([value], type_))


class ColumnEvents:
    """Makes the records of one table in columns; `made` returns None where they have to be made one by one."""

    def __init__(
        self,
        topic: str,
        columns: Sequence[ColumnShape | None],
        key: tuple[Schema, Sequence[ColumnShape]] | None,
        envelope: Schema,
        source: Callable[[Any, int], Sequence[pa.Array]],
        about: tuple[Mapping[str, Any], Sequence[Header]],
    ) -> None:
        """`source` makes the columns of `source` of moments and a number of rows; `about` are partition and headers."""
        self._topic, self._count = topic, len(columns)
        self._columns = [each for each in columns if each is not None]
        self._key_schema: Schema | None = None if key is None else key[0]
        self._keys: Sequence[ColumnShape] = () if key is None else key[1]
        self._envelope, self._source, (self._partition, self._headers) = envelope, source, about

    @property
    def is_possible(self) -> bool:
        """Whether this table's rows can stand in columns."""
        return bool(self._columns) and all(each.is_possible for each in (*self._columns, *self._keys))

    def made(
        self, op: str, raw: Sequence[pa.Array], moments: Any, offset: Mapping[str, Any] | None
    ) -> SourceColumns | None:
        """Return the records of rows without a row before; `op` is `r`, `c` or `u`, of all of them."""
        import pyarrow as pa

        if len(raw) != self._count:
            return None
        try:
            row = _struct(self._columns, raw)
            keys = _struct(self._keys, raw) if self._keys else None
            source = self._source(moments, len(row))
        except (DataError, ValueError, TypeError, ArithmeticError, pa.ArrowException):
            return None
        return SourceColumns(
            topic=self._topic,
            values=self._enveloped(op, row, source),
            schema=self._envelope,
            source_partition=self._partition,
            source_offset=offset,
            key_schema=self._key_schema,
            keys=keys,
            headers=tuple(self._headers),
        )

    def _enveloped(self, op: str, row: pa.Array, source: Sequence[pa.Array]) -> pa.StructArray:
        import pyarrow as pa

        count, now_ns = len(row), time.time_ns()
        fields = [each.name for each in self._envelope.struct_fields]
        names = [each.name for each in self._envelope.struct_fields[fields.index("source")].schema.struct_fields]
        columns = [
            pa.nulls(count),
            row,
            pa.StructArray.from_arrays(list(source), names),
            pa.nulls(count),
            same(op, pa.string(), count),
            *(same(each, pa.int64(), count) for each in (now_ns // 1_000_000, now_ns // 1000, now_ns)),
        ]
        return pa.StructArray.from_arrays(columns, fields)


def _struct(shapes: Sequence[ColumnShape], raw: Sequence[pa.Array]) -> pa.StructArray:
    import pyarrow as pa

    return pa.StructArray.from_arrays([each.made(raw[each.place]) for each in shapes], [each.name for each in shapes])
