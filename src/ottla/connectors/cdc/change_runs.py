"""Changes of one table and one kind that follow one another, kept as the server sent them until a poll ends. Pure.

A transaction that writes many rows sends such runs. Their rows are made all at once (`column_events`), where they are many
and nothing about them is special; else one by one, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ottla.connect import DataError, SourceColumns, SourceRecord
from ottla.connectors.cdc import pgoutput
from ottla.connectors.cdc.events import TableEvents
from ottla.connectors.cdc.postgres_events import Moment, Moments
from ottla.connectors.cdc.raw_columns import columns_of_messages, numbers_at
from ottla.connectors.cdc.refused import Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["HEADER_BYTES", "ROWS_MIN", "ChangeRun", "Span", "lsn_in"]

HEADER_BYTES: Final = 25
"""Of the replication protocol, before a message: its kind, where it begins and ends in the log, when it was sent."""
_HEAD_BYTES: Final = 8
"""Of a change without an old row, before its first column: kind, table, `N`, how many columns."""
ROWS_MIN: Final = 16
"""Fewer rows are made one by one: that costs less."""
_U64, _U16 = Struct(">Q"), Struct(">H")


def lsn_in(data: bytes) -> int:
    """Return where a message stands in the log, 0 for what stands nowhere."""
    found: int = _U64.unpack_from(data, 1)[0]
    return found


@dataclass(slots=True)
class Span:
    """Rows of one transaction."""

    commit_us: int
    xid: int
    last_commit_lsn: int | None
    """Where the transaction before it has ended."""
    count: int = 0


@dataclass(slots=True)
class ChangeRun:
    """Insertions, or updates without an old row, of one table; `source_offset` is the place behind the last."""

    table: TableEvents
    head: bytes
    """What all of their messages begin with behind the protocol's header."""
    messages: list[bytes] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    source_offset: Mapping[str, Any] | None = None
    uncounted: int = 0
    """Rows that the position of the task does not count yet."""
    changes: int = 0
    """How many changes of its transaction the last row is behind, itself included."""

    @staticmethod
    def head_of(data: bytes) -> bytes | None:
        """Return what a message's like begin with, None for one that is in no run."""
        head = data[HEADER_BYTES : HEADER_BYTES + _HEAD_BYTES]
        return head if head[:1] in (b"I", b"U") and head[5:6] == b"N" else None

    def extend(self, found: Sequence[object], first: int) -> int:
        """Take the messages from `first` on that are like those of the run, and nothing else; returns how many."""
        head, messages, before = self.head, self.messages, len(self.messages)
        for each in islice(found, first, None):
            if not isinstance(each, bytes) or not each.startswith(head, HEADER_BYTES):
                break
            messages.append(each)
        count = len(messages) - before
        self.spans[-1].count += count
        self.uncounted += count
        return count

    @property
    def operation(self) -> str:
        """Return Debezium's letter of what was done."""
        return "c" if self.head[:1] == b"I" else "u"

    def without_last(self, offset: Mapping[str, Any]) -> tuple[ChangeRun | None, ChangeRun]:
        """Return all rows but the last, with the offset behind them, and the last."""
        span = self.spans[-1]
        last = ChangeRun(self.table, self.head, [self.messages[-1]], [replace(span, count=1)], self.source_offset)
        if len(self.messages) == 1:
            return None, last
        kept = [*self.spans[:-1], *([replace(span, count=span.count - 1)] if span.count > 1 else [])]
        return ChangeRun(self.table, self.head, self.messages[:-1], kept, offset), last

    def made(self, refused: Refused) -> list[SourceRecord | SourceColumns]:
        """Return the rows' records; of rows behind one that no record can hold none, and their table is refused."""
        columns = self._columns() if len(self.messages) >= ROWS_MIN else None
        return [*self._records(refused)] if columns is None else [columns]

    def _columns(self) -> SourceColumns | None:
        events = self.table.columns
        if events is None:
            return None
        (count,) = _U16.unpack_from(self.head, 6)
        raw = columns_of_messages(self.messages, HEADER_BYTES + _HEAD_BYTES, count)
        return None if raw is None else events.made(self.operation, raw, self._moments(), self.source_offset)

    def _moments(self) -> Moments:
        lsns = numbers_at(self.messages, 1)
        if len(self.spans) == 1:
            span = self.spans[0]
            return Moments(lsns, span.commit_us, span.xid, span.last_commit_lsn)
        last = None if self.spans[0].last_commit_lsn is None else self._each("last_commit_lsn")
        return Moments(lsns, self._each("commit_us"), self._each("xid"), last)

    def _each(self, name: str) -> NDArray[np.int64]:
        import numpy as np

        found = np.array([getattr(each, name) for each in self.spans], np.int64)
        return np.repeat(found, [each.count for each in self.spans])

    def _records(self, refused: Refused) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        try:
            for each in self._one_by_one():
                found += each
        except DataError as error:
            refused.add(self.table.id, str(error))
        if found:
            found[-1].source_offset = self.source_offset
        return found

    def _one_by_one(self) -> Iterator[list[SourceRecord]]:
        messages = iter(self.messages)
        for span in self.spans:
            for _ in range(span.count):
                data = next(messages)
                moment = Moment(lsn_in(data), span.commit_us, span.xid, span.last_commit_lsn)
                change = pgoutput.decode(data[HEADER_BYTES:])
                assert isinstance(change, pgoutput.Change) and change.new is not None
                if change.kind == "I":
                    yield self.table.inserted(change.new, moment, None)
                else:
                    yield self.table.updated(None, change.new, moment, None, old_is_key=False)
