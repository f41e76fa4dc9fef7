"""A worker's side of the JDBC connectors: tasks from configurations, records, and where refused ones go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect import Schema, SinkRecord, SourceRecord
from ottla.connectors.jdbc import JdbcSinkConnector, JdbcSourceConnector
from tests.connectors.contexts import Store, started

__all__ = ["Reporter", "SinkContext", "errors", "read_all", "record", "sink", "source_tasks", "stop_all", "values"]


RUNNING: list[Any] = []
"""Tasks that were begun: the test's end stops them."""


def stop_all() -> None:
    """Stop the tasks that were begun."""
    while RUNNING:
        RUNNING.pop().stop()


class Reporter:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.reported: list[tuple[SinkRecord, BaseException]] = []

    def report(self, record: SinkRecord, error: BaseException) -> None:
        self.reported.append((record, error))


class SinkContext:
    """What a sink task may ask; `errant_records` is None unless a reporter is given."""

    def __init__(self, configs: Mapping[str, str], reporter: Reporter | None) -> None:
        self.configs, self.errant_records = configs, reporter
        self.timeouts: list[int] = []

    def timeout(self, ms: int) -> None:
        self.timeouts.append(ms)


class ConnectorContext:
    """What a connector may ask: nothing is heard of tables, and what fails fails the test."""

    def request_task_reconfiguration(self) -> None: ...

    def raise_error(self, error: BaseException) -> None:
        raise error


def errors(connector: Any, props: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what validation says, by key."""
    return {key: each.errors for key, each in connector.validate(props).items() if each.errors}


def source_tasks(props: Mapping[str, str], store: Store | None = None, *, tasks_max: int = 1) -> list[Any]:
    """Return a source's tasks, begun; its configuration must be without fault."""
    connector = JdbcSourceConnector()
    connector.context = ConnectorContext()
    whole = {"topic.prefix": "", "poll.interval.ms": "0", **props}
    assert errors(connector, whole) == {}
    connector.start(whole)
    try:
        configs = connector.task_configs(tasks_max)
    finally:
        connector.stop()
    tasks = [started(connector.task_class(), each, store) for each in configs]
    RUNNING.extend(tasks)
    return tasks


def read_all(task: Any, store: Store | None = None) -> list[SourceRecord]:
    """Poll until nothing comes; the offsets are stored."""
    found: list[SourceRecord] = []
    while records := task.poll():
        found += records
        if store is not None:
            store.take(records)
    return found


def sink(props: Mapping[str, str], reporter: Reporter | None = None) -> Any:
    """Return a sink task that has begun; its configuration must be without fault."""
    connector = JdbcSinkConnector()
    assert errors(connector, props) == {}
    (config,) = connector.task_configs(1) if not connector.start(props) else ()
    task = connector.task_class()
    task.context = SinkContext(config, reporter)
    task.start(config)
    RUNNING.append(task)
    return task


def record(
    value: Any = None,
    *,
    key: Any = None,
    key_schema: Schema | None = None,
    topic: str = "t",
    offset: int = 0,
    value_schema: Schema | None = None,
) -> SinkRecord:
    """Return a sink's record; a struct brings its schema."""
    return SinkRecord(
        topic=topic,
        partition=0,
        offset=offset,
        key=key,
        key_schema=key_schema or getattr(key, "schema", None),
        value=value,
        value_schema=value_schema or getattr(value, "schema", None),
    )


def values(records: list[SourceRecord], *names: str) -> list[tuple[Any, ...]]:
    """Return some fields of records' structs."""
    return [tuple(each.value[name] for name in names) for each in records]
