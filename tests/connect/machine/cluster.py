"""The Kafka cluster of the machine: logs and transactions of Connect's model, and the broker's own group coordinator.

A request is carried out when it arrives, also where the worker that sent it is dead by then; those of one client arrive in
their order. A worker may be cut off: what it asks then arrives nowhere, and fails after a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from typing import Any

from ottla import groups
from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Millis, Offset, TopicPartition, Uuid
from ottla.client import (
    EARLIEST,
    Appended,
    Cluster,
    Fetched,
    FetchPosition,
    Isolation,
    Limits,
    ListedOffset,
)
from ottla.config import BrokerConfig
from ottla.connect.testing import ModelCluster
from ottla.connect.testing import World as Steps
from ottla.groups import Decision, DecisionContext, RequestOrigin, Shard
from ottla.wire import Record, iter_records
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.groups.classic import NoTopics

__all__ = ["Door", "KafkaModel"]

START_MS = 1_750_000_000_000
TRANSACTION_SECONDS = 60.0
UNREACHABLE_SECONDS = 5.0
"""How long a client tries to reach a cluster that it is cut off from."""
FETCH_PATIENCE = 8
"""A Fetch without news waits so many times longer than it asked for: worlds would do little else than answer them."""
SLOW = 0.02
"""The part of requests that take seconds, where a world is troubled."""
FAILED = 0.006
"""The part of them that are not carried out, and the part whose answer says that nobody knows whether they were."""
_SETTINGS = BrokerConfig.load(
    overrides=["group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100"], environment={}
).settings
_NOTHING = memoryview(b"")


class KafkaModel(ModelCluster):
    """The cluster. `told` is called with every record that can be read, in each log's order, and when it was written."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: random.Random) -> None:
        super().__init__(Steps())
        self.loop, self.rng = loop, rng
        self.is_troubled = True
        self.lag_s: dict[str, float] = {}
        """How long the brokers of a topic take to answer a Fetch, in seconds, where they are slow."""
        self.told: Callable[[str, Record, float], None] = lambda topic, record, at_s: None
        self.expelled: Callable[[str], None] = lambda member: None
        """Called with a member whose session is over, so that others get its work."""
        self._shard, self._group_log = Shard(), 0
        self._answers: dict[int, Callable[[Any], None]] = {}
        self._token = 0
        self._timer: asyncio.TimerHandle | None = None
        self._news: list[asyncio.Future[None]] = []
        self._waiting: set[int] = set()
        """Producers with an open transaction."""
        self._at_s: dict[tuple[TopicPartition, int], float] = {}
        """When each batch was written."""
        self._told_to: dict[TopicPartition, int] = {}
        """How many of each log's batches were told."""

    def add_topic(self, name: str, partitions: int = 1) -> bool:
        """See `ModelCluster`; a topic's id follows from its name."""
        is_new = super().add_topic(name, partitions)
        if is_new:
            self.topics[name] = Uuid(hashlib.blake2b(name.encode(), digest_size=16).digest()), partitions
            self._views.clear()
        return is_new

    def append(self, place: TopicPartition, batch: bytearray) -> Appended:
        """See `ModelCluster`; everybody who waits for news is told."""
        before = self.logs[place].end if place in self.logs else 0
        answer = super().append(place, batch)
        if not answer.error and self.logs[place].end > before:
            header, _ = self.logs[place].batches[-1]
            self._at_s[place, header.base_offset] = self.loop.time()
            if header.is_transactional:
                self._bound(header.producer_id, header.producer_epoch)
                self._waiting.add(header.producer_id)
            self._tell()
            self._tell_news()
        return answer

    def _bound(self, producer_id: int, epoch: int) -> None:
        """Abort a transaction that takes too long, as its coordinator does."""
        if producer_id in self._waiting:
            return
        name = next(name for name, each in self._transactions.items() if each.producer_id == producer_id)

        def time_out() -> None:
            found = self._transactions[name]
            if (found.producer_id, found.epoch) == (producer_id, epoch):
                self.take_over(name)

        self.loop.call_later(TRANSACTION_SECONDS, time_out, context=Context())

    def _end(self, transaction: Any, *, commit: bool) -> None:
        super()._end(transaction, commit=commit)
        self._waiting.discard(transaction.producer_id)
        self._tell()
        self._tell_news()

    def _tell(self) -> None:
        """Tell of what can be read since, in the order in which readers have it: that of the log, not that of commits."""
        for place, log in self.logs.items():
            at = self._told_to.get(place, 0)
            while at < len(log.batches) and log.batches[at][0].base_offset < log.stable:
                header, data = log.batches[at]
                at += 1
                self._told_to[place] = at
                if not header.is_control and not _is_aborted(log, header):
                    for record in iter_records(data):
                        self.told(place.topic, record, self._at_s[place, header.base_offset])

    def _tell_news(self) -> None:
        news, self._news = self._news, []
        for each in news:
            if not each.done():
                each.set_result(None)

    async def news(self, seconds: float) -> None:
        """Wait until something was written, or for so long."""
        waiting = self.loop.create_future()
        self._news.append(waiting)
        await asyncio.wait([waiting], timeout=seconds)

    def fetch(self, position: FetchPosition, isolation: Isolation) -> Fetched:
        """See `ModelCluster`; what lies before the position is not looked at."""
        log, place = self.logs[position.partition], position.partition
        end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
        ends = Offset(log.end), Offset(log.stable), Offset(0)
        if position.offset >= end:
            return Fetched(place, position.offset, ErrorCode.NONE, *ends, (), _NOTHING, self.topics[place.topic][0])
        first = bisect_right(log.batches, position.offset, key=lambda each: each[0].next_offset)
        whole, log.batches = log.batches, log.batches[first:]
        try:
            return replace(super().fetch(position, isolation), topic_id=self.topics[place.topic][0])
        finally:
            log.batches = whole

    def readable(self, place: TopicPartition, isolation: Isolation) -> list[tuple[bytes | None, bytes | None]]:
        """Return the keys and values that a reader sees."""
        log, found = self.logs[place], []
        end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
        for header, data in log.batches:
            if not header.is_control and header.base_offset < end and not _is_aborted(log, header):
                found += [
                    (
                        None if each.key is None else bytes(each.key),
                        None if each.value is None else bytes(each.value),
                    )
                    for each in iter_records(data)
                ]
        return found

    # -- the group

    @property
    def is_stable(self) -> bool:
        """Whether all members of the workers' group have their work."""
        group = self._shard.groups.get("connect-cluster")
        return group is not None and group.state_name() == "Stable"

    def members(self) -> int:
        """Return how many members the workers' group has."""
        return len(self._member_ids())

    def _member_ids(self) -> set[str]:
        group: Any = self._shard.groups.get("connect-cluster")
        return set() if group is None else set(group.members)

    def ask_group(self, message: Any, answered: Callable[[Any], None]) -> None:
        """Have the coordinator take a request in; `answered` is called when it has an answer."""
        self._token += 1
        token = self._token
        self._answers[token] = answered
        group = self._shard.groups.get(message.group_id)
        origin, context = RequestOrigin("c", "/127.0.0.1", 9, token), self._context()
        match message:
            case JoinGroupRequest():
                decision = groups.join(group, message, origin, context)
            case SyncGroupRequest():
                decision = groups.sync(group, message, origin._replace(api_version=5), context)
            case HeartbeatRequest():
                decision = groups.heartbeat(group, message, context)
            case LeaveGroupRequest():
                decision = groups.leave(group, message, context)
            case _:
                raise AssertionError(f"the model knows no {type(message).__name__}")
        self._perform(decision, token)

    def _context(self) -> DecisionContext:
        now = Millis(START_MS + int(self.loop.time() * 1000))
        return DecisionContext(now, self.rng, _SETTINGS, NoTopics(), now)

    def _perform(self, decision: Decision, token: int = -1) -> None:
        base = self._group_log
        self._group_log += len(decision.records)
        self._shard.applied(decision, base)
        for reply in decision.replies:
            self._answers.pop(reply.token, lambda found: None)(reply.response)
        if decision.response is not None:
            self._answers.pop(token, lambda found: None)(decision.response)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._shard.next_deadline()
        if due is not None:
            at = max((due - START_MS) / 1000 + 0.001, self.loop.time() + 0.001)
            self._timer = self.loop.call_at(at, self._expire, context=Context())

    def _expire(self) -> None:
        self._timer = None
        before = self._member_ids()
        for decision in list(self._shard.expire(self._context())):
            self._perform(decision)
        for member in sorted(before - self._member_ids()):
            self.expelled(member)
        self._set_timer()


