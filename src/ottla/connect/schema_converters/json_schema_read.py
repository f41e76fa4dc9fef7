"""JSON Schema as Connect's schemas, and what makes Connect's values of JSON's."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

from ottla.connect.converters.json_read import reader_of
from ottla.connect.converters.json_text import parse_json
from ottla.connect.data import STRING, SchemaBuilder
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.schema_converters import sum_types
from ottla.connect.schema_converters.json_schema_write import DECIMAL, ENUM, NULL_SYMBOL, ONE_OF

__all__ = ["JsonSchemaReading"]

Read = Callable[[Any], Any]
_DEPTH_MAX = 100
_SCALARS = {
    "boolean": (SchemaType.BOOLEAN, {}),
    "integer": (
        SchemaType.INT64,
        {"int8": SchemaType.INT8, "int16": SchemaType.INT16, "int32": SchemaType.INT32, "int64": SchemaType.INT64},
    ),
    "number": (
        SchemaType.FLOAT64,
        {"float32": SchemaType.FLOAT32, "float64": SchemaType.FLOAT64, "bytes": SchemaType.BYTES},
    ),
    "string": (SchemaType.STRING, {"bytes": SchemaType.BYTES}),
}
"""A type -> what it is in Connect, and what it is with `connect.type`; as in Confluent's, only numbers refuse others."""
_NUMBERS = {**_SCALARS["integer"][1], **_SCALARS["number"][1]}


class Place(Protocol):
    """A JSON Schema where it stands, by which its references are looked up."""

    schema: Any

    def inner(self, schema: Any) -> Place:
        """Return the place of a schema that stands in this one."""

    def referred(self) -> Place:
        """Return where its `$ref` leads."""


