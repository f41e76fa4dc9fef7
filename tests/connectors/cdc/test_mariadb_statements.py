"""Whatever the server accepts is followed: statements against the server's own definitions; what cannot be told is
refused by table, while the others go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl import follow
from ottla.connectors.cdc.mysql.ddl_words import ANSI_QUOTES
from ottla.connectors.cdc.mysql.history import history_record, recovered
from ottla.connectors.cdc.mysql.positions import Position
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql, statements
from tests.connectors.contexts import Store
from tests.waiting import until
from tools.mariadb import MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)
MADE = "create table t (id int primary key, a varchar(9) not null, b varchar(9) not null, c int, unique key ua (a))"
ALTERS = (
    "alter table t change a b varchar(9) not null, change b a varchar(9) not null",
    "alter table t change a b varchar(8) not null, change b c2 int, change c a int",
    "alter table t rename column a to b, rename column b to a",
    "alter table t add x int after n, change c n bigint",
    "alter table t add y int first, change a z text after c, modify b varchar(20) first",
    "alter table t add primary key (a), drop primary key",
    "alter table t drop c, add c text, add column if not exists a int",
    "alter table t modify t.a varchar(30), change t.b bb int after id",
    "alter table t drop key ua, add unique u2 (q), rename column b to q",
    "alter table t convert to character set utf8mb3, add tt text",
    "alter table t add tt text, add ti tinytext; alter table t convert to character set utf8mb4",
    "alter table t add tt text; alter table t convert to character set binary",
    "alter table t character set binary, add v varchar(7); alter table t add w text",
    "alter table t convert to character set default; alter table t character set default, add v char(3)",
    "alter table t add v varchar(5) unicode, add w char(5) ascii, add x char(5) byte, add y text(20000)",
    "alter table t add v varchar(5) character set utf8mb4 collate uca1400_ai_ci, collate = latin1_bin",
    "alter table t default character set utf8mb4 collate uca1400_ai_ci, add v enum('a')",
    "set statement sql_mode='' for alter table t change a z int, change b a varchar(5)",
    "set statement max_statement_time=9, sort_buffer_size=(1024*64) for rename table t to u; rename table u to t",
    "create table u (v text(300), w varchar(9)) character set binary; drop table t; rename table u to t",
    "create table u (v text(30000)) character set utf8mb4 collate uca1400_ai_ci; drop table t; rename table u to t",
)

HISTORY = """
create table other.z (id int, v varchar(900) compressed, b blob compressed);
insert into other.z values (1, 'a', 'b');
create view w as select * from t; rename table w to w2;
create sequence s; select nextval(s); rename table s to s2; alter sequence s2 restart 7; select nextval(s2);
rename table if exists nothing to something;
create table other.u (v varchar(9)) character set utf8mb4 collate uca1400_ai_ci;
create table other.u2 (v varchar(9)) character set default;
create table e (id int primary key, v enum('é', 'ü') character set latin1, w varchar(9) collate utf8mb4_uca1400_ai_ci);
insert into e values (1, 'ü', 'x');
create table c (id int primary key, v varchar(900) character set latin1 compressed, w varchar(9) compressed,
  b blob compressed);
insert into c values (1, repeat('é', 700), 'kurz', repeat('b', 999)), (2, '', '', null);
create table y (id int primary key, v int) with system versioning;
insert into y values (1, 1), (2, 2); update y set v = 3 where id = 1; delete from y where id = 2;
create table y2 (id int primary key, a timestamp(6) generated always as row start,
  z timestamp(6) generated always as row end, v int, period for system_time (a, z)) with system versioning;
insert into y2 (id, v) values (1, 1); update y2 set v = 2; delete from y2;
insert into t values (99)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as found:
        yield found


@pytest.fixture
def database(server: MariaDbServer) -> str:
    name = server.new_database()
    run_sql(server, f"create database {name} character set latin1")
    return name


def shape(table: SqlTable) -> Any:
    columns = []
    for each in table.columns:
        type_ = each.type if each.type.is_text or each.type.is_bytes else replace(each.type, width=None)
        charset = "utf8mb3" if type_.charset == "utf8" else type_.charset
        columns.append((each.name, replace(type_, charset=charset), each.is_required))
    return columns, table.primary, {frozenset(names) for _, names in table.unique}, table.charset


@pytest.mark.parametrize("script", ALTERS)
def test_a_table_is_followed_to_what_the_server_has(server: MariaDbServer, database: str, script: str) -> None:
    tables, charsets = Tables(), {"": "utf8mb4", database: "latin1"}
    with connected(server, database) as connection, connection.cursor() as cursor:
        for each in (MADE, *statements(script)):
            cursor.execute(each)
            follow(each, database, tables, charsets)
        cursor.execute("show create table t")
        [[_, definition]] = cursor.fetchall()
    now = Tables()
    follow(definition, database, now, charsets)
    name = TableId(database, "t")
    assert shape(tables[name]) == shape(now[name]), definition


