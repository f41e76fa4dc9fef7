"""The cluster of a lanes' world: the micro-batch machine's model, its ledger, and clients whose requests take their time.

A request is carried out when it arrives, also where the process that sent it is dead by then; those of a client arrive in
their order. Each may be lost on its way, or its answer may.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from typing import Any

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Millis, Offset, TopicPartition, Uuid
from ottla.client import (
    EARLIEST,
    Appended,
    Cluster,
    ConsumerGroupMetadata,
    Fetched,
    FetchPosition,
    Isolation,
    Limits,
    ListedOffset,
)
from ottla.connect.testing import World as Steps
from ottla.spark.continuous.work import note_of
from ottla.wire import iter_records, read_batch_header
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
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
from tests.streams.machine.cluster import Broker

__all__ = ["CHANGELOG", "COPIED", "COUNTED", "IN", "Door", "LaneCluster"]

IN, COPIED, COUNTED = "in", "copied", "counted"
CHANGELOG = "counting-counts-changelog"
_NOTHING = memoryview(b"")
LOST = 0.01
"""The part of requests that is lost, and of answers."""


class LaneCluster(Broker):
    """The cluster; `wrong` says what its ledger has found."""

    def __init__(self, rng: random.Random, *, exactly_once: bool, slow: float) -> None:
        """`slow` is the part of requests that takes seconds."""
        super().__init__(Steps())
        self.slow = slow
        self._rng, self._exactly_once = rng, exactly_once
        self.copied: Counter[bytes] = Counter()
        self.counted: dict[bytes, list[int]] = defaultdict(list)
        """Each key's counts, in their order."""
        self.sure: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        """By offset, what is there to be read, and was never taken away."""
        self._states: dict[bytes, int] = {}
        self.set_back: set[bytes] = set()
        """Keys whose counts a late write has set back."""
        self.sent: dict[bytes, bytes] = {}
        """Every value that was sent, with its key."""
        self.wrong: list[str] = []
        self.is_troubled = True
        """Whether requests are lost."""
        self.failing_restores = 0
        """How many of the next works are refused their offsets."""
        self.failing_fetches = 0
        """How many of the next Fetches of input are refused."""
        self.latest_s = 0.0
        """When the last answer arrives of what was asked so far."""
        self._open_results: dict[int, list[tuple[str, bytes, bytes]]] = defaultdict(list)
        self._news: list[asyncio.Future[None]] = []
        self._number = self._generations = 0
        self._held: dict[int, dict[str, dict[TopicPartition, tuple[int, str]]]] = defaultdict(dict)
        """By producer and group, offsets that wait for the end of a transaction."""
        self._members: dict[str, ConsumerGroupMetadata] = {}

    # -- what happens to topics

    def feed(self, count: int) -> None:
        """Send some records; every value is another."""
        for _ in range(count):
            self._number += 1
            number = self._number % 3
            key, value, place = b"k%d" % number, b"v%d" % self._number, TopicPartition(IN, number % 2)
            self.sure[place][self.logs[place].end] = value
            self.sent[value] = key
            self.add(IN, [(key, value)], place.partition)
        self._tell_news()

    def add_topic(self, name: str, partitions: int = 1) -> bool:
        """See `ModelCluster`; a topic's id follows from its name."""
        is_new = super().add_topic(name, partitions)
        if is_new:
            self.topics[name] = Uuid(hashlib.blake2b(name.encode(), digest_size=16).digest()), partitions
            self._views.clear()
        return is_new

    def make_again(self, topic: str) -> None:
        """Delete a topic and make it anew; unlike Kafka's coordinator keep its offsets, as one does that is told late."""
        kept = {group: dict(offsets) for group, offsets in self.offsets.items()}
        super().make_again(topic)
        self.topics[topic] = Uuid(self._rng.randbytes(16)), self.topics[topic][1]
        if self._rng.random() < 0.5:
            self.offsets.update(kept)
        for place in [each for each in self.sure if each.topic == topic]:
            del self.sure[place]
        self._tell_news()

    def cut(self, topic: str, *, whole: bool = False) -> None:
        """Delete the head of each of a topic's partitions, or all there is."""
        for place, log in self.logs.items():
            if place.topic == topic:
                start = log.end if whole else self._rng.randint(self.starts.get(place, 0), log.end)
                self.starts[place] = start
                self.sure[place] = {at: value for at, value in self.sure[place].items() if at >= start}
        self._tell_news()

    def _tell_news(self) -> None:
        news, self._news = self._news, []
        for each in news:
            if not each.done():
                each.set_result(None)

    def rejoin(self, group: str) -> ConsumerGroupMetadata:
        """Be a group's one member, in the place of whoever was."""
        self._generations += 1
        member = ConsumerGroupMetadata(group, f"member-{self._generations}", self._generations)
        self._members[group] = member
        return member

    def is_member(self, group: str, member_id: str, generation: int) -> bool:
        """See `Broker`."""
        return self._members.get(group) == ConsumerGroupMetadata(group, member_id, generation)

    # -- the ledger

    def append(self, place: TopicPartition, batch: bytearray) -> Appended:
        """See `Broker`."""
        before = self.logs[place].end
        answer = super().append(place, batch)
        if not answer.error and place.topic == CHANGELOG and not self._exactly_once:
            self._note_counts(batch)
        if not answer.error and self.logs[place].end > before and place.topic in (COPIED, COUNTED):
            found = [(place.topic, bytes(each.key or b""), bytes(each.value or b"")) for each in iter_records(batch)]
            header = read_batch_header(batch, 0)
            if header.is_transactional:
                self._open_results[header.producer_id] += found
            else:
                self._settle(found)
        self._tell_news()
        return answer

    def _note_counts(self, batch: bytearray) -> None:
        """Note keys whose state is set back by who has it no more: at least once nothing fences writes, as in Kafka."""
        for each in iter_records(batch):
            key, count = bytes(each.key or b""), int.from_bytes(each.value or b"", "big")
            if count < self._states.get(key, 0):
                self.set_back.add(key)
            self._states[key] = count

    def _settle(self, results: Iterable[tuple[str, bytes, bytes]]) -> None:
        for topic, key, value in results:
            if topic == COPIED:
                self.copied[value.lower()] += 1
                if self._exactly_once and self.copied[value.lower()] > 1:
                    self.wrong.append(f"{value!r} is copied twice")
            else:
                self.counted[key].append(int.from_bytes(value, "big"))
                if self._exactly_once and self.counted[key][-2:] != sorted(set(self.counted[key][-2:])):
                    self.wrong.append(f"{key!r} is counted {self.counted[key][-4:]}")

    def _end(self, transaction: Any, *, commit: bool) -> None:
        super()._end(transaction, commit=commit)
        held = self._held.pop(transaction.producer_id, {})
        results = self._open_results.pop(transaction.producer_id, [])
        if commit:
            self._settle(results)
            for group, offsets in held.items():
                before = dict(self.offsets.setdefault(group, {}))
                self.offsets[group].update(offsets)
                self._check_moved(group, before)
                self._check(group, offsets)
        self._tell_news()

    def commit(self, message: Any) -> ErrorCode:
        """See `Broker`."""
        before = dict(self.offsets.get(message.group_id, {}))
        code = super().commit(message)
        if code:
            return code
        if isinstance(message, OffsetCommitRequest):
            self._check_moved(message.group_id, before)
            self._check(message.group_id, self.offsets[message.group_id])
        else:  # a transaction of a lane is of several groups
            _, offsets = self._pending.pop(message.producer_id)
            self._held[message.producer_id].setdefault(message.group_id, {}).update(offsets)
        return code

    def _check_moved(self, group: str, before: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Note offsets that a commit has moved back in one topic: nobody may who has given a work away."""
        for place, (offset, words) in self.offsets[group].items():
            old, old_words = before.get(place, (-1, ""))
            if offset < old and note_of(words).topic_id == note_of(old_words).topic_id:
                self.wrong.append(f"{group} has moved {place} back from {old} to {offset}")

    def _check(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Note records that lie before a committed offset, and of which nothing was sent."""
        if group != "copying":
            return
        for place, (offset, words) in offsets.items():
            if note_of(words).topic_id != self.topics[place.topic][0].hex():
                continue
            for at, value in self.sure[place].items():
                if at < offset and not self.copied[value]:
                    self.wrong.append(f"{place} is committed up to {offset}, and {value!r} at {at} is not sent")

    # -- of brokers

    def committed_answer(self, message: OffsetFetchRequest) -> OffsetFetchResponse:
        """Return a group's offsets; those that wait for the end of a transaction are not stable."""
        if self.failing_restores:
            self.failing_restores -= 1
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "armed")
        [wanted] = message.groups
        waiting = {place for held in self._held.values() for place in held.get(wanted.group_id, ())}
        places = [TopicPartition(each.name, at) for each in wanted.topics or () for at in each.partition_indexes]
        known = self.offsets.get(wanted.group_id, {})
        topics: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for place in places:
            offset, words = known.get(place, (-1, ""))
            is_open = message.require_stable and place in waiting
            topics.setdefault(place.topic, []).append(
                OffsetFetchResponsePartitions(
                    partition_index=place.partition,
                    committed_offset=-1 if is_open else offset,
                    committed_leader_epoch=-1,
                    metadata=words,
                    error_code=int(ErrorCode.UNSTABLE_OFFSET_COMMIT if is_open else ErrorCode.NONE),
                )
            )
        found = [OffsetFetchResponseTopics(name=name, partitions=parts) for name, parts in topics.items()]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=wanted.group_id, topics=found)])

    def is_stable(self, group: str) -> bool:
        """Whether no transaction holds offsets of a group."""
        return not any(held.get(group) for held in self._held.values())

    def time_out(self, group: str) -> None:
        """Abort the transactions that hold offsets of a group, as their coordinator does with those that take too long."""
        for name, each in list(self._transactions.items()):
            if self._held.get(each.producer_id, {}).get(group):
                self.take_over(name)

    def fetch(self, position: FetchPosition, isolation: Isolation) -> Fetched:
        """See `Broker`; who polls at the end is answered without a search."""
        place, log = position.partition, self.logs[position.partition]
        end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
        error = ErrorCode.NONE
        if place.topic == IN and self.failing_fetches:
            self.failing_fetches -= 1
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if error or self.starts.get(place, 0) <= position.offset == end:
            ends = Offset(log.end), Offset(log.stable), Offset(self.starts.get(place, 0))
            return Fetched(place, position.offset, error, *ends, (), _NOTHING, self.topics[place.topic][0])
        return replace(super().fetch(position, isolation), topic_id=self.topics[position.partition.topic][0])

    def listed(self, wanted: Mapping[TopicPartition, Millis]) -> dict[TopicPartition, ListedOffset]:
        """Return where partitions begin and end."""
        found = {}
        for place, moment in wanted.items():
            offset = self.starts.get(place, 0) if moment == EARLIEST else self.logs[place].end
            found[place] = ListedOffset(place, Offset(offset), Millis(-1), LeaderEpoch(0))
        return found

    async def news(self, seconds: float) -> None:
        """Wait until something was written, or for so long."""
        waiting = asyncio.get_running_loop().create_future()
        self._news.append(waiting)
        await asyncio.wait([waiting], timeout=seconds)


