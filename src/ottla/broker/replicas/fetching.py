"""Reading for a Fetch: which bytes each partition gives, within the request's limits and what its client may see.

Nothing is read here: a result names a slice of a segment, which the answer carries as bytes or as a part of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.base import ErrorCode, KafkaError, NodeId, Offset, StorageError
from ottla.broker.parts import FetchParts
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.requests.handler import RequestContext
from ottla.log import LogSlice
from ottla.replica import NEVER, FetchedPartition, SessionKey, nearest_follower
from ottla.security import Operation, Resource

__all__ = [
    "FOLLOWERS_FROM",
    "RACK_AWARE",
    "READ_COMMITTED",
    "FetchLimits",
    "FetchPlan",
    "FetchReading",
    "note_follower",
    "read_all",
]

READ_COMMITTED: Final = 1
FOLLOWERS_FROM: Final = 11
"""The first version whose consumers follow a leader's word to read from another replica (KIP-392)."""
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors that come with the current leader, so that the client need not ask (KIP-951)."""


@dataclass(slots=True, kw_only=True)
class FetchLimits:
    """What a Fetch request allows and asks for as a whole."""

    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    isolation_level: int
    replica_id: int
    replica_epoch: int = -1
    """The follower's broker epoch (KIP-903), -1 where it does not say."""
    is_eligible: bool = False
    """True for a follower that the controller would take into an ISR."""
    asked_s: float = 0.0
    """When the request came: what it says of the follower's log was so then, however long its answer waits."""
    confirmed_s: float = NEVER
    """A time after which a follower has sent the request."""
    is_stale: bool = False
    """True for a follower that has registered anew since it asked: a ghost's words about its log are worth nothing."""
    is_again: bool = False
    """True where a request that has waited is read anew: it says nothing more of its sender than when it came."""
    reads_followers: bool = False
    """True where a consumer may be answered by a follower (KIP-392)."""
    rack: str = ""
    """The consumer's rack, where consumers are sent to a replica in theirs (KIP-392)."""
    is_refused: bool = False
    """True for a replica that may not be one: it gets nothing of anything."""
    has_hard_limit: bool = False
    """True where a first batch larger than the limits is not sent either (Fetch 2 and older)."""


class FetchPlan:
    """What one partition of a Fetch gives: an error, or a slice of its log and how far the log goes."""

    __slots__ = (
        "aborted_transactions",
        "diverging_end",
        "diverging_epoch",
        "error",
        "high_watermark",
        "key",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "preferred_replica",
        "slice",
        "topic",
        "wanted",
    )

    def __init__(self, key: SessionKey, topic: str, wanted: FetchedPartition) -> None:
        self.key = key
        self.topic = topic
        self.wanted = wanted
        self.partition: LocalPartition | None = None
        self.error = ErrorCode.NONE
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.diverging_epoch = -1
        self.diverging_end = -1
        self.leader = -1
        self.leader_epoch = -1
        self.preferred_replica = -1
        self.aborted_transactions: list[tuple[int, int]] | None = None
        self.slice: LogSlice | None = None

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.slice.size if self.slice is not None else 0

    @property
    def is_watermark_news(self) -> bool:
        """True where the fetcher was told, or has told us, an older high watermark."""
        return -1 < self.wanted.high_watermark_sent < self.high_watermark

    @property
    def is_urgent(self) -> bool:
        """True where the answer must not wait: an error, a log that has parted from the fetcher's, a nearer replica."""
        return self.error is not ErrorCode.NONE or self.diverging_epoch >= 0 or self.preferred_replica >= 0


def note_follower(context: RequestContext[FetchParts], limits: FetchLimits, replica_epoch: int) -> None:
    """Note in a follower's limits what the metadata says of it."""
    broker = context.services.quorum.image.brokers.get(limits.replica_id)
    limits.replica_epoch = replica_epoch
    limits.is_eligible = False
    if broker is not None:
        limits.is_eligible = broker.active and replica_epoch in (-1, broker.epoch)
        limits.is_stale = -1 < replica_epoch < broker.epoch


class _Readable:
    """Which of the topics that a consumer asks for it may read: each is asked about once, and logged once (KIP-11)."""

    __slots__ = ("_context", "_counts", "_known")

    def __init__(self, context: RequestContext[FetchParts]) -> None:
        self._context = context
        self._known: dict[bytes | str, bool] = {}
        self._counts: dict[bytes | str, int] = {}

    def count(self, wanted: Iterable[tuple[SessionKey, FetchedPartition]]) -> None:
        """Note what is asked for, all of it before the first question: the log says how often."""
        for key, _ in wanted:
            self._counts[key.topic] = self._counts.get(key.topic, 0) + 1

    def may_read(self, key: bytes | str, topic: str) -> bool:
        """Return whether it may; `key` is the topic as the request calls it."""
        known = self._known.get(key)
        if known is None:
            self._known[key] = known = self._context.allows(Operation.READ, Resource.TOPIC, topic, self._counts[key])
        return known


