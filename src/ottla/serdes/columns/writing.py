"""A column → records' bytes."""

from __future__ import annotations

import base64
import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.schemas import SchemaType
from ottla.serdes.codecs import MessageFields
from ottla.serdes.columns.avro_tree import tree_of
from ottla.serdes.columns.avro_writing import Write, joined, write_as
from ottla.serdes.columns.framing import present
from ottla.serdes.errors import SerdeError
from ottla.serdes.registry import Registry, SchemaText
from ottla.serdes.serializing import Serializer
from ottla.serdes.settings import SerdeSettings
from ottla.serdes.wire import SchemaId

__all__ = ["ColumnWriter"]

BARE_BYTES = '"bytes"'


class ColumnWriter:
    """Writes columns as records' keys or values of a topic, by one schema or by the registry's latest."""

    def __init__(
        self,
        settings: SerdeSettings,
        topic: str,
        schema: SchemaText | None = None,
        *,
        message: str | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Raises SerdeError where ids would be in headers, which a column is not."""
        if settings.id_in_header:
            raise SerdeError("A column of bytes has no headers, which HeaderSchemaIdSerializer needs")
        self._serializer = Serializer(settings, registry)
        self._topic, self._schema, self._message = topic, schema, message
        self._writes = lru_cache(16)(self._write_of)

    def write(self, column: pa.Array) -> pa.Array:
        """Return the bytes of each row, null where the column is; raises SerdeError."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        there = present(column)
        if not len(there):
            return pa.nulls(len(column), pa.binary())
        known = self._serializer.known(self._topic, self._schema, self._message)
        codec = self._serializer.codec(known.schema)
        prefix = SchemaId(known.id, known.guid, codec.path_to(self._message)).prefix()
        some = column if len(there) == len(column) else column.take(pa.array(there))
        if known.schema.schema_type == SchemaType.AVRO:
            parts = self._writes(known.schema, some.type)(some)
            found = joined([pa.array([prefix], pa.binary()).take(pa.array(np.zeros(len(some), np.int32))), *parts], 0)
        else:
            is_protobuf = known.schema.schema_type == SchemaType.PROTOBUF
            found = pa.array([prefix + each for each in self._encoded(codec, is_protobuf, some)], pa.binary())
        if len(there) == len(column):
            return found
        places = np.zeros(len(column), np.int64)
        is_null = np.ones(len(column), bool)
        places[there], is_null[there] = np.arange(len(there)), False
        return found.take(pa.array(places, mask=is_null))

    def _write_of(self, schema: SchemaText, column: pa.DataType) -> Write:
        parsed = self._serializer.registry.parsed(schema)
        if parsed.canonical() == BARE_BYTES:
            return lambda values: [values.cast(pa.binary())]
        return write_as(tree_of(parsed), column)

    def _encoded(self, codec: Any, is_protobuf: bool, column: pa.Array) -> list[bytes]:
        path, kind = codec.path_to(self._message), column.type
        if is_protobuf:
            return [codec.encode(MessageFields(_fields(each, kind)), path) for each in column.to_pylist()]
        return [codec.encode(_json(each, kind), path) for each in column.to_pylist()]


def _fields(value: Any, kind: pa.DataType) -> Any:
    """Return a column's value as a message's fields: what is null is not set, and maps are dictionaries."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _fields(value[each.name], each.type) for each in kind if value[each.name] is not None}
    if pa.types.is_map(kind):
        return {key: _fields(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [_fields(each, kind.value_type) for each in value]
    return int(value) if isinstance(value, Decimal) else value


def _json(value: Any, kind: pa.DataType) -> Any:
    """Return a column's value as JSON has it: what is null in a struct is left out, times are as ISO 8601 has them."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _json(value[each.name], each.type) for each in kind if value[each.name] is not None}
    if pa.types.is_map(kind):
        return {str(key): _json(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [_json(each, kind.value_type) for each in value]
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
