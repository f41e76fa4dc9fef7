"""Rows as JSON, as ksqlDB's clients read them: BYTES in base64, dates and times in ISO 8601, decimals with their scale."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache

from ottla.base import plain_text
from ottla.sql.errors import SqlError
from ottla.sql.expressions.times import date_text, time_text, timestamp_text
from ottla.sql.formats import FormatError, SchemaForm, codec
from ottla.sql.formats.json import compact_text
from ottla.sql.formats.registered import own_schema
from ottla.sql.schema import SqlColumn
from ottla.sql.types import ArrayType, MapType, SqlType, StructType

Shown = Callable[[object], object]


class RowWriter:
    """Writes rows of some types as JSON arrays."""

    def __init__(self, types: Sequence[SqlType]) -> None:
        self._shown = [_shown(type_) for type_ in types]

    def values(self, row: Sequence[object]) -> list[object]:
        """A row's values as JSON has them; a DECIMAL stays one."""
        return [show(value) for show, value in zip(self._shown, row, strict=True)]

    def text(self, row: Sequence[object]) -> str:
        """A row as a JSON array without spaces."""
        return compact_text(self.values(row))


class ProtobufWriter:
    """Writes rows of some columns as Protobuf messages in base64; `schema` is their message's text."""

    def __init__(self, names: Sequence[str], types: Sequence[SqlType]) -> None:
        """Raises SqlError for columns that Protobuf cannot tell."""
        columns = tuple(SqlColumn(name, type_) for name, type_ in zip(names, types, strict=True))
        self.schema = own_schema("PROTOBUF_NOSR", columns, wrapped=True, form=SchemaForm()).schema.text
        self._encode = codec("PROTOBUF_NOSR", columns).encode

    def text(self, row: Sequence[object]) -> str:
        """A row's message; raises SqlError for a value that it cannot hold."""
        try:
            return base64.b64encode(self._encode(tuple(row)) or b"").decode()
        except FormatError as error:
            raise SqlError(f"A row is no Protobuf message: {error}") from None


@lru_cache(1024)
def _shown(type_: SqlType) -> Shown:
    inner = _plain(type_)
    return lambda value: None if value is None else inner(value)


def _plain(type_: SqlType) -> Shown:
    if isinstance(type_, ArrayType):
        return _list(_shown(type_.item))
    if isinstance(type_, MapType):
        return _map(_shown(type_.value))
    if isinstance(type_, StructType):
        return _struct({name: _shown(inner) for name, inner in type_.fields})
    plain: dict[str, Shown] = {
        "BYTES": lambda value: base64.b64encode(bytes(value)).decode() if isinstance(value, bytes) else value,
        "DATE": lambda value: date_text(value) if isinstance(value, int) else value,
        "TIME": lambda value: time_text(value) if isinstance(value, int) else value,
        "TIMESTAMP": lambda value: timestamp_text(value) if isinstance(value, int) else value,
        "DOUBLE": _finite,
    }
    return plain.get(type_.base, _as_it_is)


def _as_it_is(value: object) -> object:
    return value


def _finite(value: object) -> object:
    """What JSON has no number for is a text, as Java's writer makes one."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _list(item: Shown) -> Shown:
    return lambda value: [item(each) for each in value] if isinstance(value, list) else value


def _map(each: Shown) -> Shown:
    def show(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {_key(key): each(inner) for key, inner in value.items()}

    return show


def _key(key: object) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return "null" if key is None else plain_text(key) if isinstance(key, Decimal) else str(key)


def _struct(fields: dict[str, Shown]) -> Shown:
    def show(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: show_field(value.get(name)) for name, show_field in fields.items()}

    return show
