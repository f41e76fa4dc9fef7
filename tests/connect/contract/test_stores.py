"""The contract of connectors, held by those of Ottla's that speak to databases, object stores and folders, and by datagen.

Some scenarios each: what stands between them and the cluster is the same as in `test_contract.py`.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ottla.connect.converters import JsonConverter
from ottla.connect.testing import Position, Scenario, SinkContract, SourceContract, Trouble
from ottla.connectors.datagen import GeneratorSourceConnector, generator_source
from ottla.connectors.files import FolderSourceConnector, FolderSourceTask
from ottla.connectors.jdbc import JdbcSinkConnector, JdbcSourceConnector
from ottla.connectors.jdbc.sink_task import JdbcSinkTask
from ottla.connectors.s3 import S3SinkConnector, S3SourceConnector
from ottla.connectors.s3 import sink as s3_sink
from ottla.connectors.s3 import source as s3_source
from ottla.spark import run_on_model
from tests.connectors.s3_server import KEYS, S3Server, running_s3
from tools.postgres import PASSWORD, USER, PostgresServer, missing, private_cluster

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
    return source_task({"connection.url": f"jdbc:sqlite:{folder / 'in.db'}"})


def source_task(where: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of the only task over the tables that are there."""
    connector: Any = JdbcSourceConnector()
    connector.context = None
    props = {"mode": "incrementing", "topic.prefix": "ro", "batch.max.rows": "2", "poll.interval.ms": "1"}
    connector.start({**where, **props})
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
        all_in_folder=True,
        converter=JsonConverter,
        converter_config=PLAIN,
        name_of=lambda value: str(value[field]),
        dead_letter_name=field_of_bytes(field),
        row_name=field_of_bytes(field),
    )


SOURCES = {
    "folder": SourceContract(FolderSourceConnector, a_folder, ROWS, run_on_model, all_in_folder=True),
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
        tables = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE name <> 'parents' AND type = 'table'")
        ]
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
        dead_letter_name=lambda data: str(json.loads(data or b"{}")["payload"]["name"]),
        row_bytes=with_schema,
        read=rows_of_tables,
        once=once,
        all_in_folder=True,
    )


class LateParentTask(JdbcSinkTask):
    """While it puts the rows for the third time, somebody writes what one of them refers to."""

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self.path, self.puts = props["connection.url"].removeprefix("jdbc:sqlite:"), 0

    def put(self, records: Any) -> None:
        self.puts += 1
        if self.puts == 3:
            with closing(sqlite3.connect(self.path)) as database, database:
                database.execute("INSERT INTO parents VALUES ('row 3')")
        super().put(records)


class LateParentConnector(JdbcSinkConnector):
    task_class = LateParentTask


def a_table_with_parents(folder: Path) -> dict[str, str]:
    """A table that refuses `row 2`, and `row 3` until its parent is there."""
    with closing(sqlite3.connect(folder / "out.db")) as database, database:
        database.execute("CREATE TABLE rows (name TEXT NOT NULL CHECK (name <> 'row 2'))")
        database.execute("CREATE TABLE parents (of_row TEXT)")
        database.execute(
            "CREATE TRIGGER waits BEFORE INSERT ON rows WHEN NEW.name = 'row 3' AND NOT EXISTS (SELECT * FROM parents) "
            "BEGIN SELECT RAISE(ABORT, 'FOREIGN KEY constraint failed'); END"
        )
    waits = {"max.retries": "20", "retry.backoff.ms": "1"}
    return {"connection.url": f"jdbc:sqlite:{folder / 'out.db'}", "insert.mode": "insert", **waits}


LATE_PARENT = replace(
    to_table({}, once=False), connector=LateParentConnector, config=a_table_with_parents, refuses_by_itself=True
)


class Buckets:
    """A bucket for each case of the sink, by its folder, and one for the source, which changes nothing."""

    server: S3Server
    source: str
    numbers = itertools.count()

    def config(self, folder: Path) -> dict[str, str]:
        bucket = self.server.bucket(f"contract-{next(self.numbers)}")
        (folder / "bucket").write_text(bucket)
        form = {"format.class": "JsonFormat", "flush.size": "1", "s3.part.retries": "0"}
        return {**KEYS, "s3.bucket.name": bucket, "store.url": self.server.url, **form}

    def to_read(self, folder: Path) -> dict[str, str]:
        form = {"mode": "GENERIC", "topic.regex.list": "rows:.*", "topics.dir": "in", "format.class": "StringFormat"}
        pauses = {"s3.settle.ms": "0", "s3.poll.interval.ms": "1", "s3.part.retries": "0"}
        return {**KEYS, "s3.bucket.name": self.source, "store.url": self.server.url, **form, **pauses}

    def read(self, folder: Path) -> list[str]:
        objects = self.server.objects((folder / "bucket").read_text())
        return [json.loads(line) for data in objects.values() for line in data.splitlines()]


BUCKETS = Buckets()
SINKS = {
    "jdbc-upsert": to_table(DATABASE_KEYS, once=True),
    "jdbc-insert": to_table({"auto.create": "true"}, once=False),
    "s3": SinkContract(S3SinkConnector, BUCKETS.config, ROWS, run_on_model, read=BUCKETS.read, once=True),
}


