"""Files that every Protobuf schema may import without a reference, beside `google/protobuf/*.proto`."""

from __future__ import annotations

from ottla.schemas.protobuf.google_types import GOOGLE_TYPES

__all__ = ["IMPLICIT_FILES", "is_implicit"]

_META = """
syntax = "proto3";
package confluent;

import "google/protobuf/descriptor.proto";

option go_package = "../confluent";

message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}

extend google.protobuf.FileOptions {
  Meta file_meta = 1088;
}
extend google.protobuf.MessageOptions {
  Meta message_meta = 1088;
}
extend google.protobuf.FieldOptions {
  Meta field_meta = 1088;
}
extend google.protobuf.EnumOptions {
  Meta enum_meta = 1088;
}
extend google.protobuf.EnumValueOptions {
  Meta enum_value_meta = 1088;
}
"""

# Its import is ours: Confluent's parser takes `confluent.field_meta` wherever a decimal stands, imported or not.
_DECIMAL = """
syntax = "proto3";
package confluent.type;

import public "confluent/meta.proto";

option go_package = "../type";

message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"""

IMPLICIT_FILES = {"confluent/meta.proto": _META, "confluent/type/decimal.proto": _DECIMAL, **GOOGLE_TYPES}
"""What Confluent's serializers put into schemas: notes on fields, decimal numbers, and Google's common types."""


def is_implicit(name: str) -> bool:
    """Return whether a file is there for everybody."""
    return name in IMPLICIT_FILES or name.startswith("google/protobuf/")
