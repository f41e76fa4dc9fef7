"""Signals to a running connector: tables read while changes go on, each row as it is at the end, whatever comes between."""

from __future__ import annotations

import json
import logging
import random
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.connect import ConnectError, DataError, SourceRecord
from ottla.connectors.cdc import PostgresConnector, capture_task, signals
from ottla.connectors.cdc.incremental import Progress
from ottla.connectors.cdc.positions import SeenTransactions, StreamedTransactions
from ottla.connectors.cdc.postgres_chunks import end_of_record
from ottla.connectors.cdc.signals import KAFKA_OFFSET, FileChannel, KafkaChannel, Request, Signal, requests_of
from tests.connectors.cdc.replay import begun, connected, read_until_quiet, run_sql
from tests.connectors.contexts import Store, polled
from tests.ports import free_port
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
SIGNALS = "create table signals (id varchar(42) primary key, type varchar(32) not null, data varchar(2048))"
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'Debezium%'"
LATER = "create table later (a int, b text, v int, primary key (a, b))"


def begun_with_signals(server: PostgresServer, database: str, store: Store | None = None, **settings: str) -> Any:
    given = {
        "topic.prefix": f"sig_{database}",
        "snapshot.mode": "no_data",
        "signal.data.collection": "public.signals",
        "incremental.snapshot.chunk.size": "3",
    }
    return begun(server, database, store, **{name: each for name, each in {**given, **settings}.items() if each})


def signal(server: PostgresServer, database: str, type_: str, id_: str = "s", **data: Any) -> None:
    with connected(server, database) as connection:
        given = json.dumps({name.replace("_", "-"): value for name, value in data.items()})
        connection.execute("insert into signals values (%s, %s, %s)", (f"{id_}{random.random()}", type_, given))


def from_file(path: Path, **settings: str) -> dict[str, str]:
    """Settings of a task that writes no marks, and is asked by a file."""
    own = {"signal.enabled.channels": "file", "signal.file": str(path), "signal.poll.interval.ms": "50"}
    return {"read.only": "true", "signal.data.collection": "", **own, **settings}


def ask(path: Path, **data: Any) -> None:
    path.write_text(json.dumps({"id": "f", "type": "execute-snapshot", "data": data}) + "\n")


def rows(records: list[SourceRecord], table: str = "later") -> list[tuple[str, str, Any]]:
    """Operation, place in a snapshot, and row of each record of a table."""
    return [
        (
            each.value["op"],
            each.value["source"]["snapshot"],
            tuple((each.value["after"] or each.value["before"]).values),
        )
        for each in records
        if each.value is not None and (each.topic or "").endswith(f".{table}")
    ]


def state(records: list[SourceRecord], table: str = "later") -> dict[tuple[Any, ...], Any]:
    """What a reader of the topic has at the end, by key."""
    found: dict[tuple[Any, ...], Any] = {}
    for each in records:
        if (each.topic or "").endswith(f".{table}"):
            key = tuple(each.key.values)
            if each.value is None or each.value["after"] is None:
                found.pop(key, None)
            else:
                found[key] = tuple(each.value["after"].values)
    return found


def table(server: PostgresServer, database: str) -> dict[tuple[Any, ...], Any]:
    with connected(server, database) as connection:
        return {(a, b): (a, b, v) for a, b, v in connection.execute("select a, b, v from later").fetchall()}


