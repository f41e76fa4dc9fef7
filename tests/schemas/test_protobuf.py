"""Protobuf: what is a schema, its text, and which changes may follow one."""

from __future__ import annotations

import base64
from importlib import import_module

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ottla.schemas import (
    InvalidSchemaError,
    Limits,
    ParsedSchema,
    SchemaReference,
    SchemaType,
    incompatibilities,
    parse,
)
from ottla.schemas.protobuf.google_types import GOOGLE_TYPES

ORDER = """syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";
import "shop/address.proto";

option java_package = "com.shop";

message Order {
  reserved 9, 11 to 13;
  reserved "old";
  int64 id = 1;
  optional string note = 2;
  map<string, Line> lines = 3;
  oneof price {
    double exact = 4;
    string said = 5;
  }
  google.protobuf.Timestamp at = 6;
  repeated Address to = 7 [json_name = "addressees", deprecated = true];
  Line.Kind kind = 8;

  message Line {
    string what = 1;

    enum Kind {
      NONE = 0;
      OTHER = 1;
    }
  }
}

service Orders {
  rpc Follow (Order) returns (stream Order);
}
"""
ADDRESS = 'syntax = "proto3"; package shop; message Address { string street = 1; }'

EVERYTHING_OF_PROTO2 = """
package a;
option java_package = "x\\ty";
message A {
  required int32 x = 1 [default = -5];
  optional group G = 2 { optional bytes b = 1 [default = "\\001a\\"b\\\\"]; }
  extensions 100 to 200;
  extensions 300 to max;
  optional string s = 3 [default = "é\\n\\""];
  optional double d = 4 [default = inf];
  optional E e = 5 [default = K];
  oneof o { group H = 6 { optional int32 x = 1; } string t = 7; }
  message set {}
  repeated int32 p = 8 [packed = true];
  extend A { optional int32 inner = 101; optional group XG = 102 { optional int32 z = 1; } }
}
extend A { optional string ext = 100; }
enum E { option allow_alias = true; K = 1; J = 1; reserved -5 to -1, 100 to max; reserved "OLD"; }
"""
CUSTOM_OPTIONS = """syntax = "proto2"; package c;
import "google/protobuf/descriptor.proto"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
extend google.protobuf.FieldOptions { optional float w = 50000; repeated string r = 50001; optional A am = 50004; }
message A {
  option (confluent.message_meta) = { doc: "x" params: { key: "k" value: "v" } };
  optional int32 y = 1 [(w) = 1.5, (r) = "a", (r) = "b", (am).y = -3, (confluent.field_meta).tags = "PII"];
  optional confluent.type.Decimal price = 2;
}
"""
EDITION = """edition = "2023"; package p; option features.field_presence = IMPLICIT;
message A { int32 x = 1 [features.field_presence = EXPLICIT]; A a = 2 [features.message_encoding = DELIMITED]; }
"""
SHADOWED = (
    'syntax = "proto3"; package shop; import "shop/address.proto"; message B { .shop.Address a = 1; message shop {} }'
)


def schema(text: str) -> ParsedSchema:
    references = [SchemaReference("shop/address.proto", "address", 1)] if "shop/address.proto" in text else []
    return parse(SchemaType.PROTOBUF, text, references, lambda _: ADDRESS)


def changes(old: str, new: str, *, head: str = 'syntax = "proto3"; package p; ') -> list[str]:
    reader, writer = schema(head + new), schema(head + old)
    return [f"{each.kind} {each.path}" for each in incompatibilities(reader, writer)]


def test_the_canonical_text_is_what_the_descriptor_says() -> None:
    assert schema(ORDER.replace("\n\n", "\n// a comment\n").replace("  ", "\t")).canonical() == ORDER


@pytest.mark.parametrize("text", [ORDER, EVERYTHING_OF_PROTO2, CUSTOM_OPTIONS, EDITION, SHADOWED])
def test_the_canonical_text_and_the_descriptor_stand_for_the_same_schema(text: str) -> None:
    first = schema(text)
    again = parse(SchemaType.PROTOBUF, first.canonical(), first.references, lambda _: ADDRESS)
    assert again == first
    assert again.formatted("serialized") == first.formatted("serialized")
    assert parse(SchemaType.PROTOBUF, first.formatted("serialized"), first.references, lambda _: ADDRESS) == first


@pytest.mark.parametrize("text", [ORDER, EVERYTHING_OF_PROTO2, CUSTOM_OPTIONS, EDITION, SHADOWED])
def test_a_normalized_text_is_its_own_normal_form(text: str) -> None:
    normal = schema(text).normalized()
    again = parse(SchemaType.PROTOBUF, normal.canonical(), normal.references, lambda _: ADDRESS).normalized()
    assert again.canonical() == normal.canonical()


