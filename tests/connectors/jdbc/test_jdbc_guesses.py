"""What a server would guess at in columns of times and symbols is refused by the sink; what says itself is kept as it is."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from ottla.connect import SchemaBuilder, Struct, data
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import Reporter, record, sink

UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
NOW = "2024-01-03 10:00:01"


def kept(database: TestDatabase, type_: str, values: list[tuple[Any, Any]], **more: str) -> tuple[list[str], list[str]]:
    """Write values, each in a row; returns the texts of what the server has, and what was said of the others."""
    database.run(f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {type_})")
    reporter = Reporter()
    task = sink({**database.props, **UPSERT, **more}, reporter)
    for number, (schema, value) in enumerate(values):
        made = SchemaBuilder.struct().field("id", data.INT64).field("v", schema).build()
        task.put([record(Struct(made, id=number, v=value), offset=number)])
    said = [str(error) for _, error in reporter.reported]
    words = "CHAR" if database.kind == "mariadb" else "TEXT"
    return [str(row[0]) for row in database.run(f"SELECT CAST(v AS {words}) FROM t ORDER BY id")], said


def texts(*values: str) -> list[tuple[Any, Any]]:
    return [(data.STRING, each) for each in values]


GUESSED_BY_MARIADB = [
    ("TIME", texts("007", "0", "1", "2024", "1:2:3", f"{NOW}", "1 2:3:4", " 10:00:00 ", "10:00:00+02:00")),
    ("DATE", texts("25:00:00", "10:00:00", "24-1-3", "20240103", "2024-1-3", NOW, "10:00:00+02:00")),
    ("DATETIME", texts("10:00:00.5", "24-1-3", "20240103", "1:2:3", "2024-01-03T10:00:00Z")),
    ("TIMESTAMP NULL", texts("24-1-3", "20240103", "2024-1-3", "2024-01-03T10:00:00+02:00")),
    ("YEAR", texts("0", "7", "007", "70", "1")),
    ("ENUM('a','b')", texts("1", "02", " 1")),
    ("SET('a','b')", texts("0", "3")),
    *(
        (each, [(data.INT64, 7), (data.INT32, 101112), (data.BOOLEAN, True), (data.FLOAT64, 7.0), (data.BYTES, b"7")])
        for each in ("TIME", "DATE", "DATETIME", "TIMESTAMP NULL", "YEAR")
    ),
    ("YEAR", [(data.INT16, 0), (data.INT16, 70), (data.decimal_schema(0), Decimal(1970))]),
    ("DATE", [(data.TIME_SCHEMA, time(10, 0, 1)), (data.decimal_schema(0), Decimal(20240103))]),
    ("DATETIME", [(data.TIME_SCHEMA, time(10, 0, 1))]),
    ("ENUM('a','b')", [(data.INT32, 1), (data.BOOLEAN, True)]),
]


@pytest.mark.parametrize(("type_", "values"), GUESSED_BY_MARIADB)
def test_mariadb_is_given_nothing_to_guess_at(mariadb: TestDatabase, type_: str, values: list[tuple[Any, Any]]) -> None:
    found, said = kept(mariadb, type_, values)
    assert found == [] and len(said) == len(values)
    assert all("would" in each for each in said)


KEPT_BY_MARIADB = [
    (
        "TIME(3)",
        texts("10:00:00.125", "10:11", "-12:00:00", "838:00:00", "007:00:00"),
        ["10:00:00.125", "10:11:00.000"],
    ),
    ("DATE", texts("2024-01-03", "2024-01-03 00:00:00", "2024-01-03T00:00"), ["2024-01-03"] * 3),
    ("DATETIME(3)", texts(NOW, "2024-01-03T10:00:01.5", "2024-01-03"), [f"{NOW}.000", f"{NOW}.500"]),
    ("YEAR", [*texts("1970"), (data.INT32, 2155)], ["1970", "2155"]),
    ("ENUM('a','2')", texts("a", "2"), ["a", "2"]),
    ("SET('a','2')", texts("a,2", ""), ["a,2", ""]),
]


@pytest.mark.parametrize(("type_", "values", "wanted"), KEPT_BY_MARIADB)
def test_what_says_itself_is_written_to_mariadb(
    mariadb: TestDatabase, type_: str, values: list[tuple[Any, Any]], wanted: list[str]
) -> None:
    found, _ = kept(mariadb, type_, values)
    assert found[: len(wanted)] == wanted


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("TIME", texts("now", "allballs", "2024", "04:05 PM", NOW, "10:00:00+02:00", "10:00:00Z")),
        ("DATE", texts("now", "today", "1/2/2024", "Jan 5 2024", "12-03-2024", NOW, "2024-01-03T10:00:00Z")),
        ("TIMESTAMP", texts("now", "1/2/2024", "Jan 5 2024", "2024-01-03T10:00:00+02:00")),
        ("TIMESTAMPTZ", texts("today", "tomorrow", "12-03-2024")),
        ("INTERVAL", texts("7", "007", "1970", "1.5")),
    ],
)
def test_postgresql_is_given_nothing_to_guess_at(
    postgres: TestDatabase, type_: str, values: list[tuple[Any, Any]]
) -> None:
    found, said = kept(postgres, type_, values)
    assert found == [] and len(said) == len(values)
    assert all("would guess" in each for each in said)


@pytest.mark.parametrize(
    ("type_", "values", "wanted"),
    [
        ("TIME", texts("10:00:00.5", "10:11", "24:00:00"), ["10:00:00.5", "10:11:00", "24:00:00"]),
        ("TIMETZ", texts("10:00:00+02:00", "10:00:00Z"), ["10:00:00+02", "10:00:00+00"]),
        ("DATE", texts("2024-01-03", "infinity", "0044-03-15 BC"), ["2024-01-03", "infinity", "0044-03-15 BC"]),
        ("TIMESTAMP", texts(NOW, "2024-01-03T10:00:01Z", "-infinity"), [NOW, NOW, "-infinity"]),
        ("TIMESTAMPTZ", texts(f"{NOW}+02", "2024-01-03T10:00:01Z"), ["2024-01-03 08:00:01+00", f"{NOW}+00"]),
        ("NAME", texts("x" * 63, "ä"), ["x" * 63, "ä"]),
        ("INTERVAL", texts("1 day", "P1D", "01:02:03"), ["1 day", "1 day", "01:02:03"]),
    ],
)
def test_what_says_itself_is_written_to_postgresql(
    postgres: TestDatabase, type_: str, values: list[tuple[Any, Any]], wanted: list[str]
) -> None:
    assert kept(postgres, type_, values) == (wanted, [])


def test_a_zone_is_not_left_out_where_a_column_is_kept_in_another(postgres: TestDatabase) -> None:
    found, said = kept(postgres, "TIMESTAMP", texts("2024-01-03T10:00:01Z", NOW), **{"db.timezone": "Europe/Vienna"})
    assert found == [NOW] and len(said) == 1 and "without a zone" in said[0]


def test_numbers_that_are_said_to_be_times_are_times(mariadb: TestDatabase) -> None:
    more = {"timestamp.fields.list": "v", "timestamp.precision.mode": "microseconds"}
    found, said = kept(mariadb, "DATETIME", [(data.INT64, 1_000_000)], **more)
    assert (found, said) == (["1970-01-01 00:00:01"], [])


NUMBERS = SchemaBuilder.array(data.FLOAT64).build()


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("NUMERIC(5,2)", texts("1.999", "0.001")),
        ("MONEY", [*texts("1.005"), (data.decimal_schema(3), Decimal("1.005"))]),
        ("OID", [(data.INT64, -1), (data.INT64, 1 << 32)]),
        ("NAME", texts("x" * 64, "ä" * 32)),
        ('"char"', texts("ab", "ä")),
        ("NUMERIC(5,2)[]", [(NUMBERS, [1.0, 1.999])]),
        ("SMALLINT[]", [(NUMBERS, [1.5])]),
        ("DATE[]", [(SchemaBuilder.array(data.STRING).build(), ["today"])]),
    ],
)
def test_what_postgresql_would_round_is_refused_as_a_text_and_in_a_list_too(
    postgres: TestDatabase, type_: str, values: list[tuple[Any, Any]]
) -> None:
    found, said = kept(postgres, type_, values)
    assert found == [] and len(said) == len(values)


def test_elements_of_lists_are_bound_as_values_of_their_own(postgres: TestDatabase) -> None:
    moments = SchemaBuilder.array(SchemaBuilder.int64().name(data.TIMESTAMP_SCHEMA.name).version(1).optional().build())
    at = datetime(2024, 7, 1, 10, 0, tzinfo=UTC)
    found, said = kept(postgres, "TIMESTAMP[]", [(moments.build(), [at, None])], **{"db.timezone": "Europe/Vienna"})
    assert (found, said) == (['{"2024-07-01 12:00:00",NULL}'], [])


def test_bits_are_no_letters_and_have_no_fraction(mariadb: TestDatabase) -> None:
    found, said = kept(mariadb, "BIT(8)", [*texts("1"), (data.FLOAT64, 1.5), (data.INT64, 65), (data.BYTES, b"B")])
    assert (found, len(said)) == (["A", "B"], 2)
