"""How far into its input each task of a stage has come: written with what it delivers, read where state is rebuilt.

A task's changelog says what the state is, and not of which records. So exactly once each batch of a task also leaves, in the
same transaction, the offset behind the last record of each topic partition that the task has seen, as records of the query's
commits topic under the key `input <task> <topic> <partition>`. State that is rebuilt from changelogs passes over records
before them: the group's offsets, at which reading begins, are committed after a batch, and may lag behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base import Offset, TopicPartition
from ottla.spark.commits import INPUT_KEY, commits_topic, last_committed
from ottla.spark.state_chunks import chunk_of
from ottla.streams import Output

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["Positions", "beyond", "position_outputs", "read_positions", "seen"]

Positions = Mapping[TopicPartition, Offset]
"""The offset behind the last record that a task has seen."""


def seen(chunks: Iterable[bytes], passed_over: frozenset[int]) -> dict[TopicPartition, Offset]:
    """Return the positions behind chunks of ENTRY rows, but for the edges that are passed over (global tables)."""
    found: dict[TopicPartition, Offset] = {}
    for table in _tables(chunks):
        if passed_over:
            table = table.filter(_not_among(table.column("edge"), passed_over))
        if not table.num_rows:
            continue
        largest = table.group_by(["topic", "partition"]).aggregate([("offset", "max")])
        rows = zip(*(largest.column(name).to_pylist() for name in ("topic", "partition", "offset_max")), strict=True)
        for topic, partition, offset in rows:
            place = TopicPartition(topic, partition)
            found[place] = max(found.get(place, 0), offset + 1)
    return found


def beyond(chunks: Sequence[bytes], positions: Positions, passed_over: frozenset[int]) -> Iterator[bytes]:
    """Yield chunks of ENTRY rows without those that lie before the positions; global tables keep theirs."""
    import pyarrow
    import pyarrow.compute as compute

    for table in _tables(chunks):
        old = pyarrow.array([False] * table.num_rows)
        for place, offset in positions.items():
            here = compute.and_(
                compute.equal(table.column("topic"), place.topic),
                compute.equal(table.column("partition"), place.partition),
            )
            old = compute.or_(old, compute.and_(here, compute.less(table.column("offset"), offset)))
        if passed_over:
            old = compute.and_(old, _not_among(table.column("edge"), passed_over))
        left = table.filter(compute.invert(old))
        if left.num_rows:
            yield chunk_of(left)


def _tables(chunks: Iterable[bytes]) -> Iterator[Any]:
    import pyarrow

    for chunk in chunks:
        yield pyarrow.ipc.open_stream(chunk).read_all()


def _not_among(edges: Any, passed_over: frozenset[int]) -> Any:
    import pyarrow
    import pyarrow.compute as compute

    return compute.invert(compute.is_in(edges, value_set=pyarrow.array(sorted(passed_over), pyarrow.int32())))


def position_outputs(topic: str, task: int, positions: Positions) -> list[Output]:
    """Return the records of the commits topic that say how far a task has come."""
    now_ms = time.time_ns() // 1_000_000
    return [
        Output("", topic, f"{INPUT_KEY}{task} {place.topic} {place.partition}".encode(), b"%d" % offset, now_ms, (), 0)
        for place, offset in sorted(positions.items())
    ]


def read_positions(client: BlockingClient, application: str, query: str) -> dict[int, dict[TopicPartition, Offset]]:
    """Return how far each task's delivered batches have come; empty where there is no commits topic. Raises KafkaError."""
    place = commits_topic(application, query)
    known = client.metadata([place.topic]).topics.get(place.topic)
    if known is None or known.error:
        return {}
    found: dict[int, dict[TopicPartition, Offset]] = {}
    for key, (value, _) in last_committed(client, place)[0].items():
        if key.startswith(INPUT_KEY):
            task, topic, partition = key.removeprefix(INPUT_KEY).split(" ")
            found.setdefault(int(task), {})[TopicPartition(topic, int(partition))] = Offset(int(value))
    return found
