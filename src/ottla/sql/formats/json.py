"""JSON: columns as fields of an object, or a single one as it is.

Numbers keep their scale, bytes are base64, a DATE is its days and a TIME or TIMESTAMP its milliseconds. A map is an
object; one with keys that are no texts, which no topic of JSON holds, and every one of JSON_SR is an array of entries,
objects with `key` and `value`, as its schema says. Fields are found by their name, else by it in upper case.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

from ottla.base import ExactDecoder, decimal_of_text, low_bits, plain_text
from ottla.java import double_text
from ottla.sql.errors import EvaluationError
from ottla.sql.expressions.casts import INT_BITS, LONG_BITS, wrapped
from ottla.sql.formats.codec import Codec, FormatError, Values
from ottla.sql.formats.exact import fitted
from ottla.sql.schema import SqlColumn
from ottla.sql.types import STRING, ArrayType, DecimalType, MapType, SqlType, StructType

Write = Callable[..., str]
Read = Callable[..., object]
_FAILURES = (EvaluationError, ValueError, OverflowError, InvalidOperation, RecursionError, binascii.Error)


def json_codec(columns: Sequence[SqlColumn], *, wrapped: bool, entries: bool = False) -> Codec:
    """JSON for columns; not `wrapped`, the only one stands without an object around it.

    With `entries` all maps are written as arrays of entries, and read as those or as objects.
    """
    if wrapped:
        return _of_object(columns, entries)
    write, read = _writer(columns[0].type, entries), _reader(columns[0].type, entries)

    def encode(values: Values | None) -> bytes | None:
        return None if values is None or values[0] is None else write(values[0]).encode(errors="replace")

    def decode(data: bytes | None) -> Values | None:
        parsed = None if data is None else _parsed(data)
        return None if parsed is None else (_guarded(read, parsed),)

    return Codec(encode, decode)


def _of_object(columns: Sequence[SqlColumn], entries: bool) -> Codec:
    type_ = StructType(tuple((column.name, column.type) for column in columns))
    names = [column.name for column in columns]
    write, read = _writer(type_, entries), _reader(type_, entries)

    def encode(values: Values | None) -> bytes | None:
        return None if values is None else write(dict(zip(names, values, strict=True))).encode(errors="replace")

    def decode(data: bytes | None) -> Values | None:
        parsed = None if data is None else _parsed(data)
        if parsed is None:
            return None
        found = _guarded(read, parsed)
        assert isinstance(found, dict), found
        return tuple(found.values())

    return Codec(encode, decode)


_decoder = ExactDecoder()
"""One for all records: `json.loads` with options makes one for each."""


def _parsed(data: bytes) -> object:
    try:
        return _decoder.of_bytes(data)
    except ValueError as error:
        raise FormatError(f"Failed to deserialize JSON: {error}") from None


def _guarded(read: Read, parsed: object) -> object:
    try:
        return read(parsed)
    except _FAILURES as error:
        raise FormatError(str(error)) from None


# -- values → texts


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _name(key: str | None) -> str:
    """A key of a map as a field's name: JSON has no other for null than its text."""
    return '"null"' if key is None else _text(key)


def _number(value: float) -> str:
    return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'


def _writer(type_: SqlType, entries: bool) -> Write:
    plain = _plain_writer(type_, entries)

    def write(value: object) -> str:
        return "null" if value is None else plain(value)

    return write


def _plain_writer(type_: SqlType, entries: bool) -> Write:
    if isinstance(type_, ArrayType):
        item = _writer(type_.item, entries)
        return lambda values: f"[{','.join(map(item, values))}]"
    if isinstance(type_, MapType):
        return _map_writer(type_, entries)
    if isinstance(type_, StructType):
        fields = [(name, f"{_text(name)}:", _writer(of, entries)) for name, of in type_.fields]
        return lambda value: "{" + ",".join(start + write(value.get(name)) for name, start, write in fields) + "}"
    match type_.base:
        case "STRING":
            return _text
        case "DOUBLE":
            return _number
        case "BOOLEAN":
            return lambda value: "true" if value else "false"
        case "DECIMAL":
            return plain_text
        case "BYTES":
            return lambda value: f'"{base64.b64encode(value).decode()}"'
        case _:
            return str


