"""The answer to a Produce that was appended: at once, or with acks=all when the copies that are in sync have the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.base import ErrorCode, TopicPartition
from ottla.broker.endpoints import leader_endpoints
from ottla.broker.parts import ProduceParts
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.requests.answers import Deferred, Encoded
from ottla.broker.requests.handler import RequestContext
from ottla.replica import Wait
from ottla.wire import NodeEndpoint, ProducedPartition, ProducedTopic, write_produce_response

__all__ = ["Appended", "acknowledged", "fail_unreplicated", "must_wait", "rendered", "replication_error", "tell_leader"]

PRODUCE: Final = "Produce"
"""The API's name in the metrics."""
LEADER_FROM: Final = 10
ALL: Final = -1
"""What `acks` says where all copies that are in sync have to have the records."""

Appended = tuple[LocalPartition, ProducedPartition, int, int]
"""A partition that was appended to, its answer, the offset that its high watermark has to reach, and its leader epoch."""


def acknowledged(
    context: RequestContext[ProduceParts],
    responses: list[ProducedTopic],
    appended: list[Appended],
    *,
    acks: int,
    timeout_ms: int,
) -> Encoded | Deferred[Encoded]:
    """Return the answer now, or with acks=all when every in-sync replica has the records."""
    if acks == ALL:
        appended = [each for each in appended if _leads_still(context, each)]
    waiting = {each.key: end for each, _, end, _ in appended if must_wait(each, acks, end)}
    if waiting:
        return _acknowledged_later(context, responses, appended, waiting, timeout_ms)
    return produce_answer(context, responses)


def _leads_still(context: RequestContext[ProduceParts], appended: Appended) -> bool:
    """Return whether this broker has led a partition ever since it appended; where it has not, the answer says so.

    Between the two others may have had their turn, or a device was waited for. Who has followed meanwhile may have cut what
    was appended, and the high watermark that passes its offset is that of other records.
    """
    partition, answer, _, leader_epoch = appended
    if partition.replica.is_leader and partition.replica.leader_epoch == leader_epoch:
        return True
    if not answer.error_code:
        answer.error_code, answer.base_offset = int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1
        tell_leader(context, answer, partition.key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return False


def must_wait(partition: LocalPartition, acks: int, end: int) -> bool:
    """Return whether the answer to an append up to this offset has to wait for copies."""
    return acks == ALL and partition.replica.high_watermark < end


def _acknowledged_later(
    context: RequestContext[ProduceParts],
    responses: list[ProducedTopic],
    appended: list[Appended],
    waiting: dict[TopicPartition, int],
    timeout_ms: int,
) -> Deferred[Encoded]:
    """Answer when the high watermarks have passed, or at the deadline with REQUEST_TIMED_OUT where they have not."""
    deferred: Deferred[Encoded] = Deferred()

    def finish(reached: bool) -> None:
        for partition, answer, end, _ in appended:
            fail_unreplicated(context, partition, answer, end)
        deferred.resolve(produce_answer(context, responses))

    purgatory = context.services.purgatory
    wait = Wait(purgatory.now_s() + max(timeout_ms, 0) / 1000, finish, required=dict(waiting))
    purgatory.add_produce(wait, tuple(waiting))
    return deferred


def fail_unreplicated(
    context: RequestContext[ProduceParts], partition: LocalPartition, answer: ProducedPartition, end: int
) -> None:
    """Have an answer say so where the wait for the copies of its records is over, and they do not have them."""
    code = replication_error(partition, end)
    if code is not ErrorCode.NONE:
        answer.error_code = int(code)
        answer.base_offset = -1
        tell_leader(context, answer, partition.key, code)


def replication_error(partition: LocalPartition, end: int) -> ErrorCode:
    """Return what an acks=all append has to be answered with when the wait for its replication is over."""
    replica = partition.replica
    if partition.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not replica.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.high_watermark < end:
        return ErrorCode.REQUEST_TIMED_OUT
    if not replica.had_enough_in_sync(partition.min_insync_replicas):
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE


def tell_leader(
    context: RequestContext[ProduceParts], answer: ProducedPartition, partition: TopicPartition, code: ErrorCode
) -> None:
    """Say who leads where this broker does not (any more), so that the client need not ask for metadata (KIP-951)."""
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and context.api_version >= LEADER_FROM:
        found = context.services.quorum.image.partition(*partition)
        if found is not None and found.leader != context.services.node_id:
            answer.leader_id, answer.leader_epoch = found.leader, found.leader_epoch


def produce_answer(context: RequestContext[ProduceParts], responses: list[ProducedTopic]) -> Encoded:
    """Render the answer, and where a quota is exceeded, with a pause."""
    quotas = context.services.quotas
    throttle_ms = 0 if quotas is None else quotas.produced(context)
    return Encoded((rendered(context, responses, throttle_ms),), throttle_time_ms=throttle_ms)


def rendered(context: RequestContext[ProduceParts], responses: list[ProducedTopic], throttle_ms: int = 0) -> bytes:
    """Return an answer's bytes, and count its errors; where another broker leads, it has that one's address."""
    endpoints: Sequence[NodeEndpoint] = ()
    for topic in responses:
        for each in topic.partition_responses:
            if each.error_code:
                errors = context.services.metrics.request(PRODUCE).errors
                errors[each.error_code] = errors.get(each.error_code, 0) + 1
            if each.leader_id >= 0:
                endpoints = _leaders(context, responses)
    return write_produce_response(context.api_version, context.correlation_id, responses, throttle_ms, endpoints)


def _leaders(context: RequestContext[ProduceParts], responses: list[ProducedTopic]) -> list[NodeEndpoint]:
    leaders = {each.leader_id for topic in responses for each in topic.partition_responses if each.leader_id >= 0}
    return [NodeEndpoint(*each) for each in leader_endpoints(context, leaders)]
