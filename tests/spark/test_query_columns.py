"""Columns for Connect's values: what schemas and plain values become, and how a topic's columns grow."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ottla.connect import DataError, SchemaBuilder, Struct, data
from ottla.spark.connect.query_columns import inferred_type, kind_of, layout_of, merged, settled

INNER = SchemaBuilder.struct().field("a", data.INT8).field("b", data.OPTIONAL_STRING).build()
SCHEMA = (
    SchemaBuilder.struct()
    .field("inner", INNER)
    .field("price", data.decimal_schema(2))
    .field("day", data.DATE_SCHEMA)
    .field("at", data.TIMESTAMP_SCHEMA)
    .field("clock", data.TIME_SCHEMA)
    .field("tags", SchemaBuilder.array(data.STRING).build())
    .field("counts", SchemaBuilder.map(data.STRING, data.INT64).build())
    .field("raw", data.BYTES)
    .build()
)


def test_every_type_of_schema_has_a_column_that_gives_its_values_back() -> None:
    moment = datetime(2026, 11, 22, 6, 30, tzinfo=UTC)
    value = Struct(
        SCHEMA,
        inner=Struct(INNER, a=1),
        price=Decimal("12.50"),
        day=date(2026, 11, 22),
        at=moment,
        clock=time(1, 0, 0, 5000),
        tags=["x", "y"],
        counts={"k": 7},
        raw=b"\x00",
    )
    kind = settled(inferred_type(value.schema))
    [found] = pa.array([layout_of(kind)(value)], kind).to_pylist()
    assert found == {
        "inner": {"a": 1, "b": None},
        "price": Decimal("12.50"),
        "day": date(2026, 11, 22),
        "at": moment,
        "clock": 3_600_005,
        "tags": ["x", "y"],
        "counts": [("k", 7)],
        "raw": b"\x00",
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([{"a": 1}, {"a": 1.5}], pa.struct([("a", pa.float64())])),
        ([{"a": 1}, {"b": "x"}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ([{"a": None}, {"a": [1]}], pa.struct([("a", pa.list_(pa.int64()))])),
        ([{"a": {"b": 1}}, {"a": {"c": True}}], pa.struct([("a", pa.struct([("b", pa.int64()), ("c", pa.bool_())]))])),
        ([{"a": 1}, {"a": "one"}], pa.struct([("a", pa.string())])),
        ([{"a": []}, {"a": None}], pa.struct([("a", pa.list_(pa.string()))])),
        ([{"a": {}}], pa.struct([("a", pa.string())])),
        ([{"a": 1 << 70}], pa.struct([("a", pa.string())])),
        ([None], pa.string()),
        (["x", None], pa.string()),
    ],
)
def test_values_without_schema_have_the_columns_that_hold_them_all(values: list[Any], expected: pa.DataType) -> None:
    found = pa.null()
    for each in values:
        found = merged(found, inferred_type(kind_of(each)), "")
    assert settled(found) == expected
    lay = layout_of(expected)
    assert len(pa.array([lay(each) for each in values], expected)) == len(values)


def test_what_does_not_go_together_becomes_text_without_losing_anything() -> None:
    lay = layout_of(pa.struct([("a", pa.string())]))
    assert [lay({"a": each}) for each in ("one", 1, {"b": [True]})] == [
        {"a": "one"},
        {"a": "1"},
        {"a": '{"b": [true]}'},
    ]


def test_schemas_that_contradict_each_other_are_refused_by_the_fields_name() -> None:
    one, other = pa.struct([("x", pa.struct([("y", pa.int32())]))]), pa.struct([("x", pa.struct([("y", pa.string())]))])
    with pytest.raises(DataError, match=r"column x\.y is of type int32 in one record's schema, and of type string"):
        merged(one, other, "", loose=False)
    assert merged(pa.int8(), pa.int32(), "", loose=False) == pa.int32()
