"""Hostile names, literals and records through SQL's statements and queries, and hostile texts through schemas."""

from __future__ import annotations

import pytest

from ottla.schemas import InvalidSchemaError, SchemaType, parse
from ottla.sql import ParseError, expression_text, parse_expression
from ottla.sql.testing import Refused, run_case
from tests.values.watched import found

STREAM = "CREATE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"


@pytest.mark.timeout(600)
def test_every_statement_with_hostile_names_and_literals_is_done_or_refused() -> None:
    assert found("tests.values.statements") == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_query_ends_over_hostile_records() -> None:
    assert found("tests.values.sql_queries") == []


@pytest.mark.timeout(600)
def test_no_query_ends_over_hostile_rows_of_single_values() -> None:
    assert found("tests.values.sql_queries", "KAFKA") == []


def test_a_whole_number_of_many_digits_is_read_or_refused() -> None:
    assert expression_text(parse_expression("0" * 5000 + "1")) == "1"
    assert expression_text(parse_expression("-0009223372036854775808")) == "-9223372036854775808"
    for text in ("9" * 5000, "9223372036854775808"):
        with pytest.raises(ParseError, match="Invalid numeric literal"):
            parse_expression(text)


def test_a_decimal_literal_out_of_the_bounds_is_refused() -> None:
    for text in ("1." + "0" * 1000, "1." + "0" * 200_000):
        with pytest.raises(ParseError, match=r"1,000 digits, or an exponent beyond 1,000"):
            parse_expression(text)


@pytest.mark.parametrize("digits", ["9" * 5000, "2147483648"])
def test_a_precision_that_is_no_int_is_refused(digits: str) -> None:
    with pytest.raises(Refused, match=r"Value must be integer for command: DECIMAL\(PRECISION\)"):
        run_case(f"CREATE STREAM S (A DECIMAL({digits}, 2)) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');", [])


@pytest.mark.parametrize("name", ["", "x" * 201, "x" * 5000])
def test_a_name_that_no_topic_could_have_is_refused_when_it_is_said(name: str) -> None:
    for text in (STREAM.replace("STREAM S", f"STREAM `{name}`"), f"{STREAM}CREATE STREAM `{name}` AS SELECT * FROM S;"):
        with pytest.raises(Refused, match=r"name has 1 to 200 characters|name may not be empty"):
            run_case(text, [])


def test_a_name_of_200_characters_is_one() -> None:
    run_case(f"{STREAM}CREATE TABLE {'X' * 200} AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;", [])


def test_an_exponent_of_many_digits_in_a_schema_is_refused_by_name() -> None:
    with pytest.raises(InvalidSchemaError, match="exponent beyond"):
        parse(SchemaType.JSON, '{"type": "number", "multipleOf": 1e99999999999999999999}')
