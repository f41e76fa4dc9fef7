"""Tables that are altered, emptied, swapped and dropped around a snapshot: it reads them as they are at one moment."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from ottla.connect import ConnectError, SourceRecord
from ottla.connectors.cdc import table_locks
from ottla.connectors.cdc.catalog import Catalog
from tests.connectors.cdc.replay import begun, connected, read_until_quiet, run_sql
from tests.connectors.cdc.test_postgres_refused import told
from tests.connectors.contexts import SourceContext, Store, polled
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
TABLES = (
    "create table a (id int primary key, v text); insert into a select g, 'x' from generate_series(1, 30) g; "
    "create table b (id int primary key, v text); insert into b select g, 'y' from generate_series(1, 30) g"
)


@pytest.mark.parametrize(
    "statement",
    [
        "alter table b rename v to w",
        "alter table b drop column v",
        "alter table b alter v type int using 1",
        "alter table b rename to c",
        "truncate b",
        "drop table b",
    ],
)
@pytest.mark.parametrize("in_columns", [True, False])
def test_what_alters_a_table_waits_until_the_snapshot_has_read_it(
    server: PostgresServer, database: str, statement: str, in_columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceContext, "takes_columns", in_columns)
    run_sql(server, database, TABLES)
    task = begun(server, database, None, **{"topic.prefix": f"lock_{database}", "max.batch.size": "7"})
    found: list[SourceRecord] = []
    with connected(server, database, options="-c lock_timeout=50ms") as connection:
        found += polled(task)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute(statement.encode())
        connection.execute("update b set v = 'z' where id = 30")  # who writes rows does not wait
        until(lambda: found.extend(polled(task)) or ("u", 30) in told(found, "b"), "the update", every=0)
        connection.execute(statement.encode())
    found += read_until_quiet(task, None, 0.2)
    task.stop()
    assert sorted(told(found, "b"))[:30] == [("r", each) for each in range(1, 31)]


def test_tables_that_change_between_the_look_and_the_lock_are_looked_for_again(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sql(server, database, TABLES)
    names = Catalog.names
    changes = ["alter table a rename to c", "drop table c; create table d (id int); insert into d values (7)"]

    def looked(catalog: Catalog) -> Any:
        found = names(catalog)
        if changes and threading.current_thread() is threading.main_thread() and "begun_with_tables" in callers():
            run_sql(server, database, changes.pop(0))
        return found

    monkeypatch.setattr(Catalog, "names", looked)
    task = begun(server, database, None, **{"topic.prefix": f"look_{database}"})
    found = read_until_quiet(task, None, 0.3)
    task.stop()
    assert not changes
    assert (len(told(found, "b")), told(found, "d")) == (30, [("r", 7)])
    assert told(found, "a") == told(found, "c") == []


def callers() -> list[str]:
    import inspect

    return [each.function for each in inspect.stack()]


def test_a_statement_that_alters_a_table_is_waited_for_by_name_and_ends_nothing(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(table_locks, "LOCK_SECONDS", 1)
    run_sql(server, database, TABLES)
    # one before: a slot is not made while a transaction of somebody else runs
    settings, store = {"topic.prefix": f"busy_{database}"}, Store()
    begun(server, database, store, **settings).stop()
    with connected(server, database) as connection:
        connection.execute("begin")
        connection.execute("alter table b rename v to w")
        tasks: list[Any] = []
        thread = threading.Thread(target=lambda: tasks.append(begun(server, database, store, **settings)))
        thread.start()
        until(lambda: "is being altered by somebody" in caplog.text, "a word about the table")
        assert "lock timeout" in caplog.text
        connection.execute("commit")
    thread.join()
    found = read_until_quiet(tasks[0], None, 0.3)
    tasks[0].stop()
    assert [len(told(found, each)) for each in "ab"] == [30, 30]
    assert "w" in [each.name for each in found[-1].value["after"].schema.struct_fields]


def test_an_error_has_no_more_than_the_beginning_of_a_long_statement(server: PostgresServer, database: str) -> None:
    settings = {"topic.prefix": f"long_{database}", "snapshot.mode": "no_data", "heartbeat.interval.ms": "1"}
    listed = ", ".join(f"nothing_{at}" for at in range(5000))
    task = begun(server, database, None, **settings, **{"heartbeat.action.query": f"lock table {listed}"})
    with pytest.raises(ConnectError, match="lock table nothing_0") as raised:
        until(lambda: polled(task) and None, "the heartbeat")
    task.stop()
    assert len(str(raised.value)) < 1_000


def test_a_snapshot_is_not_ended_by_serializable_transactions_of_others(server: PostgresServer, database: str) -> None:
    run_sql(
        server,
        database,
        "create table batch (id int primary key, n int); insert into batch values (1, 1); "
        "create table receipts (id int primary key, n int)",
    )
    serializable = "-c default_transaction_isolation=serializable"
    with (
        connected(server, database, options=serializable) as first,
        connected(server, database, options=serializable) as second,
    ):
        first.execute("begin")
        first.execute("select n from batch").fetchall()
        second.execute("update batch set n = 2")
        task = begun(server, database, None, **{"topic.prefix": f"anomaly_{database}"})
        first.execute("insert into receipts values (1, 1)")
        first.execute("commit")
        found = read_until_quiet(task, None, 0.3)
    task.stop()
    assert told(found, "batch") == [("r", 1)] and told(found, "receipts") == [("c", 1)]
