"""Which producers are being asked about: no batch begins a transaction that its coordinator does not know (KIP-890).

Between the question to the coordinator and the append, the transaction may end. Its marker takes the verification away, and
a batch that comes with one that is gone is refused; without that it would begin a transaction that nobody ever ends. Where
the leader has changed meanwhile nobody knows whether it has: then the producer is to ask again.
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.log import Log

__all__ = ["OPEN", "Verification", "Verifications", "is_in_transaction"]


class Verification:
    """One producer, in one epoch, as it is being verified for one partition."""

    __slots__ = ("epoch", "is_second", "sequence", "since_ms", "term")

    def __init__(self, epoch: int, sequence: int, since_ms: int, *, is_second: bool, term: object = None) -> None:
        self.term = term
        """In which time as a leader it was begun; None for `OPEN`."""
        self.epoch = epoch
        self.sequence = sequence
        """The lowest sequence that has been asked for: no later one may be the first to be written."""
        self.since_ms = since_ms
        self.is_second = is_second
        """True where the client speaks the second protocol: each of its transactions begins with sequence 0."""


OPEN = Verification(-1, -1, 0, is_second=False)
"""For what needs none: the transaction is open already, or nobody has to be asked."""


class Verifications:
    """The verifications of one partition, by producer id."""

    __slots__ = ("_by_producer", "_term")

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}
        self._term = object()

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, is_second: bool) -> Verification:
        """Return the verification with which a batch has to be appended."""
        found = self._by_producer.get(producer_id)
        if found is None or found.epoch < epoch:
            found = Verification(epoch, sequence, now_ms, is_second=is_second, term=self._term)
            self._by_producer[producer_id] = found
        elif found.epoch == epoch:
            found.sequence = min(found.sequence, sequence)
        return found

    def end(self, producer_id: int) -> None:
        """Forget a producer, whose transaction has begun here or has ended."""
        self._by_producer.pop(producer_id, None)

    def end_before(self, producer_id: int, epoch: int) -> None:
        """Forget what was begun in an epoch before this one: a transaction of then has ended, and no later one."""
        found = self._by_producer.get(producer_id)
        if found is not None and found.epoch < epoch:
            del self._by_producer[producer_id]

    def clear(self) -> None:
        """Forget everybody: while another led, a transaction may have ended that was begun here to be asked about."""
        self._by_producer.clear()
        self._term = object()

    def expire(self, before_ms: int) -> None:
        """Forget those that began before a time and never led to an append."""
        for producer_id in [each for each, found in self._by_producer.items() if found.since_ms < before_ms]:
            del self._by_producer[producer_id]

    def check(self, log: Log, producer_id: int, sequence: int, verification: Verification | None) -> None:
        """Raise the KafkaError for which what begins a transaction in this log is refused.

        NOT_LEADER_OR_FOLLOWER, which may be asked again, where it was verified for another time as a leader, or for another
        log of this name.
        """
        if verification is not None and verification.term not in (None, self._term):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if verification is None or self._by_producer.get(producer_id) is not verification:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Record was not part of an ongoing transaction of producer {producer_id} in {log.name}",
            )
        first = 0 if verification.is_second else verification.sequence
        if sequence > first and producer_id not in log.producers.entries:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id} in {log.name}: "
                f"{sequence} (incoming seq. number), {first} (expected)",
            )


def is_in_transaction(log: Log, producer_id: int, epoch: int) -> bool:
    """Return whether a producer has a transaction open in this log, in this epoch."""
    entry = log.producers.entries.get(producer_id)
    return entry is not None and entry.transaction_offset >= 0 and entry.epoch == epoch
