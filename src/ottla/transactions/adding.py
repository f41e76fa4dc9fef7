"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction may write to is noted before it does.

The coordinator has to know every partition that needs a marker at the end. Brokers ask too: whether a partition belongs to
the transaction (KIP-890, first part), or to add it when the first batch comes (second part).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.transactions.decision import NO_CHANGE, Decision, DecisionContext, Outcome
from ottla.transactions.transaction import Status, Transaction

__all__ = ["add_partitions", "verify_partitions"]


def add_partitions(
    found: Transaction | None,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    partitions: frozenset[TopicPartition],
    context: DecisionContext,
    *,
    client_version: int,
) -> Decision:
    """Decide about adding partitions, with which a transaction begins if none is open; raises KafkaError."""
    transaction = _producers_own(found, producer_id, epoch)
    is_open = transaction.status is Status.ONGOING
    if is_open and partitions <= transaction.partitions:
        return NO_CHANGE
    changed = replace(
        transaction,
        status=Status.ONGOING,
        previous_producer_id=transaction.producer_id,
        partitions=transaction.partitions | partitions if is_open else partitions,
        started_ms=transaction.started_ms if is_open else context.now_ms,
        updated_ms=context.now_ms,
        client_version=client_version,
    )
    return Decision(Outcome(), (changed,))


def verify_partitions(
    found: Transaction | None, producer_id: ProducerId, epoch: ProducerEpoch, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return of each partition whether it belongs to the transaction; raises KafkaError for a producer that has none."""
    transaction = _producers_own(found, producer_id, epoch)
    return {
        each: ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


def _producers_own(found: Transaction | None, producer_id: ProducerId, epoch: ProducerEpoch) -> Transaction:
    """Return the transaction if this producer may write in it now."""
    if found is None or found.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.epoch != epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if found.status.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return found
