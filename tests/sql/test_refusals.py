"""What definitions and INSERT VALUES refuse, in ksqlDB's words, and what they take."""

from __future__ import annotations

import pytest

from ottla.sql import SqlError, parse_statement, split_statements
from ottla.sql.testing import Refused, run_case
from ottla.sql.types import INTEGER

STREAM = "CREATE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
WIDE = (
    "CREATE STREAM S (K STRING KEY, A INT, D DECIMAL(4, 2), T TIMESTAMP, X BYTES, ST STRUCT<P BIGINT>, L ARRAY<DOUBLE>) "
    "WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
)
COUNTED = "CREATE TABLE R AS SELECT K, COUNT(*) AS C FROM S GROUP BY K;"


def refusal(text: str) -> str:
    with pytest.raises(Refused) as caught:
        run_case(text, [])
    assert caught.value.category == "statement"
    return str(caught.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("K STRING KEY, K INT", "Duplicate column names: `K`"),
        ("ROWTIME BIGINT", "'ROWTIME' is a reserved column name. You cannot use it as a name for a column."),
        ("K STRING PRIMARY KEY, A INT", "Column `K` is a 'PRIMARY KEY' column: please use 'KEY' for streams."),
        (
            "H ARRAY<INT> HEADERS",
            "Invalid type for HEADERS column: expected ARRAY<STRUCT<`KEY` STRING, `VALUE` BYTES>>",
        ),
        ("H STRING HEADER('a')", "Invalid type for HEADER('a') column: expected BYTES, got STRING"),
        ("H BYTES HEADER('a'), I BYTES HEADER('a')", "Schema already contains a HEADER('a') column."),
        ("K MAP<STRING, INT> KEY, A INT", "Map keys, including types that contain maps, are not supported"),
        (
            "K ARRAY<INT> KEY, A INT",
            "Key format does not support schema.\nformat: KAFKA\nschema: Persistence{columns=[`K`",
        ),
    ],
)
def test_columns_that_a_stream_cannot_have(columns: str, said: str) -> None:
    assert said in refusal(f"CREATE STREAM S ({columns}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');")


@pytest.mark.parametrize(
    ("column", "with_", "said"),
    [
        ("A INT", "TIMESTAMP='A'", "Timestamp column, `A`, should be LONG(INT64), TIMESTAMP, or a String with a"),
        ("A INT", "TIMESTAMP='B'", "The TIMESTAMP column set in the WITH clause does not exist in the schema: 'B'"),
        ("A STRING", "TIMESTAMP='A'", "A String timestamp field has been specified without also specifying the"),
        ("A BIGINT", "TIMESTAMP='A', TIMESTAMP_FORMAT='yyyy'", "when the timestamp column is of type STRING."),
    ],
)
def test_times_that_cannot_be_taken_from_a_column(column: str, with_: str, said: str) -> None:
    assert said in refusal(f"CREATE STREAM S ({column}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', {with_});")


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (
            "CREATE STREAM R AS SELECT * FROM S; DROP STREAM S;",
            "read from this source: [R].\nYou need to drop them before",
        ),
        (
            "INSERT INTO S SELECT * FROM S2; DROP STREAM S;",
            "The following queries write into this source: [INSERTQUERY_0]",
        ),
        (COUNTED + "CREATE OR REPLACE " + COUNTED[7:], "Upgrades not yet supported for StreamAggregate"),
        (
            "CREATE OR REPLACE STREAM S (K INT KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            "(Key columns must be identical. The following key columns are changed, missing or reordered: [`K` STRING KEY])",
        ),
        (
            "CREATE OR REPLACE STREAM S (K STRING KEY, B INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            "Cannot upgrade data source: DataSource '`S`' has schema = `K` STRING KEY, `A` INTEGER which is not "
            "upgradeable to `K` STRING KEY, `B` INTEGER. (The following columns are changed, missing or reordered: "
            "[`A` INTEGER])",
        ),
        (
            "CREATE OR REPLACE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');",
            "has topic = s which",
        ),
    ],
)
def test_what_others_stand_on_cannot_be_taken_away(then: str, said: str) -> None:
    other = STREAM.replace("STREAM S", "STREAM S2").replace("'s'", "'s2'")
    assert said in refusal(STREAM + other + then)


def test_a_query_that_replaces_another_is_the_only_one() -> None:
    text = STREAM + (
        "CREATE STREAM R AS SELECT * FROM S;CREATE OR REPLACE STREAM R AS SELECT K, A, A + 1 AS B FROM S WHERE A > 1;"
    )
    given = [{"topic": "s", "key": "k", "value": {"A": each}} for each in (1, 2)]
    assert [record.value for record in run_case(text, given)] == [{"A": 2, "B": 3}]


def test_a_source_can_be_dropped_when_nothing_needs_it() -> None:
    assert run_case(STREAM + "CREATE STREAM R AS SELECT * FROM S; DROP STREAM R; DROP STREAM S;", []) == []


