"""The connectors under test, what feeds them, and what has to be where in the end.

files with refused lines → folder source → `lines` ─┬→ S3 sink
files → folder source, columns → `logs` ────────────┼→ file sink
                                                    └→ file-system sink, a streaming query
table → JDBC source → `shop-orders` → JDBC sink (upsert) → another table
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import KafkaException, Producer

from tests.connectors.s3_server import KEYS
from tests.streams.kills.counting import QUIET
from tools.postgres import PASSWORD, USER

__all__ = ["CONNECTORS", "TOPICS", "Feeder", "configs", "prepare_tables"]

TOPICS = ("lines", "logs", "shop-orders")
DEAD_LETTERS = ("lines-dead", "orders-dead", "s3-dead", "file-dead", "lake-dead")
CONNECTORS = ("files", "logs", "table", "copy", "s3", "file", "lake")
FLUSH = 20
"""Records of an object."""
LAKE = "lake"
"""The folder of the file-system sink."""
ROTATE_MS = 2000
"""How long its records wait for a full file."""
PAUSE_SECONDS = 0.1
LINES_A_TURN, ORDERS_A_TURN = 2, 2
FILE_TURNS = 300
BAD_LINE_EVERY, BAD_ORDER_EVERY, GARBAGE_EVERY = 50, 20, 60
JSON = "org.apache.kafka.connect.json.JsonConverter"
TEXT = "org.apache.kafka.connect.storage.StringConverter"


def configs(folder: Path, database: str, store: str, bucket: str) -> dict[str, dict[str, str]]:
    """Return every connector's configuration."""
    files = {
        "connector.class": "FolderSource",
        "tasks.max": "2",
        "rotated.pattern": "",
        "scan.interval.ms": "200",
        "poll.interval.ms": "50",
        "value.converter": TEXT,
    }
    cast = {"transforms": "number", "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value"}
    jdbc = {
        "connection.url": database,
        "connection.user": USER,
        "connection.password": PASSWORD,
        "connection.attempts": "1000",
        "connection.backoff.ms": "100",
        "value.converter": JSON,
    }
    values = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    sinks = {"topics": "lines,logs", "tasks.max": "2", **values}
    return {
        "files": {**files, "paths": str(folder / "lines"), "topic": "lines", **cast, **_dead_letters("lines-dead")}
        | {"transforms.number.spec": "int64"},
        "logs": {**files, "paths": str(folder / "logs"), "topic": "logs"},
        "table": {
            **jdbc,
            "connector.class": "JdbcSource",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": "orders",
            "topic.prefix": "shop-",
            "poll.interval.ms": "100",
        },
        "copy": {
            **jdbc,
            "connector.class": "JdbcSink",
            "topics": "shop-orders",
            "tasks.max": "2",
            "table.name.format": "copied",
            "insert.mode": "upsert",
            "pk.mode": "record_value",
            "pk.fields": "id",
            "max.retries": "1000",
            "retry.backoff.ms": "100",
            **_dead_letters("orders-dead"),
        },
        "s3": {
            **sinks,
            **KEYS,
            "connector.class": "S3Sink",
            "s3.bucket.name": bucket,
            "store.url": store,
            "format.class": "JsonFormat",
            "flush.size": str(FLUSH),
            "s3.part.retries": "1",
            "retry.backoff.ms": "100",
            **_dead_letters("s3-dead"),
        },
        "file": {
            **sinks,
            "connector.class": "FileStreamSink",
            "file": str(folder / "out.txt"),
            **_dead_letters("file-dead"),
        },
        "lake": {
            **sinks,
            "connector.class": "FilesystemSink",
            "path": str(folder / LAKE),
            "format": "json",
            "flush.size": str(FLUSH),
            "rotate.interval.ms": str(ROTATE_MS),
            **_dead_letters("lake-dead"),
        },
    }


def _dead_letters(topic: str) -> dict[str, str]:
    queue = "errors.deadletterqueue.topic"
    return {"errors.tolerance": "all", f"{queue}.name": topic, f"{queue}.replication.factor": "1"}


