"""The contract of connectors, held by those of Ottla's that speak to databases, object stores and folders, and by datagen.

Some scenarios each: what stands between them and the cluster is the same as in `test_contract.py`.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.converters import JsonConverter
from ottla.connect.testing import Position, Scenario, SinkContract, SourceContract, Trouble
from ottla.connectors.datagen import GeneratorSourceConnector, generator_source
from ottla.connectors.files import FolderSourceConnector, FolderSourceTask
from ottla.connectors.jdbc import JdbcSinkConnector, JdbcSourceConnector
from ottla.connectors.s3 import S3SinkConnector
from ottla.spark import run_on_model
from tests.connectors.s3_server import KEYS, S3Server, running_s3

ROWS = [f"row {number}" for number in range(4)]
PLAIN = {"schemas.enable": "false"}
SCHEMA = {"type": "struct", "fields": [{"field": "name", "type": "string", "optional": False}]}

# -- sources


def a_folder(folder: Path) -> dict[str, str]:
    for name, rows in (("a", ROWS[:2]), ("b", ROWS[2:])):
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{name}.log").write_text("".join(f"{each}\n" for each in rows))
    return {"paths": str(folder / "in"), "topic": "rows", "scan.interval.ms": "1", "poll.interval.ms": "1"}


def orders(folder: Path) -> dict[str, str]:
    return {"kafka.topic": "rows", "iterations": "4", "max.interval": "0", "start.time.ms": "1", "quickstart": "orders"}


def a_table(folder: Path) -> dict[str, str]:
    with closing(sqlite3.connect(folder / "in.db")) as database, database:
        database.execute("CREATE TABLE ws (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        database.executemany("INSERT INTO ws (name) VALUES (?)", [(each,) for each in ROWS])
    connector: Any = JdbcSourceConnector()
    connector.context = None
    url = f"jdbc:sqlite:{folder / 'in.db'}"
    props = {"connection.url": url, "mode": "incrementing", "topic.prefix": "ro", "batch.max.rows": "2"}
    connector.start({**props, "poll.interval.ms": "1"})
    try:
        [found] = connector.task_configs(1)
    finally:
        connector.stop()
    return dict(found)


def field_of_bytes(field: str) -> Callable[[bytes | None], str]:
    return lambda data: str(json.loads(data or b"{}").get(field))


def from_structs(connector: type[Any], config: Any, rows: list[str], field: str) -> SourceContract:
    return SourceContract(
        connector,
        config,
        rows,
        run_on_model,
        converter=JsonConverter,
        converter_config=PLAIN,
        name_of=lambda value: str(value[field]),
        letter_name=field_of_bytes(field),
        row_name=field_of_bytes(field),
    )


SOURCES = {
    "folder": SourceContract(FolderSourceConnector, a_folder, ROWS, run_on_model),
    "datagen": from_structs(GeneratorSourceConnector, orders, [str(number) for number in range(4)], "orderid"),
    "jdbc": from_structs(JdbcSourceConnector, a_table, ROWS, "name"),
}

# -- sinks

DATABASE_KEYS = {"auto.create": "true", "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "name"}


def with_schema(name: str) -> bytes:
    return json.dumps({"schema": SCHEMA, "payload": {"name": name}}).encode()


def rows_of_tables(folder: Path) -> list[str]:
    found: list[str] = []
    with closing(sqlite3.connect(folder / "out.db")) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            found += [name for (name,) in database.execute(f'SELECT name FROM "{table}"')]
    return found


def to_table(mode: dict[str, str], *, once: bool) -> SinkContract:
    return SinkContract(
        JdbcSinkConnector,
        lambda folder: {"connection.url": f"jdbc:sqlite:{folder / 'out.db'}", **mode},
        ROWS,
        run_on_model,
        converter=JsonConverter,
        name_of=lambda value: str(value["name"]),
        letter_name=lambda data: str(json.loads(data or b"{}")["payload"]["name"]),
        row_bytes=with_schema,
        read=rows_of_tables,
        once=once,
    )


class Buckets:
    """A bucket for each case, by its folder."""

    server: S3Server
    numbers = itertools.count()

    def config(self, folder: Path) -> dict[str, str]:
        bucket = self.server.bucket(f"contract-{next(self.numbers)}")
        (folder / "bucket").write_text(bucket)
        form = {"format.class": "JsonFormat", "flush.size": "1", "s3.part.retries": "0"}
        return {**KEYS, "s3.bucket.name": bucket, "store.url": self.server.url, **form}

    def read(self, folder: Path) -> list[str]:
        objects = self.server.objects((folder / "bucket").read_text())
        return [json.loads(line) for data in objects.values() for line in data.splitlines()]


BUCKETS = Buckets()
SINKS = {
    "jdbc-upsert": to_table(DATABASE_KEYS, once=True),
    "jdbc-insert": to_table({"auto.create": "true"}, once=False),
    "s3": SinkContract(S3SinkConnector, BUCKETS.config, ROWS, run_on_model, read=BUCKETS.read, once=True),
}

# -- what is run

LAST, MIDDLE, FIRST = Position.LAST, Position.MIDDLE, Position.FIRST
SOURCE_SCENARIOS = (
    Scenario(Trouble.PLAIN),
    Scenario(Trouble.REFUSED, MIDDLE),
    Scenario(Trouble.FILTERED, LAST, exactly_once=True),
)
SINK_SCENARIOS = (Scenario(Trouble.PLAIN), Scenario(Trouble.REPORTED, MIDDLE), Scenario(Trouble.ROUTED, FIRST))
S3_SCENARIOS = (Scenario(Trouble.ROUTED, FIRST),)


@contextmanager
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(generator_source, "WAIT_S", 0.0)
    monkeypatch.setattr(FolderSourceTask, "wait_s", 0.0)
    yield


@pytest.mark.parametrize("scenario", SOURCE_SCENARIOS, ids=str)
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_loses_and_doubles_nothing(
    name: str, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nothing_is_waited_for(monkeypatch):
        assert_kept(SOURCES[name].run(scenario, tmp_path, every=3 if name == "jdbc" else 1))


@pytest.mark.parametrize("scenario", SINK_SCENARIOS, ids=str)
@pytest.mark.parametrize("name", [each for each in SINKS if each != "s3"])
def test_a_sink_loses_and_doubles_nothing(name: str, scenario: Scenario, tmp_path: Path) -> None:
    assert_kept(SINKS[name].run(scenario, tmp_path))


@pytest.mark.parametrize("scenario", S3_SCENARIOS, ids=str)
def test_the_s3_sink_loses_and_doubles_nothing(scenario: Scenario, tmp_path: Path) -> None:
    with running_s3() as BUCKETS.server:
        assert_kept(SINKS["s3"].run(scenario, tmp_path, every=7))


def assert_kept(violations: list[Any]) -> None:
    assert not violations, f"{len(violations)} cases:\n" + "\n".join(str(each) for each in violations[:20])
