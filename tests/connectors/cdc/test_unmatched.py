"""Entries of include lists that match no table: said in the log and the status, until a table of them changes."""

from __future__ import annotations

import pytest

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.unmatched import TOLD_MAX, Unmatched
from tests.connectors.cdc.replay import begun, read_until_quiet, run_sql
from tests.connectors.contexts import Store
from tools.postgres import PostgresServer


def told(settings: dict[str, str], *names: str, schemas: str = "schema") -> list[str]:
    unmatched = Unmatched(settings, schemas)
    unmatched.look(TableId(*each.split(".", 1)) for each in names)
    return unmatched.told()


@pytest.mark.parametrize(
    ("listed", "named"),
    [
        ("public.orders", []),
        ("PUBLIC.ORDERS,public.cust.*", []),
        ("public.nope", ["'public.nope', so nothing"]),
        ("public.orders,public.nope,gone.*", ["'public.nope'", "'gone.*'"]),
        ("orders", ["'orders', which has to match the whole name: is public.orders meant?"]),
        ("", []),
    ],
)
def test_an_entry_that_matches_no_table_is_named(listed: str, named: list[str]) -> None:
    said = told({"table.include.list": listed}, "public.orders", "public.customers")
    assert len(said) == len(named)
    assert all(word in sentence for word, sentence in zip(named, said, strict=True)), said


def test_a_schema_that_is_not_there_is_named_in_the_words_of_its_server() -> None:
    [said] = told({"database.include.list": "shop,gone"}, "shop.orders", schemas="database")
    assert said.startswith("database.include.list: no database with tables matches 'gone'")


def test_thousands_of_entries_are_counted() -> None:
    said = told({"table.include.list": ",".join(f"public.t{at}" for at in range(1000))})
    assert len(said) == TOLD_MAX + 1 and said[-1] == "980 more entries of include lists match nothing"


def test_a_table_that_is_made_later_is_told_of_no_more() -> None:
    unmatched, orders = Unmatched({"table.include.list": "public.late"}), TableId("public", "orders")
    unmatched.look([orders])
    unmatched.told_of([orders])
    assert len(unmatched.told()) == 1
    unmatched.told_of([orders, TableId("public", "late")])
    assert unmatched.told() == []


def test_a_schema_whose_name_has_a_point_is_matched_by_its_whole_name() -> None:
    unmatched = Unmatched({"schema.include.list": r"a\.b,a"})
    unmatched.look([TableId("a.b", "c")])
    [said] = unmatched.told()
    assert "matches 'a'" in said


@pytest.mark.timeout(180)
def test_a_capture_of_a_table_that_is_not_there_says_so_in_log_and_status(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, database, "create table there (id int primary key); insert into there values (1)")
    listed = {"topic.prefix": f"un_{database}", "table.include.list": "public.there,public.nope,there"}
    task = begun(server, database, store := Store(), **listed)
    assert len(read_until_quiet(task, store, 0.2)) == 1
    warnings = task.source_state().warnings
    task.stop()
    assert ["'public.nope'" in warnings[0], "is public.there meant?" in warnings[1], len(warnings)] == [True, True, 2]
    assert all(each in caplog.text for each in warnings)


@pytest.mark.timeout(180)
def test_a_table_whose_topic_has_another_name_than_it_is_told_of_no_more_when_it_is_made(
    server: PostgresServer, database: str
) -> None:
    run_sql(server, database, "create table there (id int primary key); insert into there values (1)")
    listed = {"topic.prefix": f"un_{database}", "table.include.list": "public.there,public.odd name"}
    others = {"topic.delimiter": "_", "publication.autocreate.mode": "all_tables"}
    task = begun(server, database, store := Store(), **listed, **others)
    read_until_quiet(task, store, 0.2)
    assert len(task.source_state().warnings) == 1
    run_sql(server, database, 'create table "odd name" (id int primary key); insert into "odd name" values (1)')
    [record] = read_until_quiet(task, store, 0.2)
    assert record.topic == f"un_{database}_public_odd_name"
    assert task.source_state().warnings == []
    task.stop()
