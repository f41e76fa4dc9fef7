"""Connect's schemas as JSON and back: the first half of JsonConverter's envelope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.converters.json_text import quoted
from ottla.connect.data.builder import SchemaBuilder
from ottla.connect.data.conversions import wrapped
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError

__all__ = ["schema_from_json", "schema_text"]

_TYPES = {each.value: each for each in SchemaType}


def schema_text(schema: Schema, write: Callable[[Schema, Any], str], *, field: str | None = None) -> str:
    """Return a schema as JSON; `write` writes its default, and `field` is the name of the struct's field that has it."""
    parts = [f'"type":"{schema.type.value}"']
    if schema.type is SchemaType.ARRAY:
        parts.append('"items":' + _inner(schema.value_schema, write))
    elif schema.type is SchemaType.MAP:
        parts.append('"keys":' + _inner(schema.key_schema, write))
        parts.append('"values":' + _inner(schema.value_schema, write))
    elif schema.type is SchemaType.STRUCT:
        fields = ",".join(schema_text(each.schema, write, field=each.name) for each in schema.fields)
        parts.append(f'"fields":[{fields}]')
    parts.append('"optional":' + ("true" if schema.optional else "false"))
    if schema.name is not None:
        parts.append('"name":' + quoted(schema.name))
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append('"doc":' + quoted(schema.doc))
    if schema.parameters is not None:
        pairs = ",".join(f"{quoted(key)}:{quoted(value)}" for key, value in schema.parameters.items())
        parts.append(f'"parameters":{{{pairs}}}')
    if schema.default is not None:
        parts.append('"default":' + write(schema, schema.default))
    if field is not None:
        parts.append('"field":' + quoted(field))
    return "{" + ",".join(parts) + "}"


def _inner(schema: Schema | None, write: Callable[[Schema, Any], str]) -> str:
    return "null" if schema is None else schema_text(schema, write)


def schema_from_json(node: Any, read: Callable[[Schema, Any], Any]) -> Schema | None:
    """Return the schema of JSON, None for null; `read` reads its default. Raises DataError."""
    if node is None:
        return None
    type_name = node.get("type") if isinstance(node, dict) else None
    if not isinstance(type_name, str):
        raise DataError("Schema must contain 'type' field")
    builder = _builder(type_name, node, read)
    builder = builder.optional() if node.get("optional") is True else builder.required()
    if isinstance(node.get("name"), str):
        builder.name(node["name"])
    version = node.get("version")
    if isinstance(version, int) and not isinstance(version, bool):
        builder.version(int(wrapped(version, 32)))
    if isinstance(node.get("doc"), str):
        builder.doc(node["doc"])
    if isinstance(node.get("parameters"), dict):
        for key, value in node["parameters"].items():
            if not isinstance(value, str):
                raise DataError("Schema parameters must have string values.")
            builder.parameter(key, value)
    if "default" in node:
        builder.default(read(builder.build(), node["default"]))
    return builder.build()


def _builder(type_name: str, node: dict[str, Any], read: Callable[[Schema, Any], Any]) -> SchemaBuilder:
    type_ = _TYPES.get(type_name)
    if type_ is None:
        raise DataError(f"Unknown schema type: {type_name}")
    if type_ is SchemaType.ARRAY:
        items = node.get("items")
        if items is None:
            raise DataError("Array schema did not specify the element type")
        return SchemaBuilder(type_, value=schema_from_json(items, read))
    if type_ is SchemaType.MAP:
        for name, words in (("keys", "key type"), ("values", "value type")):
            if name not in node:
                raise DataError(f"Map schema did not specify the {words}")
        key, value = schema_from_json(node["keys"], read), schema_from_json(node["values"], read)
        if key is None or value is None:
            raise DataError(f"{'keySchema' if key is None else 'valueSchema'} cannot be null.")
        return SchemaBuilder.map(key, value)
    builder = SchemaBuilder(type_)
    if type_ is SchemaType.STRUCT:
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise DataError('Struct schema\'s "fields" argument is not an array.')
        for field in fields:
            called = field.get("field") if isinstance(field, dict) else None
            if not isinstance(called, str):
                raise DataError("Struct schema's field name not specified properly")
            schema = schema_from_json(field, read)
            assert schema is not None
            builder.field(called, schema)
    return builder
