"""What a log knows of its idempotent and transactional producers (KIP-98, KIP-360, KIP-890).

Per producer: its epoch, its last five batches (so that a batch sent again is recognised and answered with the offsets that
it got the first time), and the transaction that it has open here. `ProducerAppend` checks one producer's part of an append
and holds what it would change; nothing changes before the bytes are written. The same code replays the log after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.base import ErrorCode, KafkaError, Millis, Offset, ProducerEpoch, ProducerId
from ottla.log.types import AbortedTransaction
from ottla.wire import Attributes, BatchHeader

__all__ = ["BatchMark", "EndMarker", "OpenTransaction", "ProducerAppend", "ProducerEntry", "Producers"]

BATCHES_KEPT: Final = 5
"""A client may have this many requests in flight (max.in.flight.requests.per.connection) and send each of them again."""
SEQUENCE_MASK: Final = 0x7FFFFFFF
TRANSACTIONAL: Final = Attributes.TRANSACTIONAL
NO_EPOCH: Final = ProducerEpoch(-1)


class BatchMark(NamedTuple):
    """What is remembered of a batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of its first record; sequences wrap to 0 after 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK if self.last_sequence >= 0 else -1

    @property
    def first_offset(self) -> Offset:
        """Offset of its first record."""
        return Offset(self.last_offset - self.offset_delta)


class EndMarker(NamedTuple):
    """A transaction's end, as its control record says."""

    commit: bool
    coordinator_epoch: int


class ProducerEntry:
    """One producer's state; only `Producers` changes it."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "generation", "last_timestamp", "transaction_offset")

    def __init__(self, generation: int = 0) -> None:
        self.generation = generation
        """How often its log's producers had been frozen when it was made: it is changed in that generation only."""
        self.epoch: int = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_offset = -1
        """First offset of the open transaction; -1 without one."""
        self.batches: tuple[BatchMark, ...] = ()

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 where none is known."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """Offset of the last record; -1 where none is known."""
        return self.batches[-1].last_offset if self.batches else -1

    def duplicate_of(self, header: BatchHeader) -> BatchMark | None:
        """Return the remembered batch that has the same epoch and sequences as this one."""
        if header.producer_epoch != self.epoch:
            return None
        batches = self.batches
        if batches and batches[-1].last_sequence + 1 == header.base_sequence:
            return None  # the next one, as nearly always
        last = header.last_sequence
        for mark in batches:
            if mark.last_sequence == last and mark.first_sequence == header.base_sequence:
                return mark
        return None


@dataclass(slots=True)
class OpenTransaction:
    """A transaction with records here: where it begins, and its marker's offset once that is appended."""

    producer_id: int
    first_offset: int
    last_offset: int = -1