def test_normalized_are_the_same_what_differs_in_order_only() -> None:
    first = 'syntax="proto3"; package a; message M { int32 b = 2; a.M m = 1; reserved 9, 8; }'
    second = 'syntax="proto3"; package a; message M { reserved 8, 9; M m = 1; int32 b = 2; }'
    assert schema(first).normalized() == schema(second).normalized()
    assert schema(first) != schema(second)


def test_serialized_is_the_files_descriptor() -> None:
    file = FileDescriptorProto.FromString(base64.b64decode(schema(ORDER).formatted("serialized")))
    assert (file.package, file.message_type[0].name) == ("shop", "Order")
    assert list(file.dependency) == ["google/protobuf/timestamp.proto", "shop/address.proto"]


def test_extensions_can_be_left_out() -> None:
    text = schema(CUSTOM_OPTIONS).formatted("ignore_extensions")
    assert "extend" not in text and "(" not in text and "optional int32 y = 1;" in text


def test_a_message_keeps_its_index_beside_the_entries_of_maps() -> None:
    text = 'syntax="proto3"; message A { message N {} map<string, N> m = 1; message O {} }'
    first, again = schema(text), schema(schema(text).canonical())
    assert first.formatted("serialized") == again.formatted("serialized")


AS_JAVA_REGISTERS_MAPS = """syntax = "proto3";
package p;
message A {
  repeated CountsEntry counts = 1;
  repeated ByIdEntry by_id = 2;
  message Before {}
  message CountsEntry {
    option map_entry = true;

    string key = 1;
    int32 value = 2;
  }
  message ByIdEntry { option map_entry=true; int64 key = 1; A value = 2; }
}
"""


def test_a_map_may_be_written_as_the_message_that_it_is_on_the_wire() -> None:
    first = schema(AS_JAVA_REGISTERS_MAPS)
    assert "map<string, int32> counts = 1;" in first.canonical() and "map<int64, A> by_id = 2;" in first.canonical()
    assert schema(first.canonical()) == first
    fields = "map<string, int32> counts = 1; map<int64, A> by_id = 2;"
    text = f'syntax = "proto3"; package p; message A {{ {fields} message Before {{}} }}'
    assert incompatibilities(schema(text), first) == [] and incompatibilities(first, schema(text)) == []
    references = [SchemaReference("a.proto", "a", 1)]
    user = 'syntax = "proto3"; import "a.proto"; message B { p.A a = 1; }'
    assert parse(SchemaType.PROTOBUF, user, references, lambda _: AS_JAVA_REGISTERS_MAPS).name == "B"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("message A { int32 x = 1; }", "message A { int64 y = 1; string z = 2; } message B {}"),
        ("message A { int32 x = 1; }", "message A {}"),
        ("message A { string x = 1; }", "message A { repeated bytes x = 1; }"),
        ("message A { int32 x = 1; }", "message A { oneof o { int32 x = 1; int32 y = 2; } }"),
        ("message A { E e = 1; } enum E { X = 0; Y = 1; }", "message A { int32 e = 1; }"),
        ("message A { oneof o { int32 x = 1; } }", "message A { oneof o { int32 x = 1; int32 y = 2; } }"),
    ],
)
def test_what_the_wire_bears_may_change(old: str, new: str) -> None:
    assert changes(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("message A {} message B {}", "message A {}", ["MESSAGE_REMOVED #/B"]),
        ("message A { int32 x = 1; }", "message A { sint32 x = 1; }", ["FIELD_SCALAR_KIND_CHANGED #/A/1"]),
        ("message A { int32 x = 1; }", "message A { A x = 1; }", ["FIELD_KIND_CHANGED #/A/1"]),
        (
            "message A { map<string, int32> m = 1; }",
            "message A { map<string, string> m = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
        ),
        (
            "message A { A x = 1; } message B {}",
            "message A { B x = 1; } message B {}",
            ["FIELD_NAMED_TYPE_CHANGED #/A/1"],
        ),
        ("message A { int32 x = 1; }", "message A { repeated int32 x = 1; }", ["FIELD_NUMERIC_LABEL_CHANGED #/A/1"]),
        (
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            "message A { oneof o { int32 x = 1; } }",
            ["ONEOF_FIELD_REMOVED #/A/o/2"],
        ),
        (
            "message A { int32 x = 1; int32 y = 2; }",
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/A/o"],
        ),
        (
            "message A { int32 x = 1; oneof o { int32 y = 2; } }",
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF #/A/o"],
        ),
    ],
)
def test_what_the_wire_does_not_bear_may_not(old: str, new: str, said: list[str]) -> None:
    assert changes(old, new) == said


