"""Whatever the server accepts is followed: statements against the server's own definitions; what cannot be told is
refused by table, while the others go on."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl import follow
from ottla.connectors.cdc.mysql.ddl_words import ANSI_QUOTES
from ottla.connectors.cdc.mysql.history import history_record, recovered
from ottla.connectors.cdc.mysql.positions import Position
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from ottla.connectors.cdc.mysql.unsent import emptied, writes_rows
from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql, statements
from tests.connectors.contexts import Store
from tests.waiting import until
from tools.mariadb import CAPTURED, MariaDbServer, missing, private_server

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
    "alter table t modify b varchar(9) after c, modify c int first, add x int after c",
    "alter table t modify a varchar(9) not null after b, modify b varchar(9) not null after a, add y int after id",
    "alter table t add e enum('é', 'ß', 'x') character set greek, add s set('x', 'ü') character set ucs2",
    "alter table t add e enum('a', 'é', 'it''s'); alter table t convert to character set latin2",
    "alter table t add e enum('a', 'é', 'it''s'); alter table t convert to character set utf16",
    "alter table t add e enum('a', 'é', 'it''s', 'abcde'); alter table t convert to character set utf32",
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
        cursor.execute("set sql_mode = ''")
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


def test_a_table_stays_as_it_is_until_the_snapshot_has_read_it_and_may_be_altered_then(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    rows = "(id int primary key, v int, w int); insert into"
    run_sql(server, f"create table a {rows} a values (1, 1, 2), (2, 3, 4)", database)
    run_sql(server, f"create table b {rows} b values (1, 5, 6)", database)
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(database), **{"max.batch.size": "1"})
    found = list(task.poll())
    swap = "nowait rename column v to w, rename column w to v"
    for each in ("alter table a", "alter table b"):
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
            run_sql(server, f"{each} {swap}", database)
    found += [*task.poll(), *task.poll()]
    run_sql(server, f"alter table a {swap}; alter table b {swap}; insert into b values (7, 7, 8)", database)
    assert rows_of(found) + told_until(task, ("c", 7, 7, 8), store) == [
        *(("r", 1, 1, 2), ("r", 2, 3, 4), ("r", 1, 5, 6), ("c", 7, 7, 8)),
    ]
    task.stop()


def test_a_table_that_cannot_be_read_is_refused_by_the_snapshot_and_the_others_are_read(
    server: MariaDbServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(
        server,
        "create table r (id int) engine = aria; create table a (id int, d date) engine = myisam; "
        "create table m (id int, d date) engine = merge "
        "union = (a); flush tables; drop table a; create table z (id int primary key); insert into z values (1)",
        database,
    )
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    assert rows_of(read(task, 1, store)) == [("r", 1)]
    task.stop()
    assert f"Table {database}.m is refused" in caplog.text
    caplog.clear()
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    run_sql(server, "insert into z values (2)", database)
    assert told_until(task, ("c", 2), store) == [("c", 2)]
    task.stop()
    assert f"Table {database}.m is refused" in caplog.text


OBJECTS = """
create table t (id int primary key, v int);
create table parent (id int primary key);
create table child (id int primary key, p int, foreign key (p) references parent (id) on delete cascade);
create table other (id int primary key);
create table sink (id int auto_increment primary key, v int);
insert into t values (1, 1); insert into parent values (1); insert into child values (1, 1);
create view v1 as select * from t;
create view v2 as select * from v1;
create trigger g before delete on sink for each row update t set v = old.v;
create function f(x int) returns int return (select count(*) from other) + g(x);
create function g(x int) returns int begin update t set v = x; return x; end;
create procedure p(x int) begin update v2 set v = x; end;
create table x.plain (id int primary key, v int);
insert into x.plain values (1, 1), (9, 9)
"""
UNSENT = (
    ("update v2 set v = 5", "t"),
    ("delete from sink", "sink t"),
    ("select f(3)", "other t"),
    ("do f(4)", "other t"),
    ("set @a = f(5)", "other t"),
    ("call p(7)", "t"),
    ("load data infile '{file}' ignore into table t (id, v)", "t"),
    ("update t, x.plain set t.v = 1, plain.v = 2 where t.id = plain.id", "t"),
    ("delete t from t join x.plain using (id)", "t"),
    ("insert into t select 5, v from x.plain limit 1", "t"),
    ("replace into v1 (id, v) values (1, 6)", "t"),
    ("insert into t with q as (select 8 id) select id, 1 from q", "t"),
    ("insert into x.plain select v + 100, id from t", ""),
    ("insert into x.plain select f(1) + 100, id from other", "other t"),
    ("analyze update t set v = 9", "t"),
    ("set statement max_statement_time = 9 for /* a */ update t set v = 10", "t"),
    ("delete from parent where id = 1", "child parent"),
    ("create table made as select * from t", "made"),
    ("create or replace table t (id int primary key) select 1 id, 2 v", "t"),
    ("use mysql; update {db}.t set v = 11; use {db}", "t"),
    ("xa start 'q'; update t set v = 12; xa end 'q'; xa prepare 'q'; xa commit 'q'", "t"),
    ("update x.plain set v = 3", ""),
    ("analyze table t; flush tables; optimize table t", ""),
)


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server([*CAPTURED, "--log-bin-trust-function-creators=1", "--secure-file-priv="]) as found:
        run_sql(found, "create database x")
        yield found


def refused(text: str, database: str) -> set[str]:
    return set(re.findall(rf"Table {database}\.(\w+) is refused", text))


@pytest.mark.parametrize(("statement", "tables"), UNSENT)
def test_no_statement_in_the_place_of_rows_is_passed_over_whatever_it_writes_through(
    trusting: MariaDbServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, statement: str, tables: str
) -> None:
    database = trusting.new_database()
    run_sql(trusting, f"create database {database}; drop table if exists x.plain")
    for each in OBJECTS.split(";\n"):
        with connected(trusting, database) as connection, connection.cursor() as cursor:
            cursor.execute(each.strip().split("; insert")[0])
            for more in each.strip().split("; insert")[1:]:
                cursor.execute(f"insert{more}")
    file = tmp_path / "rows"
    file.write_text("50\t5\n")
    for each in (tmp_path, file):
        each.chmod(0o755)
    run_sql(trusting, "create table last (id int primary key)", database)
    store = Store()
    task = begun(trusting, tmp_path / "h", store, **settings_of(database))
    read(task, 3, store)
    run_sql(
        trusting,
        f"set session binlog_format = STATEMENT; {statement.format(db=database, file=file)}; "
        "set session binlog_format = ROW; insert into last values (99)",
        database,
    )
    told_until(task, ("c", 99), store)
    task.stop()
    assert refused(caplog.text, database) == set(tables.split())


def test_who_may_not_see_triggers_and_views_is_told_of_no_table_behind_a_statement_in_the_place_of_rows(
    trusting: MariaDbServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = trusting.new_database()
    run_sql(trusting, f"create database {database}")
    run_sql(trusting, "create table t (id int primary key); create table u (id int primary key)", database)
    run_sql(
        trusting,
        "create or replace user capture@'127.0.0.1' identified by 'secret', capture@localhost identified by 'secret'; "
        "grant select, reload, show databases, replication slave, replication client on *.* to capture@'127.0.0.1'; "
        "grant select, reload, show databases, replication slave, replication client on *.* to capture@localhost",
    )
    store, user = Store(), {"database.user": "capture", "database.password": "secret"}
    task = begun(trusting, tmp_path / "h", store, **settings_of(database, **user))
    read(task, 1, store)
    run_sql(trusting, "set session binlog_format = STATEMENT; insert into t values (1)", database)
    until(lambda: (task.poll(), len(refused(caplog.text, database)) == 2)[1], lambda: caplog.text)
    task.stop()
    assert refused(caplog.text, database) == {"t", "u"}
    assert "the user lacks TRIGGER and SHOW VIEW ON *.*" in caplog.text


@pytest.mark.parametrize(
    ("behind", "tables"),
    [
        *(("drop trigger g", "t u last"), ("drop table t", "t u last"), ("rename table t to w", "t w u last")),
        *(("create table w (id int)", "t u"), ("drop user if exists nobody", "t u"), ("drop table if exists w", "t u")),
        *(("alter table last drop foreign key k", "t u last"), ("alter table last add v int", "t u")),
    ],
)
def test_what_a_statement_may_have_changed_rows_through_is_not_known_once_it_is_gone(
    trusting: MariaDbServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, behind: str, tables: str
) -> None:
    database = trusting.new_database()
    run_sql(trusting, f"create database {database}")
    run_sql(
        trusting,
        "create table t (id int primary key); create table u (id int primary key); create table last (id int primary key, "
        "constraint k foreign key (id) references u (id)); "
        "create trigger g before insert on t for each row insert into u values (new.id)",
        database,
    )
    store = Store()
    task = begun(trusting, tmp_path / "h", store, **settings_of(database))
    read(task, 1, store)
    task.stop()
    run_sql(trusting, f"set session binlog_format = STATEMENT; insert into t values (1); {behind}", database)
    task = begun(trusting, tmp_path / "h", store, **settings_of(database))
    run_sql(trusting, "create table made (id int primary key); insert into made values (99)", database)
    told_until(task, ("c", 99), store)
    task.stop()
    assert refused(caplog.text, database) == set(tables.split())


def test_statements_about_tables_are_followed_whatever_database_is_in_use(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, "create table t (id int primary key, a int, b int)", database)
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    read(task, 1, store)
    run_sql(
        server,
        f"use mysql; alter table {database}.t rename column a to b, rename column b to a; insert into {database}.t "
        "(id, a, b) values (1, 2, 3)",
    )
    found: list[SourceRecord] = []
    until(lambda: (found.extend(task.poll() or []), found)[1], lambda: found)
    assert {each.name: found[0].value["after"][each.name] for each in found[0].value["after"].schema.struct_fields} == {
        "id": 1,
        "a": 2,
        "b": 3,
    }
    task.stop()


@pytest.mark.parametrize(
    ("text", "is_writing"),
    [
        *(("insert into t values (1)", True), ("(select f(1))", True), ("call p()", True), ("whatever t", True)),
        *(("/*!50003 update t set a = 1 */", True), ("/* x */ /* y */ delete from t", True)),
        *(("create table t select 1", True), ("create temporary table t as select f(1)", True)),
        *(("create table t as values (1, 2)", True), ("create or replace table t table u", True)),
        *(("create table t (a int comment 'select', `select` int)", False), ("create view v as select f(1)", False)),
        *(("create table t (a int) partition by range (a) (partition p values less than (9))", False),),
        *(("analyze table t", False), ("analyze format=json update t set a = 1", True), ("# Dummy event", False)),
        *(("set statement a=1, b=(2) for alter table t force", False), ("set statement a=1 for delete from t", True)),
        *(("grant select on t to u", False), ("set password for u = 'x'", False), ("flush tables", False)),
    ],
)
def test_a_statement_writes_rows_where_it_is_not_known_to_write_none(text: str, is_writing: bool) -> None:
    assert writes_rows(text) == is_writing


def test_a_table_in_memory_that_a_restart_has_emptied_is_a_truncated_one() -> None:
    said = "DELETE FROM `a b`.`t``x` /* generated by server, implicitly emptying in-memory table */"
    assert emptied(said) == "TRUNCATE TABLE `a b`.`t``x`"
    assert emptied("DELETE FROM `a`.`t` WHERE x /* generated by server */") is None


@pytest.mark.parametrize(
    ("statement", "is_said"),
    [
        ("delete from parent where id = 1", True),
        ("update parent set id = 9 where id = 1", True),
        (
            "insert into child values (5, 5, 2); delete from parent where id = 1; insert into child values (6, 6, 2)",
            True,
        ),
        ("delete from tree where id = 1", True),
        ("insert into parent values (7)", False),
        ("delete from child where id = 1", False),
        ("insert into child values (8, null, 1); delete from free where id = 1", False),
    ],
)
def test_a_table_whose_rows_a_foreign_key_may_have_changed_is_named(
    server: MariaDbServer,
    database: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    statement: str,
    is_said: bool,
) -> None:
    run_sql(
        server,
        f"create table {database}.parent (id int primary key); use {database}; "
        "create table child (id int primary key, v int, p int, foreign key (p) references parent (id) on delete cascade "
        "on update set null); create table tree (id int primary key, p int references tree (id) on delete cascade); "
        "create table free (id int primary key); create table last (id int primary key); insert into free values (1); "
        "insert into parent values (1), (2); insert into child values (1, 1, 1); insert into tree values (1, 1), (2, 1)",
    )
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    read(task, 6, store)
    run_sql(server, f"{statement}; insert into last values (99)", database)
    told_until(task, ("c", 99), store)
    task.stop()
    named = re.findall(rf"Foreign keys of table {database}\.(\w+) may have changed its rows before binlog", caplog.text)
    assert named == ((["tree"] if "tree" in statement else ["child"]) if is_said else [])


def test_what_the_history_keeps_of_tables_beside_columns_outlives_a_restart(
    server: MariaDbServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Unique keys, the end of a row's time, sequences, compressed columns, and tables under new names."""
    run_sql(
        server,
        "create table j (a int not null, b int not null, unique key u (a), unique key v (b)); create sequence q; "
        "create table c (id int primary key, v varchar(900) compressed); "
        "create table y (id int primary key, s timestamp(6) generated always as row start, "
        "e timestamp(6) generated always as row end, period for system_time (s, e)) with system versioning; "
        "create table o (id int primary key, x int); create table p (id int primary key, z varchar(9))",
        database,
    )
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    read(task, 1, store)
    task.stop()
    run_sql(
        server,
        "alter table j drop key u; insert into j values (1, 2); select nextval(q); create view w as select 1; "
        "insert into c values (1, repeat('x', 99)); insert into y (id) values (1); update y set id = 2; "
        "rename table o to t_, p to o, t_ to p, w to w2, q to q2; select nextval(q2); "
        "insert into o values (3, 'z'); insert into p values (4, 5)",
        database,
    )
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    told: list[SourceRecord] = []
    until(lambda: (told.extend(task.poll() or []), rows_of(told)[-1:] == [("c", 4, 5)])[1], lambda: rows_of(told))
    task.stop()
    assert [each for each in rows_of(told) if len(each) < 4] == [
        *(("c", 1, 2), ("c", 1, "x" * 99), ("c", 3, "z"), ("c", 4, 5)),
    ]
    assert [(each[0], each[1]) for each in rows_of(told) if len(each) == 4] == [("c", 1), ("d", 1), ("c", 2)]
    keys = {str(each.topic).rpartition(".")[2]: [one.name for one in each.key.schema.struct_fields] for each in told}
    assert keys == {"j": ["b"], "c": ["id"], "y": ["id"], "o": ["id"], "p": ["id"]}
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING], caplog.text


