"""Avro's files hold what AvroConverter makes of the same schemas and values, and Connect loses nothing."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import DataError, Schema, SchemaBuilder, Struct, data
from ottla.connect.schema_converters.avro import AvroMapping
from ottla.connectors.storage import AvroFormat, read_avro
from ottla.schemas import SchemaType, parse
from ottla.serdes import codec_of
from tests.connectors.avro_schemas import Schemas, shape

CONVERTER = AvroMapping(meta=True, enhanced=False, scrub=False, generalized=False)


def by_converter(schema: Any, payloads: list[bytes]) -> tuple[Schema, list[Any]]:
    """Return what AvroConverter makes of values' bytes, by plain calls: no registry is asked."""
    codec = codec_of(parse(SchemaType.AVRO, json.dumps(schema)), logical_types=False, named_unions=True)
    found, read = CONVERTER.reading(codec, None)
    return found, [read(codec.decode(each)) for each in payloads]


def file_of_others(schema: Any, values: list[Any]) -> bytes:
    """Return a container file by fastavro, whose values are without logical types."""
    file = io.BytesIO()
    fastavro.writer(file, schema, values)
    return file.getvalue()


def payloads_of(schema: Any, values: list[Any]) -> list[bytes]:
    found = []
    for each in values:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(schema), each)
        found.append(file.getvalue())
    return found


def file_of_ours(schema: Schema, values: list[Any], **settings: Any) -> bytes:
    form, file = AvroFormat({key.replace("_", "."): each for key, each in settings.items()}), io.BytesIO()
    converted = [form.convert("t", schema, each) for each in values]
    encoder = form.encoder(schema, file, "name")
    for each in converted:
        encoder.add(each)
    encoder.finish()
    return file.getvalue()


def told_by_fastavro(file: bytes) -> tuple[Any, list[Any]]:
    reader = fastavro.reader(io.BytesIO(file), return_named_type=True)
    return reader.writer_schema, list(reader)


@given(st.integers(0, 1 << 60))
def test_files_and_the_converter_agree_on_any_schema_and_lose_nothing(seed: int) -> None:
    made = Schemas(Random(seed))
    avro = made.record()
    values = [made.value(avro) for _ in range(3)]
    theirs = file_of_others(avro, values)
    schema, found = by_converter(avro, payloads_of(avro, values))
    of_file, rows = read_avro(io.BytesIO(theirs))
    assert of_file == schema and list(rows) == found

    ours = file_of_ours(schema, found)
    again, rows = read_avro(io.BytesIO(ours))
    assert again == schema and list(rows) == found
    before = json.loads(json.dumps(avro).replace(', "logicalType": "timestamp-micros"', ""))  # a long, as Confluent's
    _, wanted = told_by_fastavro(file_of_others(before, values))
    after, kept = told_by_fastavro(ours)
    assert shape(after) == shape(before)
    assert kept == wanted
    written = CONVERTER.writing(schema)
    assert shape(json.loads(written.schema.text)) == shape(before)


SHOP: dict[str, Any] = {
    "type": "record",
    "name": "Sale",
    "namespace": "shop.v1",
    "doc": "what was sold",
    "fields": [
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}, "default": "OLD"},
        {"name": "before", "type": ["null", "Kind"], "default": None, "doc": "what it was"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "namespace": "crypt", "size": 2}},
        {"name": "hashes", "type": {"type": "array", "items": "crypt.Hash"}},
        {"name": "any", "type": ["int", "null", "string", {"type": "record", "name": "A", "fields": []}], "default": 5},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "share", "type": "double", "default": 0},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}
SALE = {
    "kind": "NEW",
    "before": ("shop.v1.Kind", "OLD"),
    "hash": b"ab",
    "hashes": [b"cd", b"ef"],
    "any": "x",
    "price": b"\x01\x00",
    "share": 0.5,
    "day": 2,
    "at": 3,
}


