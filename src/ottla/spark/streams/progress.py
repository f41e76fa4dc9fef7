"""What queries report after each micro-batch, and where it goes: metrics, and the consumer group's committed offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, delete_records
from ottla.spark.source.positions import duration_ms, offsets_of_json

__all__ = [
    "OWN_WORDS",
    "BatchProgress",
    "QueryMetrics",
    "delete_read_records",
    "read_progress",
    "reset_offsets",
]

OWN_WORDS = "ottla"
"""What a driver puts beside the offsets that it commits for its application: others are somebody's wish."""
SECONDS_KEPT = 60.0
Offsets = dict[TopicPartition, Offset]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A finished micro-batch: what it read, how far the query is now, and what it left out."""

    batch: int
    rows: int
    seconds: float
    offsets: Mapping[TopicPartition, Offset]
    """Behind the last record that was processed, by partition."""
    latest: Mapping[TopicPartition, Offset]
    """The partitions' ends as they were then."""
    late: int = 0
    """Records dropped since their window had closed."""
    dropped: int = 0
    """Records dropped for their null key."""
    skipped: int = 0
    """Records that could not be read or processed."""
    begun: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    """Where it began; empty for a query's first."""

    def offsets_ahead(self, starting: Mapping[TopicPartition, Offset]) -> int:
        """Return how many offsets it went ahead, the first batch from `starting`."""
        before = self.begun or starting
        return sum(max(0, end - before.get(each, Offset(0))) for each, end in self.offsets.items())


def read_progress(reported: str | Mapping[str, Any]) -> BatchProgress:
    """Read a StreamingQueryProgress."""
    facts: Mapping[str, Any] = json.loads(reported) if isinstance(reported, str) else reported
    offsets: Offsets = {}
    latest: Offsets = {}
    begun: Offsets = {}
    for source in facts.get("sources") or ():
        offsets.update(_offsets(source.get("endOffset")))
        latest.update(_offsets(source.get("latestOffset")))
        begun.update(_offsets(source.get("startOffset")))
    late = sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in facts.get("stateOperators") or ())
    counted = [each for each in (facts.get("observedMetrics") or {}).values() if isinstance(each, Mapping)]
    late += _sum(counted, "late")
    seconds = (facts.get("durationMs") or {}).get("triggerExecution", 0) / 1000
    dropped, skipped = _sum(counted, "null_keys"), _sum(counted, "poison") + _sum(counted, "records")
    rows = int(facts["numInputRows"])
    return BatchProgress(int(facts["batchId"]), rows, seconds, offsets, latest, late, dropped, skipped, begun)


def _sum(counted: Iterable[Mapping[str, Any]], name: str) -> int:
    """Add up what tasks counted under a name (`Dataset.observe`); null where they saw nothing."""
    return sum(int(each.get(name) or 0) for each in counted)


def _offsets(text: Any) -> Offsets:
    """Read offsets as our source writes them; other sources' are not ours to commit."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
        return offsets_of_json(found) if isinstance(found, dict) else {}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}


@dataclass
class QueryMetrics:
    """One query's numbers since it began; times in seconds."""

    batches: int = 0
    rows: int = 0
    late: int = 0
    dropped: int = 0
    skipped: int = 0
    seconds: float = 0.0
    last_batch: int = -1
    last_batch_s: float = 0.0
    offsets: Offsets = field(default_factory=dict)
    latest: Offsets = field(default_factory=dict)
    _recent: list[tuple[float, int]] = field(default_factory=list)

    def add(self, progress: BatchProgress, now_s: float) -> bool:
        """Take a report in; false where it is of a batch that was taken in before."""
        self.latest.update(progress.latest)
        self.offsets.update(progress.offsets)
        if progress.batch <= self.last_batch:
            return False
        self.last_batch = progress.batch
        self.batches += 1
        self.rows += progress.rows
        self.late += progress.late
        self.dropped += progress.dropped
        self.skipped += progress.skipped
        self.seconds += progress.seconds
        self.last_batch_s = progress.seconds
        self._recent.append((now_s, progress.rows))
        return True

    def rows_per_second(self, now_s: float, window_s: float = 10.0) -> float:
        """Return the rate over the last seconds."""
        self._recent = [each for each in self._recent if each[0] > now_s - SECONDS_KEPT]
        return sum(rows for at, rows in self._recent if at > now_s - window_s) / window_s

    @property
    def lag(self) -> int:
        """Records that are in the topics and not processed yet, as of the last report."""
        return sum(max(0, end - self.offsets[each]) for each, end in self.latest.items() if each in self.offsets)


def reset_offsets(
    client: BlockingClient,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, Offset],
    reset: Mapping[str, str],
) -> Offsets:
    """Return where each partition begins: at the committed offset, or where its topic's reset policy says.

    `reset` is by topic: earliest, latest, none or by_duration:…; a committed offset outside the log is reset too, as by
    Kafka's consumers. Raises KafkaError for `none` where nothing is committed.
    """
    wanted = list(partitions)
    begin = _listed(client, dict.fromkeys(wanted, EARLIEST))
    end = _listed(client, dict.fromkeys(wanted, LATEST))
    found: Offsets = {}
    undecided: list[TopicPartition] = []
    for each in wanted:
        offset = committed.get(each)
        if offset is not None and begin[each] <= offset <= end[each]:
            found[each] = offset
            continue
        policy = reset.get(each.topic, "earliest")
        if policy == "none":
            undecided.append(each)
        elif policy.startswith("by_duration:"):
            found[each] = _at_age(client, each, policy.partition(":")[2], end[each])
        else:
            found[each] = end[each] if policy == "latest" else begin[each]
    if undecided:
        names = ", ".join(map(str, undecided))
        words = f"Undefined offset with no reset policy for partitions: [{names}]"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, words)
    return found


def _listed(client: BlockingClient, wanted: Mapping[TopicPartition, Millis]) -> Offsets:
    return {each: found.offset for each, found in client.list_offsets(wanted).items()} if wanted else {}


def _at_age(client: BlockingClient, partition: TopicPartition, duration: str, end: Offset) -> Offset:
    import time

    at = Millis(int(time.time() * 1000) - duration_ms(duration))
    found = _listed(client, {partition: at})[partition]
    return found if found >= 0 else end


def delete_read_records(client: BlockingClient, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Delete a repartition topic's records that were processed, as Kafka Streams does; a failure is for the next time."""
    client.run(delete_records(client.client, offsets))
