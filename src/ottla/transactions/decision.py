"""What a decision about a transaction is, and what it may know.

A decision changes nothing: it names the transaction as it becomes (its record follows from that) and the answer. Whoever
drives the shard appends, applies and answers; once a transaction that is ending is committed, it has the markers written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.base import ErrorCode, Millis, ProducerEpoch, ProducerId
from ottla.config import BrokerSettings
from ottla.transactions.transaction import NO_EPOCH, NO_PRODUCER, Transaction, value_of
from ottla.wire import encode_coordinator_record
from ottla.wire.messages.transaction_log_key import TransactionLogKey
from ottla.wire.messages.transaction_log_value import TransactionLogValue

__all__ = ["NO_CHANGE", "Decision", "DecisionContext", "Outcome", "Record", "encode_records"]


class Record(NamedTuple):
    """One record of `__transaction_state`; without a value it is a tombstone."""

    key: TransactionLogKey
    value: TransactionLogValue | None


class Outcome(NamedTuple):
    """The answer to a transactional request: a code, and what the producer goes on with where the API says it."""

    code: ErrorCode = ErrorCode.NONE
    producer_id: ProducerId = NO_PRODUCER
    epoch: ProducerEpoch = NO_EPOCH


class DecisionContext(NamedTuple):
    """What a decision may know besides its transaction."""

    now_ms: Millis
    """The wall clock's time: records say it to other brokers."""
    settings: BrokerSettings
    version: int
    """The finalized level of `transaction.version`."""
    take_producer_id: Callable[[], ProducerId]
    """Gives an id that nobody has; raises COORDINATOR_LOAD_IN_PROGRESS where none is at hand."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done: transactions as they become, transactional ids to forget, and the answer."""

    response: Outcome | None = None
    changed: tuple[Transaction, ...] = ()
    forgotten: tuple[str, ...] = ()

    @property
    def records(self) -> Sequence[Record]:
        """The records to append."""
        return [
            *(
                Record(TransactionLogKey(transactional_id=each.transactional_id), value_of(each))
                for each in self.changed
            ),
            *(Record(TransactionLogKey(transactional_id=each), None) for each in self.forgotten),
        ]

    @property
    def replies(self) -> tuple[tuple[int, Outcome], ...]:
        """Answers of requests that were parked: there are none."""
        return ()

    @property
    def producer(self) -> None:
        """None: these records are in no transaction."""
        return


NO_CHANGE = Decision(Outcome())


def encode_records(records: Sequence[Record], version: int) -> list[tuple[bytes, bytes | None]]:
    """Return (key, value) bytes of records: version 1 of the value from `transaction.version` 1 on, as Kafka 4.3 writes.

    A producer that has been told of its next id, or of an epoch that the second protocol has bumped, goes on with them
    though the level is lowered meanwhile: version 0 could not say so, and a coordinator that takes over would not know.
    """
    return [_encoded(key, value, version) for key, value in records]


def _encoded(key: TransactionLogKey, value: TransactionLogValue | None, version: int) -> tuple[bytes, bytes | None]:
    if value is None or version >= 1 or value.next_producer_id != NO_PRODUCER or value.client_transaction_version > 0:
        return encode_coordinator_record(key, value, 1)
    return encode_coordinator_record(
        key, value.replace(previous_producer_id=NO_PRODUCER), 0
    )  # which has no room for it
