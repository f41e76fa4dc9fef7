"""Writing the ends of transactions into partitions: here where this broker leads, elsewhere by WriteTxnMarkers (KIP-98)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from ottla.base import OFFSETS_TOPIC, Clock, ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.requests.answers import Deferred
from ottla.replica import Wait
from ottla.transactions import SECOND_PROTOCOL, Transaction
from ottla.wire import end_transaction_marker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

__all__ = ["Marker", "Markers", "markers_request", "read_markers"]

WAIT_S = 30.0
"""How long a marker may take to reach every in-sync replica before it is written again."""
COORDINATOR_CODES = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class Marker(NamedTuple):
    """The end of one transaction, as it is written into each of its partitions."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    coordinator_epoch: int
    commit: bool
    version: int = 0
    """The protocol of the transaction: from 2 on, the epoch is one that none of its records has (KIP-1228)."""

    @classmethod
    def of(cls, transaction: Transaction, coordinator_epoch: int) -> Marker:
        """Return the marker of a transaction whose end is decided."""
        return cls(
            transaction.producer_id,
            transaction.epoch,
            coordinator_epoch,
            transaction.is_commit,
            transaction.client_version,
        )


class Markers:
    """Writes markers into the partitions that this broker leads."""

    def __init__(self, *, partitions: Partitions, groups: GroupCoordinator, purgatory: Purgatory, clock: Clock) -> None:
        self._partitions = partitions
        self._groups = groups
        self._purgatory = purgatory
        self._clock = clock

    def write(self, marker: Marker, partition: TopicPartition) -> Deferred[ErrorCode] | None:
        """Append a marker; return None where every in-sync replica has it, else what waits for that, with an ErrorCode.

        Raises KafkaError where it cannot be appended now.
        """
        now_ms = self._clock.now_ms()
        batch = end_transaction_marker(
            commit=marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        is_bumped = marker.version >= SECOND_PROTOCOL
        if partition.topic == OFFSETS_TOPIC:
            return self._write_offsets(marker, partition.partition, batch, is_bumped=is_bumped)
        led = self._partitions.leader_of(*partition)
        info = led.append_marker(memoryview(batch), now_ms=now_ms, is_bumped=is_bumped)
        end = info.last_offset + 1
        return None if led.replica.high_watermark >= end else self._replicated(led, end)

    def _write_offsets(
        self, marker: Marker, index: int, batch: bytearray, *, is_bumped: bool
    ) -> Deferred[ErrorCode] | None:
        """Have the groups' coordinator append the marker: pending offsets count from then on, or never did."""
        try:
            answer = self._groups.end_transaction(
                index, batch, marker.producer_id, commit=marker.commit, is_bumped=is_bumped
            )
        except KafkaError as error:
            raise KafkaError(_of_partition(error.code), error.message) from error
        return None if answer is None else answer.then(_of_partition)

    def _replicated(self, partition: LocalPartition, end: int) -> Deferred[ErrorCode]:
        deferred: Deferred[ErrorCode] = Deferred()

        def finish(reached: bool) -> None:
            if partition.replica.high_watermark >= end:
                deferred.resolve(ErrorCode.NONE)
            elif partition.replica.is_leader:
                deferred.resolve(ErrorCode.REQUEST_TIMED_OUT)
            else:
                deferred.resolve(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        deadline_s = asyncio.get_running_loop().time() + WAIT_S
        self._purgatory.add_produce(Wait(deadline_s, finish, required={partition.key: end}), (partition.key,))
        return deferred

    async def write_all(self, marker: Marker, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Write a marker into many partitions; return a code for each once all are known."""
        codes: dict[TopicPartition, ErrorCode] = {}
        waiting: dict[TopicPartition, Deferred[ErrorCode]] = {}
        for each in partitions:
            try:
                deferred = self.write(marker, each)
            except KafkaError as error:
                codes[each] = error.code
                continue
            codes[each] = ErrorCode.NONE
            if deferred is not None:
                waiting[each] = deferred
        for each, deferred in waiting.items():
            codes[each] = await deferred.wait()
        return codes


def _of_partition(code: ErrorCode) -> ErrorCode:
    """Return what a code of the groups' coordinator means for a partition: who asked is to ask its leader again."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in COORDINATOR_CODES else code


def markers_request(marker: Marker, partitions: Iterable[TopicPartition]) -> WriteTxnMarkersRequest:
    """Return the request that has another broker write a marker."""
    topics: dict[str, list[int]] = {}
    for each in sorted(partitions):
        topics.setdefault(each.topic, []).append(each.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.epoch,
                transaction_result=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.version,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
                ],
            )
        ]
    )


def read_markers(response: WriteTxnMarkersResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the code of each partition of an answer."""
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
