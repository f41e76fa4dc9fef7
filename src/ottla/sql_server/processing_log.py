"""The processing log: a query's lost rows and values as lines of the log of the process that it runs in, and in a topic.

The topic's records are those of ksqlDB, so that a stream over them can be asked. A thread of each process writes them; what
it cannot write in time is left out and counted, since no query waits for its log.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.background import supervise_thread
from ottla.base import Millis, OttlaError, TopicPartition
from ottla.client import BlockingClient, Limits, PartitionCounts, client_network
from ottla.sql.answers import LostRecord
from ottla.sql_server.settings import LogSettings, ServerSettings
from ottla.wire import Record, build_batch

__all__ = ["LogTopic", "ProcessingLog", "batches", "drain", "lines_told", "log_of", "stream_text"]

log = logging.getLogger(__name__)
LINES_MAX = 10
"""Lines of one query within a period, in one process."""
PERIOD_S = 60.0
CHARACTERS_MAX = 500
"""Of a line: a record's own text may be part of it."""
ERROR_CHARACTERS_MAX = 4000
RECORD_BYTES_MAX = 64 << 10
"""Of what could not be read, where the topic's records have it."""
WAITING_MAX = 1000
"""Records of the topic that wait to be written, in one process."""
BATCH = 200
BATCH_BYTES_MAX = 512 << 10
"""Of values: half of what a topic takes in one batch unless it is configured (`max.message.bytes`)."""
AWAY_SECONDS = 2.0
"""Between two tries to reach the cluster; what comes meanwhile beyond `WAITING_MAX` is left out."""
DRAIN_SECONDS = 2.0
DESERIALIZATION, PROCESSING = 0, 1
"""Kinds of errors, by ksqlDB's numbers."""


@dataclass(frozen=True, slots=True)
class LogTopic:
    """Where records of the log go: a topic, its cluster, and how that is reached."""

    topic: str
    bootstrap: str
    client: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    includes_rows: bool = False


def log_of(settings: ServerSettings, topics: Collection[str]) -> LogTopic | None:
    """Return the log's topic for a query that reads topics; None without one, and for a query that reads it.

    What such a query loses would come back to it, for ever.
    """
    wanted = settings.processing
    if not wanted.topic or wanted.topic in topics:
        return None
    return LogTopic(wanted.topic, settings.bootstrap, tuple(sorted(settings.client.items())), wanted.includes_rows)


def stream_text(settings: LogSettings) -> str:
    """Return the statement that makes the stream, as ksqlDB has it."""
    error = "errorMessage VARCHAR"
    cause = "cause ARRAY<VARCHAR>"
    return (
        f"CREATE STREAM IF NOT EXISTS {settings.stream} (logger VARCHAR, level VARCHAR, time BIGINT, message STRUCT<"
        f"type INT, deserializationError STRUCT<target VARCHAR, {error}, recordB64 VARCHAR, {cause}, `topic` VARCHAR>, "
        f"recordProcessingError STRUCT<{error}, record VARCHAR, {cause}>, productionError STRUCT<{error}>, "
        f"serializationError STRUCT<target VARCHAR, {error}, record VARCHAR, {cause}, `topic` VARCHAR>, "
        f"kafkaStreamsThreadError STRUCT<{error}, threadName VARCHAR, {cause}>>) "
        f"WITH (KAFKA_TOPIC='{settings.topic}', VALUE_FORMAT='JSON');"
    )


@dataclass(unsafe_hash=True)
class ProcessingLog:
    """Takes lines of a query, and writes so many that a topic of nothing but faults fills no disk.

    What is left out is counted, and told with the first line of the next period. A value: a copy where the query's hosts
    are counts for itself. The topic, where there is one, gets every line.
    """

    query_id: str
    topic: LogTopic | None = None
    _ends_s: float = field(default=float("-inf"), init=False, compare=False, repr=False)
    _lines: int = field(default=0, init=False, compare=False, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[ProcessingLog], tuple[str, LogTopic | None]]:
        return type(self), (self.query_id, self.topic)

    def __call__(self, line: str) -> None:
        """Write a line, or count it."""
        _lines[0] += 1
        if self.topic is not None:
            _writer(self.topic).take(_entry(self.query_id, line, self.topic))
        with self._turn:
            now_s = time.monotonic()
            left_out = 0
            if now_s >= self._ends_s:
                left_out = max(0, self._lines - LINES_MAX)
                self._ends_s, self._lines = now_s + PERIOD_S, 0
            self._lines += 1
            if self._lines > LINES_MAX:
                return
        if left_out:
            log.error("processing.%s: %d lines were left out before this one", self.query_id, left_out)
        shown = " ".join(line.split())
        log.error("processing.%s: %s", self.query_id, shown[:CHARACTERS_MAX])


