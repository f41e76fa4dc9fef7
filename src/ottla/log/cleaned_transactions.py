"""Which batches belong to aborted transactions, and when a transaction's marker has done its duty, as a cleaning walks by.

A marker may go once no batch of its transaction is left: a walk that met none says so, and the `.txnindex` entry of an
aborted transaction is carried over only by a walk that met one (KIP-98, KIP-534).
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.log.types import AbortedTransaction
from ottla.wire import BatchHeader, Buffer, ControlType, control_type, iter_batch_records

__all__ = ["CleanedTransactions"]


class CleanedTransactions:
    """Follows the transactions of one walk, which sees batches in the order of their offsets."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Take the aborted transactions of the stretch that is walked."""
        self._coming = sorted(set(aborted), key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        self._committed: set[int] = set()
        self.index: list[AbortedTransaction] = []
        """The entries of the `.txnindex` to write; whoever takes them empties it."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take in a batch of records; True where its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_batches.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_marker_done(self, header: BatchHeader, batch: Buffer) -> bool:
        """Take in a control batch; True where nothing of its transaction was met, so that it may go."""
        self._begin_up_to(header.last_offset)
        kind = _kind(header, batch)
        if kind is None:
            return True
        if kind == ControlType.COMMIT:
            was_met = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not was_met
        if kind != ControlType.ABORT:
            return False
        ended = self._aborted.pop(header.producer_id, None)
        if ended is None or header.producer_id not in self._with_batches:
            return True
        self._with_batches.discard(header.producer_id)
        self.index.append(ended)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            begun = self._coming.pop()
            self._aborted.setdefault(begun.producer_id, begun)


def _kind(header: BatchHeader, batch: Buffer) -> int | None:
    """Return the kind of a control batch's record; None for a batch that was emptied before."""
    if not header.record_count:
        return None
    return control_type(next(iter_batch_records(batch, 0, header)).key)
