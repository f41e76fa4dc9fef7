"""The cluster that the machine's applications work with: the model of Connect's contract, with what Streams needs besides.

That is: groups with one member and its generation, offsets that are committed in transactions (KIP-447), logs whose head is
deleted, topics that grow or are made again, and topics that take no batch of more than one record, once.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Millis, Offset, TopicPartition, Uuid
from ottla.client import (
    EARLIEST,
    LATEST,
    Appended,
    BlockingClient,
    Cluster,
    ConsumerGroupMetadata,
    Fetched,
    FetchPosition,
    Isolation,
    ListedOffset,
)
from ottla.connect.testing import Fault, Life, ModelClient, ModelCluster, World
from ottla.connect.testing.cluster import TIME, _Log
from ottla.wire import Record, build_batch, iter_records, read_batch_header
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["Broker", "Connection", "connected", "process"]

ASKED = frozenset(
    {Fault.RETRIABLE, Fault.FATAL, Fault.TIMEOUT, Fault.FENCED, Fault.STOP, Fault.KILL_BEFORE, Fault.KILL_AFTER}
)
STORED = ASKED | {Fault.REFUSED}


class Broker(ModelCluster):
    """The cluster."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.starts: dict[TopicPartition, int] = {}
        """Where logs begin whose head was deleted."""
        self.offsets: dict[str, dict[TopicPartition, tuple[int, str]]] = {}
        """By group."""
        self.narrow: set[str] = set()
        """Topics that take batches of one record only."""
        self.members: dict[str, tuple[ConsumerGroupMetadata, Life]] = {}
        self._pending: dict[int, tuple[str, dict[TopicPartition, tuple[int, str]]]] = {}
        """Offsets that wait for the end of a producer's transaction."""

    # -- what happens to topics

    def add(self, topic: str, keys_and_values: Iterable[tuple[bytes | None, bytes]], partition: int = 0) -> None:
        """Append records, one batch."""
        records = [Record(timestamp=TIME, key=key, value=value) for key, value in keys_and_values]
        with self.lock:
            self.logs[TopicPartition(topic, partition)].add(build_batch(records))

    def grow(self, topic: str) -> None:
        """Add a partition."""
        with self.lock:
            self._views.clear()
            identity, count = self.topics[topic]
            self.topics[topic] = identity, count + 1
            self.logs[TopicPartition(topic, count)] = _Log()

    def make_again(self, topic: str) -> None:
        """Delete a topic and make it anew, empty; groups forget its offsets, as Kafka's coordinator has it."""
        with self.lock:
            self._views.clear()
            count = self.topics[topic][1]
            self.topics[topic] = Uuid(uuid.uuid4().bytes), count
            for number in range(count):
                place = TopicPartition(topic, number)
                self.logs[place] = _Log()
                self.starts.pop(place, None)
                for offsets in self.offsets.values():
                    offsets.pop(place, None)

    def cut(self, topic: str) -> None:
        """Delete everything that a topic has."""
        with self.lock:
            self.starts.update({place: log.end for place, log in self.logs.items() if place.topic == topic})

    def read(self, topic: str) -> list[Record]:
        """Return what a reader with `read_committed` sees, by partition and offset."""
        found: list[Record] = []
        for place, log in sorted(self.logs.items()):
            if place.topic != topic:
                continue
            for header, data in log.batches:
                if header.is_control or header.base_offset >= log.stable:
                    continue
                if not header.is_transactional or not any(
                    header.producer_id == producer and first <= header.base_offset < last
                    for producer, first, last in log.aborted
                ):
                    found += iter_records(data)
        return found

    # -- groups

    def join(self, group: str, life: Life, *, force: bool = False) -> ConsumerGroupMetadata:
        """Become a group's one member; raises KafkaError where another lives, unless its session is said to be over."""
        with self.lock:
            before = self.members.get(group)
            if before is not None and not before[1].dead and before[1] is not life and not force:
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"application {group} is already run")
            generation = 1 if before is None else before[0].generation + 1
            member = ConsumerGroupMetadata(group, f"member-{generation}", generation)
            self.members[group] = member, life
            return member

    def leave(self, member: ConsumerGroupMetadata) -> None:
        """Leave a group; generations go on."""
        with self.lock:
            if self.is_member(member.group, member.member_id, member.generation):
                gone = Life(self.world)
                gone.dead = True
                self.members[member.group] = member, gone

    def is_member(self, group: str, member_id: str, generation: int) -> bool:
        """Whether somebody is the group's member."""
        found = self.members.get(group)
        return found is not None and (found[0].member_id, found[0].generation) == (member_id, generation)

    def commit(self, message: Any) -> ErrorCode:
        """Take offsets of a group in: at once, or with the transaction that they belong to."""
        with self.lock:
            transactional = isinstance(message, TxnOffsetCommitRequest)
            generation = message.generation_id if transactional else message.generation_id_or_member_epoch
            if transactional:
                owner = self._transactions[message.transactional_id]
                if (owner.producer_id, owner.epoch) != (message.producer_id, message.producer_epoch):
                    return ErrorCode.INVALID_PRODUCER_EPOCH
            if not self.is_member(message.group_id, message.member_id, generation):
                return ErrorCode.UNKNOWN_MEMBER_ID
            given = {
                TopicPartition(topic.name, each.partition_index): (each.committed_offset, each.committed_metadata or "")
                for topic in message.topics
                for each in topic.partitions
            }
            if transactional:
                self._pending.setdefault(message.producer_id, (message.group_id, {}))[1].update(given)
            else:
                self.offsets.setdefault(message.group_id, {}).update(given)
            return ErrorCode.NONE

    def _end(self, transaction: Any, *, commit: bool) -> None:
        super()._end(transaction, commit=commit)
        group, offsets = self._pending.pop(transaction.producer_id, ("", {}))
        if commit:
            self.offsets.setdefault(group, {}).update(offsets)

    # -- of brokers

    def fetch(self, position: FetchPosition, isolation: Isolation) -> Fetched:
        """See `ModelCluster`; an offset that is not in the log is out of range."""
        with self.lock:
            place = position.partition
            start, end = self.starts.get(place, 0), self.logs[place].end
            if not start <= position.offset <= end:
                nothing = memoryview(b"")
                ends = Offset(end), Offset(end), Offset(start)
                return Fetched(place, position.offset, ErrorCode.OFFSET_OUT_OF_RANGE, *ends, (), nothing)
            return replace(super().fetch(position, isolation), log_start_offset=Offset(start))


