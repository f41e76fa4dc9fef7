"""A real MariaDB whose changes are captured, for tests: statements run on it, and tasks begun on it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pymysql

from ottla.connect import SourceRecord
from ottla.connectors.cdc import MariaDbConnector
from tests.connectors.cdc.replay import read_until_quiet
from tests.connectors.contexts import Store, started
from tests.waiting import until
from tools.mariadb import PASSWORD, USER, MariaDbServer

__all__ = ["MARIADB_RECORDED", "begun", "connected", "props_of", "read", "run_sql"]

QUIET_SECONDS = 0.15
MARIADB_RECORDED = Path(__file__).parent / "recorded" / "mariadb"


def connected(server: MariaDbServer, database: str | None = None) -> pymysql.Connection[Any]:
    """Return a connection of the test's own, in autocommit."""
    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user=USER,
        password=PASSWORD,
        database=database,
        charset="utf8mb4",
        autocommit=True,
        ssl_disabled=True,  # else the driver reads all authorities of the system first
    )


def run_sql(server: MariaDbServer, text: str, database: str | None = None) -> None:
    """Run statements, each in a transaction of its own unless they say otherwise.

    The server has left the session when this returns where it prepared a transaction: until then it refuses every other
    session that would end that transaction.
    """
    with connected(server, database) as connection, connection.cursor() as cursor:
        for each in statements(text):
            cursor.execute(each)
    if "xa prepare" in text.lower():
        until(partial(_has_left, server, connection.thread_id()), "the server to leave the session that prepared")


def _has_left(server: MariaDbServer, session: int) -> bool:
    with connected(server) as connection, connection.cursor() as cursor:
        return not cursor.execute("select id from information_schema.processlist where id = %s", (session,))


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a script, which has no `;` inside of strings."""
    yield from (each.strip() for each in text.split(";") if each.strip())


def props_of(server: MariaDbServer, history: Path, **settings: str) -> dict[str, str]:
    """Return a configuration; settings' names have `_` for `.`."""
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "poll.interval.ms": "20",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(history),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def begun(server: MariaDbServer, history: Path, store: Store | None = None, **settings: str) -> Any:
    """Return a task that has begun."""
    props = props_of(server, history, **settings)
    found = {key: each.errors for key, each in MariaDbConnector().validate(props).items() if each.errors}
    assert found == {}, found
    return started(MariaDbConnector.task_class(), props, store)


def read(task: Any, count: int, store: Store | None = None) -> list[SourceRecord]:
    """Poll until so many records have come, and for a moment longer: a record too many is found, too."""
    found: list[SourceRecord] = []

    def enough() -> bool:
        records = task.poll() or []
        found.extend(records)
        if store is not None:
            store.take(records)
        return len(found) >= count

    until(enough, lambda: f"{count} records, of which there are {len(found)}")
    return found + read_until_quiet(task, store, QUIET_SECONDS)
