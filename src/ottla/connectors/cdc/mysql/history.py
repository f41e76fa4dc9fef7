"""The tables' history in Debezium's form: every statement about tables, with what it made of them, in a topic or a file.

Rows of the binlog can be read by the table only as it was when they were written. So each statement is kept, durably, before
a row behind it is told; a task that begins anew follows them up to where it goes on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from ottla.config import sync_folder
from ottla.connect import ConnectError
from ottla.connectors.cdc.mysql.ddl import Effect, follow
from ottla.connectors.cdc.mysql.ddl_words import DdlError
from ottla.connectors.cdc.mysql.positions import Position
from ottla.connectors.cdc.mysql.tables import Tables, id_text, table_json, table_of_json

__all__ = ["HistoryStore", "history_record", "history_store", "recovered"]

log = logging.getLogger(__name__)
KAFKA: Final = "io.debezium.storage.kafka.history.KafkaSchemaHistory"
FILE: Final = "io.debezium.storage.file.history.FileSchemaHistory"
MEMORY: Final = "io.debezium.relational.history.MemorySchemaHistory"
_H: Final = "schema.history.internal"
_LOGIN: Final = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


class HistoryStore(Protocol):
    """Where records are kept, in their order."""

    def load(self) -> Iterator[dict[str, Any]]:
        """Yield all records; raises ConnectError."""
        ...

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Keep records durably; raises ConnectError."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def history_record(
    server: str, position: Mapping[str, Any], database: str, ddl: str, effect: Effect | None
) -> dict[str, Any]:
    """Return the record of a statement."""
    changes = []
    for each in () if effect is None else effect.changes:
        if each.kind == "TRUNCATE":
            continue
        change: dict[str, Any] = {"type": each.kind, "id": id_text(each.id)}
        if each.previous is not None:
            change["previousId"] = id_text(each.previous)
        if each.table is not None:
            change |= {"table": table_json(each.table), "comment": each.table.comment}
        changes.append(change)
    return {
        "source": {"server": server},
        "position": dict(position),
        "ts_ms": time.time_ns() // 1_000_000,
        "databaseName": database,
        "ddl": ddl,
        "tableChanges": changes,
    }


def recovered(records: Iterator[Mapping[str, Any]], position: Position, charsets: Mapping[str, str]) -> Tables | None:
    """Return the tables as they were at a position; None where there is no history. What came behind it is passed over."""
    tables, is_empty = Tables(), True
    for each in records:
        is_empty = False
        if position.holds(each.get("position") or {}):
            _apply(tables, each, charsets)
    return None if is_empty else tables


def _apply(tables: Tables, record: Mapping[str, Any], charsets: Mapping[str, str]) -> None:
    """Take a record: what it says of tables; else its statement."""
    changes = record.get("tableChanges")
    ddl, database = str(record.get("ddl") or ""), str(record.get("databaseName") or "")
    if not changes:
        try:
            follow(ddl, database, tables, charsets)
        except DdlError as error:
            log.warning("The schema history has a statement that is not understood (%s): %.200s", error, ddl)
        return
    for change in changes:
        if (previous := change.get("previousId")) is not None:
            tables.pop(_named(previous), None)
        if change["type"] == "DROP":
            tables.pop(_named(change["id"]), None)
        elif change.get("table"):
            table = table_of_json(change["id"], change["table"])
            tables[table.id] = table


def _named(text: str) -> Any:
    return table_of_json(text, {"columns": ()}).id


def history_store(settings: Mapping[str, Any], props: Mapping[str, str]) -> HistoryStore:
    """Return where the history is kept; raises ConnectError where that is not said."""
    kind = settings[_H]
    if kind == MEMORY:
        return _MemoryStore()
    if kind == FILE:
        if not settings[f"{_H}.file.filename"]:
            raise ConnectError(f"{_H}.file.filename says in which file the tables' history is kept, and is not set")
        return _FileStore(Path(settings[f"{_H}.file.filename"]))
    if kind != KAFKA:
        raise ConnectError(f"{_H} is {KAFKA}, {FILE} or {MEMORY}, and {kind} is none of them")
    topic, servers = settings[f"{_H}.kafka.topic"], settings[f"{_H}.kafka.bootstrap.servers"]
    if not topic or not servers:
        raise ConnectError(
            f"{_H}.kafka.topic and {_H}.kafka.bootstrap.servers say where the tables' history is kept, and have to be set"
        )
    return _TopicStore(topic, servers, settings[f"{_H}.kafka.query.timeout.ms"] / 1000, props)


class _MemoryStore:
    """Forgets with the task: for tests."""

    def __init__(self) -> None:
        self._records: list[dict[str, Any]] = []

    def load(self) -> Iterator[dict[str, Any]]:
        yield from self._records

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records += map(dict, records)

    def close(self) -> None:
        pass


class _FileStore:
    """A record a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Iterator[dict[str, Any]]:
        try:
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConnectError(f"The tables' history cannot be read: {error}") from error
        for at, line in enumerate(lines):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                if at < len(lines) - 1:
                    raise ConnectError(f"Line {at + 1} of the tables' history {self._path} is no JSON") from error
                # the last was being written when the task was killed: it is told, and written, again

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        try:
            is_new = not self._path.exists()
            data = b"" if is_new else self._path.read_bytes()
            torn = b"" if not data or data.endswith(b"\n") else b"\n"
            if torn and not _is_json(data.rpartition(b"\n")[2]):
                os.truncate(self._path, data.rfind(b"\n") + 1)  # a cut: to write all anew could lose all
                torn = b""
            with self._path.open("ab") as out:
                out.write(torn + b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in records))
                out.flush()
                os.fsync(out.fileno())
            if is_new:
                sync_folder(self._path.parent)
        except OSError as error:
            raise ConnectError(f"The tables' history cannot be written: {error}") from error

    def close(self) -> None:
        pass


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