class JsonSchemaReading:
    """Reads one JSON Schema."""

    def __init__(self, *, required_only: bool = False, generalized: bool = False) -> None:
        self._required_only, self._generalized = required_only, generalized
        self._unions = 0
        self._open: list[Any] = []

    def document(self, place: Place) -> tuple[Schema, Read]:
        """Return the Connect schema and what reads the bytes of values; raises DataError for what Connect has not."""
        schema, read = self.of(place)
        return schema, lambda data: read(parse_json(data))

    def of(self, place: Place, *, optional: bool = False) -> tuple[Schema, Read]:
        """Return the Connect schema and what reads parsed values."""
        node = place.schema
        if not isinstance(node, dict) or not node:
            raise DataError("A JSON schema that allows everything, or nothing, has no counterpart in Connect")
        if any(each is node for each in self._open):
            raise DataError("The JSON schema holds itself, which no schema of Connect can")
        if len(self._open) > _DEPTH_MAX:
            raise DataError(f"The JSON schema is nested deeper than {_DEPTH_MAX} levels")
        self._open.append(node)
        try:
            return self._of(place, node, optional)
        finally:
            self._open.pop()

    def _of(self, place: Place, node: dict[str, Any], optional: bool) -> tuple[Schema, Read]:
        if isinstance(node.get("$ref"), str):
            return self.of(place.referred(), optional=optional)
        branches = node.get("oneOf") or node.get("anyOf")
        if branches and "properties" not in node:
            return self._union(place, [place.inner(each) for each in branches], optional)
        if node.get("allOf"):
            return self._all_of(place, node, optional)
        if isinstance(node.get("type"), list):
            kinds = [place.inner({**node, "type": kind}) for kind in node["type"]]
            return self._union(place, kinds, optional)
        builder, read = self._typed(place, node)
        return self._built(builder, node, optional, read)

    def _built(
        self, builder: SchemaBuilder, node: dict[str, Any], optional: bool, read: Read | None
    ) -> tuple[Schema, Read]:
        if node.get("title") is not None and not sum_types.is_union(builder.build(), ONE_OF):
            builder.name(node["title"])
        version = node.get("connect.version")
        if isinstance(version, int):
            builder.version(version)
        if isinstance(node.get("description"), str):
            builder.doc(node["description"])
        parameters = node.get("connect.parameters")
        if isinstance(parameters, dict):
            builder.parameters({key: str(each) for key, each in parameters.items()})
        if optional:
            builder.optional()
        inner = read or reader_of(builder.build(), replace_null=False)
        default = node.get("default")
        if (
            default is not None and builder.type is not SchemaType.STRUCT
        ):  # a struct has its own schema, default and all
            builder.default(inner(default))
        schema = builder.build()
        return schema, _reader(schema, inner)

    def _typed(self, place: Place, node: dict[str, Any]) -> tuple[SchemaBuilder, Read | None]:
        kind = node.get("type")
        if "enum" in node and kind in (None, "string"):
            return self._enum(node["enum"]), None
        if kind is None and "const" in node:
            kind = _kind_of(node["const"])
        if kind == "object" or (kind is None and ("properties" in node or "additionalProperties" in node)):
            return self._object([place])
        if kind == "array" or (kind is None and "items" in node):
            return self._array(place, node)
        if kind not in _SCALARS:
            raise DataError(f"The JSON schema {_shown(node)} has no counterpart in Connect")
        usual, others = _SCALARS[kind]
        given = node.get("connect.type")
        if given is None or kind not in ("integer", "number"):
            return SchemaBuilder(others.get(str(given), usual)), None
        if given not in _NUMBERS:
            raise DataError(f"Unsupported type {given}")
        return SchemaBuilder(_NUMBERS[given]), None

    def _enum(self, values: list[Any]) -> SchemaBuilder:
        symbols = [NULL_SYMBOL if each is None else str(each) for each in values]
        if self._generalized:
            return SchemaBuilder.string().parameters(sum_types.enum_parameters("", symbols))
        return SchemaBuilder.string().parameters({ENUM: "", **{f"{ENUM}.{each}": each for each in symbols}})

    def _object(self, parts: list[Place]) -> tuple[SchemaBuilder, Read]:
        """Return the struct or map of an object, which `allOf` may have told in several parts."""
        values = self._values_of(parts)
        if values is not None:
            of_value, read_value = self.of(values)
            return SchemaBuilder.map(STRING, of_value), lambda found: _map_of(found, read_value)
        required = {key for part in parts for key in part.schema.get("required") or ()}
        properties: dict[str, Place] = {}
        for part in parts:
            properties.update({key: part.inner(each) for key, each in (part.schema.get("properties") or {}).items()})
        places = {key: _index(each.schema, at) for at, (key, each) in enumerate(properties.items())}
        builder = SchemaBuilder.struct()
        readers: list[tuple[str, Read]] = []
        for key in sorted(properties, key=lambda each: places[each]):
            loose = self._required_only and key not in required
            schema, read = self.of(properties[key], optional=loose)
            builder.field(key, schema)
            readers.append((key, read))
        made: list[Schema] = []

        def struct(value: Any) -> Struct:
            if not isinstance(value, dict):
                raise DataError(f"Structs should be encoded as JSON objects, but found {_shown(value)}")
            if not made:
                made.append(builder.build())  # described by now, and optional where it is
            found = Struct(made[0])
            found.values = [read(value.get(key)) for key, read in readers]
            return found

        return builder, struct

    def _values_of(self, parts: list[Place]) -> Place | None:
        """Return the place of a map's values; None where an object is a struct."""
        has_fields = any(each.schema.get("properties") for each in parts)
        for part in parts:
            values = part.schema.get("additionalProperties")
            if part.schema.get("connect.type") == "map" or (not has_fields and isinstance(values, dict) and values):
                return part.inner(values)
        return None

    def _array(self, place: Place, node: dict[str, Any]) -> tuple[SchemaBuilder, Read]:
        items = node.get("items")
        if not isinstance(items, dict):
            raise DataError("Array schema did not specify the items type")
        if node.get("connect.type") == "map" and isinstance(items.get("properties"), dict):
            inner = place.inner(items)
            key, read_key = self.of(inner.inner(items["properties"].get("key")))
            value, read_value = self.of(inner.inner(items["properties"].get("value")))
            return SchemaBuilder.map(key, value), lambda found: _entries_of(found, read_key, read_value)
        item, read = self.of(place.inner(items))
        return SchemaBuilder.array(item), lambda found: [read(each) for each in _list(found)]

    def _union(self, place: Place, branches: list[Place], optional: bool) -> tuple[Schema, Read]:
        kinds = [each for each in branches if not _is_null(each.schema)]
        optional = optional or len(kinds) < len(branches)
        if len(kinds) == 1:
            return self.of(kinds[0], optional=optional)
        name = ONE_OF
        builder = SchemaBuilder.struct()
        if self._generalized:
            name = sum_types.union_name(self._unions)
            self._unions += 1
            builder.parameter(sum_types.UNION, name)
        builder.name(name)
        readers: list[tuple[Schema, Read]] = []
        for index, each in enumerate(kinds):
            schema, read = self.of(each, optional=True)
            builder.field(sum_types.union_field(index) if self._generalized else f"{name}.field.{index}", schema)
            readers.append((schema, read))
        made: list[Schema] = []

        def union(value: Any) -> Struct:
            if not made:
                made.append(builder.build())  # described by now, and optional where it is
            for at, (schema, read) in enumerate(readers):
                if _fits(schema, value):
                    found = Struct(made[0])
                    found.values[at] = read(value)
                    return found
            raise DataError(f"Did not find matching oneof field for data: {_shown(value)}")

        return self._built(builder, {**place.schema, "title": None}, optional, union)

    def _all_of(self, place: Place, node: dict[str, Any], optional: bool) -> tuple[Schema, Read]:
        parts = _parts(place)
        merged: dict[str, Any] = {}
        for part in reversed(parts):
            merged |= part.schema
        if any("properties" in part.schema for part in parts):
            builder, read = self._object(parts)
            return self._built(builder, merged, optional, read)
        if "oneOf" in merged or "anyOf" in merged:
            raise DataError("allOf of several oneOf or anyOf has no counterpart in Connect")
        return self.of(parts[-1].inner(merged), optional=optional)


