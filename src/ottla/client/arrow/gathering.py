"""Rows of decoded columns as Arrow arrays, without PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Gatherer"]


class Gatherer:
    """Copies every row's bytes together: each second element of an array over the fetch buffer itself."""

    def __init__(self) -> None:
        self._evens = np.arange(0, 2, 2, dtype=np.int32)

    def gather(
        self, data: pa.Buffer, bounds: NDArray[np.int32], nulls: NDArray[np.bool_], kind: pa.DataType | None = None
    ) -> pa.Array:
        """Return the rows between `bounds` (see `Columns`) as an array of `kind`, `pa.binary()` by default."""
        count = len(nulls)
        kind = kind if kind is not None else pa.binary()
        null_count = int(np.count_nonzero(nulls))
        if null_count == count:
            return pa.nulls(count, kind)
        if len(self._evens) < count:
            self._evens = np.arange(0, 2 * count, 2, dtype=np.int32)
        spans = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), data])
        taken = spans.take(pa.array(self._evens[:count]))
        if not null_count and kind == taken.type:
            return taken
        valid = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if null_count else None
        return pa.Array.from_buffers(kind, count, [valid, *taken.buffers()[1:]], null_count)
