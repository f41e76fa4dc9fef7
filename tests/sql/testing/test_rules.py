"""Settings that say what a null that is cast is, and what is lost where a part of a value fails."""

from __future__ import annotations

import pytest

from ottla.sql.testing import run_case

STREAM = (
    "CREATE STREAM S (K STRING KEY, I INT, D DECIMAL(4, 1), T TIMESTAMP, A ARRAY<INT>, N STRING) "
    "WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
)
TEXTS = "SET 'ksql.cast.strings.preserve.nulls'='false';"
WHOLE = "SET 'ksql.nested.error.set.null'='false';"


def value(text: str, **given: object) -> object:
    (found,) = run_case(text, [{"topic": "s", "key": "k", "value": given, "timestamp": 3}])
    return found.value


def test_a_null_that_is_cast_is_null_unless_a_setting_makes_it_a_text_as_java_does() -> None:
    query = (
        "CREATE STREAM R AS SELECT K, CAST(I AS STRING) AS I, CAST(D AS STRING) AS D, CAST(T AS STRING) AS T, "
        "CAST(A AS ARRAY<STRING>) AS A, CAST(N AS STRING) AS N, LCASE(CAST(I AS STRING)) AS L FROM S;"
    )
    nulls = dict.fromkeys("IDTNL")
    assert value(STREAM + query, A=[1, None]) == {**nulls, "A": ["1", None]}
    assert value(STREAM + TEXTS + query, A=[1, None]) == {**nulls, "I": "null", "A": ["1", "null"], "L": "null"}


@pytest.mark.parametrize(
    ("expression", "alone"),
    [
        ("ARRAY[I, CAST(N AS INT)]", [1, None]),
        ("MAP('a' := I, 'b' := CAST(N AS INT))", {"a": 1, "b": None}),
        ("STRUCT(A := I, B := CAST(N AS INT))", {"A": 1, "B": None}),
        ("COALESCE(CAST(N AS INT), I)", 1),
    ],
)
def test_a_part_that_fails_is_null_alone_unless_a_setting_makes_the_whole_null(expression: str, alone: object) -> None:
    query = f"CREATE STREAM R AS SELECT K, {expression} AS V, I FROM S;"
    assert value(STREAM + query, I=1, N="x") == {"V": alone, "I": 1}
    assert value(STREAM + WHOLE + query, I=1, N="x") == {"V": None, "I": 1}


def test_conditions_and_groups_are_computed_by_the_same_rules() -> None:
    query = (
        "CREATE TABLE R AS SELECT CAST(I AS STRING) AS G, COUNT(*) AS C, MAX(CAST(I AS STRING)) AS M FROM S "
        "WHERE CAST(I AS STRING) = 'null' GROUP BY CAST(I AS STRING);"
    )
    (found,) = run_case(STREAM + TEXTS + query, [{"topic": "s", "key": "k", "value": {"I": None}, "timestamp": 3}])
    assert (found.key, found.value) == ("null", {"C": 1, "M": "null"})
