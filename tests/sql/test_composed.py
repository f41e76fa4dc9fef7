"""Pull queries with JOIN, GROUP BY and ORDER BY, held against SQLite over drawn rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sql import SqlError, parse_statement, split_statements
from ottla.sql.answers import TableRows, composed_query, is_composed
from ottla.sql.catalogue import Catalogue
from ottla.sql.definitions import define
from ottla.sql.expressions import Row
from ottla.sql.tree import statements as s

SOURCES = """
CREATE TABLE A (ID INT PRIMARY KEY, V INT, T STRING) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE TABLE B (ID INT PRIMARY KEY, V INT, D DOUBLE) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE TABLE C (ID BIGINT PRIMARY KEY, L ARRAY<INT>) WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON');
CREATE STREAM S (ID INT KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
"""


def catalogue() -> Catalogue:
    known = Catalogue()
    for each in split_statements(SOURCES):
        statement = parse_statement(each.text)
        assert isinstance(statement, s.CreateSource)
        known = define(statement, known, {})
    return known


CATALOGUE = catalogue()


class Tables:
    """Rows in memory; `asked` is what was wanted of them."""

    def __init__(self, rows: Mapping[str, Sequence[Row]], most: int = 10_000) -> None:
        self._rows, self._left = rows, most
        self.asked: list[TableRows] = []

    def __call__(self, wanted: TableRows) -> Sequence[Any]:
        self.asked.append(wanted)
        every = self._rows[wanted.source.name]
        found = every if wanted.keys is None else [row for row in every if (row[0],) in wanted.keys]
        self.made(len(found))
        return found

    def decoded(self, wanted: TableRows, stored: Sequence[Any]) -> Iterator[Row | None]:
        return ((*row, 1000 + number, 0, number) for number, row in enumerate(stored))

    def made(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise SqlError("too many")


def asked(text: str, tables: Tables) -> list[Row]:
    statement = parse_statement(text)
    assert isinstance(statement, s.QueryStatement)
    assert is_composed(statement.query)
    return [row for row in composed_query(statement.query, CATALOGUE, {}, scans=True).begin(tables) if row is not None]


KEYS = st.integers(0, 6)
SMALL = st.none() | st.integers(-2, 3)


def rows(*columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(KEYS, *columns), max_size=7, unique_by=lambda row: row[0])


QUERIES = [
    "SELECT A.ID, B.D FROM A JOIN B ON A.ID = B.ID ORDER BY A.ID",
    "SELECT A.ID, B.ID FROM A LEFT JOIN B ON A.V = B.V ORDER BY A.ID, B.ID DESC",
    "SELECT A.ID, B.ID FROM A RIGHT JOIN B ON B.V = A.V ORDER BY 2, 1",
    "SELECT A.ID, B.ID FROM A FULL OUTER JOIN B ON A.ID = B.V ORDER BY A.ID NULLS FIRST, B.ID NULLS FIRST",
    "SELECT A.ID, B.ID FROM A LEFT JOIN B ON A.V = B.ID ORDER BY A.ID",
    "SELECT A.T, B.ID FROM A JOIN B ON A.V + 1 = B.V AND A.ID = B.ID WHERE A.V > 0 ORDER BY B.ID LIMIT 2",
    "SELECT X.ID, Y.ID FROM A X JOIN A Y ON X.ID = Y.V ORDER BY X.ID, Y.ID",
    "SELECT A.ID, B.D, Z.T FROM A JOIN B ON A.ID = B.ID LEFT JOIN A Z ON Z.ID = B.V ORDER BY A.ID",
    "SELECT A.ID FROM A WHERE A.ID IN (1, 2, 5) ORDER BY A.V DESC NULLS LAST, A.ID",
    "SELECT T, COUNT(*), SUM(V), MAX(V) FROM A WHERE T IS NOT NULL GROUP BY T ORDER BY T DESC",
    "SELECT A.T, COUNT(*), SUM(B.V) FROM A LEFT JOIN B ON A.V = B.V WHERE A.T IS NOT NULL GROUP BY A.T "
    "HAVING COUNT(*) > 1 ORDER BY COUNT(*), A.T",
    "SELECT COUNT(*), MIN(D) FROM B WHERE ID > 2",
    "SELECT V * 2, COUNT(V) FROM B WHERE V IS NOT NULL GROUP BY V * 2 ORDER BY V * 2 LIMIT 3",
]


@pytest.mark.parametrize("text", QUERIES)
@given(a=rows(SMALL, st.none() | st.sampled_from(["p", "q"])), b=rows(SMALL, st.none() | st.floats(-2, 2)))
def test_answers_are_sqlites(text: str, a: list[Row], b: list[Row]) -> None:
    known = sqlite3.connect(":memory:")
    try:
        known.execute("CREATE TABLE A (ID, V, T)")
        known.execute("CREATE TABLE B (ID, V, D)")
        known.executemany("INSERT INTO A VALUES (?, ?, ?)", a)
        known.executemany("INSERT INTO B VALUES (?, ?, ?)", b)
        wanted = known.execute(_of_sqlite(text)).fetchall()
    finally:
        known.close()
    assert asked(f"{text};", Tables({"A": a, "B": b})) == wanted


def _of_sqlite(text: str) -> str:
    """The query in SQLite's words: with the order of nulls that goes without saying here, and sums of nothing 0."""
    text = text.replace("SUM(", "TOTAL(")
    head, by, tail = text.partition(" ORDER BY ")
    if not by:
        return text
    parts, limit, most = tail.partition(" LIMIT ")
    said = [
        each if "NULLS" in each else f"{each} NULLS {'FIRST' if 'DESC' in each else 'LAST'}"
        for each in parts.split(", ")
    ]
    return f"{head}{by}{', '.join(said)}{limit}{most}"


def test_partners_of_few_rows_are_looked_up_and_those_of_many_read() -> None:
    few = [(number, number, "t") for number in range(3)]
    many = [(number, number, 1.0) for number in range(3000)]
    tables = Tables({"A": few, "B": many})
    assert len(asked("SELECT A.ID FROM A JOIN B ON A.V = B.ID;", tables)) == 3
    assert set(tables.asked[1].keys or ()) == {(0,), (1,), (2,)}
    tables = Tables({"A": few, "B": many})
    assert len(asked("SELECT A.ID FROM B JOIN A ON A.ID = B.V;", tables)) == 3
    assert tables.asked[1].keys is None


def test_conditions_on_keys_are_look_ups_of_each_table() -> None:
    tables = Tables({"A": [(1, 2, "t"), (2, 2, "u")], "B": [(2, 0, 0.5)]})
    text = "SELECT A.T, B.D FROM A JOIN B ON A.V = B.ID WHERE A.ID = 1 AND B.ID = 2;"
    assert asked(text, tables) == [("t", 0.5)]
    assert [each.keys for each in tables.asked] == [((1,),), ((2,),)]


def test_rows_that_joins_make_are_counted() -> None:
    rows = [(number, 1, "t") for number in range(60)]
    with pytest.raises(SqlError, match="too many"):
        asked("SELECT X.ID FROM A X JOIN A Y ON X.V = Y.V;", Tables({"A": rows}, most=1000))


def test_the_time_of_a_joined_row_is_its_latest() -> None:
    tables = Tables({"A": [(1, 1, "t"), (2, 2, "u")], "B": [(2, 0, 0.5)]})
    assert asked("SELECT ROWTIME, A.ROWTIME, B.ROWTIME FROM A LEFT JOIN B ON A.ID = B.ID;", tables) == [
        (1000, 1000, None),
        (1001, 1001, 1000),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT S.V FROM S ORDER BY S.V", "S is a stream"),
        ("SELECT A.V FROM A JOIN B ON A.V > B.V", "joined by equations"),
        ("SELECT A.V FROM A JOIN B ON A.V = A.ID", "one side has to be of `B`"),
        ("SELECT A.V FROM A JOIN B WITHIN 1 DAY ON A.V = B.V", "WITHIN joins streams"),
        ("SELECT A.V FROM A JOIN B ON A.T = B.V", "types don't match"),
        ("SELECT A.V FROM A JOIN A ON A.V = A.ID", "a name of its own"),
        ("SELECT V FROM A ORDER BY 2", "from 1 to 1"),
        ("SELECT L FROM C ORDER BY L", "no order by L: its type is ARRAY<INTEGER>"),
        ("SELECT V, COUNT(*) FROM A GROUP BY V ORDER BY ID", "not part of GROUP BY"),
        ("SELECT COUNT(*) FROM A WINDOW TUMBLING (SIZE 1 DAY) GROUP BY V", "don't support WINDOW"),
        ("SELECT V FROM A JOIN B ON A.ID = B.ID ORDER BY 1", "ambiguous"),
    ],
)
def test_what_cannot_be_composed_is_refused(text: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        asked(f"{text};", Tables({"A": [], "B": [], "C": []}))


def test_an_order_is_none_of_queries_that_go_on() -> None:
    with pytest.raises(SqlError, match="ORDER"):
        parse_statement("CREATE TABLE X AS SELECT * FROM A ORDER BY V;")
