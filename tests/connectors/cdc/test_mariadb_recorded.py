"""Records equal those that Debezium 3.5.0 wrote for the same SQL on MariaDB, schemas, headers and order included."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
        records = found[name]
        last = f"{name}.shop.copied"  # the last change of the script that all of them have
        while not any(each.topic == last for each in records):
            records += task.poll() or ()
        records += read_until_quiet(task, seconds=0.5)
        task.stop()
    return found


def in_form(topic: str, row: dict[str, Any]) -> Any:
    """Return a row as the comparison sees it: places in the binlog by their form alone."""
    found = json.loads(json.dumps(masked(topic, row)))
    for part in ("key", "value"):
        hide(found[part])
    if topic.endswith(("texts", "times", "grows", "empty_one")) or "." not in topic:
        without_slips(found)
    return found


def hide(value: Any) -> None:
    """Leave what differs from run to run of a key or a value, but for its type."""
    if not isinstance(value, dict):
        return
    source = value.get("source")
    if isinstance(source, dict):
        for name in ("file", "pos", "gtid", "server_id", "row", "thread"):
            source[name] = type(source[name]).__name__
    for name in ("id", "transaction"):
        if value.get(name) is not None and not isinstance(value[name], int):
            value[name] = "an id"


def without_slips(row: Any) -> None:
    """Have what Debezium gets wrong equal what is right.

    Quotes in defaults and commas in values of enums stay escaped; of a UUID the binlog's bytes are read as a text; year 0 is
    1900 in the stream; a comment is not always written; a table that is emptied is in a transaction without an end; of a
    statement about no table the table is named ''.
    """
    schema = row["value_schema"]
    for fields in (each.get("fields") or () for each in (schema or {}).get("fields", ())):
        for field in fields:
            field.pop("doc", None)
            if field.get("default") == "x''y":
                field["default"] = "x'y"
    value = row["value"] or {}
    for part in ("before", "after"):
        found = value.get(part)
        if not isinstance(found, dict):
            continue
        if found.get("e") == "b\\,c":
            found["e"] = "b,c"
        if found.get("u") == "0000123e-4567-e89b-12d3-a45642665544":
            found["u"] = "123e4567-e89b-12d3-a456-426655440000"
        if "yn" in found:
            found |= {each: 0 for each in ("y", "yn") if found[each] == 1900}
    if value.get("op") == "t":
        value["transaction"] = None
    if "ddl" in value:
        value["source"]["table"] = value["source"]["table"] or None
        for change in value["tableChanges"]:
            if change["id"].startswith('"other_db"'):  # it has the server's character set, which is another one
                change["table"]["defaultCharsetName"] = "latin1"
            for column in (change["table"] or {}).get("columns", ()):
                if column["defaultValueExpression"] == "x''y":
                    column["defaultValueExpression"] = "x'y"


def compared(name: str, topic: str, rows: Sequence[dict[str, Any]]) -> list[Any]:
    """Return a topic's rows as they are compared.

    Debezium writes a tombstone without a key for a deletion from a table that has none, begins transactions for statements
    that it does not end, and tells of statements about databases that are not captured.
    """
    if topic.endswith(".transaction"):
        ended = {each["value"]["id"] for each in rows if each["value"]["status"] == "END"}
        rows = [each for each in rows if each["value"]["id"] in ended]
    if topic.endswith(".nopk"):
        rows = [each for each in rows if each["key"] is not None or each["value"] is not None]
    if topic == name != "plain":
        rows = [each for each in rows if each["value"]["databaseName"] != "other_db"]
    return [in_form(topic, each) for each in rows]


@pytest.mark.parametrize("name", NAMES)
def test_records_are_those_that_debezium_wrote(name: str, replayed: dict[str, list[SourceRecord]]) -> None:
    found, wanted = as_facts(replayed[name]), recorded(name, MARIADB_RECORDED)
    assert {each for each in found if not each.startswith("__")} == wanted.keys()
    for topic, rows in wanted.items():
        assert compared(name, topic, found[topic]) == compared(name, topic, rows), topic