def _map_writer(type_: MapType, entries: bool) -> Write:
    value = _writer(type_.value, entries)
    if type_.key == STRING and not entries:
        return lambda given: "{" + ",".join(f"{_name(key)}:{value(each)}" for key, each in given.items()) + "}"
    key_text = _writer(type_.key, entries)

    def write(given: dict[object, object]) -> str:
        shown = (f'{{"key":{key_text(key)},"value":{value(each)}}}' for key, each in given.items())
        return f"[{','.join(shown)}]"

    return write


# -- parsed JSON → values


def _node(value: object) -> str:
    """What Jackson calls a parsed value."""
    names: dict[type[object], str] = {bool: "BooleanNode", int: "IntNode", Decimal: "DecimalNode", str: "TextNode"}
    return names.get(type(value), "ArrayNode" if isinstance(value, list) else "ObjectNode")


def _refused(value: object, type_: SqlType, path: str) -> FormatError:
    return FormatError(f"Can't convert type. sourceType: {_node(value)}, requiredType: {type_}, path: {path}")


def _reader(type_: SqlType, entries: bool, path: str = "$") -> Read:
    plain = _plain_reader(type_, entries, path)
    return lambda value: None if value is None else plain(value)


def _plain_reader(type_: SqlType, entries: bool, path: str) -> Read:
    if isinstance(type_, ArrayType):
        return _array_reader(type_, entries, path)
    if isinstance(type_, MapType):
        return _map_reader(type_, entries, path)
    if isinstance(type_, StructType):
        return _struct_reader(type_, entries, path)
    if isinstance(type_, DecimalType):
        return _decimal_reader(type_, path)
    match type_.base:
        case "STRING":
            return _string
        case "BOOLEAN":
            return _only(bool, type_, path)
        case "BYTES":
            text = _only(str, type_, path)
            return lambda value: base64.b64decode(str(text(value)), validate=True)
        case "DOUBLE":
            return _double_reader(type_, path)
        case _:
            return _whole_reader(type_, path)


def _only(kind: type[object], type_: SqlType, path: str) -> Read:
    def read(value: object) -> object:
        if type(value) is not kind:
            raise _refused(value, type_, path)
        return value

    return read


def _whole_reader(type_: SqlType, path: str) -> Read:
    bits = INT_BITS if type_.base in ("INTEGER", "DATE", "TIME") else LONG_BITS
    texts = type_.base in ("INTEGER", "BIGINT")

    def read(value: object) -> object:
        if isinstance(value, str) and texts:
            whole = int(value)
            if wrapped(whole, bits) != whole:
                raise FormatError(f'For input string: "{value}", path: {path}')
            return whole
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _refused(value, type_, path)
        return wrapped(value, bits) if isinstance(value, int) else low_bits(value, bits)

    return read


def _double_reader(type_: SqlType, path: str) -> Read:
    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise _refused(value, type_, path)
        return float(value)

    return read


def _decimal_reader(type_: DecimalType, path: str) -> Read:
    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise _refused(value, type_, path)
        return fitted(decimal_of_text(value) if isinstance(value, str) else Decimal(value), type_)

    return read


def _string(value: object) -> str:
    """A text, or the text of anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join('null' if each is None else _string(each) for each in value)}]"
    return compact_text(value) if isinstance(value, dict) else str(value)


def compact_text(value: object) -> str:
    """A parsed value as JSON without spaces, its decimals with their scale."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{compact_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(compact_text, value))}]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _array_reader(type_: ArrayType, entries: bool, path: str) -> Read:
    item = _reader(type_.item, entries, f"{path}[]")

    def read(value: object) -> object:
        if not isinstance(value, list):
            raise _refused(value, type_, path)
        return [item(each) for each in value]

    return read


def _map_reader(type_: MapType, entries: bool, path: str) -> Read:
    key, each = _reader(type_.key, entries, f"{path}.key"), _reader(type_.value, entries, f"{path}.value")
    by_text = type_.key == STRING
    by_entry = entries or not by_text

    def read(value: object) -> object:
        if by_text and isinstance(value, dict):
            return {name: each(inner) for name, inner in value.items()}
        if by_entry and isinstance(value, list) and all(isinstance(pair, dict) for pair in value):
            return {key(pair.get("key")): each(pair.get("value")) for pair in value}
        raise _refused(value, type_, path)

    return read


def _struct_reader(type_: StructType, entries: bool, path: str) -> Read:
    fields = [(name, _reader(of, entries, f"{path}.{name}")) for name, of in type_.fields]

    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise _refused(value, type_, path)
        upper = {name.upper(): each for name, each in value.items()}
        return {name: of(each if (each := value.get(name)) is not None else upper.get(name)) for name, of in fields}

    return read
