"""Tables whose rows foreign keys change, which no binlog has: they are named for as long as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.cascades import cascading_keys
from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql
from tests.connectors.cdc.test_mariadb_statements import settings_of, told_until
from tests.connectors.contexts import Store
from tools.mariadb import MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as found:
        yield found


def test_the_servers_binlog_has_no_rows_that_foreign_keys_change(server: MariaDbServer) -> None:
    database = server.new_database()
    run_sql(server, f"create database {database}; create table {database}.p (id int primary key)")
    keys = "foreign key (p) references p (id) on delete cascade"
    run_sql(server, f"create table c (id int primary key, p int, {keys}); insert into p values (1)", database)
    run_sql(server, "insert into c values (1, 1); flush binary logs; delete from p", database)
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from c")
        assert cursor.fetchall() == ((0,),)
        cursor.execute("show binary logs")
        cursor.execute(f"show binlog events in '{cursor.fetchall()[-1][0]}'")
        rows = [(each[2], each[5]) for each in cursor.fetchall() if each[2] in ("Table_map", "Delete_rows_v1")]
    assert [kind for kind, _ in rows] == ["Table_map", "Table_map", "Delete_rows_v1"]
    numbers = {text.partition("(")[2]: text.split()[1] for _, text in rows[:2]}
    assert rows[2][1].split()[1] == numbers[f"{database}.p)"], "the only rows are the parent's"


def test_children_of_foreign_keys_that_change_rows_are_named_at_the_start_and_as_they_come_and_go(
    server: MariaDbServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = server.new_database()
    run_sql(server, f"create database {database}; create table {database}.p (id int primary key)")
    run_sql(
        server,
        "create table a (id int primary key, p int, constraint k foreign key (p) references p (id) on delete cascade on "
        "update set null); "
        "create table b (id int primary key, p int, foreign key (p) references p (id) on delete restrict); "
        "create table hidden (id int primary key, p int, foreign key (p) references p (id) on delete cascade); "
        "create table last (id int primary key)",
        database,
    )
    rights = "select, reload, show databases, replication slave, replication client on *.*"
    run_sql(server, "create or replace user capture@'127.0.0.1' identified by 'x', capture@localhost identified by 'x'")
    run_sql(server, f"grant {rights} to capture@'127.0.0.1', capture@localhost")
    settings = {**settings_of(database), "database.user": "capture", "database.password": "x"}
    settings["table.exclude.list"] = rf"{database}\.hidden"
    store = Store()
    task = begun(server, tmp_path / "h", store, **settings)

    def named() -> list[str]:
        return [each.partition(": what foreign keys")[0] for each in task.source_state().warnings]

    read(task, 1, store)
    assert named() == [f"table {database}.a"]
    [warning] = task.source_state().warnings
    assert f"({database}.p: ON DELETE CASCADE ON UPDATE SET NULL)" in warning and warning in caplog.text
    for at, (statement, found) in enumerate(
        (
            ("alter table b add constraint m foreign key (id) references p (id) on update cascade", ["a", "b"]),
            (
                "create table c (id int primary key, foreign key (id) references p (id) on delete cascade)",
                ["a", "b", "c"],
            ),
            ("rename table a to z", ["b", "c", "z"]),
            ("alter table z drop foreign key k", ["b", "c"]),
            ("drop table c", ["b"]),
            ("alter table b add v int", ["b"]),
        )
    ):
        run_sql(server, f"{statement}; insert into last values ({at})", database)
        told_until(task, ("c", at), store)
        assert sorted(named()) == [f"table {database}.{each}" for each in found], statement
    task.stop()
    task = begun(server, tmp_path / "h", store, **settings)
    assert named() == [f"table {database}.b"], "it is said again at each start"
    task.stop()


def test_the_keys_of_a_definition_are_read_whatever_stands_in_its_comments() -> None:
    definition = (
        "CREATE TABLE `c` (\n  `p` int COMMENT 'FOREIGN KEY (`x`) REFERENCES `q` (`id`) ON DELETE CASCADE',\n"
        "  CONSTRAINT `k` FOREIGN KEY (`p`) REFERENCES `o``x`.`p` (`id`, `b`) ON DELETE SET NULL ON UPDATE NO ACTION,\n"
        "  CONSTRAINT `l` FOREIGN KEY (`p`) REFERENCES `r` (`id`),\n"
        "  CONSTRAINT `m` FOREIGN KEY (`p`) REFERENCES `t` (`id`) ON DELETE NO ACTION ON UPDATE CASCADE\n)"
    )
    assert cascading_keys(definition, "d") == {
        TableId("o`x", "p"): "ON DELETE SET NULL",
        TableId("d", "t"): "ON UPDATE CASCADE",
    }


@pytest.mark.parametrize(
    "setting",
    [
        *("sql_mode = ANSI_QUOTES", "sql_mode = ORACLE", "sql_mode = 'MYSQL40,NO_FIELD_OPTIONS'"),
        "sql_mode = NO_BACKSLASH_ESCAPES",
        *("sql_mode = PAD_CHAR_TO_FULL_LENGTH", "sql_quote_show_create = off"),
    ],
)
def test_settings_of_the_server_change_neither_values_nor_which_foreign_keys_are_known(
    server: MariaDbServer, tmp_path: Path, setting: str
) -> None:
    database = server.new_database()
    run_sql(server, f"create database {database}")
    run_sql(
        server,
        "create table p (`i``d` char(5) charset latin2 primary key, v varchar(9) default 'a\\\\b' comment 'c\\\\'); "
        "insert into p (`i``d`) values ('ż')",
        database,
    )
    keys = "foreign key (p) references p (`i``d`) on delete cascade"
    run_sql(server, f"create table c (p char(5) charset latin2, {keys})", database)
    run_sql(server, f"set global {setting}")
    try:
        task = begun(server, tmp_path / "h", None, **settings_of(database))
        [record] = read(task, 1)
    finally:
        run_sql(server, "set global sql_mode = default")
        run_sql(server, "set global sql_quote_show_create = on")
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("update p set `i``d` = 'ó'")
    changed = read(task, 2)[0]
    assert (record.value["after"]["i`d"], changed.value["before"]["i`d"]) == ("ż", "ż")
    [after] = [each.schema for each in record.value_schema.struct_fields if each.name == "after"]
    assert [each.schema.default for each in after.struct_fields] == [None, "a\\b"]
    [said] = task.source_state().warnings
    assert said.startswith(f"table {database}.c: what foreign keys change in it ({database}.p: ON DELETE CASCADE)")
    task.stop()
