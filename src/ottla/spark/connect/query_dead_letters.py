"""Dead letters of a query sink: records that could not be converted, written in Spark's tasks as `errors.…` ask."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import NamedTuple

from ottla.base import Millis, TopicPartition
from ottla.client import security_of
from ottla.connect import error_policy
from ottla.spark.source.client_pool import pooled_client
from ottla.spark.source.options import write_options
from ottla.spark.source.sender import Sender
from ottla.wire import Record

__all__ = ["DeadLetters", "RawRecord"]

log = logging.getLogger(__name__)
PRODUCER_KEYS = ("bootstrap.servers", "client.id", "request.timeout.ms")
DEAD_LETTERS_MAX = 500
"""How many are kept before they are sent."""
Properties = Mapping[str, str | None]


class RawRecord(NamedTuple):
    """A record as its topic has it."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    log_append: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def __str__(self) -> str:
        return f"record at {self.topic}-{self.partition}, offset {self.offset}"


class DeadLetters:
    """Logs what failed, and sends it to the dead letter topic. A batch that is done again sends them again."""

    def __init__(self, config: Properties, connector: str, bootstrap: str, producer: Mapping[str, str]) -> None:
        self._topic = (config.get("errors.deadletterqueue.topic.name") or "").strip()
        self._with_context = _is_true(config.get("errors.deadletterqueue.context.headers.enable"))
        self._log = _is_true(config.get("errors.log.enable"))
        self._log_messages = _is_true(config.get("errors.log.include.messages"))
        given = {"bootstrap.servers": bootstrap, **producer}
        chosen = {key: given[key] for key in PRODUCER_KEYS if key in given} | security_of(given)
        self._options = write_options({f"kafka.{key}": value for key, value in chosen.items()})
        self._waiting: list[Record] = []

    def report(self, raw: RawRecord, context: error_policy.ErrorContext) -> None:
        """Take a record that failed."""
        if self._log:
            shown = f"{{{raw}, timestamp={raw.timestamp}}}" if self._log_messages else None
            log.error("%s", error_policy.error_log_line(context, record=shown), exc_info=context.error)
        if not self._topic:
            return
        headers = (*raw.headers, *(error_policy.context_headers(context) if self._with_context else ()))
        stamp = raw.timestamp if raw.timestamp is not None else time.time_ns() // 1_000_000
        self._waiting.append(Record(timestamp=Millis(stamp), key=raw.key, value=raw.value, headers=headers))
        if len(self._waiting) >= DEAD_LETTERS_MAX:
            self.finish()

    def finish(self) -> None:
        """Send what waits; raises KafkaError."""
        if not self._waiting:
            return
        with pooled_client(self._options.connecting) as pooled:
            partition = self._waiting[0].timestamp % pooled.partition_count(self._topic)
            sender = Sender(
                pooled, self._options, named=lambda dead_letter: f"a dead letter for {dead_letter.partition}"
            )
            sender.send_records(TopicPartition(self._topic, partition), self._waiting)
            sender.finish()
        self._waiting = []


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"
