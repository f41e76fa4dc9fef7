"""Columns become the JSON that their values become one by one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.converters import JsonConverter
from ottla.connect.data import (
    BYTES,
    FLOAT32,
    FLOAT64,
    INT64,
    OPTIONAL_BOOLEAN,
    OPTIONAL_INT16,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    SchemaBuilder,
    decimal_schema,
    values_of_column,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(['"', "\\", "\x01", "😀", "é"])
DEFAULTED = SchemaBuilder.string().optional().default('a "default"').build()
INNER = SchemaBuilder.struct().name("inner").optional().field("n", OPTIONAL_INT64).field("s", STRING).build()
ROW = (
    SchemaBuilder.struct()
    .name("row")
    .field("id", INT64)
    .field("small", OPTIONAL_INT16)
    .field("is it", OPTIONAL_BOOLEAN)
    .field('quoted "name"', OPTIONAL_STRING)
    .field("defaulted", DEFAULTED)
    .field("amount", decimal_schema(2, optional=True))
    .field("ratio", FLOAT64)
    .field("data", BYTES)
    .field("inner", INNER)
    .build()
)
TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("is it", pa.bool_()),
        ('quoted "name"', pa.string()),
        ("defaulted", pa.string()),
        ("amount", pa.decimal128(38, 2)),
        ("ratio", pa.float64()),
        ("data", pa.binary()),
        ("inner", pa.struct([("n", pa.int64()), ("s", pa.string())])),
    ]
)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.fixed_dictionaries(
    {
        "id": WHOLE,
        "small": st.none() | st.integers(-(1 << 15), (1 << 15) - 1),
        "is it": st.none() | st.booleans(),
        'quoted "name"': st.none() | TEXTS,
        "defaulted": st.none() | TEXTS,
        "amount": st.none() | st.integers(-(10**20), 10**20).map(lambda each: Decimal(each).scaleb(-2)),
        "ratio": st.floats(),
        "data": st.binary(max_size=9),
        "inner": st.none() | st.fixed_dictionaries({"n": st.none() | WHOLE, "s": TEXTS}),
    }
)


def converter(*, enveloped: bool = False, **settings: str) -> JsonConverter:
    found = JsonConverter()
    found.configure({"schemas.enable": str(enveloped).lower(), **settings}, is_key=False)
    return found


def one_by_one(made: JsonConverter, schema: Schema, column: pa.Array) -> list[bytes | None]:
    return [made.from_connect("t", schema, each) for each in values_of_column(schema, column)]


@given(st.lists(ROWS, max_size=9), st.booleans(), st.sampled_from(["BASE64", "NUMERIC"]), st.booleans())
def test_a_column_of_structs_is_written_as_its_values_are(
    rows: list[dict[str, Any]], enveloped: bool, decimals: str, replaces: bool
) -> None:
    settings = {"decimal.format": decimals, "replace.null.with.default": str(replaces).lower()}
    made = converter(enveloped=enveloped, **settings)
    column = pa.array(rows, TYPE)
    found = made.columns_from_connect("t", ROW, column)
    assert found is not None and found.type == pa.binary()
    assert found.to_pylist() == one_by_one(made, ROW, column)
    part = column.slice(1, 4)
    assert made.columns_from_connect("t", ROW, part).to_pylist() == one_by_one(made, ROW, part)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=9))
def test_decimals_of_every_length_are_written_as_their_bytes(numbers: list[int]) -> None:
    numbers = [each >> shift for each in numbers for shift in range(0, 64, 5)]
    column, made = pa.array([Decimal(each) for each in numbers], pa.decimal128(19, 0)), converter()
    schema = decimal_schema(0)
    assert made.columns_from_connect("t", schema, column).to_pylist() == one_by_one(made, schema, column)


@given(st.lists(st.sampled_from(["a", 'b"', "\x02", None]), min_size=1), st.booleans())
def test_a_dictionary_is_written_as_what_it_stands_for(texts: list[str | None], constant: bool) -> None:
    column = pa.array([texts[0]] * len(texts) if constant else texts, pa.string()).dictionary_encode()
    for schema in (OPTIONAL_STRING, DEFAULTED):
        made = converter()
        assert made.columns_from_connect("t", schema, column).to_pylist() == one_by_one(made, schema, column)


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_fractions_are_written_as_java_does(type_: pa.DataType) -> None:
    column = pa.array([1.0, 1e21, 0.1, float("nan"), float("-inf"), -0.0], type_)
    schema = FLOAT32 if type_ == pa.float32() else FLOAT64
    assert converter().columns_from_connect("t", schema, column).to_pylist() == one_by_one(converter(), schema, column)


def test_null_where_there_must_be_a_value_is_left_to_who_refuses_it() -> None:
    assert converter().columns_from_connect("t", STRING, pa.array(["a", None])) is None
    rows = pa.array([{"n": 1, "s": None}], pa.struct([("n", pa.int64()), ("s", pa.string())]))
    assert converter().columns_from_connect("t", INNER, rows) is None
    assert converter().columns_from_connect("t", None, pa.array([1])) is None


def test_an_empty_column_and_a_struct_without_fields_are_written() -> None:
    assert converter().columns_from_connect("t", ROW, pa.array([], TYPE)).to_pylist() == []
    nothing = SchemaBuilder.struct().build()
    assert converter().columns_from_connect("t", nothing, pa.array([{}, {}], pa.struct([]))).to_pylist() == [b"{}"] * 2
