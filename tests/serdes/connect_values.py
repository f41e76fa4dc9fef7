"""A struct of everything that Connect's schemas can say, for every converter."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

from ottla.connect import Schema, SchemaBuilder, Struct, data

STRUCT = SchemaBuilder.struct


def optional(schema: Schema) -> Schema:
    return SchemaBuilder(schema.type).name(schema.name).version(schema.version).optional().build()


INNER = STRUCT().name("n.Inner").field("x", data.INT32).build()
EVERYTHING = (
    STRUCT()
    .name("n.Everything")
    .version(3)
    .doc("all of it")
    .field("i8", data.INT8)
    .field("i16", data.OPTIONAL_INT16)
    .field("i32", SchemaBuilder.int32().default(7).build())
    .field("i64", data.INT64)
    .field("f32", data.FLOAT32)
    .field("f64", data.FLOAT64)
    .field("flag", data.BOOLEAN)
    .field("text", SchemaBuilder.string().optional().default("none").build())
    .field("raw", data.BYTES)
    .field("money", data.decimal_schema(2, optional=True))
    .field("day", data.DATE_SCHEMA)
    .field("at", optional(data.TIMESTAMP_SCHEMA))
    .field("hour", data.TIME_SCHEMA)
    .field("list", SchemaBuilder.array(data.OPTIONAL_STRING).build())
    .field("map", SchemaBuilder.map(data.STRING, data.INT64).optional().build())
    .field("numbers", SchemaBuilder.map(data.INT32, data.STRING).build())
    .field("inner", INNER)
    .field("again", SchemaBuilder.array(INNER).build())
    .build()
)
VALUE = Struct(
    EVERYTHING,
    {
        "i8": -1,
        "i16": None,
        "i32": 8,
        "i64": 2**40,
        "f32": 1.5,
        "f64": 2.5,
        "flag": True,
        "text": "é",
        "raw": b"\xff\x00",
        "money": Decimal("-12.34"),
        "day": date(2024, 2, 29),
        "hour": time(1, 2, 3, 4000),
        "at": datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
        "list": ["a", None],
        "map": {"k": 1},
        "numbers": {1: "one", 2: "two"},
        "inner": Struct(INNER, x=1),
        "again": [Struct(INNER, x=2)],
    },
)
