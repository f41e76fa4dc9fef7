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
