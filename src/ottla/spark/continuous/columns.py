"""Fetched columns as an executor takes them: as records, or as a block."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.base import TopicPartition
from ottla.client.arrow.gathering import Gatherer
from ottla.streams import BlockRecords, Record
from ottla.wire import Columns, text_of

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
        _headers(columns),
        columns.offsets,
        *partition,
        lambda: records_of(columns, *partition),
    )


def records_of(columns: Columns, topic: str, partition: int) -> list[Record]:
    """Return columns as the engine's records."""
    data = columns.data
    keys = _cells(data, columns.key_bounds, columns.key_nulls)
    values = _cells(data, columns.value_bounds, columns.value_nulls)
    headers = _headers(columns)
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


def _cells(data: bytes, bounds: np.typing.NDArray[np.int32], nulls: np.typing.NDArray[np.bool_]) -> list[bytes | None]:
    pairs = iter(bounds.tolist())
    if not nulls.any():
        return [data[start:end] for start, end in zip(pairs, pairs, strict=True)]
    return [
        None if is_null else data[start:end] for start, end, is_null in zip(pairs, pairs, nulls.tolist(), strict=True)
    ]


def _headers(columns: Columns) -> list[Headers] | None:
    """Return each record's headers; None where no record has any."""
    headers = columns.headers
    if headers is None or not headers.counts.any():
        return None
    data, bounds = columns.data, headers.key_bounds.tolist()
    keys = [text_of(data[start:end]) for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    values = _cells(data, headers.value_bounds, headers.value_nulls)
    pairs = list(zip(keys, values, strict=True))
    found, at = [], 0
    for count in headers.counts.tolist():
        found.append(tuple(pairs[at : at + count]))
        at += count
    return found