def test_texts_are_read_by_the_character_set_that_a_database_or_a_table_has_by_then(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    store = Store()
    run_sql(server, "create table j (id int primary key, v json); create table here (v text)", database)
    task = begun(server, tmp_path / "h", store, **settings_of(database))
    read(task, 1, store)
    run_sql(
        server,
        f"set names utf8mb4; set statement sql_mode='' for alter database {database} character set latin2; "
        "create table if not exists here (v int) character set koi8r; create table u (v varchar(9)); "
        "insert into u values ('ő'); alter table j convert to character set cp850; "
        """insert into j values (1, '{"é": "ü"}')""",
        database,
    )
    assert told_until(task, ("c", 1, '{"é": "ü"}'), store) == [("c", "ő"), ("c", 1, '{"é": "ü"}')]
    task.stop()


def test_a_snapshot_that_is_made_again_says_which_topics_may_keep_deleted_rows(
    server: MariaDbServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, "create table t (id int primary key); insert into t values (1), (2)", database)
    history = tmp_path / "history"
    task = begun(server, history, **settings_of(database))
    first = read(task, 2)
    task.stop()
    assert [each.value["after"]["id"] for each in first] == [1, 2] and "was begun before" not in caplog.text
    run_sql(server, "delete from t where id = 1", database)
    task = begun(server, history, **settings_of(database))  # whose offsets were not stored
    second = read(task, 1)
    task.stop()
    assert [each.value["after"]["id"] for each in second] == [2]
    assert f"stay in the topics of {database}.t" in caplog.text
