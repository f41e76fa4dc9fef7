"""PARTITION BY makes the key, leaves the old one in the value, and is refused in ksqlDB's words."""

from __future__ import annotations

import re

import pytest

from ottla.sql import rules
from ottla.sql.testing import Refused, run_case

ORDERS = "CREATE STREAM ORDERS (ID STRING KEY, ITEM STRING, N INT) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');"
ORDER = {"topic": "orders", "key": "a", "value": {"ITEM": "ink", "N": 3}, "timestamp": 5}


@pytest.mark.parametrize(
    ("query", "key", "value"),
    [
        ("SELECT ITEM, ID FROM ORDERS PARTITION BY ITEM", "ink", {"ID": "a"}),
        ("SELECT ID, N + 1 AS K FROM ORDERS O PARTITION BY O.N + 1", 4, {"ID": "a"}),
        ("SELECT * FROM ORDERS PARTITION BY N * 2", 6, {"ID": "a", "ITEM": "ink", "N": 3}),
        ("SELECT * FROM ORDERS PARTITION BY N", 3, {"ID": "a", "ITEM": "ink"}),
        ("SELECT ID, ITEM, N FROM ORDERS PARTITION BY N, ITEM", {"N": 3, "ITEM": "ink"}, {"ID": "a"}),
        ("SELECT ID, N FROM ORDERS PARTITION BY NULL", None, {"ID": "a", "N": 3}),
    ],
)
def test_the_new_key_is_what_is_partitioned_by(query: str, key: object, value: object) -> None:
    (found,) = run_case(f"{ORDERS} CREATE STREAM R AS {query};", [ORDER])
    assert (found.key, found.value) == (key, value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "AS SELECT ID, ITEM FROM ORDERS PARTITION BY ABS(N)",
            "must include the partitioning expression ABS(ORDERS.N) in its projection (eg, SELECT ABS(ORDERS.N)...).",
        ),
        (
            "AS SELECT ID, N AS M FROM ORDERS PARTITION BY M",
            "'M' must be a column in the source schema since PARTITION",
        ),
        (
            "WITH (KEY_FORMAT='KAFKA') AS SELECT ID, N FROM ORDERS PARTITION BY NULL",
            "Key format specified for stream without key columns.",
        ),
    ],
)
def test_what_cannot_be_the_key_is_refused(query: str, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        run_case(f"{ORDERS} CREATE STREAM R {query};", [ORDER])


@pytest.mark.parametrize(
    ("by", "key_format", "keys"),
    [
        ("N", "DELIMITED", ["3", "", "", ""]),
        ("N", "KAFKA", [3, None, None, None]),
        ("N", "JSON", [3, None, None, None]),
        ("N, ID", "DELIMITED", ["3,a", ",a", ",a", ","]),
        (
            "N, ID",
            "JSON",
            [{"N": 3, "ID": "a"}, {"N": None, "ID": "a"}, {"N": None, "ID": "a"}, {"N": None, "ID": None}],
        ),
        ("COALESCE(ITEM, 'none')", "DELIMITED", ["ink", "none", "", ""]),
        ("COALESCE(ITEM, 'none')", "KAFKA", ["ink", "none", None, None]),
        ("UCASE(ID)", "KAFKA", ["A", "A", "A", None]),
        ("UCASE(ID)", "DELIMITED", ["A", "A", "A", ""]),
        ("ID", "DELIMITED", ["a", "a", "a", None]),
        ("NULL", None, [None, None, None, None]),
    ],
)
def test_a_record_without_a_value_has_what_its_own_key_says_in_the_new_one(
    by: str, key_format: str | None, keys: list[object]
) -> None:
    """As in ksqlDB: other parts are null, and so are all where there was no key; a key that stays is left as it is."""
    records = [("a", {"ITEM": "ink", "N": 3}), ("a", {}), ("a", None), (None, None)]
    given = [{"topic": "orders", "key": key, "value": value} for key, value in records]
    with_ = "" if key_format is None else f"WITH (KEY_FORMAT='{key_format}') "
    found = run_case(f"{ORDERS} CREATE STREAM R {with_}AS SELECT * FROM ORDERS PARTITION BY {by};", given)
    assert [each.key for each in found] == keys
    assert [each.value is None for each in found] == [False, False, True, True]


def test_a_table_is_not_partitioned_by_another_key() -> None:
    table = "CREATE TABLE T (ID STRING PRIMARY KEY, N INT, V STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"
    with pytest.raises(Refused, match=r"Cannot repartition a TABLE source.*key column ID instead of \[V\]"):
        run_case(table + "CREATE TABLE O AS SELECT * FROM T PARTITION BY V;", ())
    given = [{"topic": "t", "key": "a", "value": {"N": 1, "V": "x"}}]
    assert len(run_case(table + "CREATE TABLE O AS SELECT * FROM T PARTITION BY ID;", given)) == 1
    with pytest.raises(Refused, match="Cannot PARTITION BY multiple columns including NULL"):
        run_case(
            table.replace("TABLE", "STREAM").replace("PRIMARY ", "")
            + "CREATE STREAM O AS SELECT * FROM T PARTITION BY NULL, V;",
            (),
        )


WIDE = "CREATE STREAM WIDE (K INT KEY, A INT, B STRING, C INT) WITH (KAFKA_TOPIC='wide', FORMAT='DELIMITED');"
WIDE_ROW = {"topic": "wide", "key": "1", "value": "2,b,3", "timestamp": 7}


@pytest.mark.parametrize(
    ("by", "key", "value"),
    [("B", "b", "2,3,1"), ("A + 1", "3", "2,b,3,1"), ("NULL", None, "2,b,3,1"), ("K", "1", "2,b,3")],
)
def test_all_columns_of_a_moved_stream_end_with_the_old_key(by: str, key: object, value: str) -> None:
    (found,) = run_case(f"{WIDE} CREATE STREAM R AS SELECT * FROM WIDE PARTITION BY {by};", [WIDE_ROW])
    assert (found.key, found.value) == (key, value)


def test_statements_of_earlier_versions_keep_the_old_key_in_its_place() -> None:
    with rules.under(rules.FIRST):
        (found,) = run_case(f"{WIDE} CREATE STREAM R AS SELECT * FROM WIDE PARTITION BY B;", [WIDE_ROW])
    assert found.value == "1,2,3"


def test_all_columns_of_a_moved_join_are_those_of_its_sources_with_when_and_where_they_were_read() -> None:
    """As in ksqlDB, where the pseudo columns of a join's sources are columns like others by then."""
    two = (
        "CREATE STREAM L (A INT KEY, B INT) WITH (KAFKA_TOPIC='l', FORMAT='JSON');"
        "CREATE STREAM R (X INT KEY, Y INT) WITH (KAFKA_TOPIC='r', FORMAT='JSON');"
        "CREATE STREAM O AS SELECT * FROM L JOIN R WITHIN 1 MINUTE ON L.A = R.X PARTITION BY L.B, R.Y;"
    )
    given = [
        {"topic": "l", "key": 1, "value": {"B": 2}, "timestamp": 5},
        {"topic": "r", "key": 1, "value": {"Y": 3}, "timestamp": 6},
    ]
    (found,) = run_case(two, given)
    read = [("L", 5, "L_A"), ("R", 6, "R_X")]
    beside = {
        name: value
        for side, time, key in read
        for name, value in ((f"{side}_ROWTIME", time), (f"{side}_ROWPARTITION", 0), (f"{side}_ROWOFFSET", 0), (key, 1))
    }
    assert (found.key, found.value) == ({"L_B": 2, "R_Y": 3}, beside)
    assert list(found.value) == list(beside)  # type: ignore[call-overload]


def test_the_time_of_a_row_may_be_its_key() -> None:
    (found,) = run_case(f"{ORDERS} CREATE STREAM R AS SELECT * FROM ORDERS PARTITION BY ROWTIME;", [ORDER])
    assert (found.key, found.value) == (5, {"ITEM": "ink", "N": 3, "ID": "a"})
    with pytest.raises(Refused, match="Reserved column name in select: `ROWTIME`"):
        run_case(f"{ORDERS} CREATE STREAM R AS SELECT ROWTIME, ITEM FROM ORDERS PARTITION BY ITEM;", ())


def test_what_is_partitioned_by_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="PARTITION BY requires at least one expression"):
        run_case(f"{ORDERS} CREATE STREAM R AS SELECT ID, ITEM FROM ORDERS PARTITION BY ();", ())
