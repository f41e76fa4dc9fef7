"""Which batches of a Fetch answer a reader of committed records passes over (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base import Offset, ProducerId
from ottla.wire.batch import BatchHeader

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """Follows the transactions that an answer calls aborted, batch by batch: each from its first offset to its marker."""

    def __init__(self, transactions: Iterable[tuple[ProducerId, Offset]]) -> None:
        """Take them by producer id and first offset."""
        self._coming = sorted(transactions, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Take the answer's next batch into account; True for control batches and for aborted data."""
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        if header.is_control:
            self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open
