"""CREATE OR REPLACE: which query may take another's place, and what is left of the other."""

from __future__ import annotations

import re

import pytest

from ottla.sql.testing import Refused, run_case

STREAM = "CREATE STREAM S (K STRING KEY, V INT, W INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
ROW = {"topic": "s", "key": "k", "value": {"V": 1, "W": 2}, "timestamp": 3}
FIRST = "CREATE STREAM R AS SELECT K, V FROM S;"


def test_a_query_with_another_condition_and_more_columns_takes_the_place_of_the_first() -> None:
    text = STREAM + FIRST + "CREATE OR REPLACE STREAM R AS SELECT K, V, W FROM S WHERE V > {};"
    assert [each.value for each in run_case(text.format(0), [ROW])] == [{"V": 1, "W": 2}]
    assert run_case(text.format(1), [ROW]) == []


def test_a_source_may_get_more_columns() -> None:
    more = STREAM.replace("W INT", "W INT, X INT").replace("CREATE", "CREATE OR REPLACE")
    (found,) = run_case(STREAM + more + "CREATE STREAM R AS SELECT K, X FROM S;", [ROW])
    assert found.value == {"X": None}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            FIRST,
            "STREAM R AS SELECT K, W FROM S",
            "(The following columns are changed, missing or reordered: [`V` INTEGER])",
        ),
        (
            "CREATE TABLE R AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;",
            "TABLE R AS SELECT K, COUNT(*) AS N, MAX(V) AS M FROM S GROUP BY K",
            "Upgrades not yet supported for StreamAggregate",
        ),
        (
            FIRST + "CREATE STREAM Q AS SELECT * FROM S;",
            "STREAM R AS SELECT K, V FROM Q",
            "Query is not upgradeable.",
        ),
    ],
)
def test_anything_else_is_refused(first: str, second: str, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        run_case(f"{STREAM}{first} CREATE OR REPLACE {second};", [])


def test_settings_say_how_many_values_are_collected() -> None:
    text = (
        f"SET 'ksql.functions.collect_list.limit'='2'; {STREAM}"
        "CREATE TABLE R AS SELECT K, COLLECT_LIST(V) AS L, COLLECT_SET(V) AS S FROM S GROUP BY K;"
    )
    assert [each.value for each in run_case(text, [ROW] * 3)][-1] == {"L": [1, 1], "S": [1]}
