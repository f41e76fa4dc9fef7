"""The bytes of a Fetch response: its fields around slices of segments that were never looked into.

A large slice leaves as a part of the file, for `sendfile`; one of at most 64 KiB is copied, which costs the system no more
(measured), and the answer leaves by one call. It is so as long as the answer stays within its share of memory: the rest
are parts of files too. What is copied has to be in memory already: else it is read on a thread, and then the answer is a
coroutine.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from ottla.base import ZERO_UUID, StorageError
from ottla.broker.endpoints import leader_endpoints
from ottla.broker.parts import FetchParts
from ottla.broker.replicas.fetching import FetchPlan
from ottla.broker.requests.answer_memory import COPIED_BYTES_MAX
from ottla.broker.requests.answers import Encoded
from ottla.broker.requests.file_part import FilePart
from ottla.broker.requests.handler import RequestContext
from ottla.broker.requests.slices import Pauses
from ottla.log import LogSlice
from ottla.wire import FetchedPartition, FetchedTopic, FetchWriter, NodeEndpoint, write_fetch_response

__all__ = ["FetchAnswer", "fetch_answer"]

WRITTEN_TOGETHER_MAX = 256
"""Partitions of a long answer that are written before others have their turn."""


def fetch_answer(
    context: RequestContext[FetchParts], plans: Sequence[FetchPlan], *, session_id: int, is_follower: bool = False
) -> Encoded | Coroutine[Any, Any, Encoded]:
    """Return the whole answer, or a coroutine for it where some of the records have to come from the device first."""
    answer = FetchAnswer(context, is_follower=is_follower)
    answer.add(plans)
    return answer.encoded(session_id)


class FetchAnswer:
    """An answer that plans are added to; each is looked into when it is added, before its log can change."""

    __slots__ = ("_cold", "_context", "_current", "_has_files", "_is_follower", "_share", "_topics")

    def __init__(self, context: RequestContext[FetchParts], *, is_follower: bool) -> None:
        self._context = context
        self._is_follower = is_follower
        self._share = context.services.answer_memory.share()
        self._has_files = False
        self._cold: list[tuple[FetchedPartition, FetchPlan]] = []
        self._topics: list[FetchedTopic] = []
        self._current: tuple[str, object] | None = None

    def add(self, plans: Sequence[FetchPlan]) -> None:
        """Add what partitions give, and count it."""
        context, is_follower, topics = self._context, self._is_follower, self._topics
        traffic = context.services.traffic
        elsewhere, share, current = traffic.elsewhere, self._share, self._current
        for plan in plans:
            answer = _partition(plan)
            found = plan.slice
            topic_traffic = elsewhere if plan.partition is None else plan.partition.traffic
            topic_traffic.fetches += 1
            if plan.error:
                topic_traffic.failed_fetches += 1
                _count_error(context, int(plan.error), is_follower=is_follower)
            if found is not None and found.size:
                if is_follower:
                    traffic.replication_bytes_out += found.size
                else:
                    topic_traffic.bytes_out += found.size
                    if topic_traffic is not elsewhere:
                        client = traffic.client(topic_traffic, context.client_id or "", context.connected.principal)
                        client.bytes_out += found.size
                if found.size <= COPIED_BYTES_MAX and found.size <= share:
                    share -= found.size
                    if not _copy(context, answer, plan, found):
                        self._cold.append((answer, plan))
                else:
                    self._has_files |= _refer(context, answer, plan, found)
            topic = (plan.topic, plan.key.topic)
            if topic != current:
                current = topic
                topic_id = plan.key.topic if isinstance(plan.key.topic, bytes) else ZERO_UUID
                topics.append(FetchedTopic(plan.topic, topic_id, []))
            topics[-1].partitions.append(answer)
        self._share, self._current = share, current

    def encoded(self, session_id: int) -> Encoded | Coroutine[Any, Any, Encoded]:
        """Return the whole answer, or a coroutine for it where some of the records have to come from the device first."""
        if self._cold:
            return self._read_cold_first(session_id)
        return _encode(self._context, self._topics, session_id=session_id, has_files=self._has_files)

    async def _read_cold_first(self, session_id: int) -> Encoded:
        await _read_cold(self._context, self._cold)
        return _encode(self._context, self._topics, session_id=session_id, has_files=self._has_files)

    async def encoded_in_slices(self, session_id: int) -> Encoded:
        """The same of many partitions; others have their turn in between."""
        context, topics = self._context, self._topics
        if self._cold:
            await _read_cold(context, self._cold)
        pauses = Pauses(context)
        writer = FetchWriter(context.api_version, context.correlation_id, len(topics), session_id=session_id)
        leaders: set[int] = set()
        for topic in topics:
            writer.begin(topic)
            for start in range(0, len(topic.partitions), WRITTEN_TOGETHER_MAX):
                some = topic.partitions[start : start + WRITTEN_TOGETHER_MAX]
                writer.add(some)
                leaders.update(each.leader_id for each in some if each.leader_epoch >= 0)
                await pauses.step(len(some))
            writer.end()
            await pauses.step()
        pauses.charge()
        return Encoded(writer.finish(_endpoints(context, leaders)), has_files=self._has_files)


def _copy(context: RequestContext[FetchParts], answer: FetchedPartition, plan: FetchPlan, found: LogSlice) -> bool:
    """Copy a slice into the answer; False where it has to come from the device first."""
    try:
        records = found.file.pread_nowait(found.position, found.size)
    except StorageError as error:
        answer.error_code = int(context.services.partitions.failures.met(error, plan.partition))
        return True
    answer.records_size = found.size
    if records is not None:
        answer.records = records
    return records is not None


def _refer(context: RequestContext[FetchParts], answer: FetchedPartition, plan: FetchPlan, found: LogSlice) -> bool:
    """Put a slice into the answer as a part of its file; False where that cannot be opened."""
    failures = context.services.partitions.failures
    try:
        answer.records = FilePart(found.file, found.position, found.size, failures.met, plan.partition)
    except StorageError as error:
        answer.error_code = int(failures.met(error, plan.partition))
        return False
    answer.records_size = found.size
    return True


def _count_error(context: RequestContext[FetchParts], code: int, *, is_follower: bool) -> None:
    errors = context.services.metrics.request("FetchFollower" if is_follower else "FetchConsumer").errors
    errors[code] = errors.get(code, 0) + 1


def _partition(plan: FetchPlan) -> FetchedPartition:
    answer = FetchedPartition(
        plan.key.partition,
        int(plan.error),
        plan.high_watermark,
        plan.last_stable_offset,
        plan.log_start_offset,
        aborted_transactions=plan.aborted_transactions,
    )
    if plan.diverging_epoch >= 0:
        answer.diverging_epoch = plan.diverging_epoch
        answer.diverging_end_offset = plan.diverging_end
    answer.preferred_read_replica = plan.preferred_replica
    if plan.leader_epoch >= 0:
        answer.leader_id = plan.leader
        answer.leader_epoch = plan.leader_epoch
    return answer


def _encode(
    context: RequestContext[FetchParts], topics: list[FetchedTopic], *, session_id: int, has_files: bool
) -> Encoded:
    leaders = {each.leader_id for topic in topics for each in topic.partitions if each.leader_epoch >= 0}
    endpoints = _endpoints(context, leaders)
    parts = write_fetch_response(
        context.api_version, context.correlation_id, topics, session_id=session_id, node_endpoints=endpoints
    )
    return Encoded(parts, has_files=has_files)


def _endpoints(context: RequestContext[FetchParts], leaders: set[int]) -> Sequence[NodeEndpoint]:
    return [NodeEndpoint(*each) for each in leader_endpoints(context, leaders)] if leaders else ()


async def _read_cold(context: RequestContext[FetchParts], cold: list[tuple[FetchedPartition, FetchPlan]]) -> None:
    """Read on a thread what the page cache does not hold."""
    memory = context.services.answer_memory
    reserved = sum(answer.records_size for answer, _ in cold)
    memory.reserve(reserved)
    try:
        for answer, plan in cold:
            assert plan.slice is not None and plan.partition is not None
            try:
                records = await plan.partition.on_thread(plan.slice.read)
            except StorageError as error:
                records = b""
                answer.error_code = int(context.services.partitions.failures.met(error, plan.partition))
            answer.records = records
            answer.records_size = len(records)
    finally:
        memory.reserve(-reserved)
