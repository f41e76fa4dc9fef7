"""Records that fail inside Python steps: stop, skip and count, or send to the dead letter topic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.streams import ExceptionPolicy, Origin, ProcessingFailed, Record, dead_letter_headers

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DeadLetter", "Poison"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record for the dead letter topic: the failed one's bytes and what Kafka says with them."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]


@dataclass
class Poison:
    """What failed in one batch. The handlers are the application's, one each for reading, processing and writing."""

    batch: pa.RecordBatch
    skipped: Counter[str] = field(default_factory=Counter)
    """Records skipped, by step."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    _seen: set[tuple[str, int]] = field(default_factory=set)

    def met(self, policy: ExceptionPolicy, step: str, row: int, error: Exception) -> None:
        """Note a failure with the record of a row; raises ProcessingFailed where the handler says that it stops."""
        if (step, row) in self._seen:
            return
        origin = self._origin(row)
        if _action(policy, lambda: self.record(row), error) == "fail":
            raise ProcessingFailed(step, origin, error) from error
        self._seen.add((step, row))
        self.skipped[step] += 1
        if policy.dead_letter_topic is not None:
            record = self.record(row)
            headers = dead_letter_headers(error, origin)
            dead_letter = DeadLetter(policy.dead_letter_topic, record.key, record.value, record.timestamp, headers)
            self.dead_letters.append(dead_letter)

    def met_whole(self, step: str, row: int, error: Exception) -> None:
        """Fail over a vectorised function that raised: nobody knows with which record of the batch."""
        raise ProcessingFailed(f"{step} (vectorised; its batch begins there)", self._origin(row), error) from error

    def record(self, row: int) -> Record:
        """Return the record that a row was, as it came in."""
        found = {
            name: column[row].as_py() for name, column in zip(self.batch.schema.names, self.batch.columns, strict=True)
        }
        headers = tuple((each["key"], each["value"]) for each in found.get("headers") or ())
        return Record(
            found["_key"],
            found["_value"],
            found["timestamp"],
            headers,
            found["topic"],
            found["partition"],
            found["offset"],
        )

    def _origin(self, row: int) -> Origin:
        topic, partition, offset = (self.batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
        return Origin(topic, partition, offset)


def _action(policy: ExceptionPolicy, record: Callable[[], Any], error: Exception) -> str:
    return policy.action if policy.decide is None else str(policy.decide(record(), error)).lower()