def read_all(
    context: RequestContext[FetchParts], wanted: Iterable[tuple[SessionKey, FetchedPartition]], limits: FetchLimits
) -> list[FetchPlan]:
    """Return a plan per partition, in order; the first that has records gives at least one batch."""
    reading = FetchReading(context, limits)
    if reading.asks:
        wanted = list(wanted)
        reading.count(wanted)
    return reading.read(wanted)


class FetchReading:
    """Reading for one answer, all at once or some partitions after the other."""

    __slots__ = ("_at_least_one", "_context", "_left", "_limits", "_readable")

    def __init__(self, context: RequestContext[FetchParts], limits: FetchLimits) -> None:
        self._context = context
        self._limits = limits
        self._left = limits.max_bytes
        self._at_least_one = not limits.has_hard_limit
        self._readable = _Readable(context) if limits.replica_id < 0 and not limits.is_refused else None

    @property
    def asks(self) -> bool:
        """True where all that is wanted has to be counted before anything is read."""
        return self._readable is not None

    def count(self, wanted: Iterable[tuple[SessionKey, FetchedPartition]]) -> None:
        """Note what is wanted."""
        if self._readable is not None:
            self._readable.count(wanted)

    def read(self, wanted: Iterable[tuple[SessionKey, FetchedPartition]]) -> list[FetchPlan]:
        """Return the plans of the next partitions."""
        context, limits, readable = self._context, self._limits, self._readable
        left, at_least_one = self._left, self._at_least_one
        plans = []
        for key, partition in wanted:
            plan = _read(context, key, partition, limits, readable, left=left, at_least_one=at_least_one)
            size = plan.size
            if size:
                left = max(0, left - size)
                at_least_one = False
            plans.append(plan)
        self._left, self._at_least_one = left, at_least_one
        return plans