# -- the topic


def _entry(query_id: str, line: str, topic: LogTopic) -> dict[str, Any]:
    """A record of the topic, with ksqlDB's names."""
    message: dict[str, Any] = dict.fromkeys(
        ("deserializationError", "recordProcessingError", "productionError", "serializationError")
    )
    message["kafkaStreamsThreadError"] = None
    logger = f"processing.{query_id}"
    if isinstance(line, LostRecord):
        data = line.data if topic.includes_rows and line.data is not None else None
        message["type"] = DESERIALIZATION
        message["deserializationError"] = {
            "target": line.target,
            "errorMessage": line.error[:ERROR_CHARACTERS_MAX],
            "recordB64": None if data is None else base64.b64encode(data[:RECORD_BYTES_MAX]).decode(),
            "cause": [],
            "topic": None,
        }
        logger += ".KsqlTopic.Source.deserializer"
    else:
        message["type"] = PROCESSING
        message["recordProcessingError"] = {"errorMessage": line[:ERROR_CHARACTERS_MAX], "record": None, "cause": []}
    return {"level": "ERROR", "logger": logger, "time": time.time_ns() // 1_000_000, "message": message}


class _Writer:
    """Writes records of one topic in a thread of its own."""

    def __init__(self, topic: LogTopic) -> None:
        self._topic = topic
        self._waiting: queue.Queue[Mapping[str, Any]] = queue.Queue(WAITING_MAX)
        self._left_out = 0
        supervise_thread(self._run, name="processing log", serves=f"topic {topic.topic}", failed=self._fail)

    def _fail(self, error: BaseException) -> None:
        """Leave the next line to another writer."""
        with _making:
            _writers.pop((os.getpid(), self._topic), None)

    def take(self, entry: Mapping[str, Any]) -> None:
        """Have a record written, or leave it out where too many wait."""
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self._left_out += 1

    def is_idle(self) -> bool:
        """Whether all is written."""
        return self._waiting.unfinished_tasks == 0

    def _run(self) -> None:
        client = BlockingClient(
            self._topic.bootstrap,
            client_id="processing-log",
            limits=Limits(unreachable_s=AWAY_SECONDS, call_s=30.0),
            network=client_network(dict(self._topic.client)),
        )
        counts = PartitionCounts(client.client)
        while True:
            entries = [self._waiting.get()]
            while len(entries) < BATCH and not self._waiting.empty():
                entries.append(self._waiting.get_nowait())
            try:
                client.run(self._write(client, counts, entries))
            except (OttlaError, OSError) as error:
                left_out, self._left_out = self._left_out + len(entries), 0
                log.error("%d records of %s are not written: %s", left_out, self._topic.topic, error)
                time.sleep(AWAY_SECONDS)
            finally:
                for _ in entries:
                    self._waiting.task_done()

    async def _write(
        self, client: BlockingClient, counts: PartitionCounts, entries: Sequence[Mapping[str, Any]]
    ) -> None:
        number = random.randrange(await counts.count(self._topic.topic))
        place = TopicPartition(self._topic.topic, number)
        for records in batches(entries):
            (appended,) = await client.client.produce({place: build_batch(records)})
            appended.check()


def batches(entries: Iterable[Mapping[str, Any]]) -> Iterator[list[Record]]:
    """Entries as records, as many at once as a topic takes by default; half a character, as in Java, is a question mark."""
    records: list[Record] = []
    size = 0
    for each in entries:
        value = json.dumps(each, ensure_ascii=False).encode(errors="replace")
        if records and size + len(value) > BATCH_BYTES_MAX:
            yield records
            records, size = [], 0
        records.append(Record(timestamp=Millis(each["time"]), key=None, value=value))
        size += len(value)
    if records:
        yield records


_lines = [0]


def lines_told() -> int:
    """Return how many lines there were in this process, written or not."""
    return _lines[0]


_writers: dict[tuple[int, LogTopic], _Writer] = {}
"""By process, since a fork has no thread of its parent's."""
_making = threading.Lock()


def _writer(topic: LogTopic) -> _Writer:
    key = (os.getpid(), topic)
    found = _writers.get(key)
    if found is None:
        with _making:
            found = _writers.get(key)
            if found is None:
                found = _writers[key] = _Writer(topic)
    return found


async def drain() -> None:
    """Return when what this process has to write is written, or has had its time."""
    until_s = time.monotonic() + DRAIN_SECONDS
    for each in list(_writers.values()):
        while not each.is_idle() and time.monotonic() < until_s:  # noqa: ASYNC110 - what is waited for is another thread
            await asyncio.sleep(0.02)
