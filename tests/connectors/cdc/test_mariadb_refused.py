"""Refused tables of MariaDB: when they are forgotten, how many an offset holds; and a lock that nobody lets go of."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql import snapshot
from ottla.connectors.cdc.mysql.renames import renames_of
from ottla.connectors.cdc.refused import LISTED_LENGTH_MAX, REFUSED, Refused
from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql
from tests.connectors.cdc.test_mariadb_statements import rows_of, settings_of, told_until
from tests.connectors.contexts import Store
from tests.waiting import until
from tools.mariadb import MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)
MADE = "(id int primary key, v int)"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as found:
        yield found


@pytest.mark.parametrize("length", [30, 400])
def test_an_offset_that_names_thousands_of_refused_tables_can_be_stored(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    refused, names = Refused(), [TableId("public", f"a_table_with_quite_a_name_{at}") for at in range(3000)]
    for each in names:
        refused.add(each, "ä" * length)
    kept = refused.kept()
    assert len(kept[REFUSED]) <= LISTED_LENGTH_MAX and len(json.loads(kept[REFUSED])) == len(names)
    again = Refused()
    again.restore(kept)
    assert all(each in again for each in names) and again.kept() == kept
    again.dropped_schema("publi")
    assert again.kept() == kept
    again.dropped_schema("public")
    assert again.kept() == {} and again.told() == []


@pytest.mark.parametrize(
    ("statements", "is_told"),
    [
        ("drop database {x}; create database {x}; create table {x}.r {made}", True),
        ("create or replace table {x}.r {made}", True),
        ("create or replace table {x}.r like t", True),
        ("drop table {x}.r; create table if not exists {x}.r {made}", True),
        ("create table if not exists {x}.r {made}", False),
        ("create temporary table {x}.r {made}; drop temporary table {x}.r", False),
        ("truncate table {x}.r", False),
        ("set session binlog_format = STATEMENT; create or replace table {x}.r {made} select 5 id, 5 v; "
         "set session binlog_format = ROW", False),
    ],
)  # fmt: skip
def test_a_refused_table_is_forgotten_where_it_is_gone_however_it_went_and_not_told_of_before(
    server: MariaDbServer, tmp_path: Path, statements: str, is_told: bool
) -> None:
    database = server.new_database()
    other = f"{database}x"
    run_sql(server, f"create database {database}; create database {other}; create table {other}.r {MADE}")
    run_sql(server, f"create table t {MADE}", database)
    store, settings = Store(), settings_of(database)
    settings |= {"database.include.list": f"{database},{other}", "snapshot.mode": "no_data"}
    settings["skipped.operations"] = "none"
    task = begun(server, tmp_path / "h", store, **settings)
    read(task, 1, store)
    said = f"set session binlog_format = STATEMENT; insert into {other}.r values (1, 1)"
    run_sql(server, f"{said}; set session binlog_format = ROW; insert into t values (1, 1)", database)
    assert told_until(task, ("c", 1, 1), store) == [("c", 1, 1)]
    run_sql(server, f"{statements.format(x=other, made=MADE)}; insert into {other}.r values (7, 7)", database)
    run_sql(server, "insert into t values (2, 2)", database)
    topics: list[Any] = []

    def come() -> bool:
        records = task.poll() or []
        topics.extend((each.topic, each.value["op"]) for each in records if each.value is not None)
        return (f"p.{database}.t", "c") in topics

    until(come, lambda: topics)
    assert [each for each in topics if each[0] == f"p.{other}.r"] == ([(f"p.{other}.r", "c")] if is_told else [])
    assert len(task.source_state().warnings) == (not is_told)
    task.stop()


def test_a_worker_that_is_stopped_while_it_locks_all_writers_does_not_keep_them_waiting(
    server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = server.new_database()
    run_sql(server, f"create database {database}")
    run_sql(server, f"create table t {MADE}", database)
    followed, written = snapshot.follow, []

    def stopped(*given: Any) -> Any:
        """As SIGSTOP does: nothing more is said to the server."""
        if not written:
            with connected(server, database) as connection, connection.cursor() as cursor:
                cursor.execute("set lock_wait_timeout = 1")
                insert = "insert into t values (1, 1)"
                until(lambda: written.append(cursor.execute(insert)) or written, past=(pymysql.err.OperationalError,))
        return followed(*given)

    monkeypatch.setattr(snapshot, "LOCKED_SECONDS", 2)
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "follow", stopped)
        with pytest.raises(ConnectError, match="cannot be asked"):
            begun(server, tmp_path / "h", Store(), **settings_of(database))
    assert written
    task = begun(server, tmp_path / "h2", Store(), **settings_of(database))
    assert rows_of(read(task, 1)) == [("r", 1, 1)]
    task.stop()


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("RENAME TABLE a TO b, x.c NOWAIT TO `d``e`", [("s.a", "s.b"), ("x.c", "s.d`e")]),
        ("set statement max_statement_time = 3 for rename tables if exists a wait 3 to z.a", [("s.a", "z.a")]),
        (
            "ALTER ONLINE TABLE IF EXISTS a.b NOWAIT add c set('rename to q', ', rename w'), RENAME = f",
            [("a.b", "s.f")],
        ),
        ("alter table a rename column b to c, rename index d to e, rename as x.y", [("s.a", "x.y")]),
        ("alter table a rename b", [("s.a", "s.b")]),
        ("alter table a add rename_ int, comment ', rename to q'", []),
        ("alter table a add (rename_ int, b int), modify `rename` int", []),
        ("rename user a to b", []),
        ("set statement a = (1 for alter table t rename u", []),
        ("alter view a as select 1", []),
    ],
)
def test_the_other_names_of_a_statement_are_known_whatever_else_it_says(
    statement: str, found: list[tuple[str, str]]
) -> None:
    assert [(str(old), str(new)) for old, new in renames_of(statement, "s")] == found


@pytest.mark.parametrize(
    "rename",
    [
        "rename table r to q",
        "alter table r add x int, rename to q",
        "rename table t to u, r to q, u to t",
        "alter table r rename column id to no, rename to q",
    ],
)
def test_the_refusal_of_a_table_whose_definition_is_not_known_follows_it_to_its_other_name(
    server: MariaDbServer, tmp_path: Path, rename: str
) -> None:
    database = server.new_database()
    run_sql(
        server,
        f"create table mysql.model_{database} {MADE}; create database {database}; create table {database}.t {MADE}",
    )
    store, settings = Store(), settings_of(database) | {"snapshot.mode": "no_data"}
    task = begun(server, tmp_path / "h", store, **settings)
    read(task, 1, store)
    run_sql(server, f"create table r like mysql.model_{database}", database)
    run_sql(server, "set session binlog_format = STATEMENT; insert into r values (2, 2)", database)
    until(lambda: (task.poll() and None) or task.source_state().warnings, "a refusal", every=0)
    run_sql(server, "insert into t values (8, 8)", database)  # behind which the server was asked
    assert told_until(task, ("c", 8, 8), store) == [("c", 8, 8)]
    run_sql(server, f"{rename}; insert into q values (3, 3{', 3' if ' add ' in rename else ''})", database)
    run_sql(server, f"create table r {MADE}; insert into r values (4, 4); insert into t values (9, 9)", database)
    assert told_until(task, ("c", 9, 9), store) == [("c", 4, 4), ("c", 9, 9)]
    assert [each.partition(" is refused")[0] for each in task.source_state().warnings] == [f"table {database}.q"]
    task.stop()


def test_a_statement_in_the_place_of_rows_refuses_the_table_of_the_database_that_it_names_and_not_its_namesake(
    server: MariaDbServer, tmp_path: Path
) -> None:
    shop = server.new_database()
    other = f"{shop}x"
    for each in (shop, other):
        run_sql(server, f"create database {each}; create table {each}.orders {MADE}; create table {each}.items {MADE}")
    run_sql(server, f"create view {shop}.seen as select * from {other}.items")
    settings = settings_of(f"{shop},{other}") | {"snapshot.mode": "no_data"}
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings)
    read(task, 1, store)
    statements = f"use {shop}; set session binlog_format = STATEMENT; insert into {other}.orders values (1, 1)"
    run_sql(server, f"{statements}; set session binlog_format = ROW; insert into orders values (2, 2)")
    assert told_until(task, ("c", 2, 2), store) == [("c", 2, 2)]
    run_sql(server, f"use {shop}; set session binlog_format = STATEMENT; update seen set v = 3")
    run_sql(server, "insert into orders values (3, 3); insert into items values (4, 4)", shop)
    assert told_until(task, ("c", 4, 4), store) == [("c", 3, 3), ("c", 4, 4)]
    named = [each.partition(" is refused")[0] for each in task.source_state().warnings]
    assert named == [f"table {other}.orders", f"table {other}.items"]
    task.stop()


def test_a_routine_that_makes_its_statements_of_texts_may_change_what_its_texts_name(
    server: MariaDbServer, tmp_path: Path
) -> None:
    shop = server.new_database()
    other = f"{shop}x"
    for each in (shop, other):
        run_sql(server, f"create database {each}; create table {each}.orders {MADE}; create table {each}.items {MADE}")
    made = f"execute immediate concat('insert into {other}', '.', 'orders values (7, 7)')"
    run_sql(server, f"create procedure made() {made}", shop)
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(f"{shop},{other}"), **{"snapshot.mode": "no_data"})
    read(task, 1, store)
    run_sql(server, "set session binlog_format = STATEMENT; call made()", shop)
    run_sql(server, f"insert into {other}.items values (4, 4)", shop)
    assert told_until(task, ("c", 4, 4), store) == [("c", 4, 4)]
    assert any(each.startswith(f"table {other}.orders is refused") for each in task.source_state().warnings)
    task.stop()
