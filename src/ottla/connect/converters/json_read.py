"""Connect's values out of JSON: one function per schema, put together once, with Jackson's leniency."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ottla.base import low_bits
from ottla.connect.data import logical
from ottla.connect.data.conversions import double_of, wrapped
from ottla.connect.data.java_text import Float32
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import DATE, DECIMAL, TIME, TIMESTAMP, Struct
from ottla.connect.errors import DataError

__all__ = ["Read", "read_plain", "reader_of"]

Read = Callable[[Any], Any]


def reader_of(schema: Schema, *, replace_null: bool) -> Read:
    """Return what reads this schema's values out of parsed JSON; `replace_null` puts defaults for null."""
    inner = _logical(schema) or _typed(schema, replace_null=replace_null)
    default = schema.default if replace_null else None

    def read(node: Any) -> Any:
        if node is not None:
            return inner(node)
        if default is None and not schema.optional:
            raise DataError(f"Invalid null value for required {schema.type} field")
        return default

    return read


def _kind(node: Any) -> str:
    """Return Jackson's name of a node's kind."""
    match node:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case int() | float() | Decimal():
            return "NUMBER"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
    return "OBJECT"


def _integral(node: Any) -> bool:
    return isinstance(node, int) and not isinstance(node, bool)


def _logical(schema: Schema) -> Read | None:
    def refuse(word: str, expected: str, node: Any) -> DataError:
        return DataError(
            f"Invalid type for {word}, underlying representation should be {expected} but was {_kind(node)}"
        )

    def decimal(node: Any) -> Decimal:
        if isinstance(node, Decimal) or _integral(node):
            return Decimal(node)
        if not isinstance(node, str):
            raise refuse("Decimal", "numeric or bytes", node)
        try:
            return logical.decimal_of_bytes(schema, _from_base64(node))
        except (ValueError, DataError) as error:
            raise DataError("Invalid bytes for Decimal field") from error

    def moment(word: str, expected: str, bits: int, made: Callable[[int], Any]) -> Read:
        def read(node: Any) -> Any:
            if not _integral(node) or (bits == 32 and not -(1 << 31) <= node < 1 << 31):
                raise refuse(word, expected, node)
            return made(int(wrapped(node, bits)))

        return read

    readers: dict[str | None, Read] = {
        DECIMAL: decimal,
        DATE: moment("Date", "integer", 32, logical.date_of_days),
        TIME: moment("Time", "integer", 32, logical.time_of_ms),
        TIMESTAMP: moment("Timestamp", "integral", 64, logical.timestamp_of_ms),
    }
    return readers.get(schema.name)


def _from_base64(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def _bytes(node: Any) -> bytes | None:
    if not isinstance(node, str):
        return None
    try:
        return _from_base64(node)
    except ValueError as error:  # binascii.Error among them
        raise DataError("Invalid bytes field") from error


def _whole(node: Any) -> int:
    """Return a number's whole part; what is no number is 0, and so is what has no low bits left."""
    if isinstance(node, bool) or not isinstance(node, int | Decimal):
        return 0
    return node if isinstance(node, int) else low_bits(node, 64)


def _integer(bits: int) -> Read:
    first = max(bits, 32)
    if bits == 64:
        return lambda node: int(wrapped(_whole(node), 64))
    return lambda node: int(wrapped(int(wrapped(_whole(node), first)), bits))


def _double(node: Any) -> float:
    return double_of(node) if isinstance(node, int | Decimal) and not isinstance(node, bool) else 0.0


_SCALARS: dict[SchemaType, Read] = {
    SchemaType.INT8: _integer(8),
    SchemaType.INT16: _integer(16),
    SchemaType.INT32: _integer(32),
    SchemaType.INT64: _integer(64),
    SchemaType.FLOAT32: lambda node: Float32(_double(node)),
    SchemaType.FLOAT64: _double,
    SchemaType.BOOLEAN: lambda node: node is True,
    SchemaType.STRING: lambda node: node if isinstance(node, str) else None,
    SchemaType.BYTES: _bytes,
}


def _typed(schema: Schema, *, replace_null: bool) -> Read:
    if schema.type in _SCALARS:
        return _SCALARS[schema.type]

    def of(inner: Schema | None) -> Read:
        return read_plain if inner is None else reader_of(inner, replace_null=replace_null)

    if schema.type is SchemaType.STRUCT:
        fields = [(field, of(field.schema)) for field in schema.fields]
        return lambda node: _struct(schema, fields, node)
    of_value = of(schema.value_schema)
    if schema.type is SchemaType.ARRAY:
        return lambda node: _list(node, of_value)
    if schema.key_schema is None or schema.key_schema.type is SchemaType.STRING:
        return lambda node: _object(node, of_value)
    of_key = of(schema.key_schema)
    return lambda node: _pairs(node, of_key, of_value)


def _struct(schema: Schema, fields: list[tuple[Field, Read]], node: Any) -> Struct:
    if not isinstance(node, dict):
        raise DataError(f"Structs should be encoded as JSON objects, but found {_kind(node)}")
    made = Struct(schema)
    for field, read in fields:
        made.put(field.name, read(node.get(field.name)))
    return made


def _list(node: Any, of_value: Read) -> list[Any]:
    items = node if isinstance(node, list) else node.values() if isinstance(node, dict) else ()
    return [of_value(each) for each in items]


def _object(node: Any, of_value: Read) -> dict[Any, Any]:
    if not isinstance(node, dict):
        raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {_kind(node)}")
    return {key: of_value(each) for key, each in node.items()}


def _pairs(node: Any, of_key: Read, of_value: Read) -> dict[Any, Any]:
    if not isinstance(node, list):
        raise DataError(
            f"Maps with non-string fields should be encoded as JSON array of tuples, but found {_kind(node)}"
        )
    found: dict[Any, Any] = {}
    for pair in node:
        if not isinstance(pair, list):
            raise DataError(f"Found invalid map entry instead of array tuple: {_kind(pair)}")
        if len(pair) != 2:
            raise DataError(f"Found invalid map entry, expected length 2 but found :{len(pair)}")
        key = of_key(pair[0])
        if isinstance(key, dict):
            raise DataError("A map cannot be the key of a map")
        found[tuple(key) if isinstance(key, list) else key] = of_value(pair[1])
    return found


def read_plain(node: Any) -> Any:
    """Read a value that has no schema: whole numbers are INT64, fractions FLOAT64."""
    match node:
        case None | bool() | str():
            return node
        case int():
            return int(wrapped(node, 64))
        case Decimal():
            return _double(node)
        case list():
            return [read_plain(each) for each in node]
    return {key: read_plain(each) for key, each in node.items()}
