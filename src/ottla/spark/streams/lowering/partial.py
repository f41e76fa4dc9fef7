"""Counts taken where records are fetched: Spark's aggregate adds up a row per key, window and some ten thousand of these.

A count of counts is a count, and a group's newest time stands for all its times: windows hold either all of a group or
nothing, since groups are no wider than the distance between two window bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.spark.streams.lowering.poison import Poison
from ottla.streams import TimeWindows

if TYPE_CHECKING:
    from ottla.spark.streams.lowering.chain import Chain, ChainEnd, Rows

__all__ = ["COUNTS", "Counting", "bucket_ms", "counted", "merged"]

COUNTS = "_base binary, _argument bigint, timestamp bigint"
MERGED_ROWS = 65_536
"""Counts of fetched batches are added up here, before Spark sees them, when there are so many of them."""
SCHEMA = pa.schema([("_base", pa.binary()), ("_argument", pa.int64()), ("timestamp", pa.int64())])


def bucket_ms(windows: TimeWindows | None) -> int:
    """Return the distance of which all windows' bounds are multiples; 0 without windows."""
    return 0 if windows is None else gcd(windows.size_ms, windows.advance_ms)


@dataclass(frozen=True)
class Counting:
    """Records to counts: yields COUNTS, without records that have no key or no value."""

    chain: Chain
    bucket: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run batches through the chain and count what arrives at its end."""
        yield from merged(self._counts(batches), self.bucket)

    def _counts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            poison = Poison(batch)
            for end, rows in self.chain.leave(batch, poison):
                rows = rows.where(rows.keys.present() & rows.values.present())
                if len(rows):
                    times = batch.column("timestamp").to_numpy()[rows.index]
                    yield counted(self._keys(rows, end, poison), times, self.bucket)

    def _keys(self, rows: Rows, end: ChainEnd, poison: Poison) -> pa.Array:
        def refused(at: int, error: Exception) -> Any:
            poison.met(self.chain.production, end.name, int(rows.index[at]), error)

        keys, items = rows.keys.raw(end.key, refused)
        assert items is None, "handlers that skip records are not asked for counts"
        return keys


def merged(batches: Iterable[pa.RecordBatch], bucket: int) -> Iterator[pa.RecordBatch]:
    """Add up counts of several batches, as long as that makes them fewer by half."""
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        parts.append(batch)
        if sum(each.num_rows for each in parts) >= MERGED_ROWS:
            whole = _sum(parts, bucket)
            parts = [whole]
            if whole.num_rows * 2 >= MERGED_ROWS:
                yield whole
                parts = []
    if parts:
        yield _sum(parts, bucket)


def _sum(parts: list[pa.RecordBatch], bucket: int) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    whole = pa.Table.from_batches(parts).combine_chunks()
    keys, counts, times = (column.chunk(0) for column in whole.columns)
    return counted(keys, times.to_numpy(), bucket, counts)


def counted(keys: pa.Array, times: Any, bucket: int, counts: pa.Array | None = None) -> pa.RecordBatch:
    """Return a row for each key and stretch of time: the key, how many there are, the newest time.

    `counts` says how many each key and time stand for; one if it is not given.
    """
    coded = keys.dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    spread = 1
    if bucket:
        places = np.floor_divide(times, bucket)
        places = places - places.min()
        spread = int(places.max()) + 1
        codes = codes * spread + places
    columns = {"code": codes, "time": times} if counts is None else {"code": codes, "time": times, "count": counts}
    how = ("code", "count") if counts is None else ("count", "sum")
    grouped = pa.table(columns).group_by("code", use_threads=False)
    found = grouped.aggregate([how, ("time", "max")]).combine_chunks()
    which = np.floor_divide(found.column("code").to_numpy(), spread)
    arrays = [
        coded.dictionary.take(pa.array(which)),
        *(found.column(name).combine_chunks() for name in ("_".join(how), "time_max")),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
