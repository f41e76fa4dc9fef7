"""Records equal those that Debezium 3.7.0 wrote for the same SQL, schemas, headers and order included (recorded/)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc import EventRouter, ExtractNewRecordState
from tests.connectors.cdc.replay import (
    RECORDED,
    as_facts,
    begun,
    masked,
    read_until_quiet,
    recorded,
    run_sql,
    without_incremental,
)
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
NAMES = ("plain", "other", "third", "outbox", "unwrap", "signal")
SCRIPTS = ("stream1", "stream2", "stream3", "stream4")


def settings_of(name: str) -> dict[str, str]:
    lines = (RECORDED / "connectors" / f"{name}.properties").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key.strip(): value.strip().replace("\\\\", "\\") for key, value in pairs}


def transform_of(settings: dict[str, str]) -> Any:
    """Return what a connector's records go through, None where they go as they are."""
    if "transforms" not in settings:
        return None
    begin = f"transforms.{settings['transforms']}."
    own = {key.removeprefix(begin): value for key, value in settings.items() if key.startswith(begin)}
    made = {each.java_name: each for each in (EventRouter, ExtractNewRecordState)}[own.pop("type")]()
    made.configure(own)
    return made


@pytest.fixture(scope="module")
def replayed(server: PostgresServer) -> dict[str, list[SourceRecord]]:
    """What each connector makes of the script."""
    run_sql(server, "postgres", "create database shop")
    run_sql(server, "shop", (RECORDED / "sql" / "setup.sql").read_text())
    found: dict[str, list[SourceRecord]] = {}
    tasks, transforms = {}, {}
    for name in NAMES:
        settings = settings_of(name)
        transforms[name] = transform_of(settings)
        # of the connectors that were recorded one takes signals here: several would read the same table at once
        dropped = ("transforms",) if name == "signal" else ("transforms", "signal", "incr")
        own = {key: value for key, value in settings.items() if not key.startswith(dropped)}
        tasks[name] = begun(server, "shop", **{"topic.prefix": name, **own})
        found[name] = read_until_quiet(tasks[name], seconds=0.2)
    for script in SCRIPTS:
        run_sql(server, "shop", (RECORDED / "sql" / f"{script}.sql").read_text())
        for name, task in tasks.items():  # as in the recording, each sees a table as it is after the script
            found[name] += read_until_quiet(task, seconds=0.3)
    for task in tasks.values():
        task.stop()
    return {
        name: records
        if transforms[name] is None
        else [made for each in records if (made := transforms[name].apply(each)) is not None]
        for name, records in found.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_records_are_those_that_debezium_wrote(name: str, replayed: dict[str, list[SourceRecord]]) -> None:
    found, wanted = as_facts(replayed[name]), recorded(name)
    assert found.keys() == wanted.keys()
    for topic, rows in wanted.items():
        if topic == "signal.open.later":  # with the reads of an incremental snapshot
            own, others = found[topic], rows
        else:
            own, others = without_incremental(topic, found[topic]), without_incremental(topic, rows)
        assert [masked(topic, each) for each in own] == [masked(topic, each) for each in others], topic
