"""From database to database through a broker: both connectors as the worker runs them, with JSON in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.connectors.jdbc import JdbcSinkConnector, JdbcSourceConnector
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.test_jdbc_types import filled
from tests.server import Server, running_server
from tests.spark.running import Port, Running, await_true, committed_records, records_of, running, spec_of

CLASSES = (JdbcSourceConnector, JdbcSinkConnector)
SCHEMAS = {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    overrides = ["transaction.state.log.replication.factor=1", "offsets.topic.replication.factor=1"]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=overrides) as started:
        yield started


def source(database: TestDatabase, name: str, **more: str) -> dict[str, str]:
    own = {key.replace("_", "."): value for key, value in more.items()}
    connector = JdbcSourceConnector()
    config = {
        **database.props,
        "name": name,
        "connector.class": JdbcSourceConnector.java_name,
        "mode": "incrementing",
        "topic.prefix": f"{name}-",
        "poll.interval.ms": "20",
        **own,
    }
    connector.start(config)
    (task,) = connector.task_configs(1)
    connector.stop()
    return dict(task)


def sink(database: TestDatabase, name: str, topics: str, **more: str) -> dict[str, str]:
    own = {key.replace("_", "."): value for key, value in more.items()}
    base = {"name": name, "connector.class": JdbcSinkConnector.java_name, "topics": topics, "auto.create": "true"}
    keys = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    return {**database.props, **base, **keys, "consumer.override.metadata.max.age.ms": "500", **own}


def healthy(task: Running) -> bool:
    assert not task.port.trace, task.port.trace
    return True


def test_a_table_of_every_type_arrives_in_another_database_as_it_was(postgres: TestDatabase, server: Server) -> None:
    filled(postgres)
    with running(
        spec_of(server.bootstrap, source(postgres, "types", incrementing_column_name="id"), worker=SCHEMAS), *CLASSES
    ) as reading:
        await_true(lambda: healthy(reading) and records_of(server.bootstrap, "types-t"), "the row is in the topic")
    back = sink(postgres, "types-back", "types-t", table_name_format="copy")
    with running(spec_of(server.bootstrap, back, worker=SCHEMAS), *CLASSES) as writing:
        made = "SELECT count(*) FROM pg_tables WHERE tablename = 'copy'"
        await_true(lambda: healthy(writing) and postgres.run(made) == [(1,)], "the table is made")
        await_true(lambda: healthy(writing) and postgres.run("SELECT 1 FROM copy"), "the row is written")
    names = [
        row[0]
        for row in postgres.run("SELECT attname FROM pg_attribute WHERE attrelid = 't'\\:\\:regclass AND attnum > 0")
    ]
    texts = ", ".join(f"CAST({each} AS TEXT)" for each in names)
    one, other = (postgres.run(f"SELECT {texts} FROM {each}")[0] for each in ("t", "copy"))
    differing = {name: (a, b) for name, a, b in zip(names, one, other, strict=True) if not _same(a, b)}
    assert differing == {}


def _same(one: str | None, other: str | None) -> bool:
    """Compare texts of values: Connect's times end with the millisecond and are in UTC, its decimals keep their zeros."""
    if one is None or other is None:
        return one is other
    one, other = (
        one.removesuffix("/32"),
        other.rstrip(),
    )  # PostgreSQL's own texts of inet and char(n) are not their values'
    return one == other or one[:19] == other[:19] or other.rstrip("0") == one


def test_rows_go_from_database_to_database_while_they_are_written(
    postgres: TestDatabase, sqlite: TestDatabase, server: Server
) -> None:
    sqlite.run("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
    reading = spec_of(server.bootstrap, source(sqlite, "live"), worker=SCHEMAS)
    writing = spec_of(
        server.bootstrap, sink(postgres, "live-sink", "live-people", table_name_format="people"), worker=SCHEMAS
    )
    with running(reading, *CLASSES) as one, running(writing, *CLASSES) as other:
        for each in range(30):
            sqlite.run("INSERT INTO people (name) VALUES (:name)", name=f"n{each}")
        made = "SELECT count(*) FROM pg_tables WHERE tablename = 'people'"
        await_true(lambda: healthy(one) and healthy(other) and postgres.run(made) == [(1,)], "the table is made")
        await_true(
            lambda: healthy(other) and postgres.run("SELECT count(*) FROM people") == [(30,)], "all rows are there"
        )
    assert postgres.run("SELECT * FROM people ORDER BY id") == sqlite.run("SELECT * FROM people ORDER BY id")


def test_a_source_under_exactly_once_that_is_cut_off_writes_each_row_once(
    database: TestDatabase, server: Server
) -> None:
    database.run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    for each in range(40):
        database.run("INSERT INTO t VALUES (:id, 'x')", id=each)
    name = f"once-{database.kind}"
    config = source(database, name, incrementing_column_name="id", batch_max_rows="3")
    spec = spec_of(server.bootstrap, config, exactly_once=True)
    topic, port = f"{name}-t", Port()

    def seen() -> list[int]:
        return [json.loads(value or b"{}")["id"] for _, value in committed_records(server.bootstrap, topic)]

    with running(spec, *CLASSES, port=port) as task:
        await_true(lambda: healthy(task) and len(seen()) > 5, "some rows are in the topic")
    for _ in range(2):  # the next task finds its place in the offsets topic
        with running(spec, *CLASSES, port=Port()) as task:
            await_true(lambda: healthy(task) and len(seen()) >= 40, "all rows are in the topic")
    assert seen() == list(range(40))


def test_a_record_that_the_database_refuses_is_among_the_dead_letters(
    postgres: TestDatabase, server: Server, tmp_path: Path
) -> None:
    postgres.run("CREATE TABLE refused (id BIGINT PRIMARY KEY, name TEXT CHECK (name <> 'bad'))")
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server.bootstrap})
    for each, name in enumerate(("a", "bad", "c")):
        producer.produce("refused", json.dumps({"id": each, "name": name}).encode())
    assert producer.flush(30) == 0
    dead_letters = {
        "errors_tolerance": "all",
        "errors_deadletterqueue_topic_name": "refused-letters",
        "errors_deadletterqueue_topic_replication_factor": "1",
        "errors_deadletterqueue_context_headers_enable": "true",
    }
    config = sink(postgres, "refusing", "refused", **dead_letters)
    with running(spec_of(server.bootstrap, config), *CLASSES) as task:
        await_true(
            lambda: healthy(task) and postgres.run("SELECT count(*) FROM refused") == [(2,)], "the good are written"
        )
        await_true(lambda: records_of(server.bootstrap, "refused-letters"), "the bad one is a dead letter")
    (dead_letter,) = records_of(server.bootstrap, "refused-letters")
    assert json.loads(dead_letter.value or b"") == {"id": 1, "name": "bad"}
    said = dict(dead_letter.headers)
    assert b"violates check constraint" in said["__connect.errors.exception.message"]
