"""Both indexes of a segment, made anew from its batches."""

from __future__ import annotations

from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.wire import BatchHeader

__all__ = ["IndexBuilder"]


class IndexBuilder:
    """Entries of both indexes, and what a segment knows of itself beside them; `add` takes its batches in order."""

    __slots__ = ("_base", "_interval", "_time_entries", "largest", "offset_entries", "since")

    def __init__(self, base_offset: int, interval: int) -> None:
        self._base = base_offset
        self._interval = interval
        self.largest = (-1, -1)
        """The largest timestamp, and the last offset of its batch."""
        self.since = 0
        """Bytes behind the last entry."""
        self.offset_entries: list[tuple[int, int]] = []
        self._time_entries: list[tuple[int, int]] = []

    def add(self, header: BatchHeader, position: int) -> None:
        """Take the next batch."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.largest[0] and header.record_count:  # a time is a record's
            self.largest = (header.max_timestamp, last_offset)
        if self.since > self._interval:
            self.offset_entries.append((last_offset - self._base, position))
            self._index_time()
            self.since = 0
        self.since += header.size

    def time_entries(self) -> list[tuple[int, int]]:
        """Return the entries of the time index of a segment that ends here."""
        self._index_time()
        return self._time_entries

    def encoded(self) -> tuple[bytes, bytes]:
        """Return the contents of both files, for a segment that is sealed by this."""
        offsets = b"".join([OFFSET_ENTRY.pack(*each) for each in self.offset_entries])
        return offsets, b"".join([TIME_ENTRY.pack(*each) for each in self.time_entries()])

    def _index_time(self) -> None:
        timestamp, offset = self.largest
        if timestamp >= 0 and (not self._time_entries or timestamp > self._time_entries[-1][0]):
            self._time_entries.append((timestamp, offset - self._base))
