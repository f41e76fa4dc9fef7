"""The PostgreSQL source on a real server: it goes on exactly where it was, loses nothing, and refuses where it would."""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Any

import pytest

from ottla.connect import ConnectError, DataError, SourceRecord
from ottla.connect.tasks.transaction_context import BoundaryRequests
from ottla.connectors.cdc import PostgresConnector, pgoutput
from tests.connectors.cdc.replay import begun, connected, logical_server, read_until_quiet, run_sql
from tests.connectors.contexts import Store, polled
from tests.waiting import until
from tools.postgres import PASSWORD, USER, PostgresServer, private_cluster

pytestmark = pytest.mark.timeout(180)


def told(records: list[SourceRecord]) -> list[Any]:
    """Operation and number of each change; None for tombstones."""
    found = []
    for each in records:
        value = each.value
        row = None if value is None else value["after"] or value["before"]
        found.append(None if row is None else (value["op"], row["id"]))
    return found


def read_until(task: Any, found: list[SourceRecord], count: int, missing: str) -> None:
    """Poll until so many records are there."""
    until(lambda: found.extend(polled(task)) or len(found) >= count, missing, every=0)


def test_a_task_goes_on_behind_whatever_was_stored(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key, v text); insert into t values (0, 'x')")
    settings = {"topic.prefix": f"on_{database}"}
    store = Store()
    task = begun(server, database, store, **settings)
    assert told(read_until_quiet(task, store, 0.2)) == [("r", 0)]
    run_sql(
        server,
        database,
        "begin; insert into t values (1), (2); update t set id = 3 where id = 2; commit; delete from t where id = 1; "
        "begin; insert into t select g from generate_series(10, 14) g; commit",
    )
    whole = read_until_quiet(task, None, 0.3)
    task.stop()
    assert told(whole)[:2] == [("c", 1), ("c", 2)] and len(whole) == 12
    snapshot = dict(store.offsets)
    for cut in range(len(whole) + 1):
        again = Store()
        again.offsets = dict(snapshot)
        again.take(whole[:cut])
        stored = max((at + 1 for at in range(cut) if whole[at].source_offset is not None), default=0)
        task = begun(server, database, again, **settings)
        found = read_until_quiet(task, None, 0.2)
        task.stop()
        assert told(found) == told(whole)[stored:], f"after {cut} records, of which {stored} were stored"


def test_a_snapshot_beside_writers_has_each_row_once(server: PostgresServer, database: str) -> None:
    run_sql(
        server,
        database,
        "create table t (id serial primary key, v int); insert into t (v) select 0 from generate_series(1, 500)",
    )
    ending = threading.Event()

    def write() -> None:
        with connected(server, database) as connection:
            while not ending.is_set():
                with connection.transaction():
                    connection.execute("insert into t (v) values (1), (2)")

    writers = [threading.Thread(target=write) for _ in range(2)]
    for each in writers:
        each.start()
    try:
        task = begun(server, database, None, **{"topic.prefix": f"beside_{database}", "snapshot.fetch.size": "50"})
        records: list[SourceRecord] = []
        until(lambda: records.extend(polled(task)) or sum(op == "c" for op, _ in told(records)) > 300, "changes")
    finally:
        ending.set()
        for each in writers:
            each.join()
    records += read_until_quiet(task, None, 0.3)
    task.stop()
    counted = Counter(number for _, number in told(records))
    assert set(counted.values()) == {1}, [each for each in counted.items() if each[1] > 1][:5]
    with connected(server, database) as connection:
        [[rows]] = connection.execute("select array_agg(id order by id) from t").fetchall()
    assert sorted(counted) == rows


def test_the_slot_is_confirmed_up_to_what_was_stored_and_no_further(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key)")
    store = Store()
    task = begun(server, database, store, **{"topic.prefix": f"slot_{database}", "snapshot.mode": "no_data"})
    run_sql(server, database, "insert into t values (1)")
    first = read_until_quiet(task, None, 0.2)
    before = confirmed(server, database, f"slot_slot_{database}")
    task.commit()
    assert confirmed(server, database, f"slot_slot_{database}") == before, "nothing is stored"
    store.take(first)
    task.commit()
    until(lambda: confirmed(server, database, f"slot_slot_{database}") > before, "the slot moves")
    task.stop()


def confirmed(server: PostgresServer, database: str, slot: str) -> int:
    with connected(server, database) as connection:
        query = "select (confirmed_flush_lsn - '0/0')::bigint from pg_replication_slots where slot_name = %s"
        [[found]] = connection.execute(query, (slot,)).fetchall()
    return int(found)


