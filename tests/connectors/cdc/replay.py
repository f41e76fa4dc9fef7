"""A recorded script on a real PostgreSQL: what the connector makes of it, in the form of the recorded facts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from ottla.connect import SourceRecord
from ottla.connect.converters import JsonConverter, SimpleHeaderConverter
from ottla.connectors.cdc import PostgresConnector
from tests.connectors.contexts import Store, polled, started
from tools.postgres import PASSWORD, USER, PostgresServer, private_cluster

__all__ = ["RECORDED", "as_facts", "begun", "connected", "logical_server", "masked", "read_until_quiet", "run_sql"]

RECORDED = Path(__file__).parent / "recorded"
QUIET_SECONDS = 1.5


@contextmanager
def logical_server() -> Iterator[PostgresServer]:
    """Run a server whose changes can be captured."""
    with private_cluster({"wal_level": "logical", "max_replication_slots": "250", "max_wal_senders": "90"}) as server:
        yield server


def connected(server: PostgresServer, database: str, options: str = "") -> psycopg.Connection[Any]:
    """Return a connection of the test's own, in autocommit; `options` are settings as libpq has them."""
    own = {"host": "127.0.0.1", "port": str(server.port), "dbname": database, "options": options}
    return psycopg.connect(**own, user=USER, password=PASSWORD, autocommit=True)


def run_sql(server: PostgresServer, database: str, text: str) -> None:
    """Run statements, each in a transaction of its own unless they say otherwise."""
    with connected(server, database) as connection:
        for statement in statements(text):
            connection.execute(statement.encode())


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a script, which has no `;` inside of strings."""
    bare = re.sub(r"^--.*$", "", text, flags=re.MULTILINE)
    yield from (each.strip() for each in bare.split(";") if each.strip())


def begun(server: PostgresServer, database: str, store: Store | None = None, **settings: str) -> Any:
    """Return a task that has begun; settings' names have `_` for `.`."""
    props = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": database,
        "plugin.name": "pgoutput",
        "poll.interval.ms": "20",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    name = props["topic.prefix"]
    props = {"slot.name": f"slot_{name}", "publication.name": f"pub_{name}", **props}
    found = {key: each.errors for key, each in PostgresConnector().validate(props).items() if each.errors}
    assert found == {}, found
    return started(PostgresConnector.task_class(), props, store)


def read_until_quiet(task: Any, store: Store | None = None, seconds: float = QUIET_SECONDS) -> list[SourceRecord]:
    """Poll until nothing has come for a while."""
    found: list[SourceRecord] = []
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + seconds:
        records = polled(task)
        if records:
            found += records
            quiet_since = time.monotonic()
            if store is not None:
                store.take(records)
                task.commit()
    return found


def as_facts(records: Sequence[SourceRecord]) -> dict[str, list[dict[str, Any]]]:
    """Return by topic what stands in it where JsonConverter has written it, schemas beside each record."""
    converters = []
    for is_key in (True, False):
        converter = JsonConverter()
        converter.configure({"schemas.enable": "true"}, is_key=is_key)
        converters.append(converter)
    headers = SimpleHeaderConverter()
    headers.configure_header({})
    found: dict[str, list[dict[str, Any]]] = {}
    for each in records:
        assert each.topic is not None
        key = converters[0].from_connect(each.topic, each.key_schema, each.key)
        value = converters[1].from_connect(each.topic, each.value_schema, each.value)
        row = {
            "headers": [[h.key, _text(headers.from_header(each.topic, h.key, h.schema, h.value))] for h in each.headers]
        }
        for name, data in (("key", key), ("value", value)):
            parsed = None if data is None else json.loads(data)
            row[name] = None if parsed is None else parsed["payload"]
            row[f"{name}_schema"] = None if parsed is None else parsed["schema"]
        found.setdefault(each.topic, []).append(row)
    return found


def _text(data: bytes | None) -> Any:
    return None if data is None else data.decode()


NUMBERS = ("ts_ms", "ts_us", "ts_ns", "lsn", "txId", "xmin", "__lsn", "__source_ts_ms")


def masked(topic: str, row: Mapping[str, Any]) -> Any:
    """Return a row without what differs from run to run, whose shape still counts."""
    is_transaction = topic.endswith(".transaction")

    def mask(value: Any, path: tuple[str, ...] = ()) -> Any:
        if isinstance(value, dict):
            return {name: mask(each, (*path, name)) for name, each in value.items()}
        if isinstance(value, list):
            return [mask(each, path) for each in value]
        name = path[-1] if path else ""
        in_row = any(each in ("before", "after") for each in path)
        if name in NUMBERS and not in_row and isinstance(value, int):
            return "number"
        digits = (name == "sequence" and "source" in path) or (
            name == "id" and ("transaction" in path or is_transaction)
        )
        if digits and not in_row and isinstance(value, str):
            return re.sub(r"\d+", "0", value)
        if path[-2:] == ("source", "version"):
            return "version"
        if name == "data_collection" and is_transaction and value and not re.fullmatch(r"[\w]+\.[\w]+", str(value)):
            return "a message"
        return value

    headers = [[name, "id" if name.endswith("runId") else text] for name, text in row["headers"]]
    return {
        "headers": headers,
        **{name: mask(row[name]) for name in ("key", "value")},
        **{name: row[name] for name in ("key_schema", "value_schema")},
    }


def recorded(name: str, folder: Path = RECORDED) -> dict[str, list[dict[str, Any]]]:
    """Return the recorded rows of a connector, by topic, in the form of `as_facts`."""
    found = {}
    for path in sorted((folder / "facts").glob(f"{name}*.json")):
        facts = json.loads(path.read_text())
        schemas = facts["schemas"]
        rows = []
        for each in facts["records"]:
            row = {"headers": each["headers"], "key": each.get("key"), "value": each.get("value")}
            for part in ("key", "value"):
                index = each.get(f"{part}_schema")
                row[f"{part}_schema"] = None if index is None else schemas[index]
            rows.append(row)
        found[path.stem] = rows
    return found


def without_incremental(topic: str, rows: Sequence[Any]) -> list[Any]:
    """Leave out what an incremental snapshot has made: rows of signals, its reads, and transactions of signals alone.

    Of a key that was read once more by it, and changed meanwhile, only the stream's record counts.
    """
    if topic.endswith(".open.signals"):
        return [each for each in rows if not _is_window(each["value"])]
    if topic.endswith(".transaction"):
        return _without_signals(rows)
    read: set[str] = set()
    return [each for each in rows if not _is_incremental(each, read)]


def _is_window(value: Any) -> bool:
    row = value if value is None or "after" not in value else value["after"] or value["before"]
    return row is None or str(row["type"]).startswith("snapshot-window")


def _is_incremental(row: Any, read: set[str]) -> bool:
    """Whether a row was read by an incremental snapshot: where that is not said, because its key was read before."""
    value = row["value"]
    if value is None or "source" in value:
        return value is not None and value["source"]["snapshot"] == "incremental"
    key = json.dumps(row["key"])
    is_again = value.get("__op") == "r" and key in read
    read.add(key)
    return is_again


def _without_signals(rows: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for begin, end in zip(rows[::2], rows[1::2], strict=True):
        assert (begin["value"]["status"], end["value"]["status"]) == ("BEGIN", "END")
        tables = {each["data_collection"] for each in end["value"]["data_collections"] or ()}
        if tables != {"open.signals"}:
            found += [begin, end]
    return found
