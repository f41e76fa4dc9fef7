"""What `ottla transactions` asks of brokers and coordinators."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base import ErrorCode, KafkaError, NodeId, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = [
    "Producer",
    "abort",
    "describe",
    "describe_producers",
    "find_hanging",
    "force_termination",
    "list_transactions",
    "partitions_of",
]

FENCING_TIMEOUT_MS = 1


class Producer(NamedTuple):
    """A producer that a partition knows; `start_offset` is where its open transaction begins, -1 without one."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int


def list_transactions(
    client: BlockingClient, *, producer_ids: Collection[int] = (), duration_ms: int = -1, pattern: str | None = None
) -> list[tuple[int, Any]]:
    """Return (coordinator, transaction) of all that the filters let through; raises the first broker's KafkaError."""
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
        found += [(int(node), each) for each in answer.transaction_states]
    return sorted(found, key=lambda each: str(each[1].transactional_id))


def describe(client: BlockingClient, transactional_id: str) -> tuple[int, Any]:
    """Return the coordinator of a transactional id and what it says; raises its KafkaError."""
    from ottla.client import Coordinated, CoordinatorKind
    from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest

    wanted = Coordinated(transactional_id, CoordinatorKind.TRANSACTION)
    answer = client.request(DescribeTransactionsRequest(transactional_ids=[transactional_id]), coordinator_of=wanted)
    (found,) = answer.transaction_states
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code))
    return int(client.coordinator(wanted)), found


def describe_producers(client: BlockingClient, partition: TopicPartition, broker: int | None = None) -> list[Producer]:
    """Return the producers that a partition's leader knows, or another broker of it; raises its KafkaError."""
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
        Producer(
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


def partitions_of(client: BlockingClient, topic: str | None, broker: int | None) -> list[TopicPartition]:
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


def find_hanging(
    client: BlockingClient, partitions: Iterable[TopicPartition], *, older_than_ms: int, now_ms: int
) -> list[Producer]:
    """Return the open transactions that no coordinator will end: none knows them, or not with that partition."""
    candidates = [
        each
        for partition in partitions
        for each in describe_producers(client, partition)
        if each.start_offset >= 0 and now_ms - each.last_timestamp >= older_than_ms
    ]
    if not candidates:
        return []
    known: set[tuple[int, TopicPartition]] = set()
    for _, listed in list_transactions(client, producer_ids={each.producer_id for each in candidates}):
        try:
            _, found = describe(client, listed.transactional_id)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # it has expired meanwhile
                continue
            raise
        known.update(
            (found.producer_id, TopicPartition(topic.topic, index))
            for topic in found.topics
            for index in topic.partitions
        )
    return [each for each in candidates if (each.producer_id, each.partition) not in known]


def abort(client: BlockingClient, partition: TopicPartition, producer_id: int, epoch: int, coordinator: int) -> None:
    """Have an abort marker written for a producer; raises the leader's KafkaError."""
    from ottla.wire.messages.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=max(coordinator, 0),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
    )
    answer = client.request(WriteTxnMarkersRequest(markers=[marker]), leader_of=partition)
    code = ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
    if code.value:
        raise KafkaError(code)


def force_termination(client: BlockingClient, transactional_id: str) -> None:
    """Fence whoever has a transactional id, whose open transaction is aborted by that; raises KafkaError."""
    from ottla.client import Coordinated, CoordinatorKind
    from ottla.wire.messages.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS)
    answer = client.request(
        request, coordinator_of=Coordinated(transactional_id, CoordinatorKind.TRANSACTION), lowest=3
    )
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
