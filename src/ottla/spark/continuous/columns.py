"""Fetched columns as an executor takes them: as records, or as a block."""

from __future__ import annotations

import pyarrow as pa

from ottla.base import TopicPartition
from ottla.client.arrow.gathering import Gatherer
from ottla.streams import BlockRecords, Record
from ottla.wire import Columns

__all__ = ["block_of", "records_of"]

Headers = tuple[tuple[str, bytes | None], ...]
_GATHERER = Gatherer()


def block_of(columns: Columns, partition: TopicPartition) -> BlockRecords:
    """Return columns as an engine's block."""
    data = pa.py_buffer(columns.data)
    return BlockRecords(
        _GATHERER.gather(data, columns.key_bounds, columns.key_nulls),
        _GATHERER.gather(data, columns.value_bounds, columns.value_nulls),
        columns.timestamps_ms,
        columns.header_pairs(),
        lambda row: (*partition, int(columns.offsets[row])),
        lambda: records_of(columns, *partition),
    )


def records_of(columns: Columns, topic: str, partition: int) -> list[Record]:
    """Return columns as the engine's records."""
    keys, values, headers = columns.keys(), columns.values(), columns.header_pairs()
    new = tuple.__new__  # a named tuple's own constructor takes twice as long
    times, offsets = columns.timestamps_ms.tolist(), columns.offsets.tolist()
    if headers is None:
        return [
            new(Record, (key, value, time, (), topic, partition, offset))
            for key, value, time, offset in zip(keys, values, times, offsets, strict=True)
        ]
    return [
        new(Record, (key, value, time, found, topic, partition, offset))
        for key, value, time, offset, found in zip(keys, values, times, offsets, headers, strict=True)
    ]
