"""Arrow record batches of a sink into Kafka record batches: rows to partitions, all of them encoded at once, cut, packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.base import TopicPartition
from ottla.wire import BytesColumn, frame_records, hash_keys, varint, varint_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "EncodedBatch",
    "Placed",
    "Rows",
    "TopicRows",
    "binary",
    "binary_parts",
    "encode_placed",
    "encode_rows",
    "groups_by_topic",
    "milliseconds",
    "place_rows",
]

RECORD_OVERHEAD_MAX = 36
"""At most so many bytes of a record are neither key, value nor headers."""
JOINED_BYTES_MAX = 1 << 30
"""Bytes of records that are encoded at once: Arrow counts the bytes of a column in 31 bits."""
NO_HEADERS = b"\x00"
FEW_ROWS = 16
"""So many rows are encoded one by one: columns of them cost 0.4 ms whatever they hold, 16 rows 0.1 ms."""
MICROS_PER_MILLI = 1000


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns as a topic takes them; those that the query does not have are None."""

    value: pa.Array
    key: pa.Array | None = None
    headers: pa.Array | None = None
    """Lists of keys and values; dictionary-encoded where rows have the same."""
    partition: pa.Array | None = None
    timestamp: pa.Array | None = None
    """Milliseconds, none of them null."""

    def take(self, indices: pa.Array) -> Rows:
        """Return some rows, in another order."""
        columns = (self.value, self.key, self.headers, self.partition, self.timestamp)
        return Rows(*(column if column is None else column.take(indices) for column in columns))

    def slice(self, first: int, last: int) -> Rows:
        """Return rows `first` to `last`, the latter excluded, over the same buffers."""
        columns = (self.value, self.key, self.headers, self.partition, self.timestamp)
        return Rows(*(column if column is None else column.slice(first, last - first) for column in columns))


@dataclass(frozen=True)
class EncodedBatch:
    """A batch's records, encoded, and how many they are; times are None where the records have none of their own.

    `rows` are the same records, for a batch that is too large for its topic.
    """

    partition: TopicPartition
    records: memoryview
    count: int
    rows: Rows
    timestamp_ms: int | None = None
    """The first record's, from which the others' deltas count."""
    max_timestamp_ms: int | None = None

    def halves(self) -> list[EncodedBatch]:
        """Return a batch of several records, which is too large for its topic, as two."""
        rows, half = self.rows, self.count // 2
        target = TopicRows(self.partition.topic, 0, self.partition.partition)
        found: list[EncodedBatch] = []
        for part in (rows.slice(0, half), rows.slice(half, self.count)):
            found += encode_placed(Placed(part, None, None), target, batch_bytes=1 << 30)
        return found


@dataclass(frozen=True)
class TopicRows:
    """A topic, how many partitions it has, and where rows without key go this time."""

    topic: str
    partition_count: int
    keyless_partition: int


@dataclass(frozen=True, eq=False)
class Placed:
    """Rows in the order in which they are sent: by partition, and in their own order within each."""

    rows: Rows
    partitions: NDArray[np.int32] | None
    """Each row's; None where all go to the topic's `keyless_partition`."""

    order: NDArray[np.int64] | None
    """Where each row stood before; None where it stands there still."""


def place_rows(rows: Rows, target: TopicRows) -> Placed:
    """Decide each row's partition: a `partition` column where it is not null, else the key as in Kafka's partitioner.

    Raises ValueError for a partition that the topic does not have.
    """
    partitions = _partitions(rows, target)
    if partitions is None:
        return Placed(rows, None, None)
    order = np.argsort(partitions, kind="stable")
    return Placed(rows.take(pa.array(order)), partitions[order], order)


def encode_rows(
    rows: Rows, target: TopicRows, *, batch_bytes: int, joined_bytes_max: int = JOINED_BYTES_MAX
) -> Iterator[EncodedBatch]:
    """Yield batches of about `batch_bytes`, placed as `place_rows` has it; raises ValueError as that does.

    No more than `joined_bytes_max` are encoded together.
    """
    for part in _parted(rows, joined_bytes_max):
        yield from encode_placed(place_rows(part, target), target, batch_bytes=batch_bytes)


