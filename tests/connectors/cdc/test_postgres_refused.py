"""What no record can hold refuses its table by name, in the snapshot, the stream and a chunk alike, and ends nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc import capture_task
from ottla.connectors.cdc.refused import REFUSED
from tests.connectors.cdc.replay import begun, connected, read_until_quiet, run_sql
from tests.connectors.cdc.test_signals import SIGNALS, begun_with_signals, rows, signal, state
from tests.connectors.contexts import SourceContext, Store, polled
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
RUN = 40
"""Rows that a poll makes in columns, where it can."""


def told(records: list[SourceRecord], table: str) -> list[Any]:
    """Operation and number of each change of a table."""
    own = [each for each in records if (each.topic or "").endswith(f".{table}") and each.value is not None]
    return [(each.value["op"], (each.value["after"] or each.value["before"])["id"]) for each in own]


@pytest.mark.parametrize("in_columns", [True, False])
@pytest.mark.parametrize("bad", ["'NaN'::numeric", "'-Infinity'::numeric"])
def test_a_number_that_no_decimal_is_refuses_its_table_in_a_snapshot_and_the_others_are_read(
    server: PostgresServer,
    database: str,
    in_columns: bool,
    bad: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SourceContext, "takes_columns", in_columns)
    run_sql(
        server,
        database,
        "create table a (id int primary key); create table t (id int primary key, v numeric); "
        "create table z (id int primary key); insert into a values (1); insert into z values (1); "
        f"insert into t select g, case g when 4 then {bad} else g end from generate_series(1, 9) g",
    )
    settings, store = {"topic.prefix": f"ref_{database}", "snapshot.fetch.size": "2"}, Store()
    task = begun(server, database, store, **settings)
    found = read_until_quiet(task, store, 0.2)
    run_sql(server, database, "update t set v = 1; insert into t values (10, 1); insert into z values (2)")
    found += read_until_quiet(task, store, 0.3)
    [warning] = task.source_state().warnings
    assert warning.startswith("table public.t is refused") and "Reset the connector's offsets" in warning
    task.stop()
    assert told(found, "a") == [("r", 1)] and told(found, "z") == [("r", 1), ("c", 2)]
    assert told(found, "t") == [("r", each) for each in (1, 2, 3)]
    assert "Table public.t is refused" in caplog.text and "decimal.handling.mode=string" in caplog.text
    caplog.clear()
    task = begun(server, database, store, **settings)
    run_sql(server, database, "insert into t values (11, 1); insert into z values (3)")
    found = read_until_quiet(task, store, 0.3)
    task.stop()
    assert (told(found, "t"), told(found, "z")) == ([], [("c", 3)])
    assert "Table public.t is refused" in caplog.text, "it is said again at each start"


@pytest.mark.parametrize("count", [1, RUN])
@pytest.mark.parametrize("more", ["", "update z set id = id + 100;"])
def test_a_number_that_no_decimal_is_refuses_its_table_in_the_stream_wherever_that_is_cut(
    server: PostgresServer, database: str, count: int, more: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, database, "create table t (id int primary key, v numeric); create table z (id int primary key)")
    settings, store = {"topic.prefix": f"cut_{database}", "snapshot.mode": "no_data"}, Store()
    task = begun(server, database, store, **settings)
    run_sql(server, database, "insert into z values (0)")
    read_until_quiet(task, store, 0.2)
    bad = f"case g when {count} then 'NaN'::numeric else g end"
    run_sql(
        server,
        database,
        f"begin; insert into t select g, {bad} from generate_series(1, {count}) g; insert into z values (1); {more} commit; "
        f"insert into t values ({count + 1}, 0); insert into z values (2); truncate t",
    )
    whole = read_until_quiet(task, None, 0.3)
    task.stop()
    assert told(whole, "t") == [("c", each) for each in range(1, count)]
    begun_at = dict(store.offsets)
    step = max(1, len(whole) // 9)
    for cut in (*range(0, len(whole), step), len(whole)):
        again = Store()
        again.offsets = dict(begun_at)
        again.take(whole[:cut])
        stored = max((at + 1 for at in range(cut) if whole[at].source_offset is not None), default=0)
        caplog.clear()
        task = begun(server, database, again, **settings)
        found: list[SourceRecord] = []
        left = len(whole) - stored
        until(
            lambda found=found, left=left, task=task: found.extend(polled(task)) or len(found) >= left, "all", every=0
        )  # type: ignore[misc]
        found += read_until_quiet(task, None, 0.1)
        task.stop()
        assert [(each.topic, each.key["id"]) for each in found] == [
            (each.topic, each.key["id"]) for each in whole[stored:]
        ]
        assert "Table public.t is refused" in caplog.text


def test_rows_that_wait_behind_a_refused_one_are_not_told_and_their_offsets_know_of_it(
    server: PostgresServer, database: str
) -> None:
    run_sql(server, database, "create table t (id int primary key, v numeric); create table z (id int primary key)")
    task = begun(server, database, None, **{"topic.prefix": f"wait_{database}", "snapshot.mode": "no_data"})
    assert task.poll() is None
    run_sql(
        server,
        database,
        "begin; insert into t values (1, 1), (2, 'NaN'); insert into z values (1); insert into t values (3, 3); "
        "delete from t where id = 3; insert into z values (2); commit",
    )
    found = read_until_quiet(task, None, 0.3)
    task.stop()
    assert told(found, "t") == [("c", 1)] and told(found, "z") == [("c", 1), ("c", 2)]
    behind = [
        each for each in found if (each.topic or "").endswith(".z")
    ]  # the row before may come in a poll of its own
    assert all("public.t" in each.source_offset[REFUSED] for each in behind if each.source_offset)


def test_a_number_that_no_decimal_is_refuses_its_table_in_an_incremental_snapshot(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(
        server,
        database,
        f"{SIGNALS}; create table later (a int, b text, v numeric, primary key (a, b)); "
        "create table more (id int primary key); "
        "insert into later select g, 'k', case g when 4 then 'NaN'::numeric else g end from generate_series(1, 9) g; "
        "insert into more values (1)",
    )
    store = Store()
    task = begun_with_signals(server, database, store)
    signal(server, database, "execute-snapshot", data_collections=["public.later", "public.more"])
    found = read_until_quiet(task, store, 0.4)
    run_sql(server, database, "insert into later values (10, 'k', 1); insert into more values (2)")
    found += read_until_quiet(task, store, 0.3)
    signal(server, database, "execute-snapshot", data_collections=["public.later"])
    found += read_until_quiet(task, store, 0.3)
    task.stop()
    assert all(key[0] < 4 for key in state(found))
    assert len(rows(found, "more")) == 2
    assert "Table public.later is refused" in caplog.text and "a=4, b=k" in caplog.text
    assert "and is not read" in caplog.text


def test_a_table_that_the_server_itself_cannot_print_is_refused_and_the_others_are_read(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    database = "of_japan"
    run_sql(server, "postgres", f"create database {database} encoding 'EUC_JP' locale 'C' template template0")
    run_sql(
        server,
        database,
        "create table a (id int primary key); insert into a values (1); create table z (id int primary key); "
        "insert into z values (1); create table t (id int primary key, v text); insert into t values (1, 'a')",
    )
    with connected(server, database) as connection:  # which no character of Unicode is
        connection.execute("set client_encoding = 'EUC_JP'")
        connection.execute(b"insert into t values (2, '\xfe\xfe')")
    task = begun(server, database, None, **{"topic.prefix": f"print_{database}"})
    found = read_until_quiet(task, None, 0.4)
    task.stop()
    assert told(found, "a") == told(found, "z") == [("r", 1)]
    assert "Table public.t is refused" in caplog.text and "has no equivalent in encoding" in caplog.text


@pytest.mark.parametrize(
    ("encoding", "good", "bad"), [("EUC_JP", b"\xc6\xfc", b"\xfe\xfe"), ("SQL_ASCII", "日".encode(), b"\xe9")]
)
def test_a_text_that_the_stream_cannot_send_refuses_its_table_and_the_others_go_on(
    server: PostgresServer,
    encoding: str,
    good: bytes,
    bad: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    database, store = f"sent_{encoding.lower()}", Store()
    run_sql(server, "postgres", f"create database {database} encoding '{encoding}' locale 'C' template template0")
    with connected(server, database) as connection:
        connection.execute(f"set client_encoding = '{encoding}'".encode())
        connection.execute(SIGNALS.encode())
        connection.execute(b'create table a (id int primary key, "' + good + b'" text)')
        connection.execute(b"create table t (id int primary key, v text)")
        connection.execute(b"create table later (id int primary key, v text)")
        connection.execute(b"insert into later values (1, '" + bad + b"')")
        mode = {"snapshot.mode": "no_data", "slot.retry.delay.ms": "100"}
        task = begun_with_signals(server, database, store, **mode)
        read_until_quiet(task, store, 0.2)
        for each in (1, 2, 3):
            values = f"{each}, '".encode() + good + b"'"
            connection.execute(b"begin")
            connection.execute(b"insert into a values (" + values + b")")
            connection.execute(b"insert into t values (" + (values if each != 2 else b"2, '" + bad + b"'") + b")")
            connection.execute(b"update a set id = id where id < " + str(each).encode())
            connection.execute(b"commit")
    found: list[SourceRecord] = []
    until(lambda: found.extend(_stored(task, store)) or told(found, "a")[3:4], "all rows", every=0)
    signal(server, database, "execute-snapshot", data_collections=["public.later", "public.a"])
    until(lambda: found.extend(_stored(task, store)) or ("r", 3) in told(found, "a"), "the chunk", every=0)
    task.stop()
    assert [each for each in told(found, "a") if each[0] == "c"] == [("c", 1), ("c", 2), ("c", 3)]
    assert {each.value["after"]["日"] for each in found if (each.topic or "").endswith(".a")} == {"日"}
    assert told(found, "t") == [("c", 1)] and not told(found, "later")
    assert "Table public.t is refused" in caplog.text and "Table public.later is refused" in caplog.text


def _stored(task: Any, store: Store) -> list[SourceRecord]:
    found = polled(task)
    store.take(found)
    task.commit()
    return found


@pytest.mark.parametrize("first", ["a b", "a_b"])
def test_of_two_tables_with_one_topic_the_one_that_is_refused_leaves_the_other(
    server: PostgresServer, database: str, first: str
) -> None:
    second = "a_b" if first == "a b" else "a b"
    run_sql(
        server,
        database,
        f'create table "{first}" (id int primary key, v numeric); create table "{second}" (id int primary key, v numeric)',
    )
    settings, store = {"topic.prefix": f"one_{database}", "snapshot.mode": "no_data"}, Store()
    task = begun(server, database, store, **settings)
    read_until_quiet(task, store, 0.2)
    run_sql(
        server,
        database,
        f'begin; insert into "{first}" values (1, 1), (2, \'NaN\'); insert into "{second}" values (1, 1), (2, 2); '
        f'insert into "{first}" values (3, 3); delete from "{first}" where id = 3; delete from "{second}" where id = 1; '
        f'insert into "{second}" select g, g from generate_series(10, 40) g; commit; insert into "{second}" values (50, 5)',
    )
    found = read_until_quiet(task, store, 0.3)
    task.stop()
    own = [each for each in found if each.topic == f"one_{database}.public.a_b"]
    of_first = [each for each in own if each.value is not None and each.value["source"]["table"] == first]
    assert [(each.value["op"], each.value["after"]["id"]) for each in of_first] == [("c", 1)]
    of_second = [each for each in own if each not in of_first]
    assert [each.key["id"] for each in of_second] == [1, 2, 1, 1, *range(10, 41), 50]
    assert of_second[3].value is None, "the tombstone of the deletion"
    assert [each.partition(" is refused")[0] for each in task.source_state().warnings] == [f"table public.{first}"]
    task = begun(server, database, store, **settings)
    run_sql(server, database, f'insert into "{first}" values (60, 1); insert into "{second}" values (61, 1)')
    found = read_until_quiet(task, store, 0.3)
    task.stop()
    assert [each.key["id"] for each in found] == [61]