class Door:
    """A client of the cluster; see `Client` for the methods."""

    def __init__(self, cluster: LaneCluster, rng: random.Random, outside: Context) -> None:
        """`outside` is the context of nobody's process, in which requests travel."""
        self._model, self._rng, self._outside = cluster, rng, outside
        self._arrives_s = 0.0
        self.limits = Limits.of_task(30_000)
        self.cluster: Cluster = cluster.view()

    async def close(self) -> None:
        """See `Client`."""

    def _delay_s(self) -> float:
        drawn = self._rng.random()
        if self._model.is_troubled and drawn < self._model.slow:
            return self._rng.uniform(0.5, 4.0)
        return 0.0002 + 0.003 * drawn

    async def _ask(self, call: Callable[[], Any]) -> Any:
        """Send a request, have it carried out where it arrives, and return the answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        drawn = self._rng.random() if self._model.is_troubled else 1.0
        self._arrives_s = max(self._arrives_s + 1e-6, loop.time() + self._delay_s())
        back_s = self._delay_s()
        self._model.latest_s = max(self._model.latest_s, self._arrives_s + back_s)

        def arrive() -> None:
            try:
                if drawn < LOST:
                    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the request is lost")
                found, error = call(), None
                if drawn < 2 * LOST:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the answer is lost")
            except KafkaError as raised:
                found, error = None, raised
            loop.call_later(back_s, reach, found, error, context=self._outside)

        def reach(found: Any, error: KafkaError | None) -> None:
            if not answer.done():
                if error is None:
                    answer.set_result(found)
                else:
                    answer.set_exception(error)

        loop.call_at(self._arrives_s, arrive, context=self._outside)
        return await answer

    async def features(self) -> dict[str, int]:
        """See `Client`."""
        return {"transaction.version": 2}

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> Cluster:
        """See `Client`."""
        self.cluster = await self._ask(self._model.view)
        return self.cluster

    async def request(self, message: Any, **_options: Any) -> Any:
        """See `Client`."""
        if isinstance(message, InitProducerIdRequest) and self._model.is_troubled and self._rng.random() < 0.4:
            await asyncio.sleep(self._rng.uniform(0.01, 1.0))  # its coordinator is looked for first
        return await self._ask(lambda: self._carry_out(message))

    def _carry_out(self, message: Any) -> Any:
        model = self._model
        match message:
            case OffsetFetchRequest():
                return model.committed_answer(message)
            case OffsetCommitRequest():
                stored = OffsetCommitResponsePartition(partition_index=0, error_code=int(model.commit(message)))
                return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="", partitions=[stored])])
            case TxnOffsetCommitRequest():
                there = TxnOffsetCommitResponsePartition(partition_index=0, error_code=int(model.commit(message)))
                return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="", partitions=[there])])
            case InitProducerIdRequest():
                name = message.transactional_id or f"idempotent {self._rng.random()}"
                taken = model.take_over(name)
                return InitProducerIdResponse(producer_id=taken.producer_id, producer_epoch=taken.epoch)
            case EndTxnRequest():
                return model.end(
                    message.transactional_id, message.producer_id, message.producer_epoch, commit=message.committed
                )
        raise AssertionError(f"the model knows no {type(message).__name__}")

    async def append(self, batches: Mapping[TopicPartition, Any], **_options: Any) -> list[Appended]:
        """See `Client`."""
        found: list[Appended] = await self._ask(
            lambda: [self._model.append(place, bytearray(batch)) for place, batch in batches.items()]
        )
        return found

    async def produce(self, batches: Mapping[TopicPartition, Any], **_options: Any) -> list[Appended]:
        """See `Client`."""
        return [each.check() for each in await self.append(batches)]

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, Millis], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """See `Client`."""
        found: dict[TopicPartition, ListedOffset] = await self._ask(lambda: self._model.listed(wanted))
        return found

    async def fetch(
        self,
        positions: Sequence[FetchPosition],
        *,
        max_wait_ms: int = 500,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        **_options: Any,
    ) -> list[Fetched]:
        """See `Client`."""
        until_s = asyncio.get_running_loop().time() + max_wait_ms / 1000
        while True:
            found: list[Fetched] = await self._ask(lambda: [self._model.fetch(each, isolation) for each in positions])
            self.cluster = self._model.view()
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0 or any(each.error or len(each.records) for each in found):
                return found
            await self._model.news(left_s)