def test_a_table_is_read_in_chunks_while_changes_go_on(server: PostgresServer, database: str) -> None:
    run_sql(
        server,
        database,
        f"{SIGNALS}; {LATER}; insert into later select g / 3, 'k' || g, g from generate_series(1, 10) g",
    )
    task = begun_with_signals(server, database)
    signal(server, database, "execute-snapshot", data_collections=["public.later"])
    found = rows(read_until_quiet(task, None, 0.4))
    task.stop()
    assert sorted(each[2] for each in found) == sorted((g // 3, f"k{g}", g) for g in range(1, 11))
    assert {each[:2] for each in found} == {("r", "incremental")}


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete", "read_only"])
def test_what_changes_beside_a_chunk_is_not_overwritten_by_what_was_read(
    server: PostgresServer, database: str, tmp_path: Path, strategy: str
) -> None:
    path = tmp_path / "signals.txt"
    way = from_file(path) if strategy == "read_only" else {"incremental.snapshot.watermarking.strategy": strategy}
    run_sql(server, database, f"{SIGNALS}; {LATER}; insert into later select g, 'k', 0 from generate_series(1, 200) g")
    ending, chance = threading.Event(), random.Random(3)

    def write() -> None:
        with connected(server, database) as connection:
            for turn in range(1, 2_000):
                if ending.is_set():
                    return
                a = chance.randrange(1, 220)
                connection.execute(
                    "insert into later values (%s, 'k', 1) on conflict (a, b) do update set v = later.v + 1", (a,)
                )
                connection.execute("delete from later where a = %s", (chance.randrange(1, 220),))
                moved = 1000 * turn, chance.randrange(1, 220)
                connection.execute("update later set a = a + %s where a = %s", moved)

    task = begun_with_signals(server, database, **way)
    writer = threading.Thread(target=write)
    writer.start()
    records: list[SourceRecord] = []
    try:
        if strategy == "read_only":
            ask(path, **{"data-collections": ["public.later"]})
        else:
            signal(server, database, "execute-snapshot", data_collections=["public.later"])
        until(lambda: records.extend(polled(task)) or is_complete(records), "the snapshot", every=0)
    finally:
        ending.set()
        writer.join()
    records += read_until_quiet(task, None, 0.4)
    task.stop()
    assert state(records) == table(server, database)
    assert sum(op == "r" for op, _, _ in rows(records)) > 20


def test_who_may_write_nothing_reads_a_table_in_chunks_where_nothing_is_written_besides(
    server: PostgresServer, database: str, tmp_path: Path
) -> None:
    reader = f"reader_{database}"
    run_sql(
        server,
        database,
        f"{LATER}; insert into later select g, 'k', g from generate_series(1, 10) g; delete from later where a > 8; "
        f"create publication pub_sig_{database} for all tables; "
        f"create role {reader} login replication password 'r'; grant select on all tables in schema public to {reader}; "
        f"alter role {reader} set default_transaction_read_only = on; revoke create on schema public from public",
    )
    path = tmp_path / "signals.txt"
    user = {"database.user": reader, "database.password": "r", "publication.autocreate.mode": "disabled"}
    task = begun_with_signals(server, database, **from_file(path, **user))
    ask(path, **{"data-collections": ["public.later"]})
    found: list[SourceRecord] = []
    until(lambda: found.extend(polled(task)) or is_complete(found), "the snapshot", every=0)
    task.stop()
    assert [(op, row[0]) for op, _, row in rows(found)] == [("r", a) for a in range(1, 9)]


def commits_wait(server: PostgresServer, admin: psycopg.Connection[Any]) -> bool:
    """Whether commits wait for a standby by now: they do once the checkpointer, too, has read the setting."""
    with connected(server, "postgres") as probe:
        pid = probe.info.backend_pid
        commit = threading.Thread(target=probe.execute, args=("comment on database postgres is 'looked at'",))
        commit.start()

        def waits() -> bool:
            asked = admin.execute("select 1 from pg_stat_activity where pid = %s and wait_event = 'SyncRep'", (pid,))
            return asked.fetchone() is not None

        until(lambda: waits() or not commit.is_alive(), "a commit", every=0.01)
        found = commit.is_alive()
        admin.execute("select pg_cancel_backend(%s)", (pid,))
        commit.join()
    return found


def test_a_chunk_waits_for_a_commit_that_was_told_and_is_not_seen_yet(
    server: PostgresServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, database, f"{LATER}; insert into later values (1, 'k', 0), (2, 'k', 0)")
    path = tmp_path / "signals.txt"
    task = begun_with_signals(server, database, **from_file(path))
    found = polled(task)
    admin = connected(server, database)
    admin.execute("set synchronous_commit = local")

    def wait_for(standby: str) -> None:
        admin.execute(f"alter system set synchronous_standby_names = '{standby}'".encode())
        admin.execute("select pg_reload_conf()")
        until(
            lambda: admin.execute("show synchronous_standby_names").fetchone() == (standby,), "the setting", every=0.02
        )

    def update() -> None:
        run_sql(server, database, "update later set v = 1 where a = 1")

    wait_for("nobody")
    until(lambda: commits_wait(server, admin), "commits to wait for a standby")
    writer = threading.Thread(target=update)
    try:
        writer.start()
        until(lambda: found.extend(polled(task)) or rows(found), "the update", every=0)
        assert table(server, database)[1, "k"] == (1, "k", 0), "it is told, and nobody sees it"
        ask(path, **{"data-collections": ["public.later"]})
        until(lambda: found.extend(polled(task)) or not path.read_text(), "the signal", every=0)
        for _ in range(5):
            found += polled(task)
        assert [op for op, _, _ in rows(found)] == ["u"]
    finally:
        wait_for("")
        writer.join()
        admin.close()
    until(lambda: found.extend(polled(task)) or is_complete(found), "the snapshot", every=0)
    task.stop()
    assert state(found) == table(server, database) == {(1, "k"): (1, "k", 1), (2, "k"): (2, "k", 0)}


def test_a_transaction_that_is_open_across_chunks_comes_behind_them(
    server: PostgresServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, database, f"{LATER}; insert into later select g, 'k', 0 from generate_series(1, 20) g")
    path = tmp_path / "signals.txt"
    task = begun_with_signals(server, database, **from_file(path))
    found: list[SourceRecord] = []
    with connected(server, database) as connection:
        connection.execute("begin")
        connection.execute("update later set v = 1 where a % 2 = 0")
        ask(path, **{"data-collections": ["public.later"]})
        until(lambda: found.extend(polled(task)) or is_complete(found), "the snapshot", every=0)
        connection.execute("commit")
    found += read_until_quiet(task, None, 0.4)
    task.stop()
    assert [op for op, _, _ in rows(found)] == ["r"] * 20 + ["u"] * 10
    assert state(found) == table(server, database)


def test_a_log_that_ends_behind_a_pages_header_has_its_last_record_before_it() -> None:
    page, segment = 8192, 16 << 20
    assert end_of_record(3 * segment + 40, page, segment) == 3 * segment
    assert end_of_record(3 * segment + 24, page, segment) == 3 * segment + 24
    assert end_of_record(3 * segment + page + 24, page, segment) == 3 * segment + page
    assert end_of_record(3 * segment + page + 40, page, segment) == 3 * segment + page + 40
    assert end_of_record(3 * segment + 999, page, segment) == 3 * segment + 999


def test_transactions_that_a_snapshot_does_not_see_are_waited_for_beyond_the_turn_of_their_numbers() -> None:
    streamed = StreamedTransactions()
    turn = 1 << 32
    for xid in (turn - 1, 0, 3):
        streamed.passed(xid & 0xFFFFFFFF)
    assert not streamed.are_seen(SeenTransactions(f"{turn - 5}:{turn + 4}:{turn - 1},{turn + 2}", 0))
    assert not streamed.are_seen(SeenTransactions(f"{turn - 1}:{turn + 9}:{turn - 1}", 0))
    assert streamed.are_seen(SeenTransactions(f"{turn + 9}:{turn + 9}:", 0))
    assert not streamed.are_many


def is_complete(records: list[SourceRecord]) -> bool:
    """Whether a snapshot has been read to its end: then offsets say nothing of it any more."""
    offsets = [each.source_offset for each in records if each.source_offset is not None]
    return any(op == "r" for op, _, _ in rows(records)) and not any(
        name.startswith("incremental_") for name in offsets[-1]
    )


def test_a_snapshot_goes_on_behind_the_last_chunk_that_was_stored(server: PostgresServer, database: str) -> None:
    run_sql(server, database, f"{SIGNALS}; {LATER}; insert into later select g, 'k', g from generate_series(1, 20) g")
    store = Store()
    task = begun_with_signals(server, database, store)
    signal(server, database, "execute-snapshot", data_collections=["public.later"])
    first: list[SourceRecord] = []
    while len(rows(first)) < 8:
        found = polled(task)
        first += found
        store.take(found)
    task.stop()
    run_sql(server, database, "update later set v = -1 where a in (2, 19)")
    task = begun_with_signals(server, database, store)
    second = read_until_quiet(task, store, 0.4)
    task.stop()
    read = [row[0] for op, _, row in rows(first) + rows(second) if op == "r"]
    assert sorted(read) == sorted({*range(1, 21)}), "each row once"
    assert state(first + second) == table(server, database)
    assert not any(name.startswith("incremental_") for name in next(iter(store.offsets.values())))


def test_a_snapshot_is_paused_resumed_and_stopped(server: PostgresServer, database: str) -> None:
    more = "create table more (id int primary key)"
    run_sql(
        server,
        database,
        f"{SIGNALS}; {LATER}; {more}; insert into later select g, 'k', g from generate_series(1, 40) g",
    )
    task = begun_with_signals(server, database)
    with connected(server, database) as connection, connection.transaction():
        tables = '{"data-collections": ["public.later", "public.more"]}'
        for at, (type_, data) in enumerate((("pause-snapshot", "{}"), ("execute-snapshot", tables))):
            connection.execute("insert into signals values (%s, %s, %s)", (f"p{at}", type_, data))
    assert rows(read_until_quiet(task, None, 0.4)) == []
    signal(server, database, "resume-snapshot")
    until(lambda: len(rows(polled(task))) > 0, "rows")
    signal(server, database, "stop-snapshot")
    left = read_until_quiet(task, None, 0.4)
    task.stop()
    assert len(rows(left)) < 37 and left[-1].source_offset is not None
    assert not any(name.startswith("incremental_") for name in left[-1].source_offset)


def test_conditions_choose_rows_and_a_table_without_a_key_is_said(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    keyless = "create table keyless (v int)"
    run_sql(
        server,
        database,
        f"{SIGNALS}; {LATER}; {keyless}; insert into later select g, 'k', g from generate_series(1, 9) g",
    )
    run_sql(server, database, "insert into keyless values (1), (2), (3), (4), (5)")
    task = begun_with_signals(server, database)
    conditions = [{"data-collection": "public.later", "filter": "v > 4"}]
    signal(
        server,
        database,
        "execute-snapshot",
        data_collections=["public.(later|keyless)"],
        additional_conditions=conditions,
    )
    found = read_until_quiet(task, None, 0.4)
    assert [row[2] for _, _, row in rows(found)] == [5, 6, 7, 8, 9]
    assert "Table public.keyless has no key to be read by" in caplog.text
    signal(server, database, "execute-snapshot", data_collections=["public.keyless"], surrogate_key="v")
    assert [row for _, _, (row,) in rows(read_until_quiet(task, None, 0.4), "keyless")] == [1, 2, 3, 4, 5]
    run_sql(
        server, database, "insert into keyless select 6 from generate_series(1, 8); insert into keyless values (null)"
    )
    signal(server, database, "execute-snapshot", data_collections=["public.keyless"], surrogate_key="v")
    often = [row for op, _, row in rows(read_until_quiet(task, None, 0.4), "keyless") if op == "r"]
    assert sorted(often) == [(1,), (2,), (3,), (4,), (5,), *[(6,)] * 8], "one value is of more rows than a chunk has"
    signal(server, database, "execute-snapshot", data_collections=["public.later"], additional_condition="nonsense")
    run_sql(server, database, "insert into later values (100, 'after', 1)")
    assert [op for op, _, _ in rows(read_until_quiet(task, None, 0.4))] == ["c"]
    assert "The incremental snapshot is ended: The database cannot be read" in caplog.text
    task.stop()


def test_rows_that_share_a_message_key_are_all_read(server: PostgresServer, database: str) -> None:
    run_sql(server, database, f"{SIGNALS}; {LATER}; insert into later select g, 'k', g from generate_series(1, 9) g")
    task = begun_with_signals(server, database, **{"message.key.columns": "public.later:b"})
    signal(server, database, "execute-snapshot", data_collections=["public.later"])
    assert [row[0] for _, _, row in rows(read_until_quiet(task, None, 0.4))] == [*range(1, 10)]
    task.stop()


def test_a_blocking_snapshot_reads_tables_whole_and_the_stream_goes_on_behind_it(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, database, f"{SIGNALS}; {LATER}; insert into later select g, 'k', g from generate_series(1, 5) g")
    store = Store()
    task = begun_with_signals(server, database, store)
    signal(server, database, "execute-snapshot", data_collections=["public.later"], type="blocking")
    found = rows(read_until_quiet(task, store, 0.4))
    run_sql(server, database, "insert into later values (6, 'k', 6)")
    found += rows(read_until_quiet(task, store, 0.4))
    assert [(op, mark) for op, mark, _ in found] == [
        *(("r", mark) for mark in ("first", "true", "true", "true", "last")),
        ("c", "false"),
    ]
    bad = [{"data-collection": "public.later", "filter": "nonsense"}]
    signal(
        server,
        database,
        "execute-snapshot",
        data_collections=["public.later"],
        type="blocking",
        additional_conditions=bad,
    )
    run_sql(server, database, "insert into later values (7, 'k', 7)")
    assert [row[0] for _, _, row in rows(read_until_quiet(task, store, 0.4))] == [7]
    assert "The snapshot that a signal asked for is ended" in caplog.text
    task.stop()


def polled_until(task: Any, found: list[SourceRecord], count: int) -> None:
    """Poll until so many rows are there."""
    until(lambda: found.extend(polled(task)) or len(rows(found)) >= count, f"{count} rows", every=0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has gone away is tried again at once, not after five seconds."""
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_blocking_snapshot_whose_connection_is_cut_begins_anew(server: PostgresServer, database: str) -> None:
    run_sql(
        server,
        database,
        f"{SIGNALS}; {LATER}; alter table later add wide text;"  # more than sockets hold
        "insert into later select g, 'k', g, repeat('w', 300000) from generate_series(1, 50) g",
    )
    task = begun_with_signals(server, database, **{"snapshot.fetch.size": "5", "max.batch.size": "10"})
    signal(server, database, "execute-snapshot", data_collections=["public.later"], type="blocking")
    found: list[SourceRecord] = []
    polled_until(task, found, 10)
    run_sql(server, database, CUT)
    until(lambda: found.extend(polled(task)) or len({row for _, _, row in rows(found)}) == 50, "all rows", every=0)
    assert [mark for _, mark, _ in rows(found)].count("last") == 1
    task.stop()


@pytest.mark.usefixtures("impatient")
def test_a_blocking_snapshot_that_is_read_whole_needs_its_connection_no_more(
    server: PostgresServer, database: str
) -> None:
    run_sql(server, database, f"{SIGNALS}; {LATER}; insert into later select g, 'k', g from generate_series(1, 50) g")
    task = begun_with_signals(server, database, **{"snapshot.fetch.size": "5"})
    signal(server, database, "execute-snapshot", data_collections=["public.later"], type="blocking")
    found: list[SourceRecord] = []
    polled_until(task, found, 10)
    run_sql(server, database, CUT)
    polled_until(task, found, 50)
    run_sql(server, database, "insert into later values (51, 'k', 51)")
    polled_until(task, found, 51)
    assert [mark for _, mark, _ in rows(found)].count("last") == 1
    task.stop()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("way", ["marks", "read_only"])
def test_an_incremental_snapshot_whose_connections_are_cut_goes_on(
    server: PostgresServer, database: str, tmp_path: Path, way: str
) -> None:
    run_sql(server, database, f"{SIGNALS}; {LATER}; insert into later select g, 'k', g from generate_series(1, 60) g")
    path = tmp_path / "signals.txt"
    task = begun_with_signals(server, database, **(from_file(path) if way == "read_only" else {}))
    if way == "read_only":
        ask(path, **{"data-collections": ["public.later"]})
    else:
        signal(server, database, "execute-snapshot", data_collections=["public.later"])
    found: list[SourceRecord] = []
    for wanted in (6, 20, 40, 60):
        polled_until(task, found, wanted)
        run_sql(server, database, CUT)
        found += polled(task)
    task.stop()
    assert sorted(row[0] for _, _, row in rows(found)) == [*range(1, 61)], "each row once"


def test_signals_come_from_a_file_too_and_what_is_none_is_said(
    server: PostgresServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connectors.cdc")
    run_sql(server, database, f"{SIGNALS}; {LATER}; insert into later values (1, 'k', 1)")
    path = tmp_path / "signals.txt"
    task = begun_with_signals(
        server,
        database,
        **{"signal.enabled.channels": "source,file", "signal.file": str(path), "signal.poll.interval.ms": "50"},
    )
    asked = {"id": "f", "type": "execute-snapshot", "data": {"data-collections": ["public.later"]}}
    path.write_text(f"no signal\n{json.dumps(asked)}\n[1]\n" + json.dumps({"id": "g", "type": "sing"}) + "\n")
    signal(server, database, "log", message="at {}")
    assert [op for op, _, _ in rows(read_until_quiet(task, None, 0.6))] == ["r"]
    task.stop()
    assert path.read_text() == ""
    for words in ("is no signal: ", "of type sing, which is not known", "at {'lsn_commit'"):
        assert words in caplog.text


def test_a_table_of_signals_that_is_not_there_is_an_error_that_says_how_to_make_it(
    server: PostgresServer, database: str
) -> None:
    run_sql(server, database, LATER)
    with pytest.raises(Exception, match=r"CREATE TABLE public\.signals \(id varchar"):
        begun_with_signals(server, database)


def test_channels_that_are_not_there_are_refused() -> None:
    found = PostgresConnector().validate({"signal.enabled.channels": "source,jmx", "topic.prefix": "x"})
    assert found["signal.enabled.channels"].errors == ["jmx is not there: source, file, kafka are"]


def test_progress_is_read_as_it_was_kept_and_foreign_keys_begin_anew() -> None:
    queue = (Request("public.a", "v > 1"), Request("public.b", None, "n"))
    progress = Progress(queue, ("1", "x"), ("9", "z"), "s1", is_paused=True)
    assert Progress.of(progress.offset()) == progress
    assert Progress.of({}) == Progress() and Progress().offset() == {}
    foreign = {**progress.offset(), "incremental_snapshot_primary_key": "aced0005757200135b"}
    assert Progress.of(foreign).last is None and Progress.of(foreign).queue == queue
    assert Progress.of({"incremental_snapshot_collections": "nonsense"}) == Progress()


@pytest.mark.parametrize("data", [{}, {"data-collections": "public.a"}, {"data-collections": []}])
def test_a_signal_that_names_no_tables_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="names no data-collections"):
        requests_of(Signal("s", "execute-snapshot", data), ["public.a"])


DEEP = 100_000
"""More levels than a parser follows."""


@pytest.mark.parametrize("more", [5, {"data-collection": "public.a"}, "v > 1", True])
def test_conditions_that_are_no_list_are_refused(more: Any) -> None:
    data = {"data-collections": ["public.a"], "additional-conditions": more}
    with pytest.raises(DataError, match="additional-conditions that are no list"):
        requests_of(Signal("s", "execute-snapshot", data), ["public.a"])


@pytest.mark.parametrize("name", ["(" * DEEP, "(?:" * DEEP + ")" * DEEP, "a{99999999999}", "[", None, {}, 5])
def test_names_that_are_no_patterns_ask_for_no_table(name: Any) -> None:
    assert requests_of(Signal("s", "execute-snapshot", {"data-collections": [name]}), ["public.a"]) == []


@pytest.mark.parametrize("text", [b"", b"\xff", b"[" * DEEP, '{"type": ' + "[" * DEEP, "[1]", "null", '{"id": "s"}'])
def test_what_is_no_signal_is_refused_whatever_it_is(text: str | bytes) -> None:
    with pytest.raises(DataError):
        Signal.parsed(text)


def test_a_new_connector_is_not_told_of_old_signals_because_the_brokers_of_their_topic_were_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals, "ANSWER_SECONDS_MAX", 0.5)
    settings = {
        "topic.prefix": "p",
        "signal.kafka.topic": None,
        "signal.kafka.bootstrap.servers": f"127.0.0.1:{free_port()}",
        "signal.kafka.groupId": "g",
    }
    with pytest.raises(ConnectError, match="The topic of signals p-signal cannot be asked for its end"):
        KafkaChannel(settings, {}, {})
    channel = KafkaChannel(settings, {KAFKA_OFFSET: 7}, {})  # who knows the place waits for them
    assert channel.taken() == [] and channel.offset() == {KAFKA_OFFSET: 7}
    channel.close()


@pytest.mark.parametrize("given", [("s", None, "{}"), ("s", "log", "[1]"), ("s", "log", "{"), ("s", "log", "[" * DEEP)])
def test_a_row_that_is_no_signal_is_refused(given: tuple[Any, Any, Any]) -> None:
    with pytest.raises(DataError, match="ignal s"):
        Signal.of(*given)


def test_a_file_that_cannot_be_read_gives_no_signals(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert FileChannel(str(tmp_path / "none")).taken() == []
    assert FileChannel(str(tmp_path)).taken() == []
    assert "Signals cannot be read" in caplog.text
