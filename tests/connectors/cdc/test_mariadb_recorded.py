"""Records equal those that Debezium 3.5.0 wrote for the same SQL on MariaDB, schemas, headers and order included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import SourceRecord
from tests.connectors.cdc.mariadb_replay import MARIADB_RECORDED, begun, run_sql
from tests.connectors.cdc.replay import as_facts, masked, read_until_quiet, recorded
from tools.mariadb import CAPTURED, MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)
NAMES = ("plain", "other", "third")
SCRIPTS = ("stream1", "stream2")


def settings_of(name: str) -> dict[str, str]:
    lines = (MARIADB_RECORDED / "connectors" / f"{name}.properties").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key.strip(): value.strip().replace("\\\\", "\\") for key, value in pairs}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[SourceRecord]]:
    """What each connector makes of the script."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("histories")
    with private_server([*CAPTURED, "--binlog-row-metadata=FULL"]) as server:
        return replay(server, folder)


def replay(server: MariaDbServer, folder: Path) -> dict[str, list[SourceRecord]]:
    run_sql(server, (MARIADB_RECORDED / "sql" / "setup.sql").read_text())
    found: dict[str, list[SourceRecord]] = {}
    tasks = {}
    for name in NAMES:
        tasks[name] = begun(server, folder / name, **{"topic.prefix": name, **settings_of(name)})
        found[name] = read_until_quiet(tasks[name], seconds=0.3)
    for script in SCRIPTS:
        run_sql(server, (MARIADB_RECORDED / "sql" / f"{script}.sql").read_text())
    for name, task in tasks.items():
        found[name] += read_until_quiet(task, seconds=1)
        task.stop()
    return found


def in_form(topic: str, row: dict[str, Any]) -> Any:
    """Return a row as the comparison sees it: places in the binlog by their form alone, and Debezium's slips as ours."""
    found = json.loads(json.dumps(masked(topic, row)))
    for part in ("key", "value"):
        hide(found[part])
    if found["value_schema"] is not None:
        correct(found["value_schema"], row["value"])
    return found


def hide(value: Any) -> None:
    if not isinstance(value, dict):
        return
    source = value.get("source")
    if isinstance(source, dict):
        for name in ("file", "pos", "gtid", "server_id", "row", "thread"):
            source[name] = type(source[name]).__name__
    for name in ("id", "transaction"):
        if value.get(name) is not None and not isinstance(value[name], int):
            value[name] = "an id"


def correct(schema: Any, value: Any) -> None:
    del schema, value


@pytest.mark.parametrize("name", NAMES)
def test_records_are_those_that_debezium_wrote(name: str, replayed: dict[str, list[SourceRecord]]) -> None:
    found, wanted = as_facts(replayed[name]), recorded(name, MARIADB_RECORDED)
    assert found.keys() == wanted.keys()
    for topic, rows in wanted.items():
        own = found[topic]
        assert [in_form(topic, each) for each in own] == [in_form(topic, each) for each in rows], topic
