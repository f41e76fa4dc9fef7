"""Source streams and tables, which are there to be read: what is done with them, and what is refused."""

from __future__ import annotations

import pytest

from ottla.sql.testing import Refused, run_case

STREAM = "STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
TABLE = "TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"
SOURCES = f"CREATE SOURCE {STREAM} CREATE SOURCE {TABLE}"
COPY = "CREATE STREAM C AS SELECT * FROM S;"
REPLACED = "CREATE OR REPLACE is not supported on source"


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ("INSERT INTO S VALUES ('a', 1);", "Cannot insert values into read-only stream: S"),
        ("INSERT INTO T VALUES ('a', 1);", "Cannot insert values into read-only table: T"),
        (f"{COPY} INSERT INTO S SELECT * FROM C;", "Cannot insert into read-only stream: S"),
        (f"{COPY} CREATE OR REPLACE STREAM S AS SELECT * FROM C;", "Cannot insert into read-only stream: S"),
        ("DROP STREAM S DELETE TOPIC;", "Cannot delete topic for read-only source: S"),
        ("DROP TABLE IF EXISTS T DELETE TOPIC;", "Cannot delete topic for read-only source: T"),
        (f"CREATE OR REPLACE {STREAM}", f"Cannot add stream 'S': {REPLACED} streams."),
        (f"CREATE OR REPLACE SOURCE {STREAM}", f"Cannot add stream 'S': {REPLACED} streams."),
        (f"CREATE OR REPLACE {TABLE}", f"Cannot add table 'T': {REPLACED} tables."),
        ("CREATE OR REPLACE SOURCE " + TABLE.replace("T (", "N ("), f"Cannot add table 'N': {REPLACED} tables."),
        (f"CREATE {STREAM}", "Cannot add stream 'S': A stream with the same name already exists"),
        (f"{COPY} DROP STREAM S;", "The following streams and/or tables read from this source: [C]."),
        (
            f"CREATE {TABLE.replace('T (', 'U (')} DROP TABLE U DELETE TOPIC;",
            "Refusing to delete topic. Found other data sources (T) using topic t",
        ),
    ],
)
def test_what_would_change_a_source_or_its_topic_is_refused(statements: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        run_case(SOURCES + statements, [])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "statements",
    [
        "DROP STREAM S; DROP TABLE T;",
        f"CREATE SOURCE STREAM IF NOT EXISTS {STREAM.removeprefix('STREAM ')}",
        "ALTER STREAM S ADD COLUMN W INT;",
        f"DROP STREAM S; CREATE {STREAM} DROP STREAM S DELETE TOPIC;",
        "DROP STREAM IF EXISTS NOBODY DELETE TOPIC;",
    ],
)
def test_what_leaves_the_topic_as_it_is_is_done(statements: str) -> None:
    assert run_case(SOURCES + statements, []) == []


def test_queries_read_sources() -> None:
    text = f"{SOURCES}{COPY} CREATE TABLE N AS SELECT V, COUNT(*) AS N FROM T GROUP BY V;"
    found = run_case(text, [{"topic": topic, "key": "k", "value": {"V": 1}} for topic in "st"])
    assert [(each.topic, each.key, each.value) for each in found] == [("C", "k", {"V": 1}), ("N", 1, {"N": 1})]
