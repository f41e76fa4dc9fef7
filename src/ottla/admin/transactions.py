"""Transactions as brokers and their coordinators know them: listed, described, found hanging, and ended from outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.base import ErrorCode, KafkaError, NodeId, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = [
    "ListedTransaction",
    "PartitionProducer",
    "TransactionAbort",
    "TransactionDescription",
    "abort_transaction",
    "describe_producers",
    "describe_transaction",
    "find_hanging_transactions",
    "led_partitions",
    "list_transactions",
    "plan_abort",
    "terminate_transaction",
]

FENCING_TIMEOUT_MS = 1


class PartitionProducer(NamedTuple):
    """A producer that a partition knows; `start_offset` is where its open transaction begins, -1 without one."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    """In milliseconds since 1970."""
    start_offset: int


@dataclass(frozen=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it, with Kafka's word for the state."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it; times are milliseconds, `started_ms` since 1970 or None."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class TransactionAbort:
    """A transaction to be aborted in one partition: whose it is, and as of which of its coordinator's epochs."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def list_transactions(
    client: BlockingClient, *, producer_ids: Collection[int] = (), duration_ms: int = -1, pattern: str | None = None
) -> list[ListedTransaction]:
    """Return every coordinator's transactional ids, sorted, that the filters let through (KIP-664).

    `duration_ms` leaves those that have been open for longer (KIP-994), `pattern` those whose id matches an RE2
    expression (KIP-1152). Raises the first broker's KafkaError; UNSUPPORTED_VERSION where one does not know a filter.
    """
    from ottla.wire.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        producer_id_filters=list(producer_ids), duration_filter=duration_ms, transactional_id_pattern=pattern
    )
    lowest = 2 if pattern is not None else int(duration_ms >= 0)
    found = []
    for node in sorted(client.metadata(()).nodes):
        answer = client.request(request, node=node, lowest=lowest)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        found += [
            ListedTransaction(each.transactional_id, int(node), each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]
    return sorted(found, key=lambda each: each.transactional_id)


def describe_transaction(client: BlockingClient, transactional_id: str) -> TransactionDescription:
    """Return what the coordinator of a transactional id knows (KIP-664); raises TRANSACTIONAL_ID_NOT_FOUND for none."""
    from ottla.client import Coordinated, CoordinatorKind
    from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest

    wanted = Coordinated(transactional_id, CoordinatorKind.TRANSACTION)
    answer = client.request(DescribeTransactionsRequest(transactional_ids=[transactional_id]), coordinator_of=wanted)
    (found,) = answer.transaction_states
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code))
    started_ms = found.transaction_start_time_ms
    return TransactionDescription(
        transactional_id=found.transactional_id,
        coordinator=int(client.coordinator(wanted)),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        state=found.transaction_state,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=started_ms if started_ms >= 0 else None,
        partitions=tuple(TopicPartition(each.topic, index) for each in found.topics for index in each.partitions),
    )


def describe_producers(
    client: BlockingClient, partition: TopicPartition, broker: int | None = None
) -> list[PartitionProducer]:
    """Return the producers that a partition's leader knows, or another broker of it (KIP-664); raises its KafkaError."""
    from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

    request = DescribeProducersRequest(
        topics=[TopicRequest(name=partition.topic, partition_indexes=[partition.partition])]
    )
    led, node = (partition, None) if broker is None else (None, NodeId(broker))
    answer = client.request(request, leader_of=led, node=node)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code), found.error_message or "")
    return [
        PartitionProducer(
            partition,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset,
        )
        for each in found.active_producers
    ]


def led_partitions(client: BlockingClient, topic: str | None, broker: int | None) -> list[TopicPartition]:
    """Return the partitions of a topic, or of all, that have a leader, or are led by one broker."""
    cluster = client.metadata(None if topic is None else [topic])
    found = []
    for name, each in sorted(cluster.topics.items()):
        if each.error:
            raise KafkaError(each.error, f"topic {name}: {each.error.name}")
        found += [
            TopicPartition(name, index)
            for index, partition in sorted(each.partitions.items())
            if partition.leader >= 0 and broker in (None, partition.leader)
        ]
    return found


def find_hanging_transactions(
    client: BlockingClient, partitions: Iterable[TopicPartition], *, older_than_ms: int, now_ms: int
) -> list[PartitionProducer]:
    """Return the open transactions that no coordinator will end: none knows them, or not with that partition (KIP-664).

    Only those are looked at that have had no record for `older_than_ms`, by `now_ms`, the milliseconds since 1970.
    """
    candidates = [
        each
        for partition in partitions
        for each in describe_producers(client, partition)
        if each.start_offset >= 0 and now_ms - each.last_timestamp >= older_than_ms
    ]
    if not candidates:
        return []
    known: set[tuple[int, TopicPartition]] = set()
    for listed in list_transactions(client, producer_ids={each.producer_id for each in candidates}):
        try:
            found = describe_transaction(client, listed.transactional_id)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # it has expired meanwhile
                continue
            raise
        known.update((found.producer_id, partition) for partition in found.partitions)
    return [each for each in candidates if (each.producer_id, each.partition) not in known]


def plan_abort(client: BlockingClient, partition: TopicPartition, start_offset: int) -> TransactionAbort:
    """Return how to abort the open transaction that begins at an offset; raises INVALID_TXN_STATE where none does."""
    for each in describe_producers(client, partition):
        if each.start_offset == start_offset >= 0:
            return TransactionAbort(partition, each.producer_id, each.epoch, each.coordinator_epoch)
    raise KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"Could not find any open transactions starting at offset {start_offset} on partition {partition}",
    )


def abort_transaction(client: BlockingClient, abort: TransactionAbort) -> None:
    """Have an abort marker written for a transaction (KIP-664); raises the partition leader's KafkaError."""
    from ottla.wire.messages.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    marker = WritableTxnMarker(
        producer_id=abort.producer_id,
        producer_epoch=abort.producer_epoch,
        coordinator_epoch=max(abort.coordinator_epoch, 0),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=abort.partition.topic, partition_indexes=[abort.partition.partition])],
    )
    answer = client.request(WriteTxnMarkersRequest(markers=[marker]), leader_of=abort.partition)
    code = ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
    if code.value:
        raise KafkaError(code)


def terminate_transaction(client: BlockingClient, transactional_id: str) -> None:
    """Fence whoever has a transactional id, which aborts its open transaction; raises the coordinator's KafkaError."""
    from ottla.client import init_producer_id

    client.run(init_producer_id(client.client, transactional_id, timeout_ms=FENCING_TIMEOUT_MS))
