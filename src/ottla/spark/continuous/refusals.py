"""Records that no broker takes, and what `production.exception.handler` says of them (KIP-210).

A broker refuses a batch, and a transaction in which it did so cannot commit. So nothing is left out on the way: the lane
goes back to its last commit, and what a handler has said may be left out is not sent when it is made again. Where a batch
of several was refused, its topic's records go one by one from then on, so that the next refusal names one.

Changelogs are never left out of: a store would be another one after the next restart.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import RecordTooLargeError, SettledBatch, encode_records
from ottla.client.arrow.batches import Rows
from ottla.streams import ExceptionPolicy
from ottla.streams import Record as EngineRecord
from ottla.wire import Codec, Record, pack_batch

__all__ = ["Refusals", "RowRecords", "Sent"]

log = logging.getLogger(__name__)
OF_RECORDS = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})
"""Codes that tell of a record, which is refused however often it is sent."""
OF_APPLICATIONS = OF_RECORDS | {
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.POLICY_VIOLATION,
}
"""Codes that come again for whoever sends this: the application fails, and others of its host go on."""
KEPT_MAX = 10_000
"""Refused records that are remembered; beyond that an application fails."""
OVERHEAD = 200
"""More than a batch's header and a record's own fields take: what is smaller than a limit by this fits in any case."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Who has sent a batch: what the producer is given with it."""

    application: str
    records: Sequence[Record]
    policy: ExceptionPolicy
    """Of its application; `fail` for a changelog."""
    is_changelog: bool = False


class RowRecords(Sequence[Record]):
    """Rows of columns, none of which has headers, as records: each is made when it is asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows.value)

    @overload
    def __getitem__(self, at: int) -> Record: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Record]: ...

    def __getitem__(self, at: int | slice) -> Record | Sequence[Record]:
        """Return one of them, or some."""
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        rows = self._rows
        assert rows.key is not None and rows.timestamp is not None
        return Record(Offset(0), Millis(rows.timestamp[at].as_py()), rows.key[at].as_py(), rows.value[at].as_py())


class Refusals:
    """What a lane has learned of records that no broker takes; it outlives the lane's producers."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.topics: set[str] = set()
        """Topics whose records are looked at before they are sent."""
        self._limits: dict[str, int] = {}
        """By topic, the smallest batch of one record that was refused as too large."""
        self._refused: dict[bytes, None] = {}

    def learn(self, found: SettledBatch) -> str | None:
        """Take in a batch that was refused; returns the application that fails by it, None where nobody does."""
        error, sent = found.error, found.token
        if error is None or not isinstance(sent, Sent) or error.code not in OF_APPLICATIONS:
            return None
        policy, topic = sent.policy, found.partition.topic
        if error.code not in OF_RECORDS or (policy.action == "fail" and policy.decide is None):
            return sent.application
        if found.count > 1:
            self.topics.add(topic)
            return None
        record = sent.records[found.first]
        if not _leaves_out(policy, found.partition, record, error):
            return sent.application
        if len(self._refused) >= KEPT_MAX:
            log.error("more than %d records of %s were refused, and no more are left out", KEPT_MAX, sent.application)
            return sent.application
        self.topics.add(topic)
        self._refused[_digest(found.partition, record)] = None
        if isinstance(error, RecordTooLargeError):
            self._limits[topic] = min(self._size(found.partition, record), self._limits.get(topic, 1 << 40))
        return None

    def allowed(self, place: TopicPartition, sent: Sent) -> Iterator[Record]:
        """Yield the records that may be sent, to a topic of `topics`; raises KafkaError where a handler says fail."""
        for record in sent.records:
            if _digest(place, record) in self._refused:
                continue
            if self._is_too_large(place, record):
                words = f"a record for {place} is larger than others that {place.topic} has refused"
                error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, words)
                if _leaves_out(sent.policy, place, record, error):
                    continue
                raise error
            yield record

    def _is_too_large(self, place: TopicPartition, record: Record) -> bool:
        limit = self._limits.get(place.topic)
        if limit is None or len(record.key or b"") + len(record.value or b"") + OVERHEAD < limit:
            return False
        return self._size(place, record) >= limit

    def _size(self, place: TopicPartition, record: Record) -> int:
        """Return the bytes of a batch of one record."""
        encoded = encode_records(place, [record])
        return len(pack_batch(encoded.records, count=1, timestamp_ms=encoded.timestamp_ms, codec=self._codec))


def _leaves_out(policy: ExceptionPolicy, place: TopicPartition, record: Record, error: KafkaError) -> bool:
    """Ask the handler; one that fails itself says no."""
    if policy.decide is None:
        return policy.action == "continue"
    shown = EngineRecord(record.key, record.value, record.timestamp, tuple(record.headers), *place)
    try:
        return str(policy.decide(shown, error)).lower() == "continue"
    except Exception:  # a user's handler may raise anything
        log.warning("production.exception.handler failed with a record for %s", place, exc_info=True)
        return False


def _digest(place: TopicPartition, record: Record) -> bytes:
    parts = repr((place.topic, place.partition, record.key, record.value, record.timestamp)).encode()
    return hashlib.blake2b(parts, digest_size=16).digest()