def test_names_in_double_quotes_are_told_from_texts_by_the_session() -> None:
    tables = Tables()
    follow('create table t ("a" int, b int)', "d", tables, {"": "utf8mb4"}, ANSI_QUOTES)
    follow('alter table t change "a" "b ""x" text default \'"\'', "d", tables, {"": "utf8mb4"}, ANSI_QUOTES)
    assert [each.name for each in tables[TableId("d", "t")].columns] == ['b "x', "b"]


def test_unique_keys_outlive_a_restart() -> None:
    tables, charsets = Tables(), {"": "utf8mb4"}
    script = "create table t (a int not null, b int not null, unique key u (a), unique key v (b))"
    records = [
        history_record("p", {"file": "b.1", "pos": 1, "event": 1}, "d", script, follow(script, "d", tables, charsets))
    ]
    again = recovered(iter(records), Position("b.2", 4), charsets)
    assert again is not None
    for each in (tables, again):
        follow("alter table t drop key u", "d", each, charsets)
        assert each[TableId("d", "t")].key == ("b",)


def settings_of(database: str, **more: str) -> dict[str, str]:
    return {"topic.prefix": "p", "database.include.list": database, "include.schema.changes": "false", **more}


def rows_of(records: list[SourceRecord]) -> list[Any]:
    """Operation and values of each change."""
    changes = [each.value for each in records if each.value is not None and str(each.topic).startswith("p.")]
    return [(each["op"], *(each["after"] or each["before"]).values) for each in changes]


def told_until(task: Any, last: Any, store: Store) -> list[Any]:
    records: list[SourceRecord] = []

    def come() -> bool:
        polled = task.poll() or []
        store.take(polled)
        records.extend(polled)
        return last in rows_of(records)

    until(come, lambda: f"{last}, and there are {rows_of(records)}")
    return rows_of(records)


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("binlog_row_image = MINIMAL", "update t set v = 5"),
        ("binlog_row_image = MINIMAL", "insert into t (id) values (9)"),
        ("binlog_row_image = NOBLOB", "update t set v = 5"),
        ("binlog_row_image = MINIMAL", "delete from t"),
        ("binlog_format = STATEMENT", "update t set v = 5"),
        ("binlog_format = STATEMENT", "set statement sort_buffer_size = 100000 for update `t` set v = 5"),
    ],
)
def test_what_a_session_does_not_send_is_refused_by_table_and_the_others_go_on(
    server: MariaDbServer,
    database: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    setting: str,
    statement: str,
) -> None:
    run_sql(
        server,
        "create table t (id int primary key, v int, b text not null default 'x'); insert into t (id) values (1)",
        database,
    )
    run_sql(server, "create table other (id int primary key)", database)
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    assert rows_of(read(task, 1, store)) == [("r", 1, None, "x")]
    run_sql(
        server,
        f"set session {setting}; {statement}; set session binlog_format = ROW; insert into other values (1)",
        database,
    )
    assert told_until(task, ("c", 1), store) == [("c", 1)]
    [warning] = task.source_state().warnings
    assert warning.startswith(f"table {database}.t is refused") and "Reset the connector's offsets" in warning
    task.stop()
    assert f"Table {database}.t is refused" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        task = begun(server, tmp_path / "h", store, **settings_of(database))
        run_sql(server, "insert into t values (7, 7, 'y'); insert into other values (2)", database)
        assert told_until(task, ("c", 2), store) == [("c", 2)]
        assert task.source_state().warnings == [warning]
        task.stop()
    assert f"Table {database}.t is refused" in caplog.text


@pytest.mark.parametrize("metadata", ["NO_LOG", "FULL"])
def test_nothing_that_the_server_accepts_ends_a_capture(
    server: MariaDbServer, database: str, tmp_path: Path, metadata: str
) -> None:
    run_sql(
        server,
        f"set global binlog_row_metadata = {metadata}; create database {database}x; create table t (id int primary key)",
        database,
    )
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(database), **{"snapshot.mode": "no_data"})
    read(task, 1, store)
    run_sql(server, HISTORY.replace("other.", f"{database}x."), database)
    found = told_until(task, ("c", 99), store)
    task.stop()
    assert found[:6] == [
        ("c", 1, "ü", "x"),
        ("c", 1, "é" * 700, "kurz", b"b" * 999),
        ("c", 2, "", "", None),
        *(("c", 1, 1), ("c", 2, 2), ("u", 1, 3)),
    ]
    assert found[6] == ("d", 2, 2) and [(each[0], each[1], each[-1]) for each in found[7:]] == [
        *(("c", 1, 1), ("u", 1, 2), ("d", 1, 2), ("c", 99, 99)),
    ]