@pytest.mark.parametrize(
    ("insert", "column", "value"),
    [
        ("(K, A) VALUES ('a', 1)", "A", 1),
        ("(A) VALUES (1 + 2)", "A", 3),
        ("(D) VALUES (1.5)", "D", "1.50"),
        ("(D) VALUES (3)", "D", "3.00"),
        ("(T) VALUES ('2020-01-02T03:04:05')", "T", 1_577_934_245_000),
        ("(X) VALUES ('YQ==')", "X", "YQ=="),
        ("(ST) VALUES (STRUCT(P:=1))", "ST", {"P": 1}),
        ("(A) VALUES (NULL)", "A", None),
    ],
)
def test_values_become_those_of_wider_types(insert: str, column: str, value: object) -> None:
    found = run_case(f"{WIDE}INSERT INTO S {insert};", [])[0].value
    assert isinstance(found, dict)
    assert (str(found[column]) if column == "D" else found[column]) == value


@pytest.mark.parametrize(
    ("insert", "said"),
    [
        ("(A) VALUES ('1')", "Failed to insert values into 'S'. Expected type INTEGER for field `A` but got STRING(1)"),
        ("(A) VALUES (1.5)", "Expected type INTEGER for field `A` but got DECIMAL(1.5)"),
        ("(K) VALUES (1)", "Expected type STRING for field `K` but got INTEGER(1)"),
        ("(D) VALUES (1.555)", "Expected type DECIMAL(4, 2) for field `D` but got DECIMAL(1.555)"),
        ("(T) VALUES ('x')", "but got STRING(x). Timestamp format must be yyyy-mm-ddThh:mm:ss[.S]"),
        ("(Q) VALUES (1)", "Column name `Q` does not exist."),
        ("(ROWOFFSET) VALUES (1)", "Inserting into column `ROWOFFSET` is not allowed."),
        ("(A, ROWTIME) VALUES (1, -1)", "Invalid timestamp: -1."),
        ("(A) VALUES (A)", "Unsupported column reference in insert value: A"),
        ("(K, A) VALUES ('a')", "Expected a value for each column. Expected Columns: [`K`, `A`]. Got ['a']"),
    ],
)
def test_values_that_a_column_cannot_hold(insert: str, said: str) -> None:
    assert said in refusal(f"{WIDE}INSERT INTO S {insert};")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INSERT INTO NO VALUES (1);", "Cannot insert values into an unknown stream/table: `NO`"),
        (
            "CREATE STREAM H (A INT, H BYTES HEADER('a')) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
            "INSERT INTO H VALUES (1);",
            "Cannot insert into HEADER columns: H",
        ),
        (
            "CREATE TABLE T (K INT PRIMARY KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
            "INSERT INTO T (A) VALUES (1);",
            "Failed to insert values into 'T'. Value for primary key column(s) K is required for tables",
        ),
        (
            "CREATE STREAM W (K INT KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', WINDOW_TYPE='SESSION');"
            "INSERT INTO W VALUES (1, 1);",
            "Cannot insert values into windowed stream/table!",
        ),
        (
            "CREATE SOURCE TABLE T (K INT PRIMARY KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
            "INSERT INTO T VALUES (1, 1);",
            "Cannot insert values into read-only table: T",
        ),
    ],
)
def test_where_nothing_can_be_inserted(text: str, said: str) -> None:
    assert said in refusal(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE STREAM `a b` (A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');", "Source names may only contain"),
        ("CREATE STREAM S (A DECIMAL(2, 4)) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');", "must be >= scale"),
    ],
)
def test_what_a_grammar_allows_and_no_meaning_has_is_refused_as_a_statement(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        run_case(text, [])
    assert caught.value.category == "statement"


def test_places_are_those_of_the_script() -> None:
    script = f"{WIDE}\nCREATE STREAM R AS\n  SELECT K, NOPE FROM S;"
    line = script.count("\n") + 1
    assert f"Line: {line}, Col: 13: SELECT column 'NOPE' cannot be resolved" in refusal(script)


def test_a_statement_is_read_again_where_a_type_or_a_variable_says_more_of_it() -> None:
    script = "CREATE TYPE N AS INT; SELECT CAST(A AS N), '${v}' FROM S; SELECT 1 FROM S;"
    _, typed, plain = split_statements(script)
    assert plain.parse({}) is plain.parse({"N": INTEGER}, {"v": "x"})
    assert typed.parse({"N": INTEGER}) == parse_statement("SELECT CAST(A AS INT), '${v}' FROM S;")
    assert typed.parse({"N": INTEGER}, {"V": "x"}) == parse_statement("SELECT CAST(A AS INT), 'x' FROM S;")
    with pytest.raises(SqlError, match="unknown type: N"):
        typed.parse({})


@pytest.mark.parametrize(
    ("within", "said"),
    [("-1 SECONDS", "must not be smaller"), ("1 SECOND GRACE PERIOD -1 SECONDS", "must not be negative")],
)
def test_a_join_reaches_no_negative_time(within: str, said: str) -> None:
    other = STREAM.replace("STREAM S", "STREAM T")
    assert said in refusal(f"{STREAM}{other} CREATE STREAM R AS SELECT * FROM S JOIN T WITHIN {within} ON S.K = T.K;")


def test_a_statement_that_no_stack_holds_is_too_large() -> None:
    either = " OR ".join(f"A = {at}" for at in range(3000))
    assert "too large to parse" in refusal(f"{STREAM} CREATE STREAM R AS SELECT * FROM S WHERE {either};")
