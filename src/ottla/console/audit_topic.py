"""Changes that were made, kept in a topic, so that a console that starts knows those of the one before, and of others.

The console writes and reads it as itself. Where it may not, or the cluster does not answer, that is logged, and changes are
kept in memory only, as they are in the log in any case.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from ottla.base import ErrorCode, KafkaError, Millis, Offset, OttlaError, TopicPartition
from ottla.client import EARLIEST, LATEST, Client, FetchPosition, NewTopic, create_topics
from ottla.console.audit import ENTRIES_MAX, AuditEntry, entry_of
from ottla.wire import Record, build_batch, iter_batch_records, iter_batches

__all__ = ["AuditTopic"]

log = logging.getLogger(__name__)

FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1"}
FETCH_BYTES = 8 << 20
FETCHES_MAX = 1000


class AuditTopic:
    """The topic of one cluster; `name` is empty where there is to be none."""

    def __init__(self, client: Client, cluster: str, name: str) -> None:
        self._client = client
        self._cluster = cluster
        self._place = TopicPartition(name, 0)

    async def load(self) -> list[AuditEntry]:
        """Return the newest changes that it holds, the oldest of them first; raises OttlaError."""
        if not self._place.topic:
            return []
        view = await self._client.metadata()
        if self._place.topic not in view.topics:
            return []
        ends = await self._client.list_offsets({self._place: LATEST})
        starts = await self._client.list_offsets({self._place: EARLIEST})
        end = int(ends[self._place].offset)
        at = max(int(starts[self._place].offset), end - ENTRIES_MAX)
        found: list[AuditEntry] = []
        for _ in range(FETCHES_MAX):
            if at >= end:
                break
            (answer,) = await self._client.fetch([FetchPosition(self._place, Offset(at), FETCH_BYTES)], max_wait_ms=100)
            records = answer.check().records
            for header, start in iter_batches(records):
                if not header.is_control:
                    read = (
                        _read(each, self._cluster)
                        for each in iter_batch_records(records, start, header)
                        if each.offset >= at
                    )
                    found += [each for each in read if each is not None]
                at = max(at, int(header.next_offset))
        return found[-ENTRIES_MAX:]

    async def write(self, entry: AuditEntry) -> None:
        """Append a change; what goes wrong is logged, since the change itself was made."""
        if not self._place.topic:
            return
        value = json.dumps(entry.kept(), ensure_ascii=False).encode(errors="replace")
        record = Record(timestamp=Millis(entry.at_ms), key=entry.who.encode(errors="replace"), value=value)
        batch = {self._place: build_batch([record])}
        try:
            try:
                (answer,) = await self._client.produce(batch)
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                await self._make()
                (answer,) = await self._client.produce(batch)
            if answer.error:
                raise KafkaError(answer.error)
        except OttlaError as error:
            log.warning("a change is not kept in %s: %s", self._place.topic, error)

    async def _make(self) -> None:
        refused = await create_topics(self._client, [NewTopic(self._place.topic, 1, configs=FOR_EVER)])
        error = refused.get(self._place.topic)
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error


def _read(record: Record, cluster: str) -> AuditEntry | None:
    """Return what a record holds; None for what a console has not written."""
    try:
        found: Any = json.loads(record.value or b"")
        return entry_of(found, cluster) if isinstance(found, Mapping) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