def test_required_fields_neither_come_nor_go() -> None:
    head = 'syntax = "proto2"; '
    required, optional = "message A { required int32 x = 1; }", "message A { optional int32 x = 1; }"
    assert changes("message A {}", required, head=head) == ["REQUIRED_FIELD_ADDED #/A/1"]
    assert changes(optional, required, head=head) == ["REQUIRED_FIELD_ADDED #/A/1"]
    assert changes(required, "message A {}", head=head) == ["REQUIRED_FIELD_REMOVED #/A/1"]


def test_another_package_is_another_schema() -> None:
    old, new = schema('syntax="proto3"; package a; message M {}'), schema('syntax="proto3"; package b; message M {}')
    assert [(each.kind, each.path) for each in incompatibilities(new, old)] == [("PACKAGE_CHANGED", "#/")]


def test_what_a_referenced_message_became_is_told_at_the_field_of_it() -> None:
    text = 'syntax = "proto3"; import "b.proto"; message A { B b = 1; }'
    reference = [SchemaReference("b.proto", "b", 1)]
    old = parse(SchemaType.PROTOBUF, text, reference, lambda _: 'syntax="proto3"; message B { int32 x = 1; }')
    new = parse(SchemaType.PROTOBUF, text, reference, lambda _: 'syntax="proto3"; message B { string x = 1; }')
    said = [f"{each.kind} {each.path}" for each in incompatibilities(new, old)]
    assert said == ["FIELD_SCALAR_KIND_CHANGED #/B/1", "FIELD_NAMED_TYPE_CHANGED #/A/1"]


def test_a_message_may_be_imported_from_another_package_and_come_back() -> None:
    local = schema('syntax = "proto3"; package p; message A { B b = 1; } message B { int32 x = 1; }')
    text = 'syntax = "proto3"; package p; import "b.proto"; message A { q.B b = 1; }'
    reference = [SchemaReference("b.proto", "b", 1)]
    away = parse(
        SchemaType.PROTOBUF, text, reference, lambda _: 'syntax="proto3"; package q; message B { int32 x = 1; }'
    )
    assert incompatibilities(local, away) == []
    assert [f"{each.kind} {each.path}" for each in incompatibilities(away, local)] == ["MESSAGE_REMOVED #/B"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('syntax = "proto3"; message A { int32 x = 1 }', 'default:1:44: Expected ";"'),
        ('import "/etc/passwd";', "not found"),
        ('import "../../secret.proto";', "not found|virtual path"),
        ('import "missing.proto";', "not found"),
        ("AAAA", "neither Protobuf's language nor"),
        ("message A {" * 50_000, "recursion|nested|too deep|limit"),
        ("extend A { optional group G = 100 {} } message A { extensions 100; }", "not taken here"),
        ('syntax = "proto3";' + "".join(f"message M{n} {{}}" for n in range(10_001)), "more than 10000 types"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        schema(text)


@pytest.mark.parametrize("name", ["../x.proto", "/etc/passwd", "a//b", "", ".hidden", "a\\b", "x\0y", "a" * 300])
def test_a_reference_is_named_as_a_file_can_be_imported(name: str) -> None:
    with pytest.raises(InvalidSchemaError, match="not a name that a Protobuf file can import"):
        parse(SchemaType.PROTOBUF, 'syntax="proto3";', [SchemaReference(name, "a", 1)], lambda _: ADDRESS)


def test_a_descriptor_whose_names_are_none_is_refused() -> None:
    file = FileDescriptorProto(name="x", syntax="proto3")
    file.message_type.add(name="A {} message B")
    with pytest.raises(InvalidSchemaError, match="not a name of Protobuf's"):
        schema(base64.b64encode(file.SerializeToString()).decode())


def test_a_text_that_the_compiler_has_no_memory_for_is_refused_and_the_next_is_compiled() -> None:
    limits = Limits(compile_bytes_max=1 << 20)
    with pytest.raises(InvalidSchemaError, match="gave up on this text"):
        parse(
            SchemaType.PROTOBUF,
            'syntax = "proto3";' + "".join(f"message M{n} {{}}" for n in range(9000)),
            limits=limits,
        )
    assert schema('syntax = "proto3"; message A {}').name == "A"


def test_googles_common_types_are_what_google_says() -> None:
    for name, text in GOOGLE_TYPES.items():
        theirs = FileDescriptorProto()
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        module.DESCRIPTOR.CopyToProto(theirs)
        ours = FileDescriptorProto.FromString(
            base64.b64decode(parse(SchemaType.PROTOBUF, text).formatted("serialized"))
        )
        for message in ours.message_type:
            for each in (message, *message.nested_type):
                for field in each.field:
                    field.ClearField("json_name")
        assert list(ours.message_type) == list(theirs.message_type), name
        assert list(ours.enum_type) == list(theirs.enum_type), name
