"""A transactional id's state as a value, and the record of `__transaction_state` that holds it (KIP-98, KIP-890)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ottla.base import Millis, ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

__all__ = ["EPOCH_MAX", "NO_EPOCH", "NO_PRODUCER", "Status", "Transaction", "transaction_from_value", "value_of"]

NO_PRODUCER = ProducerId(-1)
NO_EPOCH = ProducerEpoch(-1)
NEVER = Millis(-1)
EPOCH_MAX = 32767
"""Only a fence or the end of a producer id's last transaction reaches it; no client ever gets it."""


class Status(IntEnum):
    """States of a transactional id, by the numbers of its records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name in answers and filters, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_ending(self) -> bool:
        """True while markers are to be written: the outcome is decided and cannot change."""
        return self in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """True where no transaction is open, so that the id may expire."""
        return self in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the coordinator knows of a transactional id."""

    transactional_id: str
    producer_id: ProducerId
    epoch: ProducerEpoch
    timeout_ms: int
    status: Status
    updated_ms: Millis
    partitions: frozenset[TopicPartition] = frozenset()
    """Where the open transaction has written, or may have."""
    started_ms: Millis = NEVER
    previous_producer_id: ProducerId = NO_PRODUCER
    next_producer_id: ProducerId = NO_PRODUCER
    """Taken over when the transaction has ended, because this producer's epochs are used up."""
    last_epoch: ProducerEpoch = NO_EPOCH
    """The epoch before this one, where the same producer may have missed the answer (KIP-360); in no record."""
    client_version: int = 0
    """2 where the client speaks the second protocol (KIP-890), in which each end of a transaction bumps the epoch."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """True where the next epoch would be the last one, which is kept for fencing."""
        return self.epoch >= EPOCH_MAX - 1

    @property
    def is_commit(self) -> bool:
        """True where the outcome that is being written, or was, is to commit."""
        return self.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)


def value_of(transaction: Transaction) -> TransactionLogValue:
    """Return the record's value."""
    topics: dict[str, list[int]] = {}
    for each in sorted(transaction.partitions):
        topics.setdefault(each.topic, []).append(each.partition)
    partitions = [PartitionsSchema(topic=name, partition_ids=indexes) for name, indexes in topics.items()]
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.status,
        transaction_partitions=None if transaction.status is Status.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )


def transaction_from_value(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Return the state that a record holds."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=ProducerId(value.producer_id),
        epoch=ProducerEpoch(value.producer_epoch),
        timeout_ms=value.transaction_timeout_ms,
        status=Status(value.transaction_status),
        updated_ms=Millis(value.transaction_last_update_timestamp_ms),
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        started_ms=Millis(value.transaction_start_timestamp_ms),
        previous_producer_id=ProducerId(value.previous_producer_id),
        next_producer_id=ProducerId(value.next_producer_id),
        client_version=value.client_transaction_version,
    )