class Connection(ModelClient):
    """A client of one life; see `Client`."""

    def __init__(self, broker: Broker, life: Life) -> None:
        super().__init__(broker, life)
        self._broker = broker

    def _asked(self, name: str, kinds: frozenset[Fault] = ASKED) -> Fault | None:
        """Take a step; raises what fails before anything is done."""
        if self._life.dead:
            raise self._life.client_error()
        found = self._broker.world.step(name, self._life, kinds=kinds)
        if found is Fault.RETRIABLE:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"injected at {name}")
        if found is Fault.FATAL:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"injected at {name}")
        if found is Fault.KILL_BEFORE:
            self._life.kill()
            raise self._life.client_error()
        return found

    def _role(self, topic: str) -> str:
        return self._broker.roles.get(topic, "internal" if topic.startswith("app-") else "topic")

    async def request(self, message: Any, **_options: Any) -> Any:
        """See `Client`."""
        if isinstance(message, OffsetFetchRequest):
            fault = self._asked("read the group's offsets")
            self._done(fault, "read the group's offsets")
            return self._committed(message)
        if isinstance(message, OffsetCommitRequest):
            fault = self._asked("commit offsets")
            code = int(self._broker.commit(message))
            self._done(fault, "commit offsets")
            parts = [OffsetCommitResponsePartition(partition_index=0, error_code=code)]
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="", partitions=parts)])
        if isinstance(message, TxnOffsetCommitRequest):
            fault = self._asked("commit offsets in a transaction")
            code = int(self._broker.commit(message))
            self._done(fault, "commit offsets in a transaction")
            there = [TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)]
            return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="", partitions=there)])
        return await super().request(message)

    def _committed(self, message: OffsetFetchRequest) -> OffsetFetchResponse:
        [wanted] = message.groups
        topics: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for place, (offset, words) in self._broker.offsets.get(wanted.group_id, {}).items():
            topics.setdefault(place.topic, []).append(
                OffsetFetchResponsePartitions(
                    partition_index=place.partition, committed_offset=offset, committed_leader_epoch=-1, metadata=words
                )
            )
        found = [OffsetFetchResponseTopics(name=name, partitions=parts) for name, parts in topics.items()]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=wanted.group_id, topics=found)])

    async def append(self, batches: Mapping[TopicPartition, Any], **_options: Any) -> list[Appended]:
        """See `Client`; a topic that refuses a batch takes none of several records from then on."""
        found: list[Appended] = []
        for place, batch in batches.items():
            step = f"produce {self._role(place.topic)}"
            fault = self._asked(step, STORED if self._role(place.topic) in ("results", "changelog") else ASKED)
            if fault is Fault.REFUSED:
                self._broker.narrow.add(place.topic)
            if place.topic in self._broker.narrow and read_batch_header(batch, 0).record_count > 1:
                found.append(Appended(place, ErrorCode.MESSAGE_TOO_LARGE))
                continue
            appended = self._broker.append(place, bytearray(batch))
            self._done(fault, step)
            found.append(appended)
        return found

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, Millis], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """See `Client`."""
        if self._life.dead:
            raise self._life.client_error()
        found = {}
        for place, moment in wanted.items():
            assert moment in (EARLIEST, LATEST)
            log = self._broker.logs[place]
            end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
            offset = Offset(self._broker.starts.get(place, 0) if moment == EARLIEST else end)
            found[place] = ListedOffset(place, offset, Millis(-1), LeaderEpoch(0))
        return found

    async def fetch(
        self,
        positions: Sequence[FetchPosition],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        **_options: Any,
    ) -> list[Fetched]:
        """See `Client`."""
        [position] = positions
        step = f"fetch {self._role(position.partition.topic)}"
        fault = self._asked(step)
        self.cluster = self._broker.view()  # as a client has it that was told of an unknown topic id
        found = self._broker.fetch(position, isolation)
        self._done(fault, step)
        return [found]

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> Cluster:
        """See `Client`."""
        if self._life.dead:
            raise self._life.client_error()
        return await super().metadata(topics)


process = threading.local()
"""`process.broker` and `process.life`: whose code a thread runs."""


class connected(BlockingClient):
    """`BlockingClient`, connected to the broker of the thread's life."""

    def __init__(self, *_given: Any, **_options: Any) -> None:
        super().__init__("127.0.0.1:9092")
        self.client: Any = Connection(process.broker, process.life)