def _parts(place: Place, depth: int = 0) -> list[Place]:
    """Return a schema without its `allOf`, and the schemas of that, as far as they lead."""
    node = place.schema
    if depth > _DEPTH_MAX:
        raise DataError("The JSON schema's allOf are nested too deep, or hold themselves")
    if not isinstance(node, dict):
        return []
    if isinstance(node.get("$ref"), str):
        return _parts(place.referred(), depth + 1)
    if "allOf" not in node:
        return [place]
    found = [place.inner({key: each for key, each in node.items() if key != "allOf"})]
    for each in node["allOf"]:
        found += _parts(place.inner(each), depth + 1)
    return found


def _reader(schema: Schema, inner: Read) -> Read:
    def read(node: Any) -> Any:
        if node is not None:
            return inner(node)
        if schema.default is None and not schema.optional:
            raise DataError(f"Invalid null value for required {schema.type} field")
        return schema.default

    return read


def _index(node: Any, at: int) -> int:
    found = node.get("connect.index") if isinstance(node, dict) else None
    return found if isinstance(found, int) else at


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def _kind_of(value: Any) -> str | None:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float() | Decimal():
            return "number"
    return "string" if isinstance(value, str) else None


def _fits(schema: Schema, value: Any) -> bool:
    """Return whether a value may be of a union's branch."""
    match schema.type:
        case SchemaType.INT8 | SchemaType.INT16 | SchemaType.INT32 | SchemaType.INT64:
            return isinstance(value, int) and not isinstance(value, bool)
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case SchemaType.BOOLEAN:
            return isinstance(value, bool)
        case SchemaType.STRING:
            symbols = sum_types.symbols_of(schema, ENUM, sum_types.ENUM)
            return isinstance(value, str) and (symbols is None or value in symbols)
        case SchemaType.BYTES:
            number = schema.name == DECIMAL and isinstance(value, int | Decimal) and not isinstance(value, bool)
            return number or isinstance(value, str)
        case SchemaType.ARRAY:
            return isinstance(value, list)
        case SchemaType.MAP:
            return isinstance(value, dict | list)
    if sum_types.is_union(schema, ONE_OF):
        return any(_fits(each.schema, value) for each in schema.fields)
    if not isinstance(value, dict) or not {each.name for each in schema.fields} >= value.keys():
        return False
    loose = (each.name for each in schema.fields if not each.schema.optional and each.schema.default is None)
    return all(value.get(name) is not None for name in loose)


def _map_of(value: Any, read: Read) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {_shown(value)}")
    return {key: read(each) for key, each in value.items()}


def _entries_of(value: Any, read_key: Read, read_value: Read) -> dict[Any, Any]:
    found = {}
    for each in _list(value):
        if not isinstance(each, dict) or not each.keys() <= {"key", "value"}:
            raise DataError(f"Found invalid map entry instead of object: {_shown(each)}")
        key = read_key(each.get("key"))
        try:
            found[key] = read_value(each.get("value"))
        except TypeError as error:
            raise DataError(f"A map's key cannot be {_shown(each.get('key'))}") from error
    return found


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"Arrays should be encoded as JSON arrays, but found {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return str(value)[:200]
