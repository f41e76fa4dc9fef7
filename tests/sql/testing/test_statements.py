"""Statements of a case that ask, control queries or expect something."""

from __future__ import annotations

import pytest

from ottla.sql.errors import UnsupportedError
from ottla.sql.testing import Refused, run_case

SOURCE = "CREATE STREAM S (K STRING KEY, I INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
COPY = "CREATE STREAM O AS SELECT K, I + 1 AS J FROM S;"
INPUTS = [{"topic": "s", "key": "k", "value": {"I": at}, "timestamp": at} for at in (1, 2)]


def written(text: str) -> list[object]:
    return [record.value for record in run_case(text, INPUTS)]


@pytest.mark.parametrize(
    "statement",
    [
        *(
            "SHOW STREAMS;",
            "LIST TOPICS EXTENDED;",
            "SHOW QUERIES;",
            "SHOW PROPERTIES;",
            "SHOW VARIABLES;",
            "LIST TYPES;",
        ),
        *(
            "DESCRIBE S EXTENDED;",
            "DESCRIBE FUNCTION COUNT;",
            "EXPLAIN SELECT * FROM S EMIT CHANGES;",
            "EXPLAIN CSAS_O_0;",
        ),
        *("PRINT 's' FROM BEGINNING LIMIT 1;", "SELECT I FROM S EMIT CHANGES LIMIT 1;", "SELECT * FROM S;"),
        *(
            "ASSERT TOPIC s;",
            "ASSERT NOT EXISTS TOPIC nope;",
            "ASSERT STREAM O (K STRING KEY, J INT) WITH (KAFKA_TOPIC='O');",
        ),
        *("ASSERT NOT EXISTS SCHEMA SUBJECT 'a';", "ALTER SYSTEM 'a'='b';", "PAUSE ALL; RESUME CSAS_O_0;"),
    ],
)
def test_what_only_asks_or_holds_leaves_the_records_as_they_are(statement: str) -> None:
    assert written(SOURCE + COPY + statement) == [{"J": 2}, {"J": 3}]


def test_a_query_that_is_terminated_or_paused_reads_nothing() -> None:
    assert written(SOURCE + COPY + "TERMINATE CSAS_O_0;") == []
    assert written(SOURCE + COPY + "PAUSE csas_o_0;") == []
    assert written(SOURCE + COPY + "TERMINATE ALL;") == []


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DESCRIBE NOPE;", "Could not find STREAM/TABLE 'NOPE' in the Metastore"),
        ("DESCRIBE FUNCTION NOPE;", "Can't find any functions with the name 'NOPE'"),
        ("EXPLAIN NOPE;", "Query with id:NOPE does not exist"),
        ("EXPLAIN SELECT X FROM S EMIT CHANGES;", "SELECT column 'X' cannot be resolved"),
        ("SELECT X FROM S EMIT CHANGES;", "SELECT column 'X' cannot be resolved"),
        ("TERMINATE NOPE;", "Unknown queryId: NOPE"),
        ("ASSERT TOPIC nope;", "Topic nope does not exist"),
        ("ASSERT TOPIC s WITH (PARTITIONS=3);", "For config partitions, expected 3 got 4"),
        ("ASSERT SCHEMA SUBJECT 'a' ID 3;", r"Schema with subject name\[a\] and id\[3\] does not exist"),
        (
            "ASSERT STREAM S (K STRING KEY) WITH (KAFKA_TOPIC='s');",
            "Expected schema does not match actual for source S",
        ),
        ("ASSERT TABLE S (K STRING KEY) WITH (KAFKA_TOPIC='s');", "Expected S to be a TABLE"),
    ],
)
def test_what_asks_for_what_is_not_there_is_refused(statement: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        run_case(SOURCE + statement, INPUTS)
    assert refused.value.category == "statement"


def test_values_are_asserted_in_the_order_in_which_queries_write_them() -> None:
    asserted = "ASSERT VALUES O (ROWTIME, K, J) VALUES (1, 'k', 2); ASSERT VALUES O (K, J) VALUES ('k', 3);"
    assert len(written(SOURCE + COPY + asserted)) == 2
    for wrong in (
        "ASSERT VALUES O (K, J) VALUES ('k', 3);",
        "ASSERT NULL VALUES O (K) KEY ('k');",
        asserted + asserted,
    ):
        with pytest.raises(Refused, match="Expected"):
            run_case(SOURCE + COPY + wrong, INPUTS)


@pytest.mark.parametrize("statement", ["CREATE SINK CONNECTOR C WITH ('a'='b');", "DROP CONNECTOR C;"])
def test_connectors_are_said_to_be_unsupported(statement: str) -> None:
    with pytest.raises(UnsupportedError, match="CONNECTOR"):
        run_case(statement, ())


def test_a_query_that_is_replaced_goes_on_beside_the_new_one_where_replacing_is_switched_off() -> None:
    text = COPY + "CREATE OR REPLACE STREAM O AS SELECT K, I + 1 AS J FROM S WHERE I > 1;"
    assert written(SOURCE + text) == [{"J": 3}]
    assert written("SET 'ksql.create.or.replace.enabled'='false';" + SOURCE + text) == [{"J": 2}, {"J": 3}, {"J": 3}]


def test_run_script_is_no_statement_of_a_case() -> None:
    with pytest.raises(Refused, match="Unknown statement 'RUN'") as refused:
        run_case("RUN SCRIPT 'x';", ())
    assert refused.value.category == "parse"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"T": "nonsense"}, "Unable to parse string timestamp. timestamp=nonsense timestamp_format=yyyy-MM-dd"),
        ({"T": None}, "have to be non-negative"),
    ],
)
def test_a_row_without_a_time_is_left_out_or_ends_the_query_where_that_is_asked(given: object, words: str) -> None:
    made = (
        "CREATE STREAM S (K STRING KEY, T STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', TIMESTAMP='T', "
        "TIMESTAMP_FORMAT='yyyy-MM-dd'); CREATE STREAM O AS SELECT * FROM S;"
    )
    inputs: list[dict[str, object]] = [
        {"topic": "s", "key": "k", "value": given},
        {"topic": "s", "key": "k", "value": {"T": "1970-01-02"}},
    ]
    assert [each.timestamp for each in run_case(made, inputs)] == [86_400_000]
    with pytest.raises(Refused, match=words) as refused:
        run_case("SET 'ksql.timestamp.throw.on.invalid'='true';" + made, inputs)
    assert refused.value.category == "runtime" and "Fatal user code error in TimestampExtractor" in str(refused.value)
