"""The words by which Connect's schemas are told in Protobuf's, as Confluent's converter has them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote_plus

from ottla.connect.data import DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, decimal_schema
from ottla.connect.data.schema import SchemaType

__all__ = [
    "DECIMAL",
    "DEFAULT_NAME",
    "ENUM",
    "LOGICAL",
    "NAMESPACE",
    "PRECISION_KEY",
    "PRIMITIVE",
    "TAG",
    "UNION",
    "WRAPPED",
    "WRAPPERS",
    "Options",
    "scrubbed",
]

NAMESPACE = "io.confluent.connect.protobuf"
TAG = f"{NAMESPACE}.Tag"
"""The parameter with a field's number."""
ENUM = f"{NAMESPACE}.Enum"
UNION = f"{NAMESPACE}.Union"
"""What the names of structs begin with that stand for a oneof."""
DEFAULT_NAME = "ConnectDefault"
WRAPPED = "ottla.protobuf.wrapped"
"""The parameter of a field's schema that was read of a wrapper message."""
PRECISION_KEY = "connect.decimal.precision"
DECIMAL = decimal_schema(0).name
LOGICAL = {
    DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    DATE_SCHEMA.name: ("google.type.Date", "google/type/date.proto"),
    TIME_SCHEMA.name: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP_SCHEMA.name: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
"""A logical type -> its message, and the file that this is in."""
PRIMITIVE = {
    SchemaType.INT8: "int32",
    SchemaType.INT16: "int32",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "bool",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
WRAPPERS = {
    "DoubleValue": "double",
    "FloatValue": "float",
    "Int64Value": "int64",
    "UInt64Value": "uint64",
    "Int32Value": "int32",
    "UInt32Value": "uint32",
    "BoolValue": "bool",
    "StringValue": "string",
    "BytesValue": "bytes",
}
"""The messages of google/protobuf/wrappers.proto, in their order, and what they hold."""


@dataclass(frozen=True)
class Options:
    """What ProtobufConverter is told of the mapping, by Confluent's names of it."""

    enhanced: bool = False
    """Whether the names of structs have their package."""
    scrub: bool = False
    int_enums: bool = False
    optional_nullables: bool = False
    optional_proto2: bool = True
    wrapper_nullables: bool = False
    unwrapped: bool = False
    """Whether fields that are wrapper messages are read as what they hold, and written so by the schema that was read."""
    raw_primitives: bool = True
    struct_for_nulls: bool = False
    union_index: bool = True
    flatten_unions: bool = False
    generalized: bool = False


_NAME_BEGIN = re.compile("[A-Za-z]")
_NAME_BAD = re.compile("[^A-Za-z0-9_]")


def scrubbed(name: str) -> str:
    """Return a name that Protobuf allows, as Confluent's converter makes it."""
    encoded = quote_plus(name, safe="*")
    return _NAME_BAD.sub("_", encoded if _NAME_BEGIN.match(encoded) else f"x{encoded}")
