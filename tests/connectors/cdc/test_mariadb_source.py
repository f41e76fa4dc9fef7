"""The MariaDB source on a real server: it goes on exactly where it was, loses nothing, and refuses where it would."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError, SourceRecord
from ottla.connect.tasks.transaction_context import BoundaryRequests
from ottla.connectors.cdc import MariaDbConnector, MySqlConnector
from tests.connectors.cdc.mariadb_replay import begun, connected, props_of, read, run_sql
from tests.connectors.cdc.replay import read_until_quiet
from tests.connectors.contexts import Store, started
from tests.waiting import until
from tools.mariadb import CAPTURED, MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as found:
        yield found


@pytest.fixture
def database(server: MariaDbServer) -> str:
    name = server.new_database()
    run_sql(server, f"create database {name} character set utf8mb4")
    return name


def told(records: list[SourceRecord]) -> list[Any]:
    """Operation and number of each change; None for tombstones."""
    found = []
    for each in records:
        value = each.value
        row = None if value is None else value["after"] or value["before"]
        found.append(None if row is None else (value["op"], row["id"]))
    return found


def settings_of(database: str, **more: str) -> dict[str, str]:
    return {
        "topic.prefix": f"p_{database}",
        "database.include.list": database,
        "include.schema.changes": "false",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def test_a_task_goes_on_behind_whatever_was_stored(server: MariaDbServer, database: str, tmp_path: Path) -> None:
    run_sql(server, "create table t (id int primary key, v text); insert into t values (0, 'x')", database)
    history, store, settings = tmp_path / "history", Store(), settings_of(database)
    task = begun(server, history, store, **settings)
    assert told(read(task, 1, store)) == [("r", 0)]
    run_sql(
        server,
        "begin; insert into t (id) values (1), (2); update t set id = 3 where id = 2; commit; delete from t where id = 1; "
        "begin; insert into t (id) values (10), (11), (12); insert into t (id) values (13); commit",
        database,
    )
    whole = read(task, 11)
    task.stop()
    assert told(whole)[:2] == [("c", 1), ("c", 2)] and len(whole) == 11
    snapshot = dict(store.offsets)
    for cut in range(len(whole) + 1):
        again = Store()
        again.offsets = dict(snapshot)
        again.take(whole[:cut])
        stored = max((at + 1 for at in range(cut) if whole[at].source_offset is not None), default=0)
        task = begun(server, history, again, **settings)
        found = read(task, len(whole) - stored)
        task.stop()
        assert told(found) == told(whole)[stored:], f"after {cut} records, of which {stored} were stored"


def test_rows_are_read_by_the_table_as_it_was_when_they_were_written(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, "create table t (id int primary key, a varchar(5), b int)", database)
    history, store, settings = tmp_path / "history", Store(), settings_of(database, snapshot_mode="no_data")
    task = begun(server, history, store, **settings)
    read(task, 1, store)
    task.stop()
    run_sql(  # all of it while nobody reads: the server has the table's last form alone
        server,
        "insert into t values (1, 'one', 10); alter table t drop column a, add c decimal(6,2) first, change b bb bigint; "
        "insert into t values (1.5, 2, 20); alter table t modify c varchar(10) after bb; alter table t rename to u; "
        "insert into u values (3, 30, 'three'); alter table u add primary key_part int default 7, drop primary key, "
        "add primary key (id, bb); insert into u (id, bb, c) values (4, 40, 'four'); drop table u".replace(
            "add primary key_part int", "add column key_part int"
        ),
        database,
    )
    task = begun(server, history, store, **settings)
    found = read(task, 4)
    task.stop()
    rows = [{f.name: each.value["after"][f.name] for f in each.value["after"].schema.struct_fields} for each in found]
    assert [{name: str(value) for name, value in row.items()} for row in rows] == [
        {"id": "1", "a": "one", "b": "10"},
        {"c": "1.50", "id": "2", "bb": "20"},
        {"id": "3", "bb": "30", "c": "three"},
        {"id": "4", "bb": "40", "c": "four", "key_part": "7"},
    ]
    assert [each.topic for each in found] == [f"p_{database}.{database}.{name}" for name in ("t", "t", "u", "u")]
    assert [each.key.values for each in found] == [[1], [2], [3], [4, 40]]
    again = Store()
    again.offsets = dict(store.offsets)
    for cut in range(len(found)):  # whichever row it goes on behind, it follows the history as far as that
        again.take(found[: cut + 1])
        task = begun(server, history, again, **settings)
        assert told(read(task, 3 - cut)) == told(found)[cut + 1 :]
        task.stop()


def test_a_snapshot_beside_writers_has_each_row_once(server: MariaDbServer, database: str, tmp_path: Path) -> None:
    rows = ", ".join(["(0)"] * 500)
    run_sql(
        server, f"create table t (id int primary key auto_increment, v int); insert into t (v) values {rows}", database
    )
    ending = threading.Event()

    def write() -> None:
        with connected(server, database) as connection, connection.cursor() as cursor:
            while not ending.is_set():
                cursor.execute("insert into t (v) values (1), (2)")

    writers = [threading.Thread(target=write) for _ in range(2)]
    for each in writers:
        each.start()
    records: list[SourceRecord] = []
    try:
        task = begun(server, tmp_path / "history", None, **settings_of(database, snapshot_fetch_size="50"))
        until(lambda: records.extend(task.poll() or ()) or sum(op == "c" for op, _ in told(records)) > 300, "changes")
    finally:
        ending.set()
        for each in writers:
            each.join()
    records += read_until_quiet(task, None, 0.5)
    task.stop()
    counted = Counter(number for _, number in told(records))
    assert set(counted.values()) == {1}, [each for each in counted.items() if each[1] > 1][:5]
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("select id from t order by id")
        assert sorted(counted) == [number for (number,) in cursor.fetchall()]


def test_a_server_that_crashes_is_read_on_behind_what_was_told(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server([*CAPTURED, "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"]) as server:
        run_sql(server, "create database d; create table d.t (id int primary key)")
        task = begun(server, tmp_path / "history", None, **settings_of("d"))
        records = read(task, 1)
        run_sql(server, "insert into d.t values (1), (2)")
        records += read(task, 2)
        server.kill()
        assert not task.poll()
        server.start()
        run_sql(server, "insert into d.t values (3)")
        until(lambda: records.extend(task.poll() or ()) or ("c", 3) in told_rows(records), "the rows behind the crash")
        task.stop()
        assert told_rows(records) == [("c", 1), ("c", 2), ("c", 3)]


def told_rows(records: list[SourceRecord]) -> list[Any]:
    return told([each for each in records if each.topic is not None and not each.topic.startswith("__")])


def test_where_changes_would_be_lost_the_task_says_so_and_what_to_do(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as server:
        run_sql(server, "create database d; create table d.t (id int primary key); insert into d.t values (1)")
        history, store, settings = tmp_path / "history", Store(), settings_of("d")
        task = begun(server, history, store, **settings)
        assert told(read(task, 1, store)) == [("r", 1)]
        run_sql(server, "insert into d.t values (2)")
        assert told(read(task, 1, store)) == [("c", 2)]
        task.stop()
        with pytest.raises(ConnectError, match="history is empty or gone"):
            begun(server, tmp_path / "another", store, **settings)
        run_sql(server, "insert into d.t values (3)")
        task = begun(server, tmp_path / "another", store, **{**settings, "snapshot.mode": "recovery"})
        assert told(read(task, 1)) == [("c", 3)]
        task.stop()
        run_sql(server, "flush binary logs; insert into d.t values (4); flush binary logs; insert into d.t values (5)")
        with connected(server) as connection, connection.cursor() as cursor:
            cursor.execute("show binary logs")
            last = cursor.fetchall()[-1][0]
            until(lambda: purged(cursor, last), "the binlog purged")
        with pytest.raises(ConnectError, match=r"no longer the part of its binlog.*when_needed"):
            begun(server, history, store, **settings)
        task = begun(server, history, store, **{**settings, "snapshot.mode": "when_needed"})
        assert told(read(task, 5)) == [("r", number) for number in range(1, 6)]
        task.stop()


def purged(cursor: Any, last: str) -> bool:
    cursor.execute(f"purge binary logs to '{last}'")
    cursor.execute("show binary logs")
    return len(cursor.fetchall()) == 1


def test_never_begins_with_what_is_left_of_the_binlog(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as server:
        run_sql(
            server,
            "create database d; create table d.t (id int primary key); insert into d.t values (1); "
            "set gtid_domain_id = 7; insert into d.t values (2); set gtid_domain_id = 0; insert into d.t values (3); "
            "flush binary logs; insert into d.t values (4)",
        )
        with connected(server) as connection, connection.cursor() as cursor:
            cursor.execute("show binary logs")
            last = cursor.fetchall()[-1][0]
            until(lambda: purged(cursor, last), "the binlog purged")
        store, settings = Store(), settings_of("d", snapshot_mode="never")
        task = begun(server, tmp_path / "history", store, **settings)
        assert told(read(task, 1, store)) == [("c", 4)]
        task.stop()
        run_sql(server, "create table d.u (id int primary key); insert into d.u values (5)")
        for mode in ("never", "recovery"):
            task = begun(server, tmp_path / mode, store, **{**settings, "snapshot.mode": mode})
            assert told(read(task, 1)) == [("c", 5)]
            task.stop()
        task = begun(server, tmp_path / "lost", store, **{**settings, "snapshot.mode": "when_needed"})
        assert [op for op, _ in told(read(task, 5))] == ["r"] * 5
        task.stop()


def test_truncates_masks_headers_and_heartbeats_are_as_they_are_asked_for(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(
        server,
        "create table t (id int primary key, secret varchar(20), `left` int); create table other (id int primary key); "
        "insert into t values (1, 'hidden', 5)",
        database,
    )
    own = {
        "skipped.operations": "none",
        "column.mask.with.3.chars": f"{database}\\.t\\.secret",
        "column.exclude.list": f"{database}\\.t\\.left",
        "table.include.list": f"{database}\\.t",
        "heartbeat.interval.ms": "100",
        "heartbeat.action.query": f"replace into {database}.other values (1)",
    }
    store = Store()
    task = begun(server, tmp_path / "history", store, **settings_of(database), **own)
    records: list[SourceRecord] = []
    until(
        lambda: records.extend(task.poll() or ()) or any("heartbeat" in str(each.topic) for each in records), "a beat"
    )
    run_sql(server, "insert into t values (2, 'x', 1); truncate table t; insert into other values (2)", database)
    until(lambda: records.extend(task.poll() or ()) or ops(records)[-1:] == ["t"], "the truncate")
    task.stop()
    assert ops(records) == ["r", "c", "t"]
    after = records[0].value["after"]
    assert [each.name for each in after.schema.struct_fields] == ["id", "secret"] and after["secret"] == "***"


def ops(records: list[SourceRecord]) -> list[str]:
    return [each.value["op"] for each in records if each.topic is not None and not each.topic.startswith("__")]


def test_transactions_of_two_phases_and_tables_without_transactions_are_told(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, "create table t (id int primary key); create table m (id int primary key) engine=MyISAM", database)
    history, store = tmp_path / "history", Store()
    more = {"provide.transaction.metadata": "true", "snapshot.mode": "no_data"}
    task = begun(server, history, store, **settings_of(database), **more)
    read(task, 1, store)
    run_sql(
        server,
        "xa start 'x'; insert into t values (1); xa end 'x'; xa prepare 'x'; xa commit 'x'; insert into m values (1), (2); "
        "begin; insert into m values (3); insert into t values (2); rollback; "
        "create table made select 5 as id, 'x' as v; insert into t values (3)",
        database,
    )
    found = read(task, 16)
    task.stop()
    rows = [each for each in found if not str(each.topic).endswith(".transaction")]
    assert told(rows) == [("c", 1), ("c", 1), ("c", 2), ("c", 3), ("c", 5), ("c", 3)]
    statuses = [each.value["status"] for each in found if str(each.topic).endswith(".transaction")]
    assert statuses[::2] == ["BEGIN"] * (len(statuses) // 2) and statuses[1::2] == ["END"] * (len(statuses) // 2)
    for cut in range(len(found)):
        again = Store()
        again.offsets = dict(store.offsets)
        again.take(found[: cut + 1])
        stored = max((at + 1 for at in range(cut + 1) if found[at].source_offset is not None), default=0)
        task = begun(server, history, again, **settings_of(database), **more)
        left = read(task, len(found) - stored)
        task.stop()
        assert [each.topic for each in left] == [each.topic for each in found[stored:]], cut


def test_a_snapshot_is_one_transaction_where_the_connector_sets_their_bounds(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, "create table t (id int primary key); insert into t select seq from seq_1_to_20", database)
    store, settings = Store(), settings_of(database, max_batch_size="10")
    task = begun(server, tmp_path / "history", store, **settings)
    task.context.transaction = bounds = BoundaryRequests()
    for is_last in (False, True):
        polled = task.poll()
        store.take(polled)
        assert [len(polled), bounds.takes_batch_commit()] == [10, is_last]
    assert task.poll() is None or not bounds.takes_batch_commit(), "nothing to be committed"
    run_sql(server, "insert into t values (21)", database)
    assert told(read(task, 1)) == [("c", 21)] and bounds.takes_batch_commit()
    task.stop()
    task = begun(server, tmp_path / "history", store, **settings)
    assert told(read(task, 1)) == [("c", 21)], "the snapshot is complete, with a last batch that was full"
    task.stop()


def test_a_lock_that_does_not_come_is_said(server: MariaDbServer, database: str, tmp_path: Path) -> None:
    run_sql(server, "create table t (id int primary key)", database)
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("lock tables t write")
        with pytest.raises(ConnectError, match="Lock wait timeout"):
            begun(server, tmp_path / "history", None, **settings_of(database), **{"snapshot.lock.timeout.ms": "1000"})
        own = {"snapshot.locking.mode": "none", "table.include.list": "nothing"}
        cursor.execute("unlock tables")
        begun(server, tmp_path / "history", None, **settings_of(database), **own).stop()


def test_what_a_server_lacks_is_said_in_words_that_help(server: MariaDbServer, tmp_path: Path) -> None:
    def wrong(connector: Any = MariaDbConnector, **settings: str) -> str:
        props = props_of(server, tmp_path / "history", **{"topic.prefix": "w", **settings})
        return str([each.errors for each in connector().validate(props).values() if each.errors])

    assert wrong() == "[]"
    assert "Access denied" in wrong(database_user="nobody")
    assert "use io.debezium.connector.mariadb.MariaDbConnector" in wrong(MySqlConnector)
    assert "kafka.topic and" in wrong(
        **{"schema.history.internal": "io.debezium.storage.kafka.history.KafkaSchemaHistory"}
    )
    assert "is none of" in wrong(**{"database.ssl.mode": "often"})
    run_sql(server, "create user 'weak'@'127.0.0.1' identified by 'w'; set global binlog_format = 'MIXED'")
    try:
        assert "binlog_format is MIXED" in wrong()
    finally:
        run_sql(server, "set global binlog_format = 'ROW'")
    weak = {"database.user": "weak", "database.password": "w", "topic.prefix": "weak"}
    with pytest.raises(ConnectError, match="GRANT SELECT, RELOAD"):
        started(MariaDbConnector.task_class(), props_of(server, tmp_path / "weak", **weak))
    with private_server(["--server-id=1"]) as bare:
        assert "start it with --log-bin" in str(
            [
                each.errors
                for each in MariaDbConnector()
                .validate(props_of(bare, tmp_path / "history", **{"topic.prefix": "w"}))
                .values()
            ]
        )
