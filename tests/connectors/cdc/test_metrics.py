"""What a captured database's task measures: Debezium's names, counted once however often a stream is read anew."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connectors.cdc import PostgresConnector
from ottla.connectors.cdc.metrics import CaptureMetrics
from tests.connectors.cdc.replay import begun, read_until_quiet, run_sql
from tests.connectors.contexts import Store
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)


def shown(task: Any, context: str, table: str | None = None) -> dict[str, float]:
    for each in task.measures():
        if each.labels["context"] == context and each.labels.get("table") == table:
            return dict(each.values)
    return {}


def test_a_snapshot_and_the_changes_behind_it_are_counted(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key); create table u (id int primary key)")
    run_sql(server, database, "insert into t select g from generate_series(1, 30) g; insert into u values (1)")
    settings = {"topic.prefix": f"counted_{database}", "skipped.operations": "t,d"}
    store = Store()
    task = begun(server, database, store, **settings)
    read_until_quiet(task, store, 0.2)
    found = shown(task, "snapshot")
    assert found["SnapshotDurationInSeconds"] >= 0
    del found["SnapshotDurationInSeconds"]
    assert found == {
        "SnapshotRunning": 0,
        "SnapshotCompleted": 1,
        "SnapshotAborted": 0,
        "TotalTableCount": 2,
        "RemainingTableCount": 0,
    }
    assert shown(task, "snapshot", "public.t") == {"RowsScanned": 30}
    run_sql(server, database, "insert into t values (100), (101); update t set id = 102 where id = 100; delete from u")
    read_until_quiet(task, store, 0.3)
    found = shown(task, "streaming")
    assert found["Connected"] == 1 and 0 <= found["MilliSecondsBehindSource"] < 60_000
    assert (found["TotalNumberOfCreateEventsSeen"], found["TotalNumberOfUpdateEventsSeen"]) == (2, 1)
    assert (found["TotalNumberOfEventsSeen"], found["NumberOfEventsFiltered"]) == (3, 1)
    assert found["NumberOfCommittedTransactions"] >= 3
    task.stop()
    again = begun(server, database, store, **settings)
    read_until_quiet(again, store, 0.2)
    assert shown(again, "streaming")["TotalNumberOfEventsSeen"] == 0, "what was stored before is not seen again"
    assert shown(again, "snapshot")["SnapshotCompleted"] == 0
    again.stop()


def test_before_anything_has_come_nothing_is_said_of_it() -> None:
    found = shown(CaptureMetrics("shop"), "streaming")
    assert (found["Connected"], found["MilliSecondsBehindSource"], found["MilliSecondsSinceLastEvent"]) == (0, -1, -1)
    assert CaptureMetrics("shop").measures()[0].labels == {"plugin": "postgres", "name": "shop", "context": "streaming"}


def test_a_snapshot_that_fails_is_aborted_and_one_that_begins_anew_counts_anew() -> None:
    metrics = CaptureMetrics("shop", lambda: 5_000.0)
    metrics.snapshot_began(2)
    metrics.read("public.t")
    metrics.snapshot_ended(aborted=True)
    assert shown(metrics, "snapshot")["SnapshotAborted"] == 1
    metrics.snapshot_began(1)
    assert shown(metrics, "snapshot")["SnapshotRunning"] == 1 and shown(metrics, "snapshot", "public.t") == {}


def test_its_class_is_debeziums() -> None:
    assert PostgresConnector.java_name.startswith("io.debezium.")
