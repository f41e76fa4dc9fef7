"""Values of each format become bytes and come back; whatever else is given is refused, and ends nothing."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.schemas import SchemaType, parse
from ottla.serdes import Codec, SerdeError, codec_of


def codec(kind: SchemaType, text: Any, **options: bool) -> Codec:
    return codec_of(parse(kind, text if isinstance(text, str) else json.dumps(text)), **options)


def avro(text: Any, **options: bool) -> Codec:
    return codec(SchemaType.AVRO, text, **options)


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "namespace": "n", "fields": list(fields)}


LIST = record({"name": "next", "type": ["null", "R"], "default": None})
PROTO = """
syntax = "proto3";
package n;
message First { string name = 1; int64 count = 2; }
message Outer { message Inner { bytes data = 1; } Inner inner = 1; }
"""


def test_avro_values_with_logical_types_come_back() -> None:
    found = avro(
        record(
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        )
    )
    value = {"d": Decimal("1.50"), "day": date(2024, 2, 29), "at": datetime(2024, 1, 2, tzinfo=UTC)}
    assert found.decode(found.encode(value)) == value


def test_avro_values_without_logical_types_are_numbers() -> None:
    found = avro(record({"name": "day", "type": {"type": "int", "logicalType": "date"}}), logical_types=False)
    assert found.decode(found.encode({"day": 3})) == {"day": 3}


def test_bare_bytes_have_no_length() -> None:
    assert avro('"bytes"').encode(b"abc") == b"abc"
    assert avro('"bytes"').decode(b"abc") == b"abc"


def test_avros_json_names_the_type_of_a_unions_value() -> None:
    found = avro(record({"name": "a", "type": ["null", "string"]}))
    assert found.to_json({"a": "x"}) == '{"a":{"string":"x"}}'
    assert found.from_json('{"a":{"string":"x"}}') == {"a": "x"}


def test_bytes_that_nest_a_million_deep_are_refused_and_end_nothing() -> None:
    with pytest.raises(SerdeError, match="too deep"):
        avro(LIST).decode(b"\x02" * 1_000_000 + b"\x00")
    assert avro(LIST).decode(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}


def test_a_value_that_holds_itself_is_refused_and_ends_nothing() -> None:
    value: dict[str, Any] = {}
    value["next"] = value
    with pytest.raises(SerdeError):
        avro(LIST).encode(value)


@pytest.mark.parametrize("items", ['"null"', {"type": "fixed", "name": "F", "size": 0}, record()])
def test_arrays_of_nothing_are_not_read(items: Any) -> None:
    kind = json.loads(items) if isinstance(items, str) else items
    found = avro({"type": "array", "items": kind})
    with pytest.raises(SerdeError, match="no bytes"):
        found.decode(bytes.fromhex("feffffffffffffff3f 00"))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_of_an_avro_schema_or_are_refused(data: bytes) -> None:
    found = avro(
        record(
            {"name": "m", "type": {"type": "map", "values": ["null", "string", "double"]}},
            {"name": "l", "type": {"type": "array", "items": "R"}},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        )
    )
    try:
        found.decode(data)
    except SerdeError as error:
        assert not error.retriable


def test_a_value_that_does_not_fit_says_so() -> None:
    with pytest.raises(SerdeError, match=r"n\.R"):
        avro(record({"name": "a", "type": "int"})).encode({"a": "x"})


def test_json_is_checked_where_that_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert codec(SchemaType.JSON, schema).encode({"a": "é"}) == '{"a":"é"}'.encode()
    checked = codec(SchemaType.JSON, schema, validate_json=True)
    assert checked.decode(b'{"a":1}') == {"a": 1}
    for wrong in (b'{"a":"x"}', b"{}", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(SerdeError):
            checked.decode(wrong)


def test_protobuf_messages_are_found_by_name_and_by_path() -> None:
    found = codec(SchemaType.PROTOBUF, PROTO)
    assert (found.path_to(None), found.path_to("n.First"), found.path_to("n.Outer.Inner")) == ((0,), (0,), (1, 0))
    data = found.encode({"inner": {"data": "aGk="}}, (1,))
    assert found.to_json(found.decode(data, (1,))) == '{"inner":{"data":"aGk="}}'
    assert found.name((1, 0)) == "n.Outer.Inner"
    for path in ((2,), (0, 0), (-1,)):
        with pytest.raises(SerdeError):
            found.decode(data, path)
    with pytest.raises(SerdeError):
        found.path_to("n.Nobody")


def test_a_message_of_another_class_is_written_as_the_schemas_own() -> None:
    found, same = codec(SchemaType.PROTOBUF, PROTO), codec(SchemaType.PROTOBUF, PROTO)
    other = codec(SchemaType.PROTOBUF, PROTO.replace("int64 count = 2;", "string more = 7;"))
    plain = found.encode({"name": "Anna"})
    assert found.encode(same.decode(plain)) == found.encode(found.decode(plain)) == plain
    assert found.encode(other.decode(plain)) == plain
    assert found.decode(found.encode(other.decode(other.encode({"name": "A", "more": "b"})))).name == "A"
    for path in ((1,), (1, 0)):
        with pytest.raises(SerdeError, match="the schema's message a"):
            found.encode(same.decode(plain), path)


@pytest.mark.parametrize("value", [{"nobody": 1}, {"count": "x"}, 3, {"name": 1}])
def test_what_is_no_message_is_refused(value: Any) -> None:
    with pytest.raises(SerdeError):
        codec(SchemaType.PROTOBUF, PROTO).encode(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_are_refused(data: bytes) -> None:
    try:
        PROTOBUF.decode(data)
    except SerdeError as error:
        assert not error.retriable


PROTOBUF = codec(SchemaType.PROTOBUF, PROTO)
