"""What of MariaDB counts as a server that is away, what an operator has to change, and what refuses no table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ottla.connect import ConnectError
from ottla.connectors.cdc import capture_task
from ottla.connectors.cdc.mysql.server import Server, opened_server
from ottla.connectors.cdc.mysql.settings import BINLOG_DEF
from ottla.connectors.cdc.replication import ServerAwayError, ServerLacksError, ServerRefusesError
from ottla.connectors.cdc.server import plain_settings
from tests.connectors.cdc.mariadb_replay import begun, connected, props_of, read, run_sql
from tests.connectors.cdc.replay import read_until_quiet
from tests.connectors.cdc.test_mariadb_statements import settings_of
from tests.connectors.contexts import polled
from tests.waiting import until
from tools.mariadb import MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)
ROWS = 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as found:
        yield found


def filled(server: MariaDbServer, rows: int = ROWS) -> str:
    """Return a database with a table that takes a while to be read."""
    database = server.new_database()
    run_sql(server, f"create database {database}; create table {database}.t (id int primary key, v varchar(500))")
    run_sql(server, f"insert into t select seq, repeat('x', 500) from seq_1_to_{rows}", database)
    return database


def test_a_limit_of_time_for_statements_does_not_count_for_the_capture(server: MariaDbServer, tmp_path: Path) -> None:
    database = filled(server)
    run_sql(server, "set global max_statement_time = 0.05")
    try:
        task = begun(server, tmp_path / "h", None, **settings_of(database))
        found = read(task, ROWS)
        assert not task.source_state().warnings
        task.stop()
    finally:
        run_sql(server, "set global max_statement_time = 0")
    assert len([each for each in found if each.topic == f"p.{database}.t"]) == ROWS


def test_a_snapshots_statement_that_somebody_cancels_refuses_no_table(server: MariaDbServer, tmp_path: Path) -> None:
    database = filled(server)
    task = begun(server, tmp_path / "h", None, **settings_of(database))
    polled(task)
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute(f"select id from information_schema.processlist where info like 'select `id`%{database}%'")
        [[number]] = cursor.fetchall()
        cursor.execute(f"kill query {number}")
    with pytest.raises(ServerAwayError, match="interrupted"):
        until(lambda: polled(task) and None, every=0)
    assert not task.source_state().warnings
    task.stop()


def test_what_the_server_has_no_room_for_refuses_no_table_and_says_what_to_do(
    server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = filled(server, 10)
    full = "signal sqlstate '45000' set mysql_errno = 1021, message_text = 'Disk full'"
    run_sql(server, f"create procedure full() {full}", database)

    def short(asked: Server, query: str, fetch: int) -> Iterator[Any]:
        asked.run(f"call {database}.full()")
        yield from ()

    monkeypatch.setattr(Server, "stream", short)
    task = begun(server, tmp_path / "h", None, **settings_of(database))
    with pytest.raises(ServerLacksError, match="Make room on its disk"):
        until(lambda: polled(task) and None, every=0)
    assert not task.source_state().warnings
    task.stop()


def test_a_user_who_may_not_log_in_any_more_or_not_read_the_binlog_is_told_of_after_few_tries(
    server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    database = filled(server, 1)
    user = "capture_me@'127.0.0.1'"
    run_sql(server, f"create user {user} identified by 'x'")
    run_sql(server, f"grant select, reload, show databases, replication client on *.* to {user}")
    settings = {**settings_of(database), "database.user": "capture_me", "database.password": "x"}
    task = begun(server, tmp_path / "h", None, **settings)
    with pytest.raises(ConnectError, match=r"may not read the binlog.*GRANT"):
        until(lambda: polled(task) and None, every=0)
    task.stop()
    run_sql(server, f"grant replication slave on *.* to {user}")
    task = begun(server, tmp_path / "h2", None, **settings)
    read_until_quiet(task, None, 0.2)
    run_sql(server, f"alter user {user} identified by 'y'")
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute("select id from information_schema.processlist where user = 'capture_me'")
        for (number,) in cursor.fetchall():
            cursor.execute(f"kill {number}")
    with pytest.raises(ConnectError, match=r"Access denied.*\(25 times, and the server is there\)"):
        until(lambda: polled(task) and None, every=0)
    task.stop()


@pytest.mark.parametrize("what", ["a row", "a table"])
def test_a_lock_that_the_query_of_heartbeats_does_not_get_in_time_is_tried_again(
    server: MariaDbServer, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    database = filled(server, 1)
    run_sql(server, f"create table {database}.beats (id int primary key); insert into {database}.beats values (1)")
    settings = settings_of(database, **{"table.include.list": f"{database}.t", "heartbeat.interval.ms": "1"})
    settings["heartbeat.action.query"] = f"update {database}.beats set id = id + 1"
    settings["database.initial.statements"] = "set innodb_lock_wait_timeout = 0; set lock_wait_timeout = 0"
    task = begun(server, tmp_path / "h", None, **settings)
    read_rows_of_t(task, 1)
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("update beats set id = -1" if what == "a row" else "lock tables beats write")
        until(lambda: (polled(task) and None) or caplog.text.count("Lock wait timeout") > 2, "tries", every=0)
        cursor.execute("rollback" if what == "a row" else "unlock tables")
    run_sql(server, f"insert into {database}.t values (2, 'x')")
    until(lambda: any(each.topic == f"p.{database}.t" for each in polled(task)), "the row", every=0)
    task.stop()


def read_rows_of_t(task: Any, count: int) -> None:
    """Poll until so many records of the table have come: heartbeats come for ever."""
    found: list[Any] = []
    until(lambda: found.extend(polled(task)) or sum(each.topic.endswith(".t") for each in found) == count, every=0)


def test_a_database_that_is_dropped_while_tables_are_listed_ends_no_capture_of_others(
    server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, listed = filled(server, 1), Server.databases
    monkeypatch.setattr(Server, "databases", lambda asked: [*listed(asked), "gone"])
    only = {"schema.history.internal.store.only.captured.databases.ddl": "true"}
    task = begun(server, tmp_path / "h", None, **settings_of(database, **only))
    assert len(read(task, 1)) == 1
    task.stop()


def test_a_server_whose_settings_were_changed_does_not_end_a_task_that_looks_at_foreign_keys(
    server: MariaDbServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = filled(server, 1)
    task = begun(server, tmp_path / "h", None, **settings_of(database))
    read(task, 1)
    with connected(server, database) as connection, connection.cursor() as cursor:
        run_sql(server, "set global binlog_row_image = minimal")
        try:
            cursor.execute("alter table t drop column v")
            cursor.execute("insert into t values (2)")
            assert len(read(task, 1)) == 1
        finally:
            run_sql(server, "set global binlog_row_image = full")
    assert "It is not known which tables foreign keys change" in caplog.text
    task.stop()


def test_a_user_who_has_all_the_connections_that_one_may_have_is_tried_for_as_long_as_that_takes(
    server: MariaDbServer, tmp_path: Path
) -> None:
    user = "one_only@'127.0.0.1'"
    run_sql(server, f"create user {user} identified by 'x' with max_user_connections 1; grant all on *.* to {user}")
    props = props_of(server, tmp_path / "h", **settings_of("d"), database_user="one_only", database_password="x")
    login = {"host": "127.0.0.1", "port": server.port, "user": "one_only", "password": "x", "ssl_disabled": True}
    with pymysql.connect(**login), pytest.raises(ServerAwayError, match="max_user_connections") as found:
        opened_server(plain_settings(BINLOG_DEF.parse(props)), wants_mariadb=True)
    assert not isinstance(found.value, ServerRefusesError)