class ProducerAppend:
    """One producer's part of one append: checked batch by batch, then taken over by `Producers.update`."""

    __slots__ = (
        "_before",
        "batches",
        "completed",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "name",
        "producer_id",
        "started",
        "transaction_offset",
    )

    def __init__(self, name: str, producer_id: int, before: ProducerEntry) -> None:
        self.name = name
        self.producer_id = producer_id
        self._before = before
        self.epoch = before.epoch
        self.coordinator_epoch = before.coordinator_epoch
        self.last_timestamp = before.last_timestamp
        self.transaction_offset = before.transaction_offset
        self.batches = before.batches
        self.started: tuple[OpenTransaction, ...] = ()
        self.completed: tuple[tuple[OpenTransaction, bool], ...] = ()

    def add(self, header: BatchHeader, first_offset: int, *, check_epoch: bool, check_sequence: bool) -> None:
        """Check a batch of records and note it; raises what its producer must hear."""
        epoch, sequence, delta, batches = (
            header.producer_epoch,
            header.base_sequence,
            header.last_offset_delta,
            self.batches,
        )
        is_next = epoch == self.epoch and batches and batches[-1].last_sequence + 1 == sequence
        if not is_next:  # as it hardly ever is
            if check_epoch:
                self._check_epoch(epoch, first_offset)
            if check_sequence:
                self._check_sequence(epoch, sequence, first_offset)
            if epoch != self.epoch:
                self.epoch = epoch
                batches = ()
        last_sequence = (sequence + delta) & SEQUENCE_MASK if sequence >= 0 else -1
        mark = BatchMark(last_sequence, first_offset + delta, delta, header.max_timestamp)
        self.batches = (*batches[1 - BATCHES_KEPT :], mark)
        self.last_timestamp = header.max_timestamp
        transactional = header.attributes & TRANSACTIONAL
        if self.transaction_offset >= 0:
            if not transactional and check_epoch:
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"Expected transactional write from producer {self.producer_id} at offset {first_offset} in "
                    f"partition {self.name}",
                )
        elif transactional:
            self.transaction_offset = first_offset
            self.started = (*self.started, OpenTransaction(self.producer_id, first_offset))

    def is_next(self, header: BatchHeader) -> bool:
        """Return whether a batch without a transaction is what its producer has to send next: then `add` refuses nothing."""
        batches = self.batches
        return (
            header.producer_epoch == self.epoch
            and self.transaction_offset < 0
            and len(batches) > 0
            and batches[-1].last_sequence + 1 == header.base_sequence
        )

    def end_transaction(self, marker: EndMarker, epoch: int, offset: int, timestamp: int, *, check_epoch: bool) -> None:
        """Check a transaction's end marker and note it; without records in the transaction it only bumps the epoch."""
        if check_epoch:
            self._check_epoch(epoch, offset)
            if marker.coordinator_epoch < self.coordinator_epoch:
                raise KafkaError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"Invalid coordinator epoch for producerId {self.producer_id} at offset {offset} in partition "
                    f"{self.name}: {marker.coordinator_epoch} (zombie), {self.coordinator_epoch} (current)",
                )
        if self.transaction_offset >= 0:
            ended = OpenTransaction(self.producer_id, self.transaction_offset, offset)
            self.completed = (*self.completed, (ended, marker.commit))
            self.transaction_offset = -1
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = ()
        self.coordinator_epoch = marker.coordinator_epoch
        self.last_timestamp = timestamp

    def _check_epoch(self, epoch: int, offset: int) -> None:
        if epoch < self.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {self.producer_id} at offset {offset} in {self.name} is {epoch}, "
                f"which is smaller than the last seen epoch {self.epoch}",
            )

    def _check_sequence(self, epoch: int, sequence: int, offset: int) -> None:
        if epoch != self.epoch:
            if sequence != 0 and self.epoch != NO_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {self.producer_id} at offset {offset} in "
                    f"partition {self.name}: {epoch} (request epoch), {sequence} (seq. number), "
                    f"{self.epoch} (current producer epoch)",
                )
            return
        last = self.batches[-1].last_sequence if self.batches else -1
        # nothing known of the producer (expired, or its records were deleted): any sequence begins anew (KIP-360)
        if self._before.epoch == NO_EPOCH and not self.batches:
            return
        if sequence != (last + 1 if last != SEQUENCE_MASK else 0):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {self.producer_id} at offset {offset} in partition "
                f"{self.name}: {sequence} (incoming seq. number), {last} (current end sequence number)",
            )


