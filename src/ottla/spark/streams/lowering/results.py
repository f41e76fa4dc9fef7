"""What Spark's aggregate hands on, made into the records of topics by the tasks that write them.

Spark would need an operator for each of these steps (bytes of keys and values, a row for the changelog and one for the steps
behind, a hash in Python for the partition), which cost more than the aggregate: planned anew for each micro-batch, and run
row by row. Here they are some calls over Arrow, in the task that sends the rows anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.streams.lowering.python import HEADERS, OUT_SCHEMA, SinkRows, key_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SEQUENCE", "Results"]

SEQUENCE = bytes(4)
"""What a window store's changelog has behind the window's start where it keeps one value per window."""
LONG_BYTES = 8


@dataclass(frozen=True)
class Results:
    """Changed results to the changelog and to the steps behind the aggregate: yields OUT.

    Takes `_base` (key bytes), `_start` (of the window, in milliseconds; only of windows), `_value` (bytes, or the number
    that eight bytes are to be made of) and `timestamp` (milliseconds).
    """

    changelog: str | None
    tasks: int
    """The changelog's partitions, for windows: their keys lie where their task is."""
    behind: SinkRows | None
    """The steps and sinks behind the aggregate; None where there are none."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make rows of results, in their order."""
        for batch in batches:
            if batch.num_rows:
                records, hashes = self._records(batch)
                if self.changelog is not None:
                    yield self._logged(self.changelog, records, hashes)
                if self.behind is not None:
                    yield from self.behind([records])

    def _records(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64] | None]:
        """Return the results as records, and the hashes of windows' keys without the window."""
        keys, values, count = batch.column("_base"), batch.column("_value"), batch.num_rows
        if pa.types.is_int64(values.type):
            values = big_endian(values)
        columns = {
            "_key": keys,
            "_value": values,
            "timestamp": batch.column("timestamp"),
            "headers": pa.nulls(count, HEADERS),
            "topic": pa.nulls(count, pa.string()),
            "partition": pa.nulls(count, pa.int32()),
            "offset": pa.nulls(count, pa.int64()),
        }
        hashes = None
        if "_start" in batch.schema.names:
            hashes = key_hashes(keys)
            columns["_hash"] = pa.array(hashes.astype(np.int32))
            columns["_key"] = joined(keys, big_endian(batch.column("_start")))
        return pa.RecordBatch.from_pydict(columns), hashes

    def _logged(self, topic: str, records: pa.RecordBatch, hashes: NDArray[np.int64] | None) -> pa.RecordBatch:
        count, keys = records.num_rows, records.column("_key")
        partitions = pa.nulls(count, pa.int32())
        if hashes is not None:
            keys = joined(keys, pa.scalar(SEQUENCE, pa.binary()))
            partitions = pa.array((hashes % self.tasks).astype(np.int32))
        arrays = [
            pa.repeat(pa.scalar(topic, pa.string()), count),
            keys,
            records.column("_value"),
            records.column("timestamp"),
            records.column("headers"),
            partitions,
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=OUT_SCHEMA)


def joined(head: pa.Array, tail: pa.Array | pa.Scalar) -> pa.Array:
    """Return bytes with others behind them."""
    return pc.binary_join_element_wise(head, tail, pa.scalar(b"", pa.binary()))


def big_endian(numbers: pa.Array) -> pa.Array:
    """Return numbers as eight bytes each, the highest first; null stays null."""
    found = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(">i8")
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * LONG_BYTES
    made = pa.Array.from_buffers(
        pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(found.tobytes())]
    )
    return made if not numbers.null_count else pc.if_else(numbers.is_valid(), made, pa.scalar(None, pa.binary()))
