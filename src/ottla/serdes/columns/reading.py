"""Records' bytes → a column of a wanted type."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ottla.serdes.columns.avro_reading import Read, placed, read_as
from ottla.serdes.columns.avro_tree import tree_of
from ottla.serdes.columns.by_row import RowReader
from ottla.serdes.columns.framing import Group, grouped, laid_out, present
from ottla.serdes.columns.rows import BadBytesError, Numbers, Rows, slices
from ottla.serdes.columns.types import arrow_type_of
from ottla.serdes.errors import SerdeError
from ottla.serdes.registry import Registry, SchemaText
from ottla.serdes.settings import SerdeSettings
from ottla.serdes.wire import SchemaId

__all__ = ["ColumnReader"]

_BAD = (BadBytesError, pa.ArrowInvalid)
BARE_BYTES = '"bytes"'
BYTES_MAX = 1 << 30
"""Of a column that is read at once: places in it are numbers of 32 bits."""


class ColumnReader:
    """Reads binary columns of records' keys or values as one schema, whichever of its format they were written with."""

    def __init__(
        self,
        settings: SerdeSettings,
        wanted: SchemaText,
        *,
        registry: Registry | None = None,
        permissive: bool = False,
    ) -> None:
        """Where `permissive`, what cannot be read is null; else it is a SerdeError. Raises SerdeError for the schema."""
        self.registry = registry or Registry(settings)
        self._settings, self._permissive = settings, permissive
        self._wanted = wanted
        self._reads = lru_cache(settings.schemas_max)(self._read_of)
        parsed = self.registry.parsed(wanted)
        self._tree = tree_of(parsed) if wanted.schema_type == "AVRO" else None
        self._rows = None if self._tree is not None else RowReader(self.registry, settings, wanted)
        self.type = arrow_type_of(self._tree) if self._tree is not None else self._rows.type  # type: ignore[union-attr]

    def read(self, column: pa.Array, headers: Sequence[bytes | None] | None = None) -> pa.Array:
        """Return a column of `type`, null where the column is; `headers` are those of its rows that name a schema.

        Raises SerdeError: `retriable` where the registry is away.
        """
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if len(column) > 1 and column.nbytes > BYTES_MAX:
            half = len(column) // 2
            parts_of = (slice(0, half), slice(half, None))
            return pa.concat_arrays([self.read(column[each], headers and headers[each]) for each in parts_of])
        data, begun, end = laid_out(column)
        parts: list[tuple[Numbers, pa.Array]] = []
        for each in grouped(data, begun, end, present(column), headers):
            parts += self._group(each, data, begun, end)
        return placed(parts, len(column), self.type)

    def _group(self, group: Group, data: Numbers, begun: Numbers, end: Numbers) -> list[tuple[Numbers, pa.Array]]:
        try:
            if group.named is None:
                raise SerdeError(group.problem)
            if self._rows is not None:
                return self._by_row(group, data, begun, end)
            read = self._reads(group.named)
        except SerdeError as error:
            if error.retriable or not self._permissive:
                raise
            return []
        which = group.which
        return self._bisected(read, Rows(data, begun[which] + group.skipped, end[which]), which)

    def _bisected(self, read: Read, rows: Rows, which: Numbers) -> list[tuple[Numbers, pa.Array]]:
        """Read rows, and where one of them is bad the halves on their own, down to that one."""
        pos = rows.pos.copy()
        try:
            return [(which, read(rows))]
        except _BAD as error:
            if len(which) == 1:
                if self._permissive:
                    return []
                text = str(error) or "they end too early, or say what cannot be"
                raise SerdeError(f"The bytes of a record are no value of the Avro schema: {text}") from error
        half = len(which) // 2
        return [
            *self._bisected(read, rows.at(pos[:half], rows.end[:half]), which[:half]),
            *self._bisected(read, rows.at(pos[half:], rows.end[half:]), which[half:]),
        ]

    def _read_of(self, named: SchemaId) -> Read:
        written = self._schema(named)
        if written.schema_type != "AVRO":
            raise SerdeError(f"The record was written with a schema of {written.schema_type}, and AVRO is expected")
        assert self._tree is not None
        read = read_as(tree_of(self.registry.parsed(written)), self._tree)
        is_bare = self.registry.parsed(written).canonical() == BARE_BYTES
        return _bare if is_bare else read

    def _schema(self, named: SchemaId) -> SchemaText:
        if named.id is not None:
            return self.registry.by_id(named.id)
        assert named.guid is not None
        return self.registry.by_guid(named.guid)

    def _by_row(self, group: Group, data: Numbers, begun: Numbers, end: Numbers) -> list[tuple[Numbers, pa.Array]]:
        assert self._rows is not None and group.named is not None
        reads = self._rows.reads(group.named, self._schema(group.named), in_header=group.in_header)
        rows, values = [], []
        for row in group.which.tolist():
            try:
                values.append(reads(data[begun[row] + group.skipped : end[row]].tobytes()))
                rows.append(row)
            except SerdeError:
                if not self._permissive:
                    raise
        return [(np.array(rows, np.int64), pa.array(values, self.type))] if rows else []


def _bare(rows: Rows) -> pa.Array:
    """Bytes that are no part of anything stand without their length, as Confluent's serializer writes them."""
    return slices(rows.data, rows.pos, rows.end - rows.pos)
