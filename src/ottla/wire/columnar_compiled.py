"""The compiled design of `columnar`: one pass over the varints by `columnar_walk`, its memory read as numpy arrays."""

from __future__ import annotations

import numpy as np

from ottla.wire.columnar_walk import Bounds, walk_batch
from ottla.wire.columns import Block, Parts

__all__ = ["WalkFinder"]

RECORDS_MIN = 1 << 14
RECORD_BYTES_MIN = 7
"""A record's length, attributes, two deltas, two lengths and header count."""


class WalkFinder:
    """Finds parts with the compiled walk; its memory grows to the largest block and stays."""

    def __init__(self) -> None:
        self._bounds = Bounds(RECORDS_MIN)
        self._capacity = RECORDS_MIN

    def find(self, block: Block) -> Parts:
        """Return the parts of every record; raises IndexError or ValueError."""
        count = sum(span.records for span in block.spans)
        if count > len(block.data) // RECORD_BYTES_MIN:
            raise ValueError(f"{count} records do not fit into {len(block.data)} bytes")
        if count > self._capacity:
            self._bounds = Bounds(count)
            self._capacity = count
        bounds, data, row = self._bounds, block.data, 0
        for span in block.spans:
            row = walk_batch(bounds, row, data, span.begin, span.end, span.records)
        return Parts(
            offset_deltas=np.frombuffer(memoryview(bounds.offset_deltas), np.int32, row),
            timestamp_deltas=np.frombuffer(memoryview(bounds.timestamp_deltas), np.int64, row),
            key_bounds=np.frombuffer(memoryview(bounds.keys), np.int32, 2 * row).copy(),
            key_nulls=np.frombuffer(memoryview(bounds.key_nulls), np.bool_, row).copy(),
            value_bounds=np.frombuffer(memoryview(bounds.values), np.int32, 2 * row).copy(),
            value_nulls=np.frombuffer(memoryview(bounds.value_nulls), np.bool_, row).copy(),
            header_counts=np.frombuffer(memoryview(bounds.header_counts), np.int32, row),
            headers_at=np.frombuffer(memoryview(bounds.headers), np.int32, row),
        )
