"""InitProducerId with a transactional id: a producer begins, and whoever had the id before is fenced (KIP-98, KIP-360).

A transaction that the former producer left open is aborted first; the new one hears CONCURRENT_TRANSACTIONS and asks again.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.base import ErrorCode, KafkaError, Millis, ProducerEpoch, ProducerId
from ottla.transactions.decision import Decision, DecisionContext, Outcome
from ottla.transactions.ending import fence
from ottla.transactions.transaction import EPOCH_MAX, NO_EPOCH, NO_PRODUCER, Status, Transaction

__all__ = ["Identity", "initialise"]

Identity = tuple[ProducerId, ProducerEpoch]
"""The producer id and epoch that a client had until it failed (KIP-360)."""


def initialise(
    found: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: Identity | None,
    context: DecisionContext,
) -> Decision:
    """Decide about an InitProducerId; raises KafkaError where it is refused."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not 0 < timeout_ms <= context.settings.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if found is None:
        producer_id = context.take_producer_id()
        made = Transaction(transactional_id, producer_id, NO_EPOCH, timeout_ms, Status.EMPTY, context.now_ms)
        return _begin(made, timeout_ms, None, context)
    if expected is not None and not _may_be(found, *expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if found.status.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if found.status is Status.ONGOING:
        return Decision(Outcome(ErrorCode.CONCURRENT_TRANSACTIONS), (fence(found, context),))
    return _begin(found, timeout_ms, expected, context)


def _may_be(found: Transaction, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
    """Return whether a client that says so is this transactional id's producer, or was until its epochs were used up."""
    if producer_id == found.producer_id:
        return True
    return producer_id == found.previous_producer_id and epoch >= EPOCH_MAX - 1


def _begin(found: Transaction, timeout_ms: int, expected: Identity | None, context: DecisionContext) -> Decision:
    """Give the next epoch, or a new producer id where the epochs are used up."""
    expected_epoch = None if expected is None else expected[1]
    producer_id = found.producer_id
    epoch, last_epoch = ProducerEpoch(found.epoch + 1), NO_EPOCH
    if found.is_epoch_exhausted and expected_epoch in (None, found.epoch):
        producer_id, epoch = context.take_producer_id(), ProducerEpoch(0)
        last_epoch = NO_EPOCH if expected_epoch is None else found.epoch
    elif expected_epoch is not None:
        if expected_epoch == found.epoch:
            last_epoch = found.epoch
        elif expected_epoch == found.last_epoch and found.epoch < EPOCH_MAX:  # it asks again: the answer did not come
            epoch, last_epoch = found.epoch, found.last_epoch
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
    begun = replace(
        found,
        producer_id=producer_id,
        previous_producer_id=found.producer_id,
        next_producer_id=NO_PRODUCER,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        status=Status.EMPTY,
        partitions=frozenset(),
        started_ms=Millis(-1),
        updated_ms=context.now_ms,
    )
    return Decision(Outcome(ErrorCode.NONE, producer_id, epoch), (begun,))
