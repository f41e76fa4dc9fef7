"""Values, schemas and records as JSON with their types, as the oracle's JVM writes them (`ConnectOracle.java`)."""

from __future__ import annotations

import base64
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect.data import Field, Float32, Int8, Int16, Int32, Schema, SchemaType, Struct
from ottla.connect.data.logical import date_of_days, epoch_ms, time_of_ms, timestamp_of_ms
from ottla.connect.data.struct import DATE, TIME
from ottla.java import double_text, float_text

Json = Any


def schema_to_json(schema: Schema | None) -> Json:
    if schema is None:
        return None
    node: dict[str, Json] = {"type": schema.type.name}
    if schema.optional:
        node["optional"] = True
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            node[name] = getattr(schema, name)
    if schema.parameters is not None:
        node["parameters"] = dict(sorted(schema.parameters.items()))
    if schema.default is not None:
        node["default"] = value_to_json(schema.default, schema)
    if schema.type is SchemaType.MAP:
        node["key"] = schema_to_json(schema.key_schema)
    if schema.type in (SchemaType.MAP, SchemaType.ARRAY):
        node["value"] = schema_to_json(schema.value_schema)
    if schema.type is SchemaType.STRUCT:
        node["fields"] = [{"name": each.name, "schema": schema_to_json(each.schema)} for each in schema.fields]
    return node


def schema_from_json(node: Json) -> Schema | None:
    if node is None:
        return None
    fields = tuple(
        Field(each["name"], index, present(schema_from_json(each["schema"])))
        for index, each in enumerate(node.get("fields", ()))
    )
    bare = Schema(
        SchemaType[node["type"]],
        optional=node.get("optional", False),
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters=node.get("parameters"),
        fields=fields,
        key_schema=schema_from_json(node.get("key")),
        value_schema=schema_from_json(node.get("value")),
    )
    if "default" in node:
        bare.default = value_from_json(node["default"], bare)
    return bare


def present(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


def value_to_json(value: Any, schema: Schema | None = None) -> Json:
    if value is None:
        return None
    kind = None if schema is None else schema.type
    match value:
        case bool():
            return {"t": "boolean", "v": value}
        case int():
            return {"t": integer_kind(value, kind), "v": int(value)}
        case float():
            narrow = isinstance(value, Float32) or kind is SchemaType.FLOAT32
            return {"t": "float32", "v": float_text(value)} if narrow else {"t": "float64", "v": double_text(value)}
        case str():
            return {"t": "string", "v": value}
        case bytes():
            return {"t": "bytes", "v": base64.b64encode(value).decode()}
        case Decimal():
            return {"t": "decimal", "v": str(value)}
        case datetime() | date() | time():
            return {"t": "date", "v": epoch_ms(value)}
        case list() | tuple():
            inner = None if schema is None else schema.value_schema
            return {"t": "list", "v": [value_to_json(each, inner) for each in value]}
        case dict():
            of_key, of_value = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
            pairs = [[value_to_json(key, of_key), value_to_json(each, of_value)] for key, each in value.items()]
            return {"t": "map", "v": pairs}
        case Struct():
            pairs = zip(value.schema.fields, value.values, strict=True)
            fields = [value_to_json(each, field.schema) for field, each in pairs]
            return {"t": "struct", "schema": schema_to_json(value.schema), "v": fields}
    return {"t": type(value).__name__}


def integer_kind(value: int, kind: SchemaType | None) -> str:
    for width, name in ((Int8, "int8"), (Int16, "int16"), (Int32, "int32")):
        if isinstance(value, width):
            return name
    integers = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32)
    return kind.name.lower() if kind in integers else "int64"


INTEGERS = {"int8": Int8, "int16": Int16, "int32": Int32, "int64": int}


def value_from_json(node: Json, schema: Schema | None = None) -> Any:
    if node is None:
        return None
    value = node["v"]
    match node["t"]:
        case "int8" | "int16" | "int32" | "int64":
            return INTEGERS[node["t"]](value)
        case "float32":
            return Float32(float(value.replace("Infinity", "inf")))
        case "float64":
            return float(value.replace("Infinity", "inf"))
        case "bytes":
            return base64.b64decode(value)
        case "decimal":
            return Decimal(value)
        case "date":
            name = None if schema is None else schema.name
            if name == DATE:
                return date_of_days(value // 86_400_000)
            return time_of_ms(value) if name == TIME else timestamp_of_ms(value)
        case "list":
            return [value_from_json(each, None if schema is None else schema.value_schema) for each in value]
        case "map":
            of_key, of_value = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
            return {value_from_json(key, of_key): value_from_json(each, of_value) for key, each in value}
        case "struct":
            made = Struct(present(schema_from_json(node["schema"])))
            for field, each in zip(made.schema.fields, value, strict=True):
                if each is not None:
                    made.put(field.name, value_from_json(each, field.schema))
            return made
    return value


def settled(node: Json) -> Json:
    """Return JSON with the entries of maps in one order, for Java's maps have none, and floats as Python has them."""
    if isinstance(node, dict):
        if node.get("t") == "map":
            return {"t": "map", "v": sorted((settled(each) for each in node["v"]), key=repr)}
        if node.get("t") in ("float32", "float64"):  # Java 17 writes some floats with a digit too many
            number = float(node["v"].replace("Infinity", "inf"))
            return {"t": node["t"], "v": str(Float32(number)) if node["t"] == "float32" else repr(number)}
        return {key: settled(each) for key, each in node.items()}
    if isinstance(node, str):
        return node.replace("java.util.LinkedHashMap", "java.util.HashMap")
    return [settled(each) for each in node] if isinstance(node, list) else node
