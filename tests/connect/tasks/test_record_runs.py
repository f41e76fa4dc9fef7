"""Runs of like records: what is converted all at once are the bytes that each record has by itself."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import Header, Schema, SourceRecord, Struct
from ottla.connect.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from ottla.connect.data import (
    DATE_SCHEMA,
    INT64,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_STRING,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    SchemaBuilder,
    column_of_values,
    decimal_schema,
    values_of_column,
)
from ottla.connect.tasks.plugins import TaskPlugins
from ottla.connect.tasks.record_runs import ROWS_MIN, RunConverter

ROW = SchemaBuilder.struct().field("id", INT64).field("text", OPTIONAL_STRING).build()
LISTS = SchemaBuilder.array(STRING).build()
PLAIN: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    (OPTIONAL_STRING, st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
    (OPTIONAL_INT16, st.none() | st.integers(-(1 << 15), (1 << 15) - 1)),
    (OPTIONAL_FLOAT64, st.none() | st.floats(allow_nan=False)),
    (OPTIONAL_BYTES, st.none() | st.binary(max_size=4)),
    (decimal_schema(2, optional=True), st.none() | st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-2))),
    (DATE_SCHEMA, st.dates()),
    (TIME_SCHEMA, st.integers(0, 86_399_999).map(lambda ms: time(ms // 3_600_000, ms // 60_000 % 60, ms // 1000 % 60))),
    (TIMESTAMP_SCHEMA, st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0))),
    (ROW, st.builds(lambda n, text: Struct(ROW, {"id": n, "text": text}), st.integers(0, 9), st.none() | st.just("x"))),
]
ODD = st.sampled_from(["a", 1, True, 1 << 70, 1.5, None, b"x", Decimal("1.234"), date(1, 1, 1), "\ud800", ["a"]])


def converter(**settings: str) -> JsonConverter:
    found = JsonConverter()
    found.configure(settings, is_key=False)
    return found


def equipment(key: Any, value: Any) -> TaskPlugins:
    found = object.__new__(TaskPlugins)
    object.__setattr__(found, "key", key)
    object.__setattr__(found, "value", value)
    return found


def headers(topic: str, found: Any) -> Any:
    convert = SimpleHeaderConverter().from_header
    return [(each.key, convert(topic, each.key, each.schema, each.value)) for each in found]


def records(schema: Schema | None, values: list[Any], **more: Any) -> list[SourceRecord]:
    return [
        SourceRecord(topic="t", key_schema=INT64, key=at, value_schema=schema, value=value, **more)
        for at, value in enumerate(values)
    ]


@given(st.data(), st.sampled_from(range(len(PLAIN))), st.booleans())
def test_plain_values_become_their_bytes_at_once(data: st.DataObject, which: int, enveloped: bool) -> None:
    schema, of_value = PLAIN[which]
    drawn = data.draw(st.lists(of_value, min_size=1, max_size=8))
    values = (drawn * ROWS_MIN)[: ROWS_MIN + 3]
    column = column_of_values(schema, values)
    assert column is not None and values_of_column(schema, column) == values
    made = converter(**{"schemas.enable": str(enveloped).lower()})
    run = RunConverter(equipment(made, made), headers).run(records(schema, values), 0, 5)
    assert run is not None
    assert run.values == [made.from_connect("t", schema, each) for each in values]
    assert run.keys == [made.from_connect("t", INT64, at) for at in range(len(values))]
    assert run.timestamps == [5] * len(values)


@given(
    st.lists(ODD, min_size=1, max_size=4),
    st.sampled_from([None, LISTS, *(schema for schema, _ in PLAIN)]),
    st.sampled_from([converter(), StringConverter()]),
)
def test_whatever_does_not_fit_makes_no_run_or_the_same_bytes(
    values: list[Any], schema: Schema | None, made: Any
) -> None:
    given_values = (values * ROWS_MIN)[:ROWS_MIN]
    run = RunConverter(equipment(made, made), headers).run(records(schema, given_values), 0, 5)
    try:
        one_by_one = [made.from_connect("t", schema, each) for each in given_values]
    except Exception:
        assert run is None
        return
    assert run is None or run.values == one_by_one


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "other"},
        {"topic": None},
        {"partition": 1},
        {"value_schema": OPTIONAL_STRING},
        {"headers": (Header("h", "x", STRING),)},
        {"timestamp": -7},
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_record_that_is_special_ends_a_run(change: dict[str, Any]) -> None:
    given_records = records(STRING, ["a"] * ROWS_MIN)
    runs = RunConverter(equipment(converter(), converter()), headers)
    assert runs.run(given_records, 0, 5) is not None
    assert runs.run(given_records, 1, 5) is None, "too few"
    given_records[7] = given_records[7].replace(**change)
    assert runs.run(given_records, 0, 5) is None


def test_headers_that_all_records_have_are_converted_once() -> None:
    shared = (Header("h", "x", STRING),)
    run = RunConverter(equipment(converter(), converter()), headers).run(
        records(STRING, ["a"] * ROWS_MIN, headers=shared, timestamp=9), 0, 5
    )
    assert run is not None and run.headers == [("h", b"x")] and set(run.timestamps) == {9}


def test_moments_with_a_zone_are_those_of_utc() -> None:
    assert column_of_values(TIMESTAMP_SCHEMA, [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]).to_pylist() == [1000]
