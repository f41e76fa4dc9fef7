"""What holds of all Protobuf schemas: their text, and that bytes of the older are read by what may follow it."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schemas import InvalidSchemaError, ParsedSchema, SchemaType, incompatibilities, parse

SCALARS = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32"),
    *("sfixed32", "sfixed64", "sint32", "sint64"),
)
WIDER = {
    "int32": "int64",
    "uint32": "uint64",
    "sint32": "sint64",
    "string": "bytes",
    "bool": "int32",
    "fixed32": "sfixed32",
}
Fields = dict[int, tuple[str, str]]


def text_of(messages: dict[str, Fields]) -> str:
    lines = ['syntax = "proto3";', "package p.q;", "enum E { E0 = 0; E1 = 1; }"]
    for name, fields in messages.items():
        inside = "".join(f"  {kind} {field} = {number};\n" for number, (kind, field) in fields.items())
        lines.append(f"message {name} {{\n{inside}}}")
    return "\n".join(lines)


def made(random: Random) -> dict[str, Fields]:
    """Return messages of random fields; later ones may be of the earlier."""
    messages: dict[str, Fields] = {}
    for index in range(random.randint(1, 4)):
        kinds = [*SCALARS, "E", "map<string, int32>", "map<int64, M0>", *messages]
        fields: Fields = {}
        for number in random.sample(range(1, 30), random.randint(0, 6)):
            label = random.choice(("", "", "optional ", "repeated "))
            kind = random.choice(kinds)
            fields[number] = ("" if kind.startswith("map") else label) + kind, f"f{number}"
        messages[f"M{index}"] = fields
    return messages


def changed(random: Random, messages: dict[str, Fields]) -> dict[str, Fields]:
    """Return messages after changes that the wire bears."""
    found = {name: dict(fields) for name, fields in messages.items()}
    for name, fields in found.items():
        for number, (kind, field) in list(fields.items()):
            fields[number] = WIDER.get(kind, kind), random.choice([field, f"{field}_renamed"])
            if random.random() < 0.2:
                del fields[number]
        free = random.randint(30, 60)
        fields[free] = random.choice(SCALARS), f"f{free}"
        assert name in messages
    found[f"M{len(found) + random.randint(0, 100)}"] = {}
    return found


def message_class(schema: ParsedSchema, name: str) -> Any:
    pool = DescriptorPool()
    pool.Add(FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized"))))
    return GetMessageClass(pool.FindMessageTypeByName(f"p.q.{name}"))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_bytes_of_the_older_are_read_by_what_may_follow_it(seed: int) -> None:
    random = Random(seed)
    messages = made(random)
    old = parse(SchemaType.PROTOBUF, text_of(messages))
    new = parse(SchemaType.PROTOBUF, text_of(changed(random, messages)))
    assert incompatibilities(new, old) == []
    value, reader = message_class(old, "M0")(), message_class(new, "M0")
    for field in value.DESCRIPTOR.fields:
        if not field.is_repeated and field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
            setattr(value, field.name, 1)
    read = reader.FromString(value.SerializeToString())
    for field, seen in value.ListFields():
        if field.number in reader.DESCRIPTOR.fields_by_number:
            assert getattr(read, reader.DESCRIPTOR.fields_by_number[field.number].name) == seen


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_canonical_text_is_its_own_canonical_text(seed: int) -> None:
    schema = parse(SchemaType.PROTOBUF, text_of(made(Random(seed))))
    again = parse(SchemaType.PROTOBUF, schema.canonical())
    assert again == schema
    assert again.formatted("serialized") == schema.formatted("serialized")
    normal = schema.normalized()
    assert parse(SchemaType.PROTOBUF, normal.canonical()).normalized().canonical() == normal.canonical()
    assert incompatibilities(normal, schema) == []


TOKENS = st.sampled_from(
    [
        *(
            "syntax",
            "=",
            '"proto3"',
            ";",
            "message",
            "{",
            "}",
            "A",
            "B",
            "int32",
            "1",
            "2",
            "repeated",
            "oneof",
            "map",
            "<",
            ">",
        ),
        *(
            ",",
            "string",
            "enum",
            "import",
            '"x.proto"',
            "option",
            "extend",
            "reserved",
            "package",
            "a.b",
            "[",
            "]",
            "(",
            ")",
        ),
        *(
            "-1",
            "group",
            "optional",
            "extensions",
            "to",
            "max",
            "default",
            "//",
            "/*",
            "\\",
            "\0",
            "é",
            "service",
            "rpc",
        ),
    ]
)


@settings(max_examples=40, deadline=None)
@given(tokens=st.lists(TOKENS, max_size=60))
def test_any_text_is_a_schema_or_refused(tokens: list[str]) -> None:
    try:
        schema = parse(SchemaType.PROTOBUF, " ".join(tokens))
    except InvalidSchemaError as error:
        assert str(error)
        return
    assert parse(SchemaType.PROTOBUF, schema.canonical()) == schema


NAMES = st.sampled_from(["A", "B", "a", "x y", "", "é", "A{}", ".A", "p.A"])
FIELDS = st.builds(
    FieldDescriptorProto,
    name=NAMES,
    number=st.sampled_from([-1, 0, 1, 2, 536_870_912]),
    type=st.integers(1, 18),
    label=st.integers(1, 3),
    type_name=NAMES,
    default_value=st.sampled_from(["", "1", '"', "\\", "x;", "nan"]),
    oneof_index=st.sampled_from([None, 0, 5, -1]),
)


@settings(max_examples=60, deadline=None)
@given(
    fields=st.lists(FIELDS, max_size=3),
    name=NAMES,
    imports=st.lists(st.sampled_from(["x", "../y", "confluent/meta.proto"])),
)
def test_any_descriptor_is_a_schema_or_refused(fields: list[Any], name: str, imports: list[str]) -> None:
    file = FileDescriptorProto(name="x", dependency=imports)
    file.message_type.add(name=name, field=fields).oneof_decl.add(name="o")
    try:
        schema = parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())
    except InvalidSchemaError as error:
        assert str(error)
        return
    assert parse(SchemaType.PROTOBUF, schema.canonical()) == schema


@settings(max_examples=60, deadline=None)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes_are_a_descriptor_or_refused(data: bytes) -> None:
    try:
        parse(SchemaType.PROTOBUF, base64.b64encode(data).decode())
    except InvalidSchemaError as error:
        assert str(error)
