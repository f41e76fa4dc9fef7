"""Whole record batches from one cluster to another, for source tasks that copy topics and look at no record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.connect.records import SourceRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SourceBatch"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SourceBatch:
    """Records as they stand in a batch of another cluster (message format 2), whose offsets have no gaps.

    `poll` may return some of these among its records. The batch travels as it is where nothing wants its records one by one:
    at least once, without transformations, and where key, value and headers stay bytes; else as what `make_records` gives.
    """

    topic: str
    partition: int
    data: memoryview
    """The records, encoded and not compressed, without the batch's header."""
    count: int
    timestamp_ms: int
    """Of the first record, from which the others' deltas count."""
    max_timestamp_ms: int
    has_headers: bool
    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]
    """Where reading goes on behind the last record."""
    make_records: Callable[[], Sequence[SourceRecord]]
    timestamps_ms: NDArray[np.int64] | None = None
    """Each record's, where whoever made the batch has looked at them."""
    value_bytes: int | None = None
    """Of all values together, likewise."""
    first: int = 0
    """Of a slice: how many records of the batch stand before it."""

    def slice(self, first: int, count: int) -> SourceBatch:
        """Return some of the records; only `records` of it has a meaning."""
        return replace(self, first=self.first + first, count=count)

    def records(self) -> list[SourceRecord]:
        """Return the records one by one."""
        return list(self.make_records()[self.first : self.first + self.count])
