"""Signals to a running MariaDB connector: tables read in chunks beside the stream, with marks and without."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError, SourceRecord
from ottla.connectors.cdc import MariaDbConnector, capture_task, chunks
from ottla.connectors.cdc.chunks import Chunks
from tests.connectors.cdc.mariadb_replay import begun, connected, props_of, run_sql
from tests.connectors.cdc.replay import read_until_quiet
from tests.connectors.cdc.test_signals import is_complete, polled_until, rows, state
from tests.connectors.contexts import Store
from tests.server import running_server
from tests.waiting import until
from tools.mariadb import MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)
SIGNALS = "create table signals (id varchar(42) primary key, type varchar(32) not null, data varchar(2048))"
LATER = "create table later (a int, b varchar(20), v int, primary key (a, b))"
QUIET_SECONDS = 0.4


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as found:
        yield found


@pytest.fixture
def database(server: MariaDbServer) -> str:
    name = server.new_database()
    run_sql(server, f"create database {name} character set utf8mb4; use {name}; {SIGNALS}; {LATER}")
    return name


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has gone away is tried again at once, not after five seconds."""
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)


def settings_of(database: str, **more: str) -> dict[str, str]:
    given = {
        "topic.prefix": f"sig_{database}",
        "database.include.list": database,
        "snapshot.mode": "no_data",
        "include.schema.changes": "false",
        "signal.data.collection": f"{database}.signals",
        "incremental.snapshot.chunk.size": "3",
    }
    return {**given, **more}


def asked(type_: str, **data: Any) -> tuple[str, str]:
    return type_, json.dumps({name.replace("_", "-"): value for name, value in data.items()})


def signal(server: MariaDbServer, database: str, *signals: tuple[str, str]) -> None:
    """Write signals, all in one transaction."""
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("begin")
        for type_, data in signals:
            cursor.execute("insert into signals values (%s, %s, %s)", (f"s{random.random()}", type_, data))
        cursor.execute("commit")


def read_rows(task: Any, count: int, table_: str = "later", store: Store | None = None) -> list[SourceRecord]:
    """Poll until so many records of a table have come, and for a moment longer: one too many is found, too."""
    found: list[SourceRecord] = []

    def enough() -> bool:
        polled = task.poll() or []
        found.extend(polled)
        if store is not None:
            store.take(polled)
        return len(rows(found, table_)) >= count

    until(enough, lambda: f"{count} rows, of which there are {len(rows(found, table_))}", every=0)
    return found + read_until_quiet(task, store, QUIET_SECONDS)


def snapshot_of(database: str, *tables: str, **more: Any) -> tuple[str, str]:
    return asked("execute-snapshot", data_collections=[f"{database}.{each}" for each in tables], **more)


def table(server: MariaDbServer, database: str) -> dict[tuple[Any, ...], Any]:
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("select a, b, v from later")
        return {(a, b): (a, b, v) for a, b, v in cursor.fetchall()}


@pytest.mark.parametrize("way", ["insert_insert", "insert_delete", "read_only"])
def test_what_changes_beside_a_chunk_is_not_overwritten_by_what_was_read(
    server: MariaDbServer, database: str, tmp_path: Path, way: str
) -> None:
    run_sql(server, "insert into later select seq, 'k', 0 from seq_1_to_200", database)
    path = tmp_path / "signals.txt"
    own = (
        {
            "read.only": "true",
            "signal.enabled.channels": "file",
            "signal.file": str(path),
            "signal.poll.interval.ms": "50",
        }
        if way == "read_only"
        else {"incremental.snapshot.watermarking.strategy": way}
    )
    ending, chance = threading.Event(), random.Random(3)

    def write() -> None:
        with connected(server, database) as connection, connection.cursor() as cursor:
            for turn in range(1, 2_000):
                if ending.is_set():
                    return
                a = chance.randrange(1, 220)
                cursor.execute("insert into later values (%s, 'k', 1) on duplicate key update v = v + 1", (a,))
                cursor.execute("delete from later where a = %s", (chance.randrange(1, 220),))
                moved = 1000 * turn, chance.randrange(1, 220)
                cursor.execute("update later set a = a + %s where a = %s", moved)

    task = begun(server, tmp_path / "history", None, **settings_of(database, **own))
    if way == "read_only":
        type_, data = snapshot_of(database, "later")
        path.write_text(json.dumps({"id": "s", "type": type_, "data": json.loads(data)}) + "\n")
    else:
        signal(server, database, snapshot_of(database, "later"))
    writer = threading.Thread(target=write)
    writer.start()
    records: list[SourceRecord] = []
    try:
        until(lambda: records.extend(task.poll() or ()) or is_complete(records), "the snapshot", every=0)
    finally:
        ending.set()
        writer.join()
    records += read_until_quiet(task, None, QUIET_SECONDS)
    task.stop()
    assert state(records) == table(server, database)
    assert sum(op == "r" for op, _, _ in rows(records)) > 20
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from signals where type like 'snapshot-window%'")
        [marks] = cursor.fetchone() or [None]
    assert (marks > 0) == (way == "insert_insert")


