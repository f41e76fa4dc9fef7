"""Connect's schemas as JSON Schema, and their values as JSON, as Confluent's converter tells them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.converters.json_text import quoted
from ottla.connect.converters.json_write import writer_of
from ottla.connect.data import decimal_schema
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError
from ottla.connect.schema_converters import sum_types

__all__ = ["ENUM", "NAMESPACE", "NULL_SYMBOL", "ONE_OF", "schema_text", "value_writer"]

NAMESPACE = "io.confluent.connect.json"
ONE_OF = f"{NAMESPACE}.OneOf"
"""The name of structs that stand for a union."""
ENUM = f"{NAMESPACE}.Enum"
NULL_SYMBOL = "<NULL>"
"""Stands for null among the symbols of an enum."""
DECIMAL = decimal_schema(0).name

Write = Callable[[Any], str]
_TYPES = {
    SchemaType.INT8: {"type": "integer", "connect.type": "int8"},
    SchemaType.INT16: {"type": "integer", "connect.type": "int16"},
    SchemaType.INT32: {"type": "integer", "connect.type": "int32"},
    SchemaType.INT64: {"type": "integer", "connect.type": "int64"},
    SchemaType.FLOAT32: {"type": "number", "connect.type": "float32"},
    SchemaType.FLOAT64: {"type": "number", "connect.type": "float64"},
    SchemaType.BOOLEAN: {"type": "boolean"},
    SchemaType.STRING: {"type": "string"},
    SchemaType.BYTES: {"type": "string", "connect.type": "bytes"},
}
_NULL = {"type": "null"}


class _Json(str):
    """A piece of JSON that is put into a text as it is, so that numbers keep their digits."""

    __slots__ = ()


def schema_text(schema: Schema, *, numeric: bool, additional: bool) -> str:
    """Return the JSON Schema of a Connect schema; raises DataError for what JSON Schema cannot tell."""
    return _text(_Nodes(numeric=numeric, additional=additional).of(schema))


def _text(node: Any) -> str:
    match node:
        case _Json():
            return str(node)
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{_text(each)}" for key, each in node.items()) + "}"
        case list():
            return "[" + ",".join(map(_text, node)) + "]"
    return json.dumps(node, ensure_ascii=False)


class _Nodes:
    def __init__(self, *, numeric: bool, additional: bool) -> None:
        self._numeric, self._additional = numeric, additional

    def of(self, schema: Schema, index: int | None = None, *, optional: bool | None = None) -> dict[str, Any]:
        """Return the JSON Schema; `index` is the field's place, `optional` says otherwise than the schema."""
        place = {} if index is None else {"connect.index": index}
        optional = schema.optional if optional is None else optional
        if sum_types.is_union(schema, ONE_OF):
            branches = [self.of(each.schema, each.index, optional=False) for each in schema.fields]
            return {"oneOf": [_NULL, *branches] if optional else branches} | place
        node = self._typed(schema) | self._described(schema)
        return ({"oneOf": [_NULL, node]} if optional else node) | place

    def _typed(self, schema: Schema) -> dict[str, Any]:
        match schema.type:
            case SchemaType.STRUCT:
                fields = {each.name: self.of(each.schema, each.index) for each in schema.fields}
                found: dict[str, Any] = {"type": "object", "properties": fields}
                return found if self._additional else found | {"additionalProperties": False}
            case SchemaType.ARRAY:
                return {"type": "array", "items": self.of(_present(schema.value_schema))}
            case SchemaType.MAP:
                return self._map(_present(schema.key_schema), _present(schema.value_schema))
        symbols = sum_types.symbols_of(schema, ENUM, sum_types.ENUM)
        if schema.type is SchemaType.STRING and symbols is not None:
            return {"enum": [None if each == NULL_SYMBOL else each for each in symbols]}
        if schema.name == DECIMAL:
            return {"type": "number", "connect.type": "bytes"}
        return dict(_TYPES[schema.type])

    def _map(self, key: Schema, value: Schema) -> dict[str, Any]:
        if _has_text_keys(key):
            return {"type": "object", "additionalProperties": self.of(value), "connect.type": "map"}
        entry = {"type": "object", "properties": {"key": self.of(key, 0), "value": self.of(value, 1)}}
        return {"type": "array", "items": entry, "connect.type": "map"}

    def _described(self, schema: Schema) -> dict[str, Any]:
        parameters = {
            key: each for key, each in (schema.parameters or {}).items() if not key.startswith(f"{NAMESPACE}.")
        }
        words: dict[str, Any] = {
            "title": schema.name,
            "connect.version": schema.version,
            "description": schema.doc,
            "connect.parameters": parameters or None,
        }
        if schema.default is not None:
            words["default"] = _Json(value_writer(schema, numeric=self._numeric)(schema.default))
        return {key: each for key, each in words.items() if each is not None}


def _present(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("JSON Schema needs a schema for what an array or map holds")
    return schema


def _has_text_keys(key: Schema) -> bool:
    return key.type is SchemaType.STRING and not key.optional


def value_writer(schema: Schema, *, numeric: bool) -> Write:
    """Return what writes a schema's values, which fit it, as JSON."""
    inner = _writer(schema, numeric)
    instead = "null" if schema.default is None else inner(schema.default)
    missing = None if schema.default is None and not schema.optional else instead

    def write(value: Any) -> str:
        if value is not None:
            return inner(value)
        if missing is None:
            raise DataError("Conversion error: null value for field that is required and has no default value")
        return missing

    return write


def _writer(schema: Schema, numeric: bool) -> Write:
    def of(each: Schema | None) -> Write:
        return value_writer(_present(each), numeric=numeric)

    if schema.type is SchemaType.STRUCT:
        writers = [(each.index, quoted(each.name) + ":", of(each.schema)) for each in schema.fields]
        if sum_types.is_union(schema, ONE_OF):
            return lambda value: _branch(value.values, writers)
        return lambda value: "{" + ",".join([key + write(value.values[at]) for at, key, write in writers]) + "}"
    if schema.type is SchemaType.ARRAY:
        of_item = of(schema.value_schema)
        return lambda value: "[" + ",".join(map(of_item, value)) + "]"
    if schema.type is not SchemaType.MAP:
        return writer_of(schema, numeric=numeric, replace_null=True)
    of_key, of_value = of(schema.key_schema), of(schema.value_schema)
    if _has_text_keys(_present(schema.key_schema)):
        return lambda value: _object(value, of_value)
    return lambda value: (
        "[" + ",".join(f'{{"key":{of_key(key)},"value":{of_value(each)}}}' for key, each in value.items()) + "]"
    )


def _object(value: Mapping[str, Any], of_value: Write) -> str:
    return "{" + ",".join([f"{quoted(key)}:{of_value(each)}" for key, each in value.items()]) + "}"


def _branch(values: list[Any], writers: list[tuple[int, str, Write]]) -> str:
    for at, _, write in writers:
        if values[at] is not None:
            return write(values[at])
    raise DataError("No field of a union's struct is set")
