"""The commits topic of a query: which batch each of its tasks has delivered last, written in the same transactions.

`<application>-<query>-commits` has one partition and is compacted. A task's record has its number as key; the record with
the key `tasks` says by how many tasks batches are written now, and since which. Values are JSON, to be read by people.
Records whose keys begin with `input` are of `state_positions`.

The topic is read up to its end, not up to what is stable: other tasks' transactions may be open in it. A record counts when
its transaction's marker follows it. That is enough for whoever has just taken a transactional id over, since nothing of
that id is open then: all that it ever wrote is decided, and the marker is in the log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ottla.base import ErrorCode, KafkaError, Millis, Offset, ProducerId, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, FetchPosition, NewTopic, TransactionalProducer, create_topics
from ottla.wire import ControlType, Record, control_type, iter_batch_records, iter_batches

__all__ = [
    "INPUT_KEY",
    "Commit",
    "Found",
    "commits_topic",
    "deliverer",
    "ensure_commits_topic",
    "fence_tasks",
    "has_delivered",
    "last_committed",
    "read_commits",
    "transactional_id",
]

TASKS_KEY = "tasks"
INPUT_KEY = "input "
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.3",
    "compression.type": "producer",
}
FETCH_BYTES = 1 << 20
READ_SECONDS_MAX = 60.0
FENCE_TIMEOUT_MS = 60_000
"""The transaction timeout of an id that is taken over only so that nobody else has it."""


def commits_topic(application: str, query: str) -> TopicPartition:
    """Return the one partition of a query's commits topic."""
    return TopicPartition(f"{application}-{query}-commits", 0)


def transactional_id(application: str, query: str, task: int) -> str:
    """Return the transactional id under which a task writes."""
    return f"{application}-{query}-{task}"


@dataclass(frozen=True)
class Commit:
    """A batch that a task delivered; or, under the key `tasks`, the first batch that so many tasks were to deliver."""

    query_id: str
    """Spark's id of the query, which lives in its checkpoint: batches of another checkpoint are others."""
    batch: int
    tasks: int

    def record(self, task: int | None, now_ms: int) -> Record:
        """Return the record of a task, or of all."""
        key = TASKS_KEY if task is None else str(task)
        return Record(timestamp=Millis(now_ms), key=key.encode(), value=json.dumps(asdict(self)).encode())


@dataclass(frozen=True)
class Found:
    """The last committed record of a key, and where it lies."""

    commit: Commit
    offset: Offset


def ensure_commits_topic(client: BlockingClient, topic: str) -> None:
    """Create the topic unless it is there; raises KafkaError."""
    known = client.metadata([topic]).topics.get(topic)
    if known is not None and not known.error:
        return
    made = NewTopic(topic, partitions=1, configs=TOPIC_CONFIGS)
    error = client.run(create_topics(client.client, [made])).get(topic)
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise KafkaError(error.code, f"topic {topic} cannot be made: {error}")


def fence_tasks(client: BlockingClient, application: str, query: str, tasks: int) -> None:
    """Take the transactional ids of a query's tasks over: what is on its way from them can be committed no more."""
    for task in range(tasks):
        name = transactional_id(application, query, task)
        client.run(TransactionalProducer(client.client, name, timeout_ms=FENCE_TIMEOUT_MS).begin())


def deliverer(client: BlockingClient, application: str, query: str) -> Commit | None:
    """Return which checkpoint delivers a query's batches, and by how many tasks; None where nobody has yet."""
    place = commits_topic(application, query)
    known = client.metadata([place.topic]).topics.get(place.topic)
    if known is None or known.error:
        return None
    found = read_commits(client, place)[0].get(TASKS_KEY)
    return None if found is None else found.commit


def has_delivered(client: BlockingClient, application: str, query: str, query_id: str, batch: int) -> bool:
    """Whether some task of a query has delivered a batch of the checkpoint with that id."""
    place = commits_topic(application, query)
    known = client.metadata([place.topic]).topics.get(place.topic)
    if known is None or known.error:
        return False
    found, _ = read_commits(client, place)
    return any(
        key != TASKS_KEY and (each.commit.query_id, each.commit.batch) == (query_id, batch)
        for key, each in found.items()
    )


def read_commits(
    client: BlockingClient, topic: TopicPartition, since: Offset | None = None
) -> tuple[dict[str, Found], Offset]:
    """Return the last committed batch per task, of those from an offset on, and the topic's end; raises KafkaError."""
    found, end = last_committed(client, topic, since)
    commits = {
        key: Found(Commit(**json.loads(value)), offset)
        for key, (value, offset) in found.items()
        if not key.startswith(INPUT_KEY)
    }
    return commits, end


def last_committed(
    client: BlockingClient, topic: TopicPartition, since: Offset | None = None
) -> tuple[dict[str, tuple[bytes, Offset]], Offset]:
    """Return value and offset of the last committed record per key, of those from an offset on, and the topic's end.

    Raises KafkaError. The end is asked for as KIP-207 has it, so that a new leader does not hide what was acknowledged.
    """
    ending = client.begin(client.client.list_offsets({topic: LATEST}))
    position = since if since is not None else _start(client, topic)
    scan, deadline = _Scan(), time.monotonic() + READ_SECONDS_MAX
    while True:
        wanted = [FetchPosition(topic, position, FETCH_BYTES)]
        [fetched] = client.fetch(wanted, max_wait_ms=0)
        end = ending.result()[topic].offset
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE and position != (start := _start(client, topic)):
            position, scan = start, _Scan()  # the topic was emptied, or is another
            continue
        position = max(position, scan.take(fetched.check().records, position))
        if position >= end:
            return scan.committed, end
        if time.monotonic() > deadline:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{topic} brings nothing from {position} on, before {end}")


def _start(client: BlockingClient, topic: TopicPartition) -> Offset:
    return client.list_offsets({topic: EARLIEST})[topic].offset


class _Scan:
    """Reads batches in order: records wait for the marker of their transaction."""

    def __init__(self) -> None:
        self.committed: dict[str, tuple[bytes, Offset]] = {}
        self._open: dict[ProducerId, dict[str, tuple[bytes, Offset]]] = {}

    def take(self, records: memoryview, start: Offset) -> Offset:
        """Read whole batches; return the offset behind them."""
        position = start
        for header, at in iter_batches(records):
            position = header.next_offset
            if position <= start:
                continue
            found = list(iter_batch_records(records, at, header))
            if header.is_control:
                decided = self._open.pop(header.producer_id, {})
                if found and control_type(found[0].key) == ControlType.COMMIT:
                    self.committed.update(decided)
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, {}).update(_entries(found))
            else:
                self.committed.update(_entries(found))
        return position


def _entries(records: list[Record]) -> Mapping[str, tuple[bytes, Offset]]:
    return {
        record.key.decode(): (bytes(record.value), record.offset)
        for record in records
        if record.key is not None and record.value is not None
    }
