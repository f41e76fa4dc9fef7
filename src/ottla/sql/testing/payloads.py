"""Keys and values as input.json and output.json show them ↔ bytes, by the layout of the source over their topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

from ottla.sql.catalogue import Source
from ottla.sql.errors import SqlError
from ottla.sql.expressions.casts import coerce_value
from ottla.sql.formats import Codec
from ottla.sql.formats.json import compact_text
from ottla.sql.schema import SqlColumn
from ottla.sql.types import BIGINT, DOUBLE, INTEGER, STRING, SqlType


def bytes_of(value: object, source: Source | None, *, is_key: bool) -> bytes | None:
    """The bytes of a key or a value; raises SqlError for one that its format cannot hold."""
    if value is None:
        return None
    if source is None:
        return _text_bytes(value)
    format_, columns, codec = _parts(source, is_key=is_key)
    if format_ == "KAFKA" and columns:
        return codec.encode((_typed(value, columns[0].type),))
    if format_ in ("KAFKA", "NONE", "DELIMITED"):
        return _text_bytes(value)
    return compact_text(value).encode()


def value_of(data: bytes | None, source: Source, *, is_key: bool) -> object:
    """A key or a value that was written, as output.json shows it."""
    if data is None:
        return None
    format_, columns, codec = _parts(source, is_key=is_key)
    if format_ == "KAFKA" and columns:
        found = codec.decode(data)
        return None if found is None else found[0]
    if format_ == "JSON":
        return json.loads(data, parse_float=Decimal)
    return data.decode(errors="replace")


def _parts(source: Source, *, is_key: bool) -> tuple[str, Sequence[SqlColumn], Codec]:
    layout, schema = source.layout, source.schema
    if is_key:
        return layout.key_format, schema.key, layout.key_codec(schema)
    return layout.value_format, schema.value, layout.value_codec(schema)


def _text_bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else compact_text(value).encode()


def _typed(value: object, type_: SqlType) -> object:
    kinds: dict[type[object], SqlType] = {str: STRING, int: BIGINT, Decimal: DOUBLE, float: DOUBLE}
    given = kinds.get(type(value))
    if isinstance(value, Decimal | float) and type_ == DOUBLE:
        return float(value)
    if isinstance(value, int) and type_ in (INTEGER, BIGINT):
        return value
    convert = None if given is None else coerce_value(given, type_)
    if convert is None:
        raise SqlError(f"{value!r} is no {type_}")
    return convert(value)