def prepare_tables(database: psycopg.Connection[Any]) -> None:
    """Make the source's table and the sink's, which refuses what is below nothing."""
    database.execute("CREATE TABLE orders (id SERIAL PRIMARY KEY, amount INT NOT NULL)")
    database.execute("CREATE TABLE copied (id INT PRIMARY KEY, amount INT NOT NULL CHECK (amount >= 0))")


class Feeder:
    """Appends lines, inserts rows and produces what nobody can read, until it is stopped."""

    def __init__(self, folder: Path, bootstrap: str, database: str) -> None:
        self._folder, self._database = folder, database
        self._over = threading.Event()
        self.good: dict[str, list[int]] = {"lines": [], "logs": []}
        self.bad: list[str] = []
        self.burst = threading.Event()
        """Set: the next turns have bad records only."""
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **QUIET})
        for topic in self.good:
            (folder / topic).mkdir()
        works = (self._feed_files, self._feed_table)
        self._threads = [threading.Thread(target=each, daemon=True) for each in works]

    def start(self) -> None:
        """Begin."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End after the turn at hand."""
        self._over.set()
        for each in self._threads:
            each.join()
        self._producer.flush(30)

    def _feed_files(self) -> None:
        number = turn = 0
        while not self._over.wait(PAUSE_SECONDS):
            for topic, good in self.good.items():
                added: list[str] = []
                for _ in range(LINES_A_TURN):
                    number += 1
                    is_bad = topic == "lines" and (number // 2 % BAD_LINE_EVERY == 0 or self.burst.is_set())
                    added.append(f"bad-{number}" if is_bad else str(number))
                with (self._folder / topic / f"{turn // FILE_TURNS}.log").open("a") as file:
                    file.writelines(f"{each}\n" for each in added)
                good += [int(each) for each in added if each.isdecimal()]
                self.bad += [each for each in added if not each.isdecimal()]
            if turn % GARBAGE_EVERY == 0 or self.burst.is_set():
                with suppress(KafkaException, BufferError):
                    self._producer.produce("lines", value=f"{{garbage-{turn}")
            self._producer.poll(0)
            turn += 1

    def _feed_table(self) -> None:
        while not self._over.is_set():
            try:
                with psycopg.connect(self._database, autocommit=True, connect_timeout=5) as connection:
                    self._insert(connection)
            except psycopg.Error:
                time.sleep(PAUSE_SECONDS)  # what became of the rows then, the table itself will tell

    def _insert(self, connection: psycopg.Connection[Any]) -> None:
        turn = 0
        while not self._over.wait(PAUSE_SECONDS):
            turn += 1
            is_bad = turn % BAD_ORDER_EVERY == 0 or self.burst.is_set()
            amounts = [-turn if is_bad else turn, *[turn] * (ORDERS_A_TURN - 1)]
            with connection.transaction():
                for each in amounts:
                    connection.execute("INSERT INTO orders (amount) VALUES (%s)", (each,))


def worker_properties(bootstrap: str, *, exactly_once: bool) -> Mapping[str, str]:
    """Return what workers have in common."""
    storage = ("config", "offset", "status")
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "chaos-connect",
        "key.converter": TEXT,
        "value.converter": TEXT,
        **{f"{each}.storage.topic": f"connect-{each}" for each in storage},
        **{f"{each}.storage.replication.factor": "1" for each in storage},
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
        "exactly.once.source.support": "enabled" if exactly_once else "disabled",
        "offset.flush.interval.ms": "300",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        "consumer.session.timeout.ms": "3000",
        "consumer.heartbeat.interval.ms": "500",
        "consumer.metadata.max.age.ms": "1000",
        "consumer.max.poll.records": "100",
        "producer.delivery.timeout.ms": "30000",
        "task.restart.max": "1000",
        "task.restart.backoff.ms": "100",
        "task.restart.backoff.max.ms": "1000",
        "task.shutdown.graceful.timeout.ms": "2000",
        "tasks.slots": "16",
    }
