"""Dead letters: a topic for records that failed, with what failed in their headers.

Kafka has them for sinks. A source's record has no bytes where its conversion failed: its dead letter is the record's key and
value as JSON without schema, and its partition and offset at the source are told in headers under the same prefix.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from ottla.base import KafkaError
from ottla.client import NewTopic
from ottla.connect import ConnectError, Converter, SourceRecord, error_policy
from ottla.connect.tasks.creation import create_topic, topic_exists
from ottla.connect.tasks.error_handler import Failed
from ottla.connect.tasks.metrics import TaskMetrics
from ottla.connect.tasks.pipeline import FailedSource, RawRecord
from ottla.connect.tasks.producer import RowChunk, TaskProducer
from ottla.connect.tasks.settings import ErrorSettings
from ottla.connect.tasks.task_client import TaskClient

__all__ = ["DeadLetters", "dead_letter_refused", "ensure_queue", "source_dead_letter"]

log = logging.getLogger(__name__)
GATHERED_MAX = 500
PREFIX = "__connect.errors."

Headers = list[tuple[str, bytes | None]]


def ensure_queue(task_client: TaskClient, settings: ErrorSettings) -> None:
    """Make the topic of a connector's dead letters unless it is there; raises ConnectError."""
    assert settings.dead_letters is not None
    try:
        if not topic_exists(task_client, settings.dead_letters):
            create_topic(task_client, NewTopic(settings.dead_letters, 1, settings.dead_letters_replication))
    except KafkaError as error:
        raise ConnectError(
            f"Could not initialize dead letter queue with topic={settings.dead_letters}: {error}"
        ) from error


class DeadLetters:
    """A sink's dead letters, sent by a producer of their own; reports of `ErrorHandler` come in by `report`."""

    def __init__(
        self, settings: ErrorSettings, metrics: TaskMetrics, make_producer: Callable[[], TaskProducer]
    ) -> None:
        assert settings.dead_letters is not None
        self._settings, self._metrics = settings, metrics
        self._topic = settings.dead_letters
        self._make_producer = make_producer
        self._producer: TaskProducer | None = None
        self._chunk = RowChunk(self._topic)
        self._refused: Exception | None = None

    def report(self, failed: Failed, context: error_policy.ErrorContext) -> None:
        """Take a record that failed."""
        assert isinstance(failed, RawRecord)
        headers = list(failed.headers)
        if self._settings.dead_letters_context:
            headers += error_policy.context_headers(context)
        now_ms = time.time_ns() // 1_000_000
        self._chunk.add(failed.key, failed.value, None, headers=headers, timestamp=now_ms)
        self._metrics.dead_letters.add()
        if len(self._chunk) >= GATHERED_MAX:
            self._send()

    def _send(self) -> None:
        if self._producer is None:
            self._producer = self._make_producer()
            self._producer.start()
        chunk, self._chunk = self._chunk, RowChunk(self._topic)
        self._producer.send(chunk)

    def flush(self) -> None:
        """Return when every dead letter is stored.

        Raises ConnectError where one cannot be: its record is in no place yet, so no offset behind it may be committed
        (Kafka's `awaitFutures`). A dead letter that failed once is not sent again, and every later call raises too.
        """
        try:
            if len(self._chunk) and self._refused is None:
                self._send()
            if self._producer is not None and not self._producer.flush():
                raise ConnectError("the task was cancelled before they were stored")
        except (KafkaError, ConnectError) as error:
            self._metrics.dead_letters_failed.add()
            self._refused = self._refused or error
        while self._producer is not None and self._producer.outcomes:
            outcome = self._producer.outcomes.popleft()
            if outcome.error is not None:
                self._metrics.dead_letters_failed.add(outcome.count)
                self._refused = self._refused or outcome.error
        if self._refused is not None:
            raise dead_letter_refused(self._topic, self._refused)

    def close(self) -> None:
        """Send what is left, and end; raises ConnectError as `flush`."""
        try:
            self.flush()
        finally:
            if self._producer is not None:
                self._producer.close()


def dead_letter_refused(topic: str, error: BaseException) -> ConnectError:
    """Return the error that ends a task whose dead letter no broker takes, so that the record is not lost."""
    made = ConnectError(
        f"Could not produce message to dead letter queue. topic={topic}: {error}. The record is neither delivered nor a "
        "dead letter, and no offset behind it is stored; the task can be started again once the topic takes its dead letters"
    )
    made.__cause__ = error
    return made


def source_dead_letter(
    failed: FailedSource, context: error_policy.ErrorContext, converter: Converter, *, with_context: bool
) -> tuple[bytes | None, bytes | None, Headers]:
    """Return key, value and headers of a source record's dead letter; the converter writes JSON."""
    record = failed.record
    headers: Headers = []
    if with_context:
        headers = [
            (f"{PREFIX}source.partition", _text(dict(record.source_partition))),
            (f"{PREFIX}source.offset", _text(dict(record.source_offset or {}))),
            (f"{PREFIX}target.topic", None if record.topic is None else record.topic.encode()),
            *error_policy.context_headers(context),
        ]
    key = _bytes(converter, record, record.key_schema, record.key)
    return key, _bytes(converter, record, record.value_schema, record.value), headers


def _bytes(converter: Converter, record: SourceRecord, schema: Any, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    try:
        return converter.from_connect(record.topic or "", schema, value)
    except Exception:  # it may be just this that failed: any text is better than none
        return _text(value)


def _text(value: Any) -> bytes:
    return json.dumps(value, default=repr, ensure_ascii=False).encode("utf-8", "replace")
