"""Statements run over records as in ksqlDB: what is written, what is refused, what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pytest

from ottla.sql.errors import UnsupportedError
from ottla.sql.testing import CaseRecord, Refused, difference, run_case

ORDERS = """
CREATE STREAM ORDERS (ID STRING KEY, ITEM STRING, PRICE DECIMAL(6, 2), N INT)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
"""


def order(key: str | None, **value: object) -> Mapping[str, object]:
    return {"topic": "orders", "key": key, "value": value or None, "timestamp": 5}


def results(text: str, *inputs: Mapping[str, object]) -> list[tuple[str, object, object, int]]:
    return [(each.topic, each.key, each.value, each.timestamp) for each in run_case(text, inputs)]


def test_a_query_writes_what_it_selects_of_the_rows_that_it_lets_through() -> None:
    text = (
        ORDERS + "CREATE STREAM BIG AS SELECT ID, UCASE(ITEM) AS ITEM, PRICE * N AS TOTAL FROM ORDERS O WHERE O.N > 1;"
    )
    found = results(text, order("a", item="ink", price=Decimal("2.50"), n=3), order("b", item="x", n=1))
    assert found == [("BIG", "a", {"ITEM": "INK", "TOTAL": Decimal("7.50")}, 5)]
    assert str(found[0][2]["TOTAL"]) == "7.50"  # type: ignore[index]


def test_queries_stand_on_each_other_and_formats_are_inherited_or_said() -> None:
    text = ORDERS + (
        "CREATE STREAM CSV WITH (VALUE_FORMAT='DELIMITED', KAFKA_TOPIC='csv') AS SELECT ID, N, ITEM FROM ORDERS;"
        "CREATE STREAM LAST AS SELECT *, N + 1 FROM CSV;"
    )
    assert results(text, order("a", item="i,nk", n=3)) == [
        ("csv", "a", '3,"i,nk"', 5),
        ("LAST", "a", '3,"i,nk",4', 5),
    ]


def test_explode_makes_a_row_of_each_element() -> None:
    text = (
        "CREATE STREAM S (K STRING KEY, A ARRAY<INT>, B ARRAY<STRING>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        "CREATE STREAM R AS SELECT K, EXPLODE(A) + 1 AS X, EXPLODE(B) AS Y FROM S WHERE K <> 'z';"
    )
    inputs: list[Mapping[str, object]] = [
        {"topic": "s", "key": "k", "value": {"A": [1, 2], "B": ["p"]}},
        {"topic": "s", "key": "l", "value": {"A": [], "B": None}},
        {"topic": "s", "key": "z", "value": {"A": [1]}},
        {"topic": "s", "key": "n", "value": None},
    ]
    assert [(key, value) for _, key, value, _ in results(text, *inputs)] == [
        ("k", {"X": 2, "Y": "p"}),
        ("k", {"X": 3, "Y": None}),
    ]


def test_insert_writes_rows_and_queries_read_them() -> None:
    text = ORDERS + (
        "CREATE STREAM ALL_ITEMS AS SELECT ID, ITEM FROM ORDERS WHERE N = 1;"
        "INSERT INTO ALL_ITEMS SELECT ID, ITEM FROM ORDERS WHERE N = 2;"
        "INSERT INTO ORDERS (ROWTIME, ID, ITEM, N) VALUES (9, 'k', 'pen', 1);"
    )
    found = results(text, order("a", item="ink", n=2))
    assert [each for each in found if each[0] == "ALL_ITEMS"] == [
        ("ALL_ITEMS", "k", {"ITEM": "pen"}, 9),
        ("ALL_ITEMS", "a", {"ITEM": "ink"}, 5),
    ]
    assert ("orders", "k", {"ITEM": "pen", "PRICE": None, "N": 1}, 9) in found


def test_what_fails_costs_a_value_and_what_cannot_be_read_a_record() -> None:
    text = ORDERS + "CREATE STREAM R AS SELECT ID, 10 / N AS V, ITEM FROM ORDERS;"
    found = results(text, order("a", item="ink", n=0), order("b", n=True), order("c", n=5))
    assert found == [("R", "a", {"V": None, "ITEM": "ink"}, 5), ("R", "c", {"V": 2, "ITEM": None}, 5)]


def test_a_row_without_a_value_passes_a_projection_and_no_condition() -> None:
    text = (
        ORDERS + "CREATE STREAM R AS SELECT ID, N FROM ORDERS; CREATE STREAM W AS SELECT ID, N FROM ORDERS WHERE N > 0;"
    )
    assert results(text, order("a")) == [("R", "a", None, 5)]


def test_a_rows_time_comes_from_a_column_where_one_is_named() -> None:
    text = (
        "CREATE STREAM S (K INT KEY, T BIGINT, V INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', TIMESTAMP='t');"
        "CREATE STREAM R AS SELECT K, ROWTIME AS T, V FROM S;"
        "CREATE STREAM L WITH (TIMESTAMP='LATER') AS SELECT K, T + 1 AS LATER FROM S;"
    )
    found = results(text, {"topic": "s", "key": 1, "value": {"t": 70, "v": 8}})
    assert found == [("R", 1, {"T": 70, "V": 8}, 70), ("L", 1, {"LATER": 71}, 71)]


def test_headers_are_columns_and_go_on_with_the_record() -> None:
    text = (
        "CREATE STREAM S (K STRING KEY, V INT, A BYTES HEADER('a')) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        "CREATE STREAM R AS SELECT K, V, LEN(A) AS L FROM S;"
    )
    given = {"topic": "s", "key": "k", "value": {"V": 1}, "headers": [{"KEY": "a", "VALUE": "AAEC"}]}
    found = run_case(text, [given])
    assert found == [CaseRecord("R", "k", {"V": 1, "L": 3}, 0, (("a", b"\x00\x01\x02"),))]


def test_types_variables_and_settings_hold_for_what_comes_behind_them() -> None:
    text = (
        "SET 'ksql.persistence.default.format.value'='JSON'; DEFINE t = 's';"
        "CREATE TYPE POINT AS STRUCT<X INT, Y INT>;"
        "CREATE STREAM S (K STRING KEY, P POINT) WITH (KAFKA_TOPIC='${t}');"
        "CREATE STREAM R AS SELECT K, P->X, P->Y AS TOP FROM S;"
    )
    assert results(text, {"topic": "s", "key": "k", "value": {"P": {"x": 1, "y": 2}}}) == [
        ("R", "k", {"X": 1, "TOP": 2}, 0)
    ]


def test_topics_that_no_statement_names_begin_with_what_a_setting_says() -> None:
    text = (
        "SET 'ksql.output.topic.name.prefix'='eu-'; CREATE STREAM S (K STRING KEY, V INT) "
        "WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        "CREATE STREAM R AS SELECT * FROM S; CREATE STREAM Q WITH (KAFKA_TOPIC='mine') AS SELECT * FROM R;"
    )
    found = results(text, {"topic": "s", "key": "k", "value": {"V": 1}})
    assert found == [("eu-R", "k", {"V": 1}, 0), ("mine", "k", {"V": 1}, 0)]


@pytest.mark.parametrize(
    ("text", "category", "message"),
    [
        ("CREATE STREM X;", "parse", "Syntax error at or near 'STREM'"),
        ("CREATE STREAM S (V INT) WITH (VALUE_FORMAT='JSON');", "statement", 'Missing required property "KAFKA_TOPIC"'),
        (
            "CREATE STREAM S (V INT) WITH (KAFKA_TOPIC='s');",
            "statement",
            "Statement is missing the 'VALUE_FORMAT' property",
        ),
        (
            "CREATE STREAM S (V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', X=1);",
            "statement",
            "Invalid config variable",
        ),
        (
            "CREATE TABLE S (V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            "statement",
            "Tables require a PRIMARY KEY.",
        ),
        (
            "CREATE STREAM S (K INT PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            "statement",
            "Column `K` is a 'PRIMARY KEY' column: please use 'KEY' for streams.",
        ),
        (
            "CREATE STREAM S (ROWTIME BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            "statement",
            "'ROWTIME' is a reserved column name.",
        ),
        (ORDERS + ORDERS, "statement", "Cannot add stream 'ORDERS': A stream with the same name already exists"),
        ("CREATE STREAM R AS SELECT * FROM NOWHERE;", "statement", "NOWHERE does not exist."),
        (
            ORDERS + "CREATE STREAM R AS SELECT N FROM ORDERS;",
            "statement",
            "must include the key column ID in its projection",
        ),
        (
            ORDERS + "CREATE STREAM R AS SELECT ID FROM ORDERS;",
            "statement",
            "The projection contains no value columns.",
        ),
        (ORDERS + "CREATE STREAM R AS SELECT *, 1 AS N FROM ORDERS;", "statement", "duplicate column name: `N`"),
        (
            ORDERS + "CREATE STREAM R AS SELECT ID, N FROM ORDERS WHERE N;",
            "statement",
            "Type error in WHERE expression: Should evaluate to boolean but is N (INTEGER) instead.",
        ),
        (ORDERS + "CREATE STREAM R AS SELECT ID, SUM(N) FROM ORDERS;", "statement", "requires a GROUP BY clause"),
        (
            ORDERS + "CREATE STREAM R AS SELECT ID, EXPLODE(N) FROM ORDERS;",
            "statement",
            "Function 'explode' does not accept",
        ),
        (
            ORDERS + "CREATE STREAM R AS SELECT ID, N AS ROWTIME FROM ORDERS;",
            "statement",
            "`ROWTIME` is a reserved column name. You cannot use it as an alias for a column.",
        ),
        (ORDERS + "CREATE TABLE R AS SELECT ID, N FROM ORDERS;", "statement", "Your SELECT query produces a STREAM."),
        (
            ORDERS + "DROP TABLE ORDERS;",
            "statement",
            "Incompatible data source type is stream, but statement was DROP table",
        ),
        (ORDERS + "INSERT INTO ORDERS (NOPE) VALUES (1);", "statement", "Column name `NOPE` does not exist."),
    ],
)
def test_what_cannot_be_is_refused_in_ksqldbs_words(text: str, category: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        run_case(text, [])
    assert refused.value.category == category and message in str(refused.value)


@pytest.mark.parametrize(
    ("query", "feature"),
    [],
)
def test_what_does_not_run_yet_is_named(query: str, feature: str) -> None:
    with pytest.raises(UnsupportedError, match=feature):
        run_case(ORDERS + query, [])


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ([{"topic": "R", "key": "k", "value": {"v": 1.0000001}}], None),
        ([{"topic": "R", "key": "k", "value": {"V": 2}}], 'topic R, record 0: expected the value {"V":2}'),
        ([{"topic": "R", "key": "k", "value": {"V": 1}, "timestamp": 4}], "expected the timestamp 4, but it is 3"),
        ([{"topic": "R", "key": "k", "value": {"V": 1}}] * 2, "expected 2 records, but there are 1"),
    ],
)
def test_records_are_compared_as_ksqldb_compares_them(
    expected: Sequence[Mapping[str, object]], said: str | None
) -> None:
    found = difference(expected, [CaseRecord("R", "k", {"V": 1}, 3), CaseRecord("OTHER", None, None, 0)])
    assert found is None if said is None else found is not None and said in found


def test_schemas_have_ids_in_the_order_of_the_cases_topics_in_a_java_map() -> None:
    """As in ksqlDB's test runner: those of topics that CREATE declares are among those that the case lists."""
    fields = [{"name": "v", "type": "int"}, {"name": "w", "type": "int", "default": 7}]
    record = {"type": "record", "name": "r", "fields": fields}
    topics = [{"name": "OUTPUT", "valueFormat": "AVRO", "valueSchema": record}]
    text = (
        "CREATE STREAM S (K STRING KEY, `v` INT) WITH (KAFKA_TOPIC='input', VALUE_FORMAT='AVRO', KEY_FORMAT='KAFKA');"
        "CREATE STREAM OUTPUT WITH (VALUE_SCHEMA_ID={}) AS SELECT * FROM S;"
    )
    given = [{"topic": "input", "key": "k", "value": {"v": 1}}]
    (found,) = run_case(text.format(2), given, topics)
    assert found.value == {"v": 1, "w": 7}
    (found,) = run_case(text.format(1), given, topics)
    assert found.value == {"v": 1}


def test_what_a_json_schema_of_an_id_does_not_require_is_null_where_no_column_has_it() -> None:
    schema = {"type": "object", "properties": {"v": {"type": "integer"}, "w": {"type": "string"}}}
    topics = [{"name": "R", "valueFormat": "JSON_SR", "valueSchema": schema, "valueSchemaId": 9}]
    text = (
        "CREATE STREAM S (K STRING KEY, `v` BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        "CREATE STREAM R WITH (VALUE_FORMAT='JSON_SR', VALUE_SCHEMA_ID=9) AS SELECT * FROM S;"
    )
    (found,) = run_case(text, [{"topic": "s", "key": "k", "value": {"v": 1}}], topics)
    assert found.value == {"v": 1, "w": None}


def test_what_is_dropped_and_not_there_is_told_by_its_kind() -> None:
    for kind in ("Stream", "Table"):
        with pytest.raises(Refused, match=f"{kind} NONE does not exist."):
            run_case(f"DROP {kind} none;", ())