class _TopicStore:
    """Partition 0 of a topic, which is made where it is missing."""

    def __init__(self, topic: str, servers: str, seconds: float, props: Mapping[str, str]) -> None:
        self._topic, self._seconds = topic, seconds
        self._readers = {"bootstrap.servers": servers, **_client_keys(props, "consumer")}
        self._writers = {"bootstrap.servers": servers, **_client_keys(props, "producer")}
        self._producer: Any = None

    def load(self) -> Iterator[dict[str, Any]]:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer({**self._readers, "group.id": "schema-history", "enable.auto.commit": False})
        try:
            known = consumer.list_topics(self._topic, timeout=self._seconds).topics[self._topic]
            if known.error is not None or not known.partitions:
                return
            partition = TopicPartition(self._topic, 0, 0)
            first, end = consumer.get_watermark_offsets(partition, timeout=self._seconds)
            consumer.assign([TopicPartition(self._topic, 0, first)])
            at, deadline = first, time.monotonic() + self._seconds
            while at < end:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    deadline, at = time.monotonic() + self._seconds, (message.offset() or 0) + 1
                    value = message.value()
                    if value is not None:
                        yield json.loads(value)
                elif consumer.position([partition])[0].offset >= end:
                    break  # the last ones are marks of transactions
                elif time.monotonic() > deadline:
                    raise ConnectError(f"Topic {self._topic} with the tables' history stops at {at} of {end}")
        except KafkaException as error:
            raise ConnectError(f"The tables' history in topic {self._topic} cannot be read: {error}") from error
        except (ValueError, RecursionError) as error:
            raise ConnectError(f"Topic {self._topic} has what is no history of tables: {error}") from error
        finally:
            consumer.close()

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        from confluent_kafka import KafkaException, Producer

        failed: list[Any] = []
        try:
            if self._producer is None:
                self._make_topic()
                self._producer = Producer({**self._writers, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
            for each in records:
                self._producer.produce(
                    self._topic,
                    json.dumps(each, ensure_ascii=False).encode(),
                    partition=0,
                    on_delivery=lambda error, _: failed.append(error) if error is not None else None,
                )
            left = self._producer.flush(self._seconds)
        except (KafkaException, BufferError) as error:
            raise ConnectError(f"The tables' history cannot be written to topic {self._topic}: {error}") from error
        if left or failed:
            why = failed[0] if failed else f"no answer in {self._seconds:g} s"
            raise ConnectError(f"The tables' history cannot be written to topic {self._topic}: {why}")

    def _make_topic(self) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient(self._writers)
        known = admin.list_topics(timeout=self._seconds).topics
        if self._topic in known:
            if len(known[self._topic].partitions) != 1:
                raise ConnectError(
                    f"Topic {self._topic} has several partitions: the tables' history needs one that has one"
                )
            return
        config = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        made = admin.create_topics([NewTopic(self._topic, 1, config=config)], operation_timeout=self._seconds)
        made[self._topic].result(self._seconds)
        log.info("Made topic %s for the tables' history", self._topic)

    def close(self) -> None:
        self._producer = None


def _client_keys(props: Mapping[str, str], who: str) -> dict[str, Any]:
    """Return the security settings of `schema.history.internal.producer.…` and `consumer.…` as librdkafka names them."""
    found: dict[str, Any] = {}
    begin = f"{_H}.{who}."
    for name, value in props.items():
        key = name.removeprefix(begin)
        if key == name:
            continue
        if key == "sasl.jaas.config":
            found |= {f"sasl.{each}": text for each, text in _LOGIN.findall(value)}
        elif key == "ssl.truststore.location" and value.endswith(".pem"):
            found["ssl.ca.location"] = value
        elif key in ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password") or key.startswith("ssl."):
            found[key] = value
    return found