def test_where_changes_would_be_lost_the_task_says_so_and_what_to_do(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key); insert into t values (1)")
    settings = {"topic.prefix": f"lost_{database}"}
    slot, store = f"slot_lost_{database}", Store()
    task = begun(server, database, store, **settings)
    read_until_quiet(task, store, 0.2)
    with pytest.raises(ConnectError, match="is read by somebody else"):
        begun(server, database, store, **settings, **{"slot.max.retries": "0"}).poll()
    task.stop()
    run_sql(server, database, "insert into t values (2)")
    run_sql(server, database, f"select pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    with pytest.raises(ConnectError, match=r"was read up to .*when_needed"):
        begun(server, database, store, **settings)
    run_sql(server, database, f"select pg_drop_replication_slot('{slot}')")
    with pytest.raises(ConnectError, match="is gone, and the changes since"):
        begun(server, database, store, **settings)
    task = begun(server, database, store, **settings, **{"snapshot.mode": "when_needed"})
    assert told(read_until_quiet(task, store, 0.2)) == [("r", 1), ("r", 2)]
    task.stop()
    run_sql(server, database, f"drop publication pub_lost_{database}; create publication pub_lost_{database}")
    with pytest.raises(ConnectError, match="lacks tables to be captured"):
        begun(server, database, store, **settings)


def test_a_server_that_went_away_is_read_on_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connectors.cdc.capture_task.RETRY_SECONDS", 0.1)
    with logical_server() as server:  # its own, since it is killed
        name = server.new_database()
        run_sql(server, name, "create table t (id int primary key)")
        store = Store()
        task = begun(server, name, store, **{"topic.prefix": "away"})
        run_sql(server, name, "insert into t values (1)")
        assert told(read_until_quiet(task, store, 0.2)) == [("c", 1)]
        server.kill()
        assert task.poll() is None
        server.start()
        run_sql(server, name, "insert into t values (2)")
        records: list[SourceRecord] = []
        until(lambda: records.extend(polled(task)) or records, "the change behind the crash")
        assert told(records) == [("c", 2)]
        task.stop()


def test_a_task_is_stopped_from_another_thread_while_it_waits(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key)")
    task = begun(server, database, None, **{"topic.prefix": f"stop_{database}", "poll.interval.ms": "3600000"})
    assert task.poll() is None, "of a table without rows"
    waiting = threading.Thread(target=task.poll)
    waiting.start()
    until(lambda: is_active(server, database, f"slot_stop_{database}"), "the slot is read")
    task.stop()
    waiting.join(30)
    assert not waiting.is_alive() and task.poll() is None


def is_active(server: PostgresServer, database: str, slot: str) -> bool:
    with connected(server, database) as connection:
        query = "select active from pg_replication_slots where slot_name = %s"
        [[found]] = connection.execute(query, (slot,)).fetchall()
    return bool(found)


def test_a_message_that_cannot_be_read_is_told_at_once_and_not_tried_for_ever(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sql(server, database, "create table t (id int primary key)")
    settings = {"topic.prefix": f"bad_{database}", "snapshot.mode": "no_data"}
    task = begun(server, database, None, **settings)
    decode = pgoutput.decode
    monkeypatch.setattr(pgoutput, "decode", lambda data, *rest: decode(data[:3], *rest))
    run_sql(server, database, "insert into t values (1)")
    with pytest.raises(DataError, match="no message of pgoutput"):
        read_until_quiet(task, None, 1.0)
    task.stop()


def test_values_at_the_ends_of_their_types_arrive_and_what_cannot_be_written_is_named(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(
        server,
        database,
        "create table t (id int primary key, n numeric, d date, ts timestamp, tz timestamptz, i interval, a int[]); "
        "insert into t values "
        "(1, 10::numeric ^ 5000, '0044-03-15 BC', 'infinity', '-infinity', '-1 mon 2 days', '{{1,2},{3,4}}')",
    )
    task = begun(server, database, None, **{"topic.prefix": f"ends_{database}"})
    [record] = read_until_quiet(task, None, 0.2)
    row = record.value["after"]
    number = row["n"]
    assert int.from_bytes(number["value"], "big") == 10 ** (5000 + number["scale"])
    assert (row["d"], row["ts"], row["tz"]) == (-735_160, (1 << 63) - 1, "-infinity")
    assert (row["i"], row["a"]) == (-int(28.4375 * 86_400_000_000), [1, 2, 3, 4])
    run_sql(server, database, "insert into t (id, n) values (2, 'NaN')")
    assert read_until_quiet(task, None, 0.3) == []
    task.stop()
    assert re.search(r"Column public.t.n cannot be written: .*decimal.handling.mode=string", caplog.text)


def test_a_configuration_that_cannot_work_is_refused_by_name(server: PostgresServer) -> None:
    given = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": "wrong",
        "database.dbname": "postgres",
        "topic.prefix": "p",
    }

    def wrong(**more: str) -> dict[str, list[str]]:
        props = {**given, **{name.replace("_", "."): value for name, value in more.items()}}
        return {key: each.errors for key, each in PostgresConnector().validate(props).items() if each.errors}

    assert "output plugin that is read here" in wrong()["plugin.name"][0]
    refused = wrong(plugin_name="pgoutput")["database.hostname"][0]
    assert "cannot be reached" in refused and "wrong" not in refused
    masks = wrong(**{"plugin_name": "pgoutput", "column.mask.with.few.chars": "a.b"})["column.exclude.list"][0]
    assert "column.mask.with.few.chars is no setting" in masks
    assert "table.include.list" in wrong(plugin_name="pgoutput", table_include_list="a(")
    with private_cluster() as plain:
        own = {"plugin_name": "pgoutput", "database_port": str(plain.port), "database_password": PASSWORD}
        assert "wal_level=logical alone" in wrong(**own)["database.hostname"][0]


def test_a_task_that_ends_between_any_two_messages_of_the_stream_goes_on_without_a_gap_or_a_repetition(
    server: PostgresServer, database: str
) -> None:
    """With one message in each poll: behind a BEGIN, between rows of a COPY, before a COMMIT."""
    run_sql(server, database, "create table t (id int primary key, v text)")
    settings = {"topic.prefix": f"any_{database}", "snapshot.mode": "no_data", "provide.transaction.metadata": "true"}
    task = begun(server, database, None, **settings)
    run_sql(server, database, "insert into t values (0, 'x')")
    with connected(server, database) as connection:
        with connection.cursor() as cursor, cursor.copy("copy t from stdin") as copy:
            for each in range(1, 5):
                copy.write_row((each, "copied"))
        connection.execute("begin; update t set id = 9 where id = 2; delete from t where id = 1; commit")
    whole = read_until_quiet(task, None, 0.3)
    task.stop()
    assert [each.value["status"] for each in whole if in_transaction_topic(each)] == ["BEGIN", "END"] * 3
    slot = f"slot_any_{database}"
    for cut in range(len(whole) + 4):
        again, own = (
            Store(),
            {**settings, "slot.name": f"{slot}_copy"},
        )  # what is stored is confirmed, so a slot for each
        run_sql(server, database, f"select pg_copy_logical_replication_slot('{slot}', '{slot}_copy')")
        task = begun(server, database, again, **own, **{"max.batch.size": "1"})
        found: list[SourceRecord] = []
        for _ in range(cut):
            records = polled(task)
            again.take(records)
            found += records
        task.stop()
        task = begun(server, database, again, **own, **{"slot.drop.on.stop": "true"})
        missing = f"what comes behind {cut} polls"
        read_until(task, found, len(whole), missing)
        found += read_until_quiet(task, None, 0.05)
        task.stop()
        assert [gist(each) for each in found] == [gist(each) for each in whole], f"ended after {cut} polls"


def test_a_snapshot_is_one_transaction_where_the_connector_sets_their_bounds(
    server: PostgresServer, database: str
) -> None:
    run_sql(server, database, "create table t (id int primary key); insert into t select generate_series(1, 20)")
    store, settings = Store(), {"topic.prefix": f"one_{database}", "max.batch.size": "10", "snapshot.fetch.size": "10"}
    task = begun(server, database, store, **settings)
    task.context.transaction = bounds = BoundaryRequests()
    for is_last in (False, True):
        found = polled(task)
        store.take(found)
        assert [len(found), bounds.takes_batch_commit()] == [10, is_last]
    assert task.poll() is None and not bounds.takes_batch_commit(), "nothing to be committed"
    run_sql(server, database, "insert into t values (21)")
    assert told(read_until_quiet(task, None, 0.3)) == [("c", 21)] and bounds.takes_batch_commit()
    task.stop()
    task = begun(server, database, store, **settings)
    assert told(read_until_quiet(task, None, 0.3)) == [("c", 21)], "the snapshot is complete, its last batch was full"
    task.stop()


def in_transaction_topic(record: SourceRecord) -> bool:
    return (record.topic or "").endswith(".transaction")


def gist(record: SourceRecord) -> Any:
    """What a record says, but for times."""
    value = record.value
    if value is None or in_transaction_topic(record):
        return record.topic, None if value is None else (value["status"], value["id"], value["event_count"])
    return value["op"], value["source"]["lsn"], value["transaction"].values, repr(value["after"])