def _is_aborted(log: Any, header: Any) -> bool:
    """Return whether a batch is of a transaction that was aborted."""
    return bool(header.is_transactional) and any(
        header.producer_id == producer and first <= header.base_offset < last for producer, first, last in log.aborted
    )


class Door:
    """A client of the cluster; see `Client` for the methods. `is_cut` says whether its worker reaches it now."""

    def __init__(self, model: KafkaModel, is_cut: Callable[[], bool]) -> None:
        self._model, self._rng, self._is_cut = model, model.rng, is_cut
        self._arrives_s = 0.0
        self.limits = Limits(backoff_s=0.02)
        self.cluster: Cluster = model.view()

    async def close(self) -> None:
        """See `Client`."""

    def _delay_s(self) -> float:
        drawn = self._rng.random()
        if self._model.is_troubled and drawn < SLOW:
            return self._rng.uniform(0.3, 4.0)
        return 0.0002 + 0.004 * drawn

    async def _ask(self, call: Callable[[Callable[[Any], None]], None], *, fails: bool = True) -> Any:
        """Send a request, have it carried out where it arrives, and return the answer."""
        loop, rng = self._model.loop, self._rng
        if self._is_cut():
            await asyncio.sleep(UNREACHABLE_SECONDS)
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker can be reached")
        answer: asyncio.Future[Any] = loop.create_future()
        drawn = rng.random() if self._model.is_troubled and fails else 1.0
        self._arrives_s = max(self._arrives_s + 1e-6, loop.time() + self._delay_s())
        back_s = self._delay_s()

        def reach(found: Any, error: KafkaError | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)
                answer.exception()  # whoever asked may have been stopped

        def arrive() -> None:
            if drawn < FAILED or self._is_cut():
                lost = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the request is lost")
                loop.call_later(UNREACHABLE_SECONDS, reach, None, lost, context=Context())
                return
            try:
                call(carried_out)
            except KafkaError as raised:
                loop.call_later(back_s, reach, None, raised, context=Context())

        def carried_out(found: Any) -> None:
            late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the answer is lost")
            error = late if drawn < 2 * FAILED else None
            loop.call_later(back_s, reach, found, error, context=Context())

        loop.call_at(self._arrives_s, arrive, context=Context())
        return await answer

    async def features(self) -> dict[str, int]:
        """See `Client`."""
        return {"transaction.version": 2}

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> Cluster:
        """See `Client`."""
        self.cluster = await self._ask(lambda reply: reply(self._model.view()))
        return self.cluster

    async def request(self, message: Any, *, timeout_s: float | None = None, **_options: Any) -> Any:
        """See `Client`."""
        if isinstance(message, JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest):
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._ask(lambda reply: self._model.ask_group(message, reply))
            except TimeoutError as error:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer") from error
        return await self._ask(lambda reply: reply(self._carry_out(message)))

    def _carry_out(self, message: Any) -> Any:
        model = self._model
        match message:
            case CreateTopicsRequest():
                made = [model.add_topic(each.name, max(each.num_partitions, 1)) for each in message.topics]
                codes = [0 if each else int(ErrorCode.TOPIC_ALREADY_EXISTS) for each in made]
                results = [
                    CreatableTopicResult(name=topic.name, error_code=code)
                    for topic, code in zip(message.topics, codes, strict=True)
                ]
                return CreateTopicsResponse(topics=results)
            case DescribeConfigsRequest():
                policy = DescribeConfigsResourceResult(name="cleanup.policy", value="compact")
                return DescribeConfigsResponse(results=[DescribeConfigsResult(error_code=0, configs=[policy])])
            case InitProducerIdRequest():
                taken = model.take_over(message.transactional_id)
                return InitProducerIdResponse(error_code=0, producer_id=taken.producer_id, producer_epoch=taken.epoch)
            case EndTxnRequest():
                return model.end(
                    message.transactional_id, message.producer_id, message.producer_epoch, commit=message.committed
                )
        raise AssertionError(f"the model knows no {type(message).__name__}")

    async def append(self, batches: Mapping[TopicPartition, Any], **_options: Any) -> list[Appended]:
        """See `Client`."""
        found: list[Appended] = await self._ask(
            lambda reply: reply([self._model.append(place, bytearray(batch)) for place, batch in batches.items()])
        )
        return found

    async def produce(self, batches: Mapping[TopicPartition, Any], **_options: Any) -> list[Appended]:
        """See `Client`."""
        return [each.check() for each in await self.append(batches)]

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, Millis], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """See `Client`."""

        def listed() -> dict[TopicPartition, ListedOffset]:
            return {
                place: ListedOffset(
                    place,
                    Offset(0 if moment == EARLIEST else self._model.logs[place].end),
                    Millis(-1),
                    LeaderEpoch(0),
                )
                for place, moment in wanted.items()
            }

        found: dict[TopicPartition, ListedOffset] = await self._ask(lambda reply: reply(listed()))
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
        until_s = self._model.loop.time() + max_wait_ms * FETCH_PATIENCE / 1000
        while True:
            found = [self._model.fetch(each, isolation) for each in positions]
            left_s = until_s - self._model.loop.time()
            if left_s <= 0 or any(len(each.records) for each in found):
                break
            await self._model.news(left_s)
        await asyncio.sleep(max(self._model.lag_s.get(each.partition.topic, 0.0) for each in positions))
        return await self._ask(lambda reply: reply([self._model.fetch(each, isolation) for each in positions]))
