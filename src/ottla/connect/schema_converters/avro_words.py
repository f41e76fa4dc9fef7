"""The words by which Connect's schemas are told in Avro's, as Confluent's converter has them."""

from __future__ import annotations

from typing import Any

from ottla.connect.data import DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, decimal_schema
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError

__all__ = [
    "DECIMAL",
    "DEFAULT_NAME",
    "ENUM",
    "FIXED_SIZE",
    "INTERNAL_TYPE",
    "LOGICAL",
    "MAP_ENTRY",
    "NAMESPACE",
    "PRECISION",
    "PRECISION_KEY",
    "PRIMITIVE",
    "UNION",
    "is_map_entry",
    "present",
]

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY = f"{NAMESPACE}.MapEntry"
"""The name of records that are a map's entries, where the map itself has none."""
INTERNAL_TYPE = "connect.internal.type"
"""The property by which records of another name say that they are entries (`MapEntry`)."""
UNION = f"{NAMESPACE}.Union"
"""The name of structs that stand for a union: of their fields one is set."""
ENUM = f"{NAMESPACE}.Enum"
"""The parameter with an enum's name; each symbol is a parameter behind it."""
FIXED_SIZE = "connect.fixed.size"
PRECISION_KEY = "connect.decimal.precision"
PRECISION = 64
"""Of decimals, of which Connect knows the scale only."""
DECIMAL = decimal_schema(0).name
PRIMITIVE = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
LOGICAL = {
    DATE_SCHEMA.name: "date",
    TIME_SCHEMA.name: "time-millis",
    TIMESTAMP_SCHEMA.name: "timestamp-millis",
    DECIMAL: "decimal",
}


def is_map_entry(items: Any) -> bool:
    """Whether an array's items, a node with its full name, are a map's entries."""
    if not isinstance(items, dict) or items.get("type") not in ("record", "error"):
        return False
    return items.get("name") == MAP_ENTRY or items.get(INTERNAL_TYPE) == "MapEntry"


def present(schema: Schema | None) -> Schema:
    """Return what an array or map holds; raises DataError where it is not said."""
    if schema is None:
        raise DataError("Avro needs a schema for what an array or map holds")
    return schema