def test_enums_fixed_unions_and_digits_stay_what_they_are_in_a_file() -> None:
    schema, values = by_converter(SHOP, payloads_of(SHOP, [SALE, {**SALE, "any": ("shop.v1.A", {})}]))
    told, rows = told_by_fastavro(file_of_ours(schema, values))
    assert shape(told) == shape(SHOP)
    assert [each["any"] for each in rows] == ["x", ("shop.v1.A", {})]
    types = {each["name"]: each["type"] for each in told["fields"]}
    assert (types["kind"]["type"], types["kind"]["symbols"]) == ("enum", ["NEW", "OLD"])
    assert types["before"] == ["null", "shop.v1.Kind"]
    assert (types["hash"]["type"], types["hash"]["name"]) == ("fixed", "crypt.Hash")
    assert types["hashes"]["items"] == "crypt.Hash"
    assert types["any"][0] == "int" and "null" in types["any"] and "string" in types["any"]
    assert (types["price"]["logicalType"], types["price"]["precision"], types["price"]["scale"]) == ("decimal", 9, 2)
    assert {each["name"]: each.get("doc") for each in told["fields"]}["before"] == "what it was"


def test_a_decimal_of_more_digits_than_its_schema_says_is_refused() -> None:
    builder = SchemaBuilder.bytes_().name(data.decimal_schema(0).name).version(1)
    of_nine = builder.parameters({"scale": "2", "connect.decimal.precision": "9"}).build()
    schema = SchemaBuilder.struct().field("d", of_nine).build()
    form = AvroFormat({})
    form.convert("t", schema, Struct(schema, d=Decimal("1234567.89")))
    with pytest.raises(DataError, match="more than 9 digits"):
        form.convert("t", schema, Struct(schema, d=Decimal("12345678.90")))


def test_what_an_enum_or_a_fixed_does_not_have_is_refused_before_its_record_counts() -> None:
    schema, (value,) = by_converter(SHOP, payloads_of(SHOP, [SALE]))
    for name, wrong in (("kind", "NONE"), ("hash", b"abc"), ("hash", b"")):
        odd = Struct(schema, value.to_dict() | {"any": value["any"]})
        odd.values[schema.field(name).index] = wrong  # type: ignore[union-attr]
        with pytest.raises(DataError):
            AvroFormat({}).convert("t", schema, odd)


def test_two_decimals_of_different_fixed_sizes_have_names_of_their_own() -> None:
    fields = [
        {"name": f"d{size}", "type": {"type": "fixed", "name": f"D{size}", "size": size} | digits}
        for size, digits in (
            (4, {"logicalType": "decimal", "precision": 9, "scale": 2}),
            (8, {"logicalType": "decimal", "precision": 18, "scale": 2}),
        )
    ]
    avro = {"type": "record", "name": "R", "fields": fields}
    value = {"d4": b"\0\0\1\0", "d8": b"\xff" * 8}
    schema, values = by_converter(avro, payloads_of(avro, [value]))
    told, rows = told_by_fastavro(file_of_ours(schema, values))
    assert [each["type"]["size"] for each in told["fields"]] == [4, 8]
    assert [str(each) for each in rows[0].values()] == ["2.56", "-0.01"]


def test_records_of_odd_names_are_written_and_known_by_their_own() -> None:
    schema = SchemaBuilder.struct().name("my-server.public.1st.Value").field("v", data.INT32).build()
    file = file_of_ours(schema, [Struct(schema, v=1)])
    told, _ = told_by_fastavro(file)
    assert told["name"] == "my_server.public._1st.Value"
    assert read_avro(io.BytesIO(file))[0].name == "my-server.public.1st.Value"


def test_a_schema_that_holds_itself_ends_no_process() -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    value: Any = None
    for _ in range(200):
        value = {"next": value}
    with pytest.raises(DataError, match="holds itself"):
        read_avro(io.BytesIO(file_of_others(node, [value])))


def test_a_list_of_nothing_is_not_read() -> None:
    schema = {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}
    with pytest.raises(DataError, match="take no bytes"):
        list(read_avro(io.BytesIO(file_of_others(schema, [[{}] * 3])))[1])
