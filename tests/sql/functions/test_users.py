"""Functions of users' are known to statements, cost values where they fail, and say what they do not take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.sql import SqlError
from ottla.sql.functions import aggregate_function, scalar_function, table_function
from ottla.sql.testing import Refused, run_case
from tests.sql.evaluation import type_text, value_of

STREAM = "CREATE STREAM S (K STRING KEY, A INT, T STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"


@scalar_function("TEST_TIMES", "STRING, INTEGER -> STRING", "BYTES, INTEGER -> BYTES")
def times(value: Any, count: int) -> Any:
    """A value so many times."""
    if count < 0:
        raise ValueError("fewer than none")
    return value * count


@scalar_function("TEST_IS_NULL", "T -> BOOLEAN", nulls=True)
def is_null(value: object) -> bool:
    """Whether a value is null."""
    return value is None


@table_function("TEST_WORDS", "STRING -> STRING")
def words(text: str) -> Iterator[str]:
    """The words of a text."""
    yield from text.split()


@aggregate_function("TEST_PRODUCT", "INTEGER -> BIGINT")
class Product:
    """The product of all values."""

    def initial(self) -> int:
        return 1

    def add(self, state: int, value: int) -> int:
        return state * value

    def result(self, state: int) -> int:
        return state


def rows(*values: object) -> list[dict[str, object]]:
    return [{"topic": "s", "key": "k", "value": each} for each in values]


def test_a_scalar_function_has_types_nulls_and_overloads() -> None:
    assert value_of("TEST_TIMES('ab', 2)") == "abab" and type_text("TEST_TIMES(X, 2)") == "BYTES"
    assert value_of("test_times(NS, 2)") is None and value_of("TEST_IS_NULL(NS)") is True
    with pytest.raises(SqlError, match="Function 'test_times' does not accept parameters"):
        value_of("TEST_TIMES(1, 2)")


def test_what_a_function_raises_costs_a_value() -> None:
    text = STREAM + "CREATE STREAM R AS SELECT K, A, TEST_TIMES(T, A) AS B FROM S;"
    found = run_case(text, rows({"A": -1, "T": "x"}, {"A": 2, "T": "x"}))
    assert [each.value for each in found] == [{"A": -1, "B": None}, {"A": 2, "B": "xx"}]


def test_a_table_function_makes_rows() -> None:
    text = STREAM + "CREATE STREAM R AS SELECT K, TEST_WORDS(T) AS W FROM S;"
    found = run_case(text, rows({"T": "a b"}, {"T": None}))
    assert [each.value for each in found] == [{"W": "a"}, {"W": "b"}]


def test_an_aggregate_function_keeps_state() -> None:
    text = STREAM + "CREATE TABLE R AS SELECT K, TEST_PRODUCT(A) AS P FROM S GROUP BY K;"
    found = run_case(text, rows({"A": 2}, {"A": None}, {"A": 3}))
    assert [each.value for each in found] == [{"P": 2}, {"P": 2}, {"P": 6}]
    with pytest.raises(Refused):
        run_case(text.replace("TEST_PRODUCT(A)", "TEST_PRODUCT(T)"), [])


def test_names_of_sqls_own_functions_are_taken() -> None:
    for register in (scalar_function, table_function, aggregate_function):
        with pytest.raises(ValueError, match="SQL has a function"):
            register("UCASE", "STRING -> STRING")