def _read(
    context: RequestContext[FetchParts],
    key: SessionKey,
    wanted: FetchedPartition,
    limits: FetchLimits,
    readable: _Readable | None,
    *,
    left: int,
    at_least_one: bool,
) -> FetchPlan:
    topic = key.topic if isinstance(key.topic, str) else context.services.partitions.topic_name(key.topic)
    plan = FetchPlan(key, topic or "", wanted)
    if limits.is_refused:
        plan.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return plan
    if topic is None:
        plan.error = ErrorCode.UNKNOWN_TOPIC_ID
        return plan
    try:
        if limits.replica_id >= 0:
            partition = context.services.partitions.leader_of(topic, key.partition, wanted.current_leader_epoch)
            plan.partition = partition
            _fill_for_follower(context, plan, partition, limits, left=left, at_least_one=at_least_one)
        else:
            assert readable is not None
            if not readable.may_read(key.topic, topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            find = (
                context.services.partitions.readable if limits.reads_followers else context.services.partitions.serving
            )
            partition = find(topic, key.partition, wanted.current_leader_epoch)
            plan.partition = partition
            _fill_for_consumer(context, plan, partition, limits, left=left, at_least_one=at_least_one)
    except KafkaError as error:
        plan.error = error.code
        if error.code in LEADER_ERRORS:
            found = context.services.quorum.image.partition(topic, key.partition)
            here = context.services.node_id
            if found is not None and (found.leader != here or error.code is ErrorCode.FENCED_LEADER_EPOCH):
                plan.leader, plan.leader_epoch = found.leader, found.leader_epoch
    except StorageError as error:
        assert plan.partition is not None
        plan.slice = None
        plan.error = context.services.partitions.failures.met(error, plan.partition)
    return plan


def _fill_for_follower(
    context: RequestContext[FetchParts],
    plan: FetchPlan,
    partition: LocalPartition,
    limits: FetchLimits,
    *,
    left: int,
    at_least_one: bool,
) -> None:
    """Take what a follower may have: everything up to the log's end; and note from its request how far it is."""
    log = partition.log
    wanted = plan.wanted
    follower = NodeId(limits.replica_id)
    if not partition.replica.follows(follower):
        # With an epoch that is right the replica set is news to us, or to it: the follower asks again.
        is_told = wanted.current_leader_epoch >= 0
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if is_told else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    plan.log_start_offset = log.log_start_offset
    if wanted.last_fetched_epoch >= 0 and _has_diverged(plan, partition):
        _note_offsets(plan, partition)
        return
    _take(plan, partition, limits, log.log_end_offset, left=left, at_least_one=at_least_one)
    if partition.throttled_as_leader and follower not in partition.replica.isr and plan.slice is not None:
        throttle = context.services.throttles.leader
        if throttle.wait_s() > 0:  # nothing now: the follower asks again
            plan.slice = None
        else:
            throttle.record(plan.size)
    if limits.is_stale:
        plan.slice = None
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if limits.is_again:
        _note_offsets(plan, partition)
        return
    partition.fetched_by(
        follower,
        fetch_offset=Offset(wanted.fetch_offset),
        log_start_offset=Offset(wanted.log_start_offset),
        now_s=limits.asked_s,
        broker_epoch=limits.replica_epoch,
        is_eligible=limits.is_eligible,
        confirmed_s=limits.confirmed_s,
    )
    if limits.is_eligible:
        context.services.isr.fetched(partition, follower)
    _note_offsets(plan, partition)


def _fill_for_consumer(
    context: RequestContext[FetchParts],
    plan: FetchPlan,
    partition: LocalPartition,
    limits: FetchLimits,
    *,
    left: int,
    at_least_one: bool,
) -> None:
    """Take the slice that a consumer may have now, and the offsets that go with it."""
    wanted = plan.wanted
    upper_bound = partition.replica.high_watermark
    _note_offsets(plan, partition)
    if limits.isolation_level == READ_COMMITTED:
        upper_bound = Offset(plan.last_stable_offset)
    if limits.rack and partition.replica.has_followers and _is_nearer_elsewhere(context, plan, partition, limits.rack):
        return
    if wanted.last_fetched_epoch >= 0 and _has_diverged(plan, partition):
        return
    _take(plan, partition, limits, upper_bound, left=left, at_least_one=at_least_one)
    found = plan.slice
    if limits.isolation_level == READ_COMMITTED and found is not None and found.size:
        aborted = partition.aborted_transactions(wanted.fetch_offset, upper_bound, found)
        if aborted is None:  # nothing yet: there is more when it is known what was aborted
            plan.slice = None
            return
        plan.aborted_transactions = [(each.producer_id, each.first_offset) for each in aborted]


def _is_nearer_elsewhere(
    context: RequestContext[FetchParts], plan: FetchPlan, partition: LocalPartition, rack: str
) -> bool:
    """Note a follower in the consumer's rack that it should read from instead, where there is one."""
    listener, replica = context.connected.listener, partition.replica
    racks = {
        broker.id: broker.rack
        for broker in map(context.services.quorum.image.brokers.get, replica.replicas)
        if broker is not None and not broker.fenced and broker.endpoint(listener) is not None
    }
    offset = Offset(plan.wanted.fetch_offset)
    found = nearest_follower(rack, racks, replica.node_id, replica.in_sync_followers(), offset=offset)
    if found is not None:
        plan.preferred_replica = found
    return found is not None


def _note_offsets(plan: FetchPlan, partition: LocalPartition) -> None:
    plan.high_watermark = partition.replica.high_watermark
    plan.log_start_offset = partition.log.log_start_offset
    plan.last_stable_offset = partition.last_stable_offset()


def _take(
    plan: FetchPlan,
    partition: LocalPartition,
    limits: FetchLimits,
    upper_bound: Offset,
    *,
    left: int,
    at_least_one: bool,
) -> None:
    """Take a slice from where the fetcher is; raises OFFSET_OUT_OF_RANGE where the log has no such offset."""
    log = partition.log
    offset = plan.wanted.fetch_offset
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    limit = min(plan.wanted.max_bytes, left)
    if offset < upper_bound and (limit > 0 or at_least_one):
        plan.slice = log.read(offset, max_bytes=max(limit, 0), upper_bound=upper_bound, min_one_batch=at_least_one)


def _has_diverged(plan: FetchPlan, partition: LocalPartition) -> bool:
    """Compare the epoch of the fetcher's last record with this log's (KIP-595); note where it has to cut itself."""
    wanted = plan.wanted
    end = partition.log.leader_epochs.end_offset_for(wanted.last_fetched_epoch)
    if end.end_offset < 0 or wanted.fetch_offset < partition.log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch >= wanted.last_fetched_epoch and end.end_offset >= wanted.fetch_offset:
        return False
    plan.diverging_epoch, plan.diverging_end = end.epoch, end.end_offset
    return True