def _parted(rows: Rows, bytes_max: int) -> Iterator[Rows]:
    """Yield rows in parts of so many bytes; a row alone may be more."""
    count = len(rows.value)
    columns = (rows.value, rows.key, rows.headers)
    size = sum(each.nbytes for each in columns if each is not None) + count * RECORD_OVERHEAD_MAX
    if count < 2 or size <= bytes_max:
        yield rows
        return
    yield from _parted(rows.slice(0, count // 2), bytes_max)
    yield from _parted(rows.slice(count // 2, count), bytes_max)


def encode_placed(placed: Placed, target: TopicRows, *, batch_bytes: int) -> Iterator[EncodedBatch]:
    """Yield batches of about `batch_bytes` in the rows' order."""
    rows, partitions = placed.rows, placed.partitions
    encoded = _Encoder(rows)
    pieces = _cuts(encoded.sizes, partitions, batch_bytes)
    records = encoded.join(pieces)
    offsets = np.frombuffer(records.buffers()[1], np.int32, len(records) + 1, 4 * records.offset)
    data = memoryview(records.buffers()[2])
    times = encoded.timestamps
    latest = np.maximum.reduceat(times, pieces[:-1]) if times is not None and len(times) else None
    for index, (first, last) in enumerate(pairwise(pieces)):
        partition = target.keyless_partition if partitions is None else int(partitions[first])
        view = data[int(offsets[first]) : int(offsets[last])]
        key, mine = TopicPartition(target.topic, partition), rows.slice(int(first), int(last))
        if times is None or latest is None:
            yield EncodedBatch(key, view, int(last - first), mine)
        else:
            yield EncodedBatch(key, view, int(last - first), mine, int(times[first]), int(latest[index]))


def _partitions(rows: Rows, target: TopicRows) -> NDArray[np.int32] | None:
    """Return each row's partition, or None where all rows go to the same."""
    if target.partition_count == 1 and rows.partition is None:
        return None
    key = rows.key if rows.key is not None and rows.key.null_count < len(rows.key) else None
    if key is None and rows.partition is None:
        return None
    found = np.full(len(rows.value), target.keyless_partition, np.int32)
    if key is not None:
        data, offsets = binary_parts(key)
        hashed = hash_keys(data, offsets) % np.int32(target.partition_count)
        found = np.where(_valid(key), hashed, found)
    if rows.partition is not None:
        asked = pc.fill_null(rows.partition.cast(pa.int32()), -1).to_numpy(zero_copy_only=False)
        explicit = _valid(rows.partition)
        wrong = explicit & ((asked < 0) | (asked >= target.partition_count))
        if bool(wrong.any()):
            raise ValueError(
                f"column partition says {int(asked[wrong][0])}; topic {target.topic} has partitions 0 to "
                f"{target.partition_count - 1}"
            )
        found = np.where(explicit, asked, found)
    return found.astype(np.int32)


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def binary_parts(column: pa.Array) -> tuple[memoryview, NDArray[np.int32]]:
    """Return a binary column's bytes and offsets."""
    _, offsets, data = column.buffers()
    found = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    return memoryview(data) if data is not None else memoryview(b""), found


def _cuts(sizes: NDArray[np.int64], partitions: NDArray[np.int32] | None, batch_bytes: int) -> NDArray[np.int64]:
    """Return where batches begin, and the end: at a new partition, every `batch_bytes`, and around a larger record."""
    count = len(sizes)
    begins = np.cumsum(sizes) - sizes
    first = np.zeros(count, np.bool_)
    first[:1] = True
    if partitions is not None:
        first[1:] |= partitions[1:] != partitions[:-1]
        heads = np.flatnonzero(first)
        begins = begins - np.repeat(begins[heads], np.diff(np.append(heads, count)))
    turn = begins // batch_bytes
    first[1:] |= turn[1:] != turn[:-1]
    large = sizes > batch_bytes
    first |= large
    first[1:] |= large[:-1]
    return np.append(np.flatnonzero(first), count)


class _Encoder:
    """Encodes rows once it is known where batches begin."""

    def __init__(self, rows: Rows) -> None:
        self._value = rows.value
        self._key = rows.key if rows.key is not None and rows.key.null_count < len(rows.key) else None
        self._headers = _header_blobs(rows.headers) if rows.headers is not None else None
        self._value_lengths = _lengths(self._value)
        self._key_lengths = _lengths(self._key) if self._key is not None else None
        self._header_lengths = _lengths(self._headers) if self._headers is not None else None
        self.sizes = np.maximum(self._value_lengths, 0) + RECORD_OVERHEAD_MAX
        """An upper bound of each record's bytes."""
        self.timestamps = rows.timestamp.to_numpy(zero_copy_only=False) if rows.timestamp is not None else None
        for lengths in (self._key_lengths, self._header_lengths):
            if lengths is not None:
                self.sizes += np.maximum(lengths, 0)

    def join(self, pieces: NDArray[np.int64]) -> pa.Array:
        """Return every record, encoded; offset and timestamp deltas count from the batch's first."""
        if len(self._value) <= FEW_ROWS:
            return self._join_few(pieces.tolist())
        deltas = np.arange(len(self._value)) - np.repeat(pieces[:-1], np.diff(pieces))
        times = self.timestamps
        prefix, middle = frame_records(
            key_lengths=self._key_lengths,
            value_lengths=self._value_lengths,
            offset_deltas=deltas,
            header_lengths=self._header_lengths,
            timestamp_deltas=None if times is None else times - np.repeat(times[pieces[:-1]], np.diff(pieces)),
        )
        tail = self._headers if self._headers is not None else pa.scalar(NO_HEADERS, pa.binary())
        parts = [_arrow(prefix), self._value, tail]
        if middle is not None:
            parts[1:1] = [self._key, _arrow(middle)]
        return pc.binary_join_element_wise(
            *parts, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
        )

    def _join_few(self, pieces: list[int]) -> pa.Array:
        count = len(self._value)
        values: list[bytes | None] = self._value.to_pylist()
        keys: list[bytes | None] = [None] * count if self._key is None else self._key.to_pylist()
        headers: list[bytes] = [NO_HEADERS] * count if self._headers is None else self._headers.to_pylist()
        times = [0] * count if self.timestamps is None else self.timestamps.tolist()
        found: list[bytes] = []
        for first, last in pairwise(pieces):
            for row in range(first, last):
                stamp, delta = varint(times[row] - times[first]), varint(row - first)
                body = b"".join((b"\0", stamp, delta, _sized(keys[row]), _sized(values[row]), headers[row]))
                found.append(varint(len(body)) + body)
        return pa.array(found, pa.binary())


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """Return each value's bytes, -1 for null."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
    lengths = np.diff(offsets).astype(np.int64)
    if column.null_count:
        lengths[~_valid(column)] = -1
    return lengths


def _arrow(column: BytesColumn) -> pa.Array:
    count = len(column.offsets) - 1
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)])


def _header_blobs(headers: pa.Array) -> pa.Array:
    """Return each row's headers as they stand in a record: their count, then key and value of each."""
    if pa.types.is_dictionary(headers.type):
        return _header_blobs(headers.dictionary).take(headers.indices)
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = headers.flatten()  # leaves out what lies under null lists
    keys, values = pairs.field("key").cast(pa.binary()), pairs.field("value").cast(pa.binary())
    if pairs.null_count or keys.null_count:
        raise ValueError("column headers has a header without key")
    flat = pc.binary_join_element_wise(
        *(_arrow(varint_column(_lengths(keys))), keys, _arrow(varint_column(_lengths(values))), values),
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement=b"",
    )
    ends = np.append(0, np.cumsum(counts))
    _, offsets, data = flat.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(flat) + 1)[ends]
    joined = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(bounds), data])
    return pc.binary_join_element_wise(_arrow(varint_column(counts)), joined, pa.scalar(b"", pa.binary()))


def binary(column: pa.Array) -> pa.Array:
    """Return a string or binary column as binary; its bytes stay where they are."""
    return column if column.type == pa.binary() else column.cast(pa.binary())


def milliseconds(column: pa.Array, now_ms: int) -> pa.Array:
    """Return a column of timestamps, or of milliseconds, as milliseconds, with `now_ms` where it is null.

    Raises ValueError for a time before 1970, which Kafka's producers refuse as well.
    """
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
        found = pc.fill_null(micros, now_ms * MICROS_PER_MILLI).to_numpy(zero_copy_only=False) // MICROS_PER_MILLI
    else:
        found = pc.fill_null(column, now_ms).to_numpy(zero_copy_only=False)
    if found.min(initial=0) < 0:
        raise ValueError(f"column timestamp says {int(found.min())} ms; a record's time is not before 1970")
    return pa.array(found)


def groups_by_topic(topics: pa.Array) -> Sequence[tuple[str, pa.Array]]:
    """Return (topic, indices of its rows) for each topic in a column; raises ValueError for null."""
    if topics.null_count:
        raise ValueError("column topic is null in a row, and the option topic is not set")
    encoded = topics.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return [
        (topic, pa.array(np.flatnonzero(codes == code))) for code, topic in enumerate(encoded.dictionary.to_pylist())
    ]