class Producers:
    """The producers of one log, up to `end_offset`."""

    __slots__ = ("_generation", "_open", "_unreplicated", "end_offset", "entries", "expiration_ms", "name")

    def __init__(self, name: str, expiration_ms: int) -> None:
        self.name = name
        self.expiration_ms = expiration_ms
        self._generation = 0
        self.end_offset = 0
        """Offset after the last batch that is taken into account."""
        self.entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, OpenTransaction] = {}
        self._unreplicated: dict[int, OpenTransaction] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[tuple[ProducerId, ProducerEntry]]:
        for producer_id, entry in self.entries.items():
            yield ProducerId(producer_id), entry

    def freeze(self) -> dict[int, ProducerEntry]:
        """Return the producers as they are now, which stay so: who writes next gets an entry of its own."""
        self._generation += 1
        return dict(self.entries)

    def prepare(self, producer_id: int) -> ProducerAppend:
        """Return a producer's part of an append, still without a batch."""
        return ProducerAppend(self.name, producer_id, self.entries.get(producer_id) or ProducerEntry())

    def update(self, *appends: ProducerAppend) -> list[AbortedTransaction]:
        """Take over what an append did, now that it is written; return the transactions that it aborted, as they ended.

        Of several producers, all transactions are begun before any ends: where each one leaves the last stable offset has
        to be the same on the leader, who took the batches one by one, and on a follower, who takes them together.
        """
        completed: list[tuple[OpenTransaction, bool]] = []
        for append in appends:
            entry = self.entries.get(append.producer_id)
            if entry is None or entry.generation != self._generation:
                entry = self.entries[append.producer_id] = ProducerEntry(self._generation)
            entry.epoch = append.epoch
            entry.coordinator_epoch = append.coordinator_epoch
            entry.last_timestamp = append.last_timestamp
            entry.transaction_offset = append.transaction_offset
            entry.batches = append.batches
            for each in append.started:
                self._open[each.first_offset] = each
            if append.completed:
                completed.extend(append.completed)
        if not completed:
            return []
        completed.sort(key=_end_offset)
        ended = [self._end(transaction, commit) for transaction, commit in completed]
        return [each for each in ended if each is not None]

    def _end(self, ended: OpenTransaction, commit: bool) -> AbortedTransaction | None:
        """Close a transaction; return it where it was aborted."""
        self._open.pop(ended.first_offset, None)
        self._unreplicated[ended.first_offset] = ended
        if commit:
            return None
        stable = min((*self._open, ended.last_offset + 1))
        return AbortedTransaction(
            ProducerId(ended.producer_id), Offset(ended.first_offset), Offset(ended.last_offset), Offset(stable)
        )

    @property
    def first_open_offset(self) -> Offset | None:
        """Where the oldest transaction without an end begins."""
        return Offset(min(self._open)) if self._open else None

    def first_unstable_offset(self, high_watermark: int) -> Offset | None:
        """Where the oldest transaction begins that has not ended below the high watermark; None where all have."""
        if not self._open and not self._unreplicated:
            return None
        for first_offset, each in list(self._unreplicated.items()):
            if each.last_offset < high_watermark:
                del self._unreplicated[first_offset]
        found = min((*self._open, *self._unreplicated), default=None)
        return None if found is None else Offset(found)

    def open_transaction(self, entry: ProducerEntry, producer_id: int) -> None:
        """Take in a producer's open transaction from a snapshot."""
        if entry.transaction_offset >= 0:
            self._open[entry.transaction_offset] = OpenTransaction(producer_id, entry.transaction_offset)

    def expire(self, now_ms: int) -> None:
        """Forget the producers that wrote nothing for `producer.id.expiration.ms` and have no transaction open."""
        for producer_id in [each for each, entry in self.entries.items() if self.is_expired(entry, now_ms)]:
            del self.entries[producer_id]

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        """True where a producer may be forgotten."""
        return entry.transaction_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    def clear(self, end_offset: int) -> None:
        """Forget every producer; the log's next offset to take into account is this one."""
        self.entries.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset

    def take(self, other: Producers) -> None:
        """Become what another one is, which is not used any more; what was frozen of either stays as it was."""
        self._generation = max(self._generation, other._generation) + 1
        self.entries, self.end_offset = other.entries, other.end_offset
        self._open, self._unreplicated = other._open, other._unreplicated

    def restore(self, entries: Iterable[tuple[int, ProducerEntry]], end_offset: int, now_ms: Millis) -> None:
        """Replace everything by a snapshot's entries, but for those that have expired."""
        self.clear(end_offset)
        for producer_id, entry in entries:
            if not self.is_expired(entry, now_ms):
                self.entries[producer_id] = entry
                self.open_transaction(entry, producer_id)

    def forget_before(self, log_start_offset: int) -> None:
        """Follow the log's start: transactions that ended before it are nobody's concern any more."""
        for first_offset, each in list(self._unreplicated.items()):
            if each.last_offset < log_start_offset:
                del self._unreplicated[first_offset]
        self.end_offset = max(self.end_offset, log_start_offset)


def _end_offset(completed: tuple[OpenTransaction, bool]) -> int:
    return completed[0].last_offset
