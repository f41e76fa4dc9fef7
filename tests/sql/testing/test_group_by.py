"""GROUP BY and HAVING: results of each record, what is taken back, what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from ottla.sql.testing import Refused, run_case

STREAM = "CREATE STREAM S (ID STRING KEY, ITEM STRING, N INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"
TABLE = "CREATE TABLE S (ID STRING PRIMARY KEY, ITEM STRING, N INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"


def row(key: str | None, timestamp: int = 0, **value: object) -> Mapping[str, object]:
    return {"topic": "s", "key": key, "value": value or None, "timestamp": timestamp}


def results(text: str, *inputs: Mapping[str, object]) -> list[tuple[object, object, int]]:
    return [(each.key, each.value, each.timestamp) for each in run_case(text, inputs) if each.topic == "R"]


ROWS = (
    row("a", 1, ITEM="x", N=1),
    row("b", 4, ITEM="x", N=5),
    row("a", 2, ITEM="y"),
    row("a", 3),
    row("c", 9, N=4),
)


def test_each_record_tells_the_groups_result_with_the_latest_time_of_all() -> None:
    query = "CREATE TABLE R AS SELECT ID, COUNT(*) AS C, SUM(N) + 1 AS T FROM S GROUP BY ID;"
    assert results(STREAM + query, *ROWS) == [
        ("a", {"C": 1, "T": 2}, 1),
        ("b", {"C": 1, "T": 6}, 4),
        ("a", {"C": 2, "T": 2}, 2),
        ("c", {"C": 1, "T": 5}, 9),
    ]


def test_rows_whose_group_has_a_null_are_in_no_group() -> None:
    query = "CREATE TABLE R AS SELECT ITEM, ID, COUNT(N) AS C, AS_VALUE(ID) AS I FROM S GROUP BY ITEM, ID;"
    assert results(STREAM + query, *ROWS) == [
        ({"ITEM": "x", "ID": "a"}, {"C": 1, "I": "a"}, 1),
        ({"ITEM": "x", "ID": "b"}, {"C": 1, "I": "b"}, 4),
        ({"ITEM": "y", "ID": "a"}, {"C": 0, "I": "a"}, 2),
    ]


def test_an_expression_is_a_group_and_what_is_made_of_it_is_a_value() -> None:
    query = (
        "CREATE TABLE R AS SELECT UCASE(ITEM) AS K, UCASE(ITEM) + '!' AS L, MAX(N) AS M FROM S GROUP BY UCASE(ITEM);"
    )
    assert [(key, value) for key, value, _ in results(STREAM + query, *ROWS)] == [
        ("X", {"L": "X!", "M": 1}),
        ("X", {"L": "X!", "M": 5}),
        ("Y", {"L": "Y!", "M": None}),
    ]


def test_having_deletes_a_group_that_no_longer_holds_and_only_one_that_was_told() -> None:
    query = "CREATE TABLE R AS SELECT ITEM, SUM(N) AS T FROM S GROUP BY ITEM HAVING SUM(N) > 2 AND COUNT(*) < 3;"
    rows = [row("a", ITEM="x", N=n) for n in (1, 5, 7)] + [row("a", ITEM="y", N=1)]
    assert [(key, value) for key, value, _ in results(STREAM + query, *rows)] == [("x", {"T": 6}), ("x", None)]


def test_a_tables_row_is_taken_out_of_its_old_group() -> None:
    query = "CREATE TABLE R AS SELECT ITEM, COUNT(*) AS C, SUM(N) AS T FROM S GROUP BY ITEM;"
    assert results(TABLE + query, *ROWS) == [
        ("x", {"C": 1, "T": 1}, 1),
        ("x", {"C": 2, "T": 6}, 4),
        ("x", {"C": 1, "T": 5}, 4),
        ("y", {"C": 1, "T": 0}, 2),
        ("y", {"C": 0, "T": 0}, 3),
    ]


def test_a_tables_condition_deletes_and_says_nothing_of_rows_that_never_held() -> None:
    query = "CREATE TABLE R AS SELECT * FROM S WHERE N > 2;"
    rows = [row("a", N=1), row("a", N=3), row("a", N=2), row("a", N=1), row("b"), row("a", N=9), row("a")]
    assert [(key, value and value["N"]) for key, value, _ in results(TABLE + query, *rows)] == [  # type: ignore[index]
        ("a", 3),
        ("a", None),
        ("a", 9),
        ("a", None),
    ]


@pytest.mark.parametrize(
    ("made", "query", "message"),
    [
        (
            STREAM,
            "SELECT ITEM, N FROM S GROUP BY ITEM",
            "GROUP BY requires aggregate functions in either the SELECT or",
        ),
        (STREAM, "SELECT ITEM, N, COUNT(*) FROM S GROUP BY ITEM", "expression(s) not part of GROUP BY: N\nEither add"),
        (STREAM, "SELECT COUNT(*) FROM S GROUP BY ITEM", "must include the grouping expression ITEM in its projection"),
        (
            STREAM,
            "SELECT ITEM, COUNT(*) FROM S GROUP BY ITEM HAVING N > 1",
            "HAVING expression not part of GROUP BY: N",
        ),
        (STREAM, "SELECT ITEM, ITEM AS J, COUNT(*) FROM S GROUP BY ITEM", "a key column more than once: ITEM and J."),
        (STREAM, "SELECT X, COUNT(*) FROM S GROUP BY X", "GROUP BY column 'X' cannot be resolved."),
        (STREAM, "SELECT ITEM, SUM(COUNT(*)) FROM S GROUP BY ITEM", "functions can not be nested: SUM(COUNT())"),
        (STREAM, "SELECT ID, COUNT(*) FROM S GROUP BY ID, MAX(N)", "does not support aggregate functions: MAX is an"),
        (STREAM, "SELECT ID, COUNT(*) FROM S GROUP BY ID EMIT FINAL", "EMIT FINAL is only supported for windowed"),
        (STREAM, "SELECT ID, COUNT(*) FROM S", "Use of aggregate function COUNT requires a GROUP BY clause."),
        (TABLE, "SELECT ITEM, MAX(N), MIN(N) FROM S GROUP BY ITEM", "MAX and MIN cannot be applied to a table source"),
    ],
)
def test_what_is_no_group_is_refused(made: str, query: str, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        run_case(f"{made} CREATE TABLE R AS {query};", [])


def test_formats_that_cannot_hold_a_state_are_refused() -> None:
    csv = STREAM.replace("FORMAT='JSON'", "KEY_FORMAT='KAFKA', VALUE_FORMAT='DELIMITED'")
    with pytest.raises(Refused, match="has an intermediate type that the value format can not handle"):
        run_case(f"{csv} CREATE TABLE R AS SELECT ITEM, AVG(N) FROM S GROUP BY ITEM;", [])
    raw = "CREATE STREAM S (ID STRING KEY, N INT) WITH (KAFKA_TOPIC='s', FORMAT='KAFKA');"
    with pytest.raises(Refused, match="This format does not yet support GROUP BY"):
        run_case(f"{raw} CREATE TABLE R AS SELECT ID, COUNT(*) FROM S GROUP BY ID;", [])


def test_a_results_time_may_be_one_of_its_columns() -> None:
    query = "CREATE TABLE R WITH (TIMESTAMP='T') AS SELECT ID, CAST(SUM(N) AS BIGINT) + 70 AS T FROM S GROUP BY ID;"
    assert results(STREAM + query, row("a", 5, N=1), row("a", 6, N=2)) == [("a", {"T": 71}, 71), ("a", {"T": 73}, 73)]


def test_times_are_compared_with_texts_of_them() -> None:
    query = "CREATE STREAM R AS SELECT ID, N FROM S WHERE ROWTIME BETWEEN '1970-01-01T00:00:01' AND '1970-01-02+0100';"
    found = results(STREAM + query, *(row("a", time, N=1) for time in (999, 1_000, 82_800_000, 82_800_001)))
    assert [time for _, _, time in found] == [1_000, 82_800_000]
    with pytest.raises(Refused, match="Failed to parse timestamp 'soon'"):
        run_case(STREAM + "CREATE STREAM R AS SELECT ID, N FROM S WHERE ROWTIME > 'soon';", [])


def test_what_is_inserted_widens_to_the_sinks_type() -> None:
    text = STREAM + (
        "CREATE STREAM R (ID STRING KEY, N DOUBLE, D DECIMAL(12, 2)) WITH (KAFKA_TOPIC='r', FORMAT='JSON');"
        "INSERT INTO R SELECT ID, N, N AS D FROM S;"
    )
    (found,) = run_case(text, [row("a", N=3)])
    assert str(found.value) == "{'N': Decimal('3.0'), 'D': Decimal('3.00')}"
    with pytest.raises(Refused, match="Incompatible schema between results and sink"):
        run_case(text.replace("SELECT ID, N, N AS D", "SELECT ID, N, N AS E"), [])


def test_topk_of_several_columns_gives_rows_by_the_first() -> None:
    query = "CREATE TABLE R AS SELECT ITEM, TOPK(N, ID, 2) AS T FROM S GROUP BY ITEM;"
    found = results(STREAM + query, *(row(key, ITEM="x", N=n) for key, n in (("a", 1), ("b", 5), ("c", 3))))
    assert found[-1][1] == {"T": [{"sort_col": 5, "col0": "b"}, {"sort_col": 3, "col0": "c"}]}


def test_a_function_that_is_not_there_is_named_before_anything_else() -> None:
    with pytest.raises(Refused, match="Can't find any functions with the name 'NOPE'"):
        run_case(STREAM + "CREATE TABLE R AS SELECT ITEM, NOPE(N) FROM S GROUP BY ITEM;", [])