class Schemas:
    """A schema of a real PostgreSQL for each case, by its folder."""

    server: PostgresServer
    engine: sa.Engine
    numbers = itertools.count()

    def _made(self, folder: Path, *statements: str) -> dict[str, str]:
        schema = f"contract_{next(self.numbers)}"
        (folder / "schema").write_text(schema)
        with self.engine.begin() as connection:
            for each in (f"CREATE SCHEMA {schema}", *statements):
                connection.exec_driver_sql(each.replace("$", schema))
        url = f"{self.server.jdbc_url('postgres')}?currentSchema={schema}"
        return {"connection.url": url, "connection.user": USER, "connection.password": PASSWORD}

    def to_read(self, folder: Path) -> dict[str, str]:
        values = ", ".join(f"('{each}')" for each in ROWS)
        where = self._made(
            folder,
            "CREATE TABLE $.ws (id SERIAL PRIMARY KEY, name TEXT NOT NULL)",
            f"INSERT INTO $.ws (name) VALUES {values}",
        )
        return source_task({**where, "schema.pattern": (folder / "schema").read_text()})

    def to_fill(self, folder: Path) -> dict[str, str]:
        return {**self._made(folder), **DATABASE_KEYS}

    def read(self, folder: Path) -> list[str]:
        schema, found = (folder / "schema").read_text(), []
        with self.engine.begin() as connection:
            tables = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'"
            for (table,) in connection.exec_driver_sql(tables).all():
                found += [str(name) for (name,) in connection.exec_driver_sql(f"SELECT name FROM {schema}.{table}")]
        return found


SCHEMAS = Schemas()
POSTGRES_SOURCE = replace(from_structs(JdbcSourceConnector, SCHEMAS.to_read, ROWS, "name"), all_in_folder=False)
POSTGRES_SINK = replace(
    to_table(DATABASE_KEYS, once=True), config=SCHEMAS.to_fill, read=SCHEMAS.read, all_in_folder=False
)
S3_SOURCE = SourceContract(S3SourceConnector, BUCKETS.to_read, ROWS, run_on_model, all_in_folder=True)

# -- what is run

LAST, MIDDLE, FIRST = Position.LAST, Position.MIDDLE, Position.FIRST
SOURCE_SCENARIOS = (
    Scenario(Trouble.PLAIN),
    Scenario(Trouble.REFUSED, MIDDLE),
    Scenario(Trouble.FILTERED, LAST, exactly_once=True),
)
SINK_SCENARIOS = (Scenario(Trouble.PLAIN), Scenario(Trouble.REPORTED, MIDDLE), Scenario(Trouble.ROUTED, FIRST))
S3_SINK_SCENARIOS = (Scenario(Trouble.ROUTED, FIRST), Scenario(Trouble.MERGED))
S3_SOURCE_SCENARIOS = (Scenario(Trouble.REFUSED, MIDDLE), Scenario(Trouble.FILTERED, LAST, exactly_once=True))


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


def test_no_row_is_written_again_while_another_waits_for_its_parent(tmp_path: Path) -> None:
    assert_kept(LATE_PARENT.run(Scenario(Trouble.REPORTED, MIDDLE), tmp_path, every=6))


@pytest.fixture(scope="module")
def buckets() -> Iterator[Buckets]:
    """A server, and one client of it for all tasks: making one takes longer than a case."""
    with running_s3() as BUCKETS.server, pytest.MonkeyPatch.context() as patch:
        for module in (s3_source, s3_sink):
            patch.setattr(module, "made_client", lambda settings: BUCKETS.server.client)
        BUCKETS.source = BUCKETS.server.bucket("contract-source")
        for name, rows in (("a", ROWS[:2]), ("b", ROWS[2:])):
            body = "".join(f"{each}\n" for each in rows).encode()
            BUCKETS.server.client.put_object(Bucket=BUCKETS.source, Key=f"in/{name}", Body=body)
        yield BUCKETS


@pytest.mark.parametrize("scenario", S3_SINK_SCENARIOS, ids=str)
def test_the_s3_sink_loses_and_doubles_nothing(buckets: Buckets, scenario: Scenario, tmp_path: Path) -> None:
    assert_kept(SINKS["s3"].run(scenario, tmp_path, every=14))


@pytest.mark.parametrize("scenario", S3_SOURCE_SCENARIOS, ids=str)
def test_the_s3_source_loses_and_doubles_nothing(buckets: Buckets, scenario: Scenario, tmp_path: Path) -> None:
    assert_kept(S3_SOURCE.run(scenario, tmp_path, every=5))


@pytest.fixture(scope="module")
def schemas() -> Iterator[Schemas]:
    if reason := missing():
        pytest.skip(reason)
    with private_cluster() as SCHEMAS.server:
        SCHEMAS.engine = sa.create_engine(SCHEMAS.server.url)
        yield SCHEMAS
        SCHEMAS.engine.dispose()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", SOURCE_SCENARIOS, ids=str)
def test_a_source_of_a_real_database_loses_and_doubles_nothing(
    schemas: Schemas, scenario: Scenario, tmp_path: Path
) -> None:
    assert_kept(POSTGRES_SOURCE.run(scenario, tmp_path, every=3))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", (*SINK_SCENARIOS, Scenario(Trouble.MERGED)), ids=str)
def test_a_sink_of_a_real_database_loses_and_doubles_nothing(
    schemas: Schemas, scenario: Scenario, tmp_path: Path
) -> None:
    assert_kept(POSTGRES_SINK.run(scenario, tmp_path, every=3))


def assert_kept(violations: list[Any]) -> None:
    assert not violations, f"{len(violations)} cases:\n" + "\n".join(str(each) for each in violations[:20])