def test_a_snapshot_goes_on_behind_the_last_chunk_that_was_stored(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, "insert into later select seq, 'k', seq from seq_1_to_20", database)
    store, settings = Store(), settings_of(database)
    task = begun(server, tmp_path / "history", store, **settings)
    read_until_quiet(task, store, QUIET_SECONDS)
    signal(server, database, snapshot_of(database, "later"))
    first: list[SourceRecord] = []
    while len(rows(first)) < 8:
        polled = task.poll() or []
        first += polled
        store.take(polled)
    task.stop()
    run_sql(server, "update later set v = -1 where a in (2, 19)", database)
    task = begun(server, tmp_path / "history", store, **settings)
    second = read_rows(task, 20 - len(rows(first)) + 1, store=store)
    task.stop()
    read = [row[0] for op, _, row in rows(first) + rows(second) if op == "r"]
    assert sorted(read) == [*range(1, 21)], "each row once"
    assert state(first + second) == table(server, database)
    assert not any(name.startswith("incremental_") for name in next(iter(store.offsets.values())))


def test_a_snapshot_is_paused_resumed_and_stopped(server: MariaDbServer, database: str, tmp_path: Path) -> None:
    run_sql(server, "insert into later select seq, 'k', seq from seq_1_to_40; create table more (id int)", database)
    task = begun(server, tmp_path / "history", None, **settings_of(database))
    signal(server, database, asked("pause-snapshot"), snapshot_of(database, "later", "more"))
    assert rows(read_rows(task, 2, "signals")) == []
    signal(server, database, asked("resume-snapshot"))
    until(lambda: len(rows(task.poll() or [])) > 0, "rows")
    signal(server, database, asked("stop-snapshot"))
    left = read_until_quiet(task, None, QUIET_SECONDS)
    task.stop()
    assert len(rows(left)) < 37 and left[-1].source_offset is not None
    assert not any(name.startswith("incremental_") for name in left[-1].source_offset)


KEYS = {
    "bigint unsigned": [*range(5), (1 << 64) - 2, (1 << 64) - 1],
    "decimal(30,3)": ["-1.500", "0.000", "12345678901234567890.125", "12345678901234567890.126"],
    "varchar(30)": ["", "a'b", "B", "c\\d", "é", 'x"%s', "日本"],
    "varbinary(9)": [b"", b"\0", b"'", b"\\", b"\xff", b"\xff\0"],
    "enum('z','y','x','w')": ["z", "y", "x", "w"],
    "set('z','y')": ["", "z", "y", "z,y"],
    "datetime(3)": ["1970-01-01 00:00:00.001", "1999-12-31 23:59:59.999", "2000-01-01 00:00:00", "2038-01-20 00:00:00"],
    "timestamp(6)": ["2020-01-01 00:00:00.000001", "2020-01-01 00:00:00.000002", "2030-01-01 00:00:00"],
    "date": ["1000-01-01", "2020-02-29", "9999-12-31"],
    "time(2)": ["-10:00:00.50", "-00:00:00.01", "00:00:00", "838:59:59"],
    "year": [1901, 1970, 2000, 2155],
    "double": [-1e300, 0.1, 0.30000000000000004, 1e17 / 3],
    "float": [-1.5, 0.1, 0.2, 16777216.0, 3.4e38],
    "bit(12)": [0, 1, 255, 256, 4095],
    "uuid": ["00000000-0000-0000-0000-000000000001", "10000000-0000-0000-0000-000000000000",
             "00000000-0000-0001-0000-000000000000"],
}  # fmt: skip


