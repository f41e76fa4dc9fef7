"""What snapshots have come to is told in a topic and in the log, and a topic has signals; tests/compat compares the rest."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc import PostgresConnector
from tests.connectors.cdc.replay import begun, read_until_quiet, run_sql
from tests.connectors.cdc.test_signals import SIGNALS, begun_with_signals, rows, signal
from tests.connectors.contexts import SourceContext, Store, polled
from tests.server import running_server
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
SINK = {"notification.enabled.channels": "sink,log", "notification.sink.topic.name": "notes"}
TABLE = "create table later (a int, b text, v int, primary key (a, b))"


def told(records: list[SourceRecord]) -> list[tuple[str, dict[str, str]]]:
    """Type and data of each notification."""
    return [(each.value["type"], dict(each.value["additional_data"])) for each in records if each.topic == "notes"]


def test_an_initial_snapshot_is_told_table_by_table_and_without_one_that_it_was_left_out(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connectors.cdc")
    run_sql(server, database, f"{TABLE}; insert into later values (1, 'x', 1); create table more (id int)")
    store, name = Store(), f"told_{database}"
    task = begun(server, database, store, **{"topic.prefix": name, **SINK})
    found = told(read_until_quiet(task, store, 0.2))
    task.stop()
    assert [each for each, _ in found] == [
        *("STARTED", "DATA_COLLECTIONS_RESOLVED"),
        *("IN_PROGRESS", "TABLE_SCAN_COMPLETED") * 2,
        "COMPLETED",
    ]
    assert found[3][1] == {
        "connector_name": name,
        "data_collections": "public.later,public.more",
        "scanned_collection": "public.later",
        "total_rows_scanned": "1",
        "status": "SUCCEEDED",
    }
    assert "Notification: {'id'" in caplog.text
    task = begun(server, database, store, **{"topic.prefix": name, **SINK})
    assert told(read_until_quiet(task, store, 0.2)) == [("SKIPPED", {"connector_name": name})]
    task.stop()


def test_an_incremental_snapshot_is_told_chunk_by_chunk(server: PostgresServer, database: str) -> None:
    run_sql(server, database, f"{SIGNALS}; {TABLE}; insert into later select g, 'k', g from generate_series(1, 4) g")
    task = begun_with_signals(server, database, **SINK)
    signal(server, database, "execute-snapshot", data_collections=["public.later"])
    records = read_until_quiet(task, None, 0.4)
    found = told(records)
    assert [each for each, _ in found][1:] == [
        *("STARTED", "DATA_COLLECTIONS_RESOLVED", "IN_PROGRESS", "IN_PROGRESS"),
        *("TABLE_SCAN_COMPLETED", "COMPLETED"),
    ]
    chunk = found[4][1]
    assert (chunk["chunk_index"], chunk["total_chunks"], chunk["last_processed_key"]) == ("2", "2", "4,k")
    ids = {
        each.value["id"] for each in records if each.topic == "notes" and "Incremental" in each.value["aggregate_type"]
    }
    assert len(ids) == 1 and ids.pop().startswith("s0."), "the signal's"
    bad = [{"data-collection": "public.later", "filter": "nonsense"}]
    signal(server, database, "execute-snapshot", data_collections=["public.later"], additional_conditions=bad)
    assert [each for each, _ in told(read_until_quiet(task, None, 0.4))][2:] == ["ABORTED"]
    kind = {"type": "blocking", "additional_conditions": bad}
    signal(server, database, "execute-snapshot", data_collections=["public.later"], **kind)
    assert [each for each, _ in told(read_until_quiet(task, None, 0.4))][-1] == "ABORTED"
    task.stop()


def test_a_topic_has_signals_each_taken_once_and_only_for_the_own_key(
    server: PostgresServer, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka import Producer

    run_sql(server, database, f"{SIGNALS}; {TABLE}; insert into later select g, 'k', g from generate_series(1, 4) g")
    with running_server(tmp_path) as broker:
        settings = {
            "signal.enabled.channels": "kafka",
            "signal.kafka.topic": "asked",
            "signal.kafka.bootstrap.servers": broker.bootstrap,
            "signal.consumer.client.id": "mine",
            "signal.poll.interval.ms": "50",
        }
        producer = Producer({"bootstrap.servers": broker.bootstrap})

        def ask(key: str, value: Any) -> None:
            producer.produce("asked", key=key, value=json.dumps(value))
            assert producer.flush(30) == 0

        wanted = {"type": "execute-snapshot", "data": {"data-collections": ["public.later"]}}
        own = f"sig_{database}"
        ask(own, wanted)  # of before the connector's first start
        store = Store()
        task = begun_with_signals(server, database, store, **settings)
        ask("another", wanted)
        ask(own, [1])
        ask(own, {"id": "k", **wanted})
        records: list[SourceRecord] = []

        def is_read() -> bool:
            found = polled(task)
            store.take(found)
            records.extend(found)
            return len(rows(records)) >= 4

        until(is_read, "the rows", every=0)
        records += read_until_quiet(task, store, 0.4)
        task.stop()
        assert [each[:2] for each in rows(records)] == [("r", "incremental")] * 4
        assert "is no signal: it is no object of JSON" in caplog.text
        ask(own, {"type": "log", "data": {"message": "while nobody looked"}})
        caplog.set_level(logging.INFO, "ottla.connectors.cdc")
        task = begun_with_signals(server, database, store, **settings)
        until(lambda: task.poll() or "while nobody looked" in caplog.text, "the signal of meanwhile", every=0)
        assert rows(read_until_quiet(task, store, 0.4)) == []
        task.stop()


def test_channels_need_what_they_are_to_use() -> None:
    props = {"signal.enabled.channels": "kafka", "notification.enabled.channels": "sink,jmx", "topic.prefix": "x"}
    found = PostgresConnector().validate(props)
    assert found["signal.kafka.bootstrap.servers"].errors == ["signal.enabled.channels=kafka needs it"]
    assert found["notification.sink.topic.name"].errors == ["notification.enabled.channels=sink needs it"]
    assert found["notification.enabled.channels"].errors == ["jmx is not there: log, sink are"]


@pytest.mark.parametrize("kind", ["initial", "incremental", "blocking"])
@pytest.mark.parametrize("in_columns", [True, False])
def test_a_table_that_is_refused_is_not_told_as_read(
    server: PostgresServer, database: str, kind: str, in_columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceContext, "takes_columns", in_columns)
    run_sql(
        server,
        database,
        f"{SIGNALS}; create table bad (id int primary key, v numeric); create table empty (id int primary key); "
        "create table good (id int primary key); insert into good values (1); "
        "insert into bad select g, case g when 9 then 'NaN'::numeric else g end from generate_series(1, 9) g",
    )
    mode = "initial" if kind == "initial" else "no_data"
    task = begun_with_signals(server, database, None, **{"snapshot.mode": mode, **SINK})
    found = read_until_quiet(task, None, 0.3)
    if kind != "initial":
        named = [f"public.{each}" for each in ("bad", "empty", "good")]
        signal(server, database, "execute-snapshot", data_collections=named, type=kind)
        found += read_until_quiet(task, None, 0.5)
    task.stop()
    ended = [more for type_, more in told(found) if type_ == "TABLE_SCAN_COMPLETED"]
    assert [(each["scanned_collection"], each["status"]) for each in ended] == [
        ("public.bad", "SQL_EXCEPTION"),
        ("public.empty", "EMPTY" if kind == "incremental" else "SUCCEEDED"),
        ("public.good", "SUCCEEDED"),
    ]
    order = [type_ for type_, _ in told(found) if type_ in ("IN_PROGRESS", "TABLE_SCAN_COMPLETED")]
    assert kind == "incremental" or order == ["IN_PROGRESS", "TABLE_SCAN_COMPLETED"] * 3
