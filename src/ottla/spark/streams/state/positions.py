"""How far into its input each task of a query has come: written with what it delivers, read where its checkpoint is lost.

A task's changelog says what the state is, and not of which records. So exactly once each batch of a task also leaves, in the
same transaction, the offset behind the last record of each topic partition that the task has seen, as records of the query's
commits topic under the key `input <task> <topic> <partition>`. State that is rebuilt from changelogs passes over records
before them: the group's offsets, at which reading begins, are committed after a batch, and may lag behind. Tasks without
state note the same of topics that other queries read too, whose offsets in the group are the slowest query's.

Beside the offset stands the topic's id: of a topic that was made again no record was seen.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import LATEST
from ottla.spark.streams.commits import INPUT_KEY, commits_topic, last_committed
from ottla.spark.streams.state.chunks import chunk_of
from ottla.streams import Output
from ottla.wire import Record

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = [
    "Positions",
    "beyond",
    "position_outputs",
    "position_records",
    "read_furthest",
    "read_positions",
    "seen",
    "topic_ids",
]

UNKNOWN = "-"
"""In place of a topic's id."""
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


def position_records(task: int, positions: Positions, ids: Mapping[str, str], *, branches: int = 1) -> list[Record]:
    """Return the records of the commits topic that say how far a task, or a branch of a plan, has come.

    `ids` are topics' ids; `branches` says how many branches read each partition.
    """
    more = f" {branches}" if branches > 1 else ""
    now_ms = Millis(time.time_ns() // 1_000_000)
    return [
        Record(
            timestamp=now_ms,
            key=f"{INPUT_KEY}{task} {place.topic} {place.partition}".encode(),
            value=f"{offset} {ids.get(place.topic, UNKNOWN)}{more}".encode(),
        )
        for place, offset in sorted(positions.items())
    ]


def position_outputs(topic: str, task: int, positions: Positions, ids: Mapping[str, str]) -> list[Output]:
    """Return the same as what leaves an executor."""
    return [
        Output("", topic, each.key, each.value, each.timestamp, (), 0)
        for each in position_records(task, positions, ids)
    ]


def topic_ids(client: BlockingClient, topics: Iterable[str]) -> dict[str, str]:
    """Return the ids of the topics that are there, as text."""
    found = client.metadata(sorted(set(topics))).topics.values()
    return {each.name: each.topic_id.hex() for each in found if not each.error}


@dataclass(frozen=True, slots=True)
class _Noted:
    """How far a task has come in a partition."""

    offset: Offset
    identity: str = UNKNOWN
    """The topic's."""
    branches: int = 1

    @classmethod
    def of(cls, value: bytes) -> _Noted:
        offset, identity, branches = [*value.decode().split(" "), *("", "")][:3]
        return cls(Offset(int(offset)), identity or UNKNOWN, int(branches or 1))


def _read(client: BlockingClient, application: str, query: str) -> dict[tuple[int, TopicPartition], _Noted]:
    """Return what tasks have noted, but for topics that are gone, or made again, or offsets that are not there any more."""
    place = commits_topic(application, query)
    known = client.metadata([place.topic]).topics.get(place.topic)
    if known is None or known.error:
        return {}
    noted: dict[tuple[int, TopicPartition], _Noted] = {}
    for key, (value, _) in last_committed(client, place)[0].items():
        if key.startswith(INPUT_KEY):
            task, topic, partition = key.removeprefix(INPUT_KEY).split(" ")
            noted[int(task), TopicPartition(topic, int(partition))] = _Noted.of(value)
    if not noted:
        return {}
    cluster = client.metadata(sorted({each.topic for _, each in noted}))
    there = {each for topic in cluster.topics for each in cluster.partitions_of(topic)}
    ids = {each.name: each.topic_id.hex() for each in cluster.topics.values()}
    ends = client.list_offsets({each: LATEST for _, each in noted if each in there})
    return {
        (task, each): found
        for (task, each), found in noted.items()
        if each in ends and found.identity in (UNKNOWN, ids[each.topic]) and found.offset <= ends[each].offset
    }


BEGINNING = _Noted(Offset(-1))


def read_positions(client: BlockingClient, application: str, query: str) -> dict[int, dict[TopicPartition, Offset]]:
    """Return how far each task's delivered batches have come; empty where there is no commits topic. Raises KafkaError."""
    found: dict[int, dict[TopicPartition, Offset]] = {}
    for (task, each), noted in _read(client, application, query).items():
        found.setdefault(task, {})[each] = noted.offset
    return found


def read_furthest(
    client: BlockingClient, application: str, query: str, *, but: Collection[TopicPartition] = ()
) -> dict[TopicPartition, Offset]:
    """Return how far a query without state has come, of what its tasks have noted; of some partitions nobody asks.

    Raises KafkaError, also where some branches of its plan have delivered a batch and others have not: each record would
    have to be sent by some and not by others.
    """
    noted = {key: each for key, each in _read(client, application, query).items() if key[1] not in but}
    found: dict[TopicPartition, _Noted] = {}
    for (_, place), each in noted.items():
        if place not in found or found[place].offset < each.offset:
            found[place] = each
    for place, last in found.items():
        behind = [n for n in range(last.branches) if noted.get((n, place), BEGINNING).offset != last.offset]
        if behind and last.branches > 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the checkpoint of {query} is gone, and of the {last.branches} branches that read {place} some have "
                f"delivered up to offset {last.offset} and some have not: no offset to begin at is right for all. Put the "
                f"checkpoint back, or say where to begin by committing offsets for the group {application}",
            )
    return {place: each.offset for place, each in found.items()}
