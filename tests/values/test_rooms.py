"""Hostile values through Connect's, the console's and the command line's ways of looking at records."""

from __future__ import annotations

import pytest

from ottla.base import KafkaError
from ottla.cli.records.json_lines import read_json_lines
from ottla.connect import DataError, SchemaBuilder, SourceRecord, data
from ottla.connect.data.date_format import DateFormat
from ottla.connect.transforms.cast import Cast
from ottla.connect.transforms.part import of_value
from ottla.sql import document_condition
from tests.values.watched import found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_connect_takes_every_hostile_value_or_names_what_is_wrong() -> None:
    assert found("tests.values.connect_rooms") == []


@pytest.mark.timeout(600)
def test_pages_and_the_command_line_show_every_hostile_record() -> None:
    assert found("tests.values.pages") == []


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.timeout(600)
def test_exports_of_every_hostile_record_are_files_that_everybody_reads(kind: str) -> None:
    assert found("tests.values.exports", kind) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_parquet_of_every_hostile_record_is_a_file() -> None:
    assert found("tests.values.exports", "parquet") == []


def cast(spec: str, value: object, schema: object = None) -> object:
    made = of_value(Cast)()
    made.configure({"spec": spec})
    record = SourceRecord(topic="t", value_schema=schema, value=value, source_partition={}, source_offset={})  # type: ignore[arg-type]
    return made.apply(record).value


def test_a_float_that_is_too_large_is_infinity_as_text() -> None:
    assert cast("string", 1e300, SchemaBuilder.float32().build()) == "Infinity"


def test_a_decimal_that_is_no_number_is_refused_as_data() -> None:
    from decimal import Decimal

    with pytest.raises(DataError, match="NaN is no number"):
        cast("int8", Decimal("NaN"), data.decimal_schema(2))


def test_a_year_of_many_digits_is_no_time() -> None:
    assert DateFormat("yyyy").parse("9" * 5000) is None


def test_lines_of_json_that_are_nested_too_deep_are_refused_by_their_number() -> None:
    with pytest.raises(KafkaError, match="line 1 is no record"):
        list(read_json_lines([b"[" * 100_000]))


def test_a_condition_over_a_whole_number_beyond_doubles_is_unknown() -> None:
    assert not document_condition("value.a * 1e300 > 0").holds({"value": {"a": 10**400}})
