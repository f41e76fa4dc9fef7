"""A shard: the transactional ids of one partition of `__transaction_state`, as a fold over its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from immutables import Map

from ottla.base import TRANSACTIONS_TOPIC, WireError
from ottla.transactions.decision import Decision, Record, encode_records
from ottla.transactions.timeouts import OpenTransactions
from ottla.transactions.transaction import Status, Transaction, transaction_from_value
from ottla.wire import Record as LogRecord
from ottla.wire import decode_coordinator_key, decode_coordinator_value
from ottla.wire.messages.transaction_log_key import TransactionLogKey
from ottla.wire.messages.transaction_log_value import TransactionLogValue

__all__ = ["Shard", "State", "apply"]

State = Map[str, Transaction]
"""Transactions by transactional id: one immutable value."""


def apply(state: State, record: Record) -> State:
    """Return the state after a record."""
    name = record.key.transactional_id
    if record.value is None or record.value.transaction_status == Status.DEAD:
        return state.delete(name) if name in state else state
    return state.set(name, transaction_from_value(name, record.value))


class Shard:
    """The state of one partition; `applied` is the only way in once it is in office."""

    def __init__(self, version: Callable[[], int], on_loaded: Callable[[Shard], None]) -> None:
        """Take what tells the finalized `transaction.version`, and what hears that everything has been replayed."""
        self.state: State = Map()
        self.open = OpenTransactions()
        self._version = version
        self._on_loaded = on_loaded

    def replay(self, record: LogRecord, producer_id: int) -> None:
        """Apply a stored record while the shard is loaded; kinds of key that a later version writes are left out."""
        if record.key is None:
            raise WireError(f"a record of {TRANSACTIONS_TOPIC} has no key")
        key = decode_coordinator_key(TRANSACTIONS_TOPIC, record.key)
        if not isinstance(key, TransactionLogKey):
            return
        value = None
        if record.value is not None:
            found = decode_coordinator_value(TRANSACTIONS_TOPIC, key, record.value)
            assert found is not None
            assert isinstance(found[0], TransactionLogValue)
            value = found[0]
        self.state = apply(self.state, Record(key, value))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Called for a transaction marker: this topic's records are in no transaction."""

    def encode(self, decision: Decision) -> Sequence[tuple[bytes, bytes | None]]:
        """Return the (key, value) bytes of a decision's records."""
        return encode_records(decision.records, self._version())

    def applied(self, decision: Decision, base_offset: int) -> None:
        """Take over a decision whose records have been appended: as its records say, with what no record holds."""
        state = self.state
        for each in decision.changed:
            state = state.set(each.transactional_id, each)
        for name in decision.forgotten:
            if name in state:
                state = state.delete(name)
        self.state = state

    def loaded(self, context: object) -> Iterator[Decision]:
        """Tell whoever drives it that ends which were decided before have to be carried out; decides nothing itself."""
        self._on_loaded(self)
        return iter(())

    def expire(self, context: object) -> Iterator[Decision]:
        """Yield nothing: timeouts are looked at in intervals, as Kafka does, by whoever drives it."""
        return iter(())

    def next_deadline(self) -> int | None:
        """Return None: there is no deadline."""
        return None

    def postpone(self, until_ms: int) -> None:
        """Do nothing: there is no deadline."""
