"""Hostile values through SQL's functions: a value or a named error, soon, and never gigabytes."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.java import hash_ordered
from ottla.sql import parse_expression
from ottla.sql.errors import EvaluationError
from ottla.sql.expressions import Scope, compile_expression
from ottla.sql.functions import scalar, table
from ottla.sql.types import BIGINT, INTEGER, STRING, ArrayType, DecimalType, SqlType
from tests.values.watched import found


@pytest.mark.timeout(600)
def test_every_function_answers_every_hostile_value_or_names_what_is_wrong() -> None:
    assert found("tests.values.sql_functions") == []


def answer(text: str, *columns: tuple[SqlType, object]) -> object:
    """What a call is worth over columns A, B and so on; raises what is told to the processing log."""
    names = [(None, chr(65 + at), type_) for at, (type_, _) in enumerate(columns)]
    errors: list[Exception] = []
    value = compile_expression(parse_expression(text), Scope.of(names), errors.append)(
        tuple(each for _, each in columns)
    )
    if errors:
        raise errors[0]
    return value


def test_a_long_separator_between_many_elements_is_refused() -> None:
    with pytest.raises(EvaluationError, match="ARRAY_JOIN would make 3145728000 elements"):
        answer("ARRAY_JOIN(A, B)", (ArrayType(STRING), [""] * 3000), (STRING, "x" * (1 << 20)))


def test_an_array_of_many_elements_has_no_cube() -> None:
    cube = table("CUBE_EXPLODE")
    assert cube is not None
    with pytest.raises(EvaluationError, match="at most 65536"):
        cube.resolve([ArrayType(INTEGER)]).call(list(range(20_000)))


def test_a_series_has_at_most_a_million_elements() -> None:
    with pytest.raises(EvaluationError, match="at most 1048576"):
        answer("GENERATE_SERIES(A, B)", (BIGINT, 0), (BIGINT, (1 << 63) - 1))


def test_keys_of_a_megabyte_have_their_order_at_once() -> None:
    keys = ["x" * (1 << 20), "é" * (1 << 20), "b", "a"]
    assert set(hash_ordered(keys)) == set(keys)


def test_numbers_are_rounded_to_any_number_of_places() -> None:
    number = Decimal("9" * 28 + ".9999999999")
    wide = DecimalType(38, 10)
    for places in (1_000_000, (1 << 31) - 1):
        assert answer("ROUND(A, B)", (wide, number), (INTEGER, places)) == number
        assert answer("TRUNC(A, B)", (wide, number), (INTEGER, places)) == number
        assert answer("TRUNC(A, B)", (wide, number), (INTEGER, -places)) == 0
        assert answer("ROUND(A, B)", (wide, number), (INTEGER, -places)) == 0
    assert answer("CEIL(A)", (DecimalType(38, 10), number)) == 10**28


def test_what_has_no_order_is_not_sorted() -> None:
    with pytest.raises(EvaluationError, match="only elements that can be compared"):
        answer("ARRAY_SORT(A)", (ArrayType(ArrayType(STRING)), [["b"], [None]]))


def test_half_a_character_is_a_question_mark_where_bytes_are_made_as_in_java() -> None:
    call = scalar("URL_ENCODE_PARAM")
    assert call is not None
    assert answer("URL_ENCODE_PARAM(A)", (STRING, "\ud83d")) == "%3F"
    assert answer("MD5(A)", (STRING, "\ud83d")) == answer("MD5(A)", (STRING, "?"))


def test_a_place_of_many_digits_is_no_place_of_a_json_text() -> None:
    with pytest.raises(EvaluationError, match="Invalid path"):
        answer("EXTRACTJSONFIELD(A, B)", (STRING, "[1]"), (STRING, f"$[{'9' * 5000}]"))
    assert answer("EXTRACTJSONFIELD(A, B)", (STRING, "[1]"), (STRING, "$." + "9" * 5000)) is None


def test_a_json_text_with_a_number_that_is_too_large_is_none() -> None:
    with pytest.raises(EvaluationError, match="Invalid JSON format"):
        answer("EXTRACTJSONFIELD(A, B)", (STRING, '{"a": 1e1000000}'), (STRING, "$.a"))


def test_a_time_outside_of_a_day_is_not_formatted() -> None:
    from ottla.sql.types import TIME

    with pytest.raises(EvaluationError, match="86400000 is no millisecond of a day"):
        answer("FORMAT_TIME(A, 'a HH')", (TIME, 86_400_000))
