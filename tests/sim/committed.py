"""Transactions in worlds of either size: what producers hear, and what readers of committed records make of answers."""

from __future__ import annotations

from collections.abc import Container

from ottla.base import ErrorCode
from ottla.wire import iter_batch_records, iter_batches
from ottla.wire.messages.fetch import PartitionData
from tests.sim.ledger import Violation

__all__ = ["FENCED", "Again", "CommittedReader", "judge"]

FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
"""What a producer hears when another has taken its transactional id."""

NEEDLESS_MAX = 8
"""Aborted transactions told that begin beyond the records that came: a slice's end is found by the index, not exactly."""


class Again(Exception):
    """Not now; the next initialisation aborts what is open."""


def judge(code: int, what: str, passing: Container[ErrorCode]) -> ErrorCode:
    """Return NONE or a code of the fenced; raises Again for what passes, Violation for what must not be."""
    found = ErrorCode(code)
    if found in passing:
        raise Again
    if found is not ErrorCode.NONE and found not in FENCED:
        raise Violation(f"{what}: {found.name}")
    return found


class CommittedReader:
    """Reads one partition from its start; `values` is what was committed."""

    def __init__(self, place: str) -> None:
        self.offset = 0
        self.values: list[str] = []
        self._place = place
        self._ended: set[tuple[int, int]] = set()
        """(first offset, producer id) of transactions whose end has been read."""

    def take(self, found: PartitionData) -> bool:
        """Take in what one fetch at `offset` brought; return False where there was nothing more."""
        told = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        if past := self._ended.intersection(told):
            raise Violation(f"{self._place}: a fetch at {self.offset} tells of {past}, which ended before")
        ahead, open_since = list(told), dict[int, int]()
        before, data = self.offset, bytes(found.records or b"")
        for header, at in iter_batches(data):
            while ahead and ahead[0][0] <= header.last_offset:
                first, producer_id = ahead.pop(0)
                open_since[producer_id] = first
            if header.is_control:
                if (first_offset := open_since.pop(header.producer_id, None)) is not None:
                    self._ended.add((first_offset, header.producer_id))
            elif header.producer_id not in open_since:
                self.values += [bytes(each.value or b"").decode() for each in iter_batch_records(data, at, header)]
            self.offset = header.last_offset + 1
        if len(ahead) > NEEDLESS_MAX:
            raise Violation(f"{self._place}: {before} to {self.offset} came with aborted transactions beyond: {ahead}")
        return self.offset > before
