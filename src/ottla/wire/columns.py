"""Records as columns over one buffer, and the parts of which a design of `columnar` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.wire.record_reader import text_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Block", "Columns", "HeaderColumns", "Parts", "Span"]


@dataclass(frozen=True, slots=True, eq=False)
class HeaderColumns:
    """Record headers, all records' together: `counts` per row, then each header's key and value in `Columns.data`."""

    counts: NDArray[np.int32]
    key_bounds: NDArray[np.int32]
    value_bounds: NDArray[np.int32]
    value_nulls: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Records as columns over one buffer.

    Bounds interleave each row's start and end (s0, e0, s1, e1, ...) and never fall, so that they serve as the offsets of
    an Arrow binary array of which every second element is a row's. A null has equal start and end, and is marked.
    """

    data: bytes
    offsets: NDArray[np.int64]
    timestamps_ms: NDArray[np.int64]
    log_append_time: NDArray[np.bool_]
    key_bounds: NDArray[np.int32]
    key_nulls: NDArray[np.bool_]
    value_bounds: NDArray[np.int32]
    value_nulls: NDArray[np.bool_]
    headers: HeaderColumns | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def keys(self) -> list[bytes | None]:
        """Return each row's key."""
        return _cells(self.data, self.key_bounds, self.key_nulls)

    def values(self) -> list[bytes | None]:
        """Return each row's value."""
        return _cells(self.data, self.value_bounds, self.value_nulls)

    def header_pairs(self) -> list[tuple[tuple[str, bytes | None], ...]] | None:
        """Return each row's headers; None where no row has any. A key that is no UTF-8 is read as Java reads it."""
        headers = self.headers
        if headers is None or not headers.counts.any():
            return None
        bounds = headers.key_bounds.tolist()
        keys = [text_of(self.data[start:end]) for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
        values = _cells(self.data, headers.value_bounds, headers.value_nulls)
        pairs = list(zip(keys, values, strict=True))
        found, at = [], 0
        for count in headers.counts.tolist():
            found.append(tuple(pairs[at : at + count]))
            at += count
        return found

    def rows(self, first: int, last: int) -> Columns:
        """Return rows `first` to `last`, the latter excluded, over the same buffer."""
        if first == 0 and last == len(self):
            return self
        headers = self.headers
        if headers is not None:
            ends = headers.counts.cumsum()
            begin, end = (int(ends[row - 1]) if row else 0 for row in (first, last))
            headers = HeaderColumns(
                headers.counts[first:last],
                headers.key_bounds[2 * begin : 2 * end],
                headers.value_bounds[2 * begin : 2 * end],
                headers.value_nulls[begin:end],
            )
        return Columns(
            self.data,
            self.offsets[first:last],
            self.timestamps_ms[first:last],
            self.log_append_time[first:last],
            self.key_bounds[2 * first : 2 * last],
            self.key_nulls[first:last],
            self.value_bounds[2 * first : 2 * last],
            self.value_nulls[first:last],
            headers,
        )


def _cells(data: bytes, bounds: NDArray[np.int32], nulls: NDArray[np.bool_]) -> list[bytes | None]:
    """Return what stands between pairs of bounds."""
    if nulls.all():
        return [None] * len(nulls)
    pairs = iter(bounds.tolist())
    found: list[bytes | None] = [data[start:end] for start, end in zip(pairs, pairs, strict=True)]
    for row in nulls.nonzero()[0].tolist():
        found[row] = None
    return found


class Span(NamedTuple):
    """One batch's records in a block's data, and what its header says of them."""

    begin: int
    end: int
    records: int
    base_offset: int
    base_timestamp: int
    max_timestamp: int
    log_append_time: bool


@dataclass(frozen=True, slots=True)
class Block:
    """One buffer and the batches whose records lie in it."""

    data: bytes
    spans: list[Span]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What a design finds of a block: bounds as in `Columns`, deltas per record, and where headers begin.

    Bounds and nulls are new arrays; the others may be working memory of the design, good until it finds again.
    """

    offset_deltas: NDArray[np.int64] | NDArray[np.int32]
    timestamp_deltas: NDArray[np.int64]
    key_bounds: NDArray[np.int32]
    key_nulls: NDArray[np.bool_]
    value_bounds: NDArray[np.int32]
    value_nulls: NDArray[np.bool_]
    header_counts: NDArray[np.int32]
    headers_at: NDArray[np.int64] | NDArray[np.int32]
