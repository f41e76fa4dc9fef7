"""Columns that are read from a record's headers: in streams and tables, in groups, in joins."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest

from ottla.sql.testing import run_case

ALL = "H ARRAY<STRUCT<KEY STRING, VALUE BYTES>> HEADERS"
LAST = "H BYTES HEADER('a')"


def source(kind: str, column: str, topic: str = "s") -> str:
    key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    return (
        f"CREATE {kind} {topic} (K STRING {key}, V INT, {column}) "
        f"WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', KEY_FORMAT='JSON');"
    )


def shown(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def row(key: str, value: int | None, *headers: str, topic: str = "s") -> Mapping[str, object]:
    listed = [{"KEY": each[0], "VALUE": shown(each[1:])} for each in headers]
    return {"topic": topic, "key": key, "value": None if value is None else {"V": value}, "headers": listed}


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_headers_are_columns_of_streams_and_tables(kind: str) -> None:
    given = [row("k", 1, "a1", "b2", "a3"), row("k", 2)]
    one, none = run_case(source(kind, ALL) + f"CREATE {kind} R AS SELECT K, H FROM S;", given)
    assert isinstance(one.value, dict) and isinstance(none.value, dict)
    assert [(each["KEY"], each["VALUE"]) for each in one.value["H"]] == [
        ("a", shown("1")),
        ("b", shown("2")),
        ("a", shown("3")),
    ]
    assert none.value["H"] == []
    found = run_case(source(kind, LAST) + f"CREATE {kind} R AS SELECT K, H FROM S;", given)
    assert [each.value for each in found] == [{"H": shown("3")}, {"H": None}]


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_rows_are_grouped_by_a_header_and_a_tables_row_leaves_the_group_that_it_was_in(kind: str) -> None:
    given = [row("x", 1, "a1"), row("y", 1, "a1"), row("x", 1, "a2"), row("y", None)]
    text = source(kind, LAST) + "CREATE TABLE R AS SELECT H, COUNT(*) AS N FROM S GROUP BY H;"
    found = [(each.key, each.value) for each in run_case(text, given)]
    one, two = shown("1"), shown("2")
    counted = [(one, {"N": 1}), (one, {"N": 2})]
    if kind == "STREAM":
        assert found == [*counted, (two, {"N": 1})]
    else:
        assert found == [*counted, (one, {"N": 1}), (two, {"N": 1}), (one, {"N": 0})]


def test_headers_are_counted_in_a_tables_groups() -> None:
    given = [row("x", 1, "a1"), row("y", 1), row("x", 1)]
    text = source("TABLE", LAST) + "CREATE TABLE R AS SELECT V, COUNT(H) AS N FROM S GROUP BY V;"
    counts = [each.value["N"] for each in run_case(text, given) if isinstance(each.value, dict)]
    assert counts == [1, 1, 0]


def test_a_stream_finds_the_headers_of_a_tables_row() -> None:
    text = source("STREAM", LAST) + source("TABLE", LAST, "t")
    text += "CREATE STREAM R AS SELECT S.K, S.H, T.H FROM S JOIN T ON S.K = T.K;"
    (found,) = run_case(text, [row("k", 1, "a1", topic="t"), row("k", 2, "a2")])
    assert found.value == {"S_H": shown("2"), "T_H": shown("1")}


def test_a_tables_condition_may_ask_for_a_header() -> None:
    text = source("TABLE", LAST) + "CREATE TABLE R AS SELECT K, V FROM S WHERE H IS NOT NULL;"
    found = run_case(text, [row("k", 1, "a1"), row("k", 2), row("k", 3)])
    assert [each.value for each in found] == [{"V": 1}, None]