@pytest.mark.parametrize("type_", KEYS)
def test_keys_of_every_type_are_read_once_each(
    server: MariaDbServer, database: str, tmp_path: Path, type_: str
) -> None:
    run_sql(server, f"create table keyed (k {type_}, n int, primary key (k, n))", database)
    with connected(server, database) as connection, connection.cursor() as cursor:
        values = [(each, n) for each in KEYS[type_] for n in (1, -1)]
        cursor.executemany("insert into keyed values (%s, %s)", values)
    task = begun(
        server, tmp_path / "history", None, **settings_of(database, **{"incremental.snapshot.chunk.size": "1"})
    )
    signal(server, database, snapshot_of(database, "keyed"))
    found = rows(read_rows(task, len(values), "keyed"), "keyed")
    task.stop()
    assert len(found) == len({repr(row) for _, _, row in found}) == len(values)


def test_conditions_choose_rows_and_a_surrogate_key_may_have_the_same_value_often(
    server: MariaDbServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(
        server,
        "insert into later select seq, 'k', seq from seq_1_to_9; create table keyless (v int, w varchar(9)); "
        "insert into keyless select seq div 7, concat('100%', seq) from seq_1_to_21; insert into keyless values (null, 'x')",
        database,
    )
    task = begun(server, tmp_path / "history", None, **settings_of(database))
    conditions = [{"data-collection": f"{database}.later", "filter": "v > 4 and b like 'k%'"}]
    signal(server, database, snapshot_of(database, "(later|keyless)", additional_conditions=conditions))
    found = read_rows(task, 5)
    assert [row[2] for _, _, row in rows(found)] == [5, 6, 7, 8, 9]
    assert f"Table {database}.keyless has no key to be read by" in caplog.text
    signal(server, database, snapshot_of(database, "keyless", surrogate_key="v"))
    found = read_rows(task, 21, "keyless")
    assert sorted(w for _, _, (_, w) in rows(found, "keyless")) == sorted(f"100%{n}" for n in range(1, 22))
    signal(server, database, snapshot_of(database, "later", additional_condition="nonsense"))
    run_sql(server, "insert into later values (100, 'after', 1)", database)
    assert [op for op, _, _ in rows(read_rows(task, 1))] == ["c"]
    assert "The incremental snapshot is ended: The database refuses" in caplog.text
    task.stop()


def test_a_table_that_is_altered_while_it_is_read_is_read_whole(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, "insert into later select seq, 'k', seq from seq_1_to_120", database)
    task = begun(server, tmp_path / "history", None, **settings_of(database))
    ending = threading.Event()

    def alter() -> None:
        for turn in range(100):
            if ending.is_set():
                return
            run_sql(server, f"alter table later add column c{turn} int default {turn}", database)
            run_sql(server, f"alter table later drop column c{turn}", database)

    altering = threading.Thread(target=alter)
    altering.start()
    records: list[SourceRecord] = []
    try:
        signal(server, database, snapshot_of(database, "later"))
        until(lambda: records.extend(task.poll() or ()) or len(rows(records)) >= 120, "all rows", every=0)
    finally:
        ending.set()
        altering.join()
    records += read_until_quiet(task, None, QUIET_SECONDS)
    task.stop()
    assert sorted(row[0] for _, _, row in rows(records)) == [*range(1, 121)]


def test_rows_that_share_a_message_key_are_all_read(server: MariaDbServer, database: str, tmp_path: Path) -> None:
    run_sql(server, "insert into later select seq, 'k', seq from seq_1_to_9", database)
    keys = {"message.key.columns": f"{database}\\.later:b"}
    task = begun(server, tmp_path / "history", None, **settings_of(database, **keys))
    signal(server, database, snapshot_of(database, "later"))
    assert sorted(row[0] for _, _, row in rows(read_rows(task, 9))) == [*range(1, 10)]
    task.stop()


@pytest.mark.parametrize("surrogate", ["", "s"])
def test_large_rows_are_read_in_smaller_chunks_and_none_is_left_out(
    server: MariaDbServer, database: str, tmp_path: Path, surrogate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, count = 100_000, 40
    run_sql(
        server,
        "create table large (id int primary key, s int, v mediumtext); insert into large "
        f"select seq, if(seq <= 12, 1, seq div 2), repeat('x', {size}) from seq_1_to_{count}",
        database,
    )
    monkeypatch.setattr(chunks, "CHUNK_BYTES_MAX", 8 * size)
    sizes: list[tuple[int, int]] = []
    read = Chunks.read

    def watched(given: Chunks, *args: Any) -> Any:
        found = read(given, *args)
        sizes.append((given.size, len(found.rows)))
        return found

    monkeypatch.setattr(Chunks, "read", watched)
    large = {"incremental.snapshot.chunk.size": "1000"}
    task = begun(server, tmp_path / "history", None, **settings_of(database, **large))
    more = {"surrogate_key": surrogate} if surrogate else {}
    signal(server, database, snapshot_of(database, "large", **more))
    found = rows(read_rows(task, count, "large"), "large")
    task.stop()
    assert sorted(row[0] for _, _, row in found) == [*range(1, count + 1)]
    assert len(sizes) >= 3 and max(asked for asked, _ in sizes[1:]) < 100, "no more is asked for than may be had"
    if not surrogate:
        assert max(length for _, length in sizes) <= 9


def test_a_blocking_snapshot_reads_tables_whole_and_the_stream_goes_on_behind_it(
    server: MariaDbServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, "insert into later select seq, 'k', seq from seq_1_to_5", database)
    store = Store()
    task = begun(server, tmp_path / "history", store, **settings_of(database))
    signal(server, database, snapshot_of(database, "later", type="blocking"))
    found = rows(read_rows(task, 5, store=store))
    run_sql(server, "insert into later values (6, 'k', 6)", database)
    found += rows(read_rows(task, 1, store=store))
    assert [(op, mark) for op, mark, _ in found] == [
        *(("r", mark) for mark in ("first", "true", "true", "true", "last")),
        ("c", "false"),
    ]
    bad = [{"data-collection": f"{database}.later", "filter": "nonsense"}]
    signal(server, database, snapshot_of(database, "later", type="blocking", additional_conditions=bad))
    run_sql(server, "insert into later values (7, 'k', 7)", database)
    assert [row[0] for _, _, row in rows(read_rows(task, 1, store=store))] == [7]
    # what came with the signal may be told first: then the next poll begins the snapshot
    words = f"The snapshot that a signal asked for leaves table {database}.later out"
    until(lambda: (task.poll(), words in caplog.text)[1], words)
    task.stop()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("is_read_only", ["false", "true"])
def test_an_incremental_snapshot_whose_connections_are_cut_goes_on(
    server: MariaDbServer, database: str, tmp_path: Path, is_read_only: str
) -> None:
    run_sql(server, "insert into later select seq, 'k', seq from seq_1_to_60", database)
    task = begun(server, tmp_path / "history", None, **settings_of(database, **{"read.only": is_read_only}))
    signal(server, database, snapshot_of(database, "later"))
    found: list[SourceRecord] = []
    for wanted in (6, 20, 40, 60):
        polled_until(task, found, wanted)
        cut(server)
        found += task.poll() or ()
    task.stop()
    assert sorted(row[0] for _, _, row in rows(found)) == [*range(1, 61)], "each row once"


def cut(server: MariaDbServer) -> None:
    """End all connections but our own."""
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute("select id from information_schema.processlist where id <> connection_id() and user <> ''")
        for (number,) in cursor.fetchall():
            run_sql(server, f"kill {number}") if number > 0 else None


def test_signals_come_from_a_file_too_and_skipped_inserts_are_signals_all_the_same(
    server: MariaDbServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connectors.cdc")
    run_sql(server, "insert into later values (1, 'k', 1)", database)
    path = tmp_path / "signals.txt"
    own = {"signal.enabled.channels": "source,file", "signal.file": str(path), "signal.poll.interval.ms": "50"}
    task = begun(server, tmp_path / "history", None, **settings_of(database, **own, **{"skipped.operations": "c"}))
    type_, data = snapshot_of(database, "later")
    path.write_text(f"no signal\n{json.dumps({'id': 'f', 'type': type_, 'data': json.loads(data)})}\n")
    signal(server, database, asked("log", message="at {}"))
    assert [op for op, _, _ in rows(read_rows(task, 1))] == ["r"]
    until(lambda: task.poll() or "at {'file'" in caplog.text, "the line of the log", every=0)
    task.stop()
    assert path.read_text() == ""


def test_a_table_of_signals_that_is_not_there_is_an_error_that_says_how_to_make_it(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, "drop table signals", database)
    with pytest.raises(ConnectError, match=rf"CREATE TABLE {database}\.signals \(id VARCHAR"):
        begun(server, tmp_path / "history", None, **settings_of(database))


def test_channels_that_are_not_there_are_refused(server: MariaDbServer, database: str, tmp_path: Path) -> None:
    props = props_of(server, tmp_path / "history", **settings_of(database, **{"signal.enabled.channels": "source,jmx"}))
    found = MariaDbConnector().validate(props)
    assert found["signal.enabled.channels"].errors == ["jmx is not there: source, file, kafka are"]
    both = {"gtid.source.includes": "0-1", "gtid.source.excludes": "0-2"}
    found = MariaDbConnector().validate(props_of(server, tmp_path / "history", **settings_of(database, **both)))
    assert "cannot both be given" in str(found["gtid.source.includes"].errors)


def asking(bootstrap: str, topic: str) -> Any:
    """Return what writes a signal into a topic, under a key."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})

    def ask(key: str | None, value: Any) -> None:
        producer.produce(topic, key=key, value=value if isinstance(value, bytes) else json.dumps(value))
        assert producer.flush(30) == 0

    return ask


def by_topic(bootstrap: str, **more: str) -> dict[str, str]:
    """Return the settings of a connector that a topic of signals asks."""
    own = {
        "signal.enabled.channels": "kafka",
        "signal.kafka.topic": "asked",
        "signal.kafka.bootstrap.servers": bootstrap,
        "signal.poll.interval.ms": "50",
    }
    return {**own, **more}


@pytest.mark.parametrize("is_read_only", ["false", "true"])
def test_a_topic_asks_for_an_incremental_snapshot_by_the_own_key_alone_and_of_before_the_first_start_by_none(
    server: MariaDbServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_read_only: str
) -> None:
    run_sql(server, "insert into later select seq, 'k', 0 from seq_1_to_7", database)
    own = f"sig_{database}"
    wanted: dict[str, Any] = {"type": "execute-snapshot", "data": {"data-collections": [f"{database}.later"]}}
    with running_server(tmp_path) as broker:
        settings = settings_of(database, **by_topic(broker.bootstrap, **{"read.only": is_read_only}))
        ask, store = asking(broker.bootstrap, "asked"), Store()
        ask(own, wanted)  # of before the first start: not followed
        task = begun(server, tmp_path / "history", store, **settings)
        for key in ("another", None, f"{own}x", own.upper()):
            ask(key, wanted)
        for value in ([1], b"\xff{", b"[" * 100_000, {**wanted, "data": "no JSON"}):
            ask(own, value)
        ask(own, {"type": "execute-snapshot", "data": {**wanted["data"], "additional-conditions": 5}})
        signal(server, database, snapshot_of(database, "later"))  # the table is no channel here
        ask(own, {"id": "k", **wanted})
        found = read_rows(task, 7, store=store)
        assert [each[:2] for each in rows(found)] == [("r", "incremental")] * 7
        run_sql(server, "update later set v = 1 where a = 3", database)
        found += read_rows(task, 1, store=store)
        task.stop()
        assert state(found) == table(server, database)
        assert caplog.text.count("of the topic of signals is no signal") == 4, caplog.text
        assert "additional-conditions that are no list" in caplog.text
        ask(own, wanted)  # while nobody looks
        assert len(rows(begun_and_read(server, tmp_path, store, settings, 7))) == 7
        assert rows(begun_and_read(server, tmp_path, store, settings, 0)) == [], "each once"


def begun_and_read(
    server: MariaDbServer, folder: Path, store: Store, settings: dict[str, str], count: int
) -> list[SourceRecord]:
    """Return what a task reads that goes on from the store, and then ends."""
    task = begun(server, folder / "history", store, **settings)
    found = read_rows(task, count, store=store)
    task.stop()
    return found
