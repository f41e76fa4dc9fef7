"""Columns into record batches: the bytes between keys and values for all records at once, and a batch's header around them.

A record is a prefix (length, attributes, deltas, key length), its key, a middle (value length), its value and its headers.
Prefixes and middles are written here as columns of their own, by numpy; whoever holds the keys and values joins the five
element by element, and cuts the result into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ottla.wire.batch import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    CRC_AT,
    HEADER,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Attributes,
    Buffer,
)
from ottla.wire.checksum import crc32c
from ottla.wire.compression import Codec, compress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lengths = NDArray[np.int64]

__all__ = ["BytesColumn", "frame_records", "hash_keys", "pack_batch", "varint_column"]

NULL = -1
MURMUR_SEED = np.uint32(0x9747B28C)
MURMUR_FACTOR = np.uint32(0x5BD1E995)


@dataclass(frozen=True, slots=True, eq=False)
class BytesColumn:
    """Byte strings one behind the other: row i is `data[offsets[i]:offsets[i + 1]]`."""

    data: bytes
    offsets: NDArray[np.int32]


def pack_batch(
    records: Buffer,
    *,
    count: int,
    timestamp_ms: int,
    max_timestamp_ms: int | None = None,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """Return a batch around `count` encoded records, compressed if a codec is named.

    `timestamp_ms` is what the records' timestamp deltas count from; without a maximum it is the timestamp of all.
    """
    latest_ms = timestamp_ms if max_timestamp_ms is None else max_timestamp_ms
    attributes = int(codec) | (Attributes.TRANSACTIONAL if transactional else 0)
    payload = records if codec is Codec.NONE else compress(codec, records)
    batch = bytearray(BATCH_OVERHEAD + len(payload))
    HEADER.pack_into(
        *(batch, 0, 0, len(batch) - LENGTH_END, -1, MAGIC, 0, attributes, count - 1),
        *(timestamp_ms, latest_ms, producer_id, producer_epoch, base_sequence, count),
    )
    batch[BATCH_OVERHEAD:] = payload
    with memoryview(batch) as view:
        batch[CRC_AT:ATTRIBUTES_AT] = crc32c(view[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return batch


def frame_records(
    *,
    key_lengths: Lengths | None,
    value_lengths: Lengths,
    offset_deltas: Lengths,
    header_lengths: Lengths | None,
    timestamp_deltas: Lengths | None = None,
) -> tuple[BytesColumn, BytesColumn | None]:
    """Return every record's prefix and middle; lengths are -1 for null. Without deltas all timestamps are the batch's own.

    Without keys the prefix holds the middle too, and the second is None. `header_lengths` count the header count's varint;
    None means that every record ends with a header count of zero.
    """
    attributes = _Varints([np.zeros(len(value_lengths), np.uint8)], np.ones(len(value_lengths), np.int64))
    stamps = attributes if timestamp_deltas is None else _varints(timestamp_deltas)
    deltas = _varints(offset_deltas)
    keys = _varints(np.full_like(value_lengths, NULL) if key_lengths is None else key_lengths)
    values = _varints(value_lengths)
    body = 1 + stamps.sizes + deltas.sizes + keys.sizes + values.sizes + np.maximum(value_lengths, 0)
    body += 1 if header_lengths is None else header_lengths
    if key_lengths is None:
        return _join(_varints(body), attributes, stamps, deltas, keys, values), None
    body += np.maximum(key_lengths, 0)
    return _join(_varints(body), attributes, stamps, deltas, keys), _join(values)


def varint_column(values: Lengths) -> BytesColumn:
    """Return each value's zigzag varint."""
    return _join(_varints(values))


@dataclass(frozen=True, slots=True, eq=False)
class _Varints:
    """Varints of many rows: their first bytes, their second, and so on, and how many bytes each has."""

    octets: list[NDArray[np.uint8]]
    sizes: NDArray[np.int64]


def _varints(values: Lengths) -> _Varints:
    raw = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    width = max(1, -(-int(raw.max(initial=0)).bit_length() // 7))
    octets = []
    sizes = np.ones(len(raw), np.int64)
    for _ in range(width - 1):
        rest = raw >> np.uint64(7)
        longer = rest > 0
        octets.append(raw.astype(np.uint8) & np.uint8(0x7F) | longer.view(np.uint8) << np.uint8(7))
        sizes += longer
        raw = rest
    return _Varints([*octets, raw.astype(np.uint8)], sizes)


def _join(*parts: _Varints) -> BytesColumn:
    """Lay the varints of each row one behind the other."""
    offsets = np.zeros(len(parts[0].sizes) + 1, np.int32)
    np.cumsum(sum(part.sizes for part in parts), out=offsets[1:])
    found = np.empty(int(offsets[-1]), np.uint8)
    place = offsets[:-1].astype(np.int64)
    for part in parts:
        found[place] = part.octets[0]
        least = int(part.sizes.min(initial=len(part.octets)))
        for index, octets in enumerate(part.octets[1:], 1):
            if index < least:
                found[place + index] = octets
            else:
                longer = np.flatnonzero(part.sizes > index)
                found[place[longer] + index] = octets[longer]
        place += part.sizes
    return BytesColumn(found.tobytes(), offsets)


def hash_keys(data: Buffer, offsets: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return Kafka's murmur2 of each key, without its sign: modulo the partition count it is the default partition."""
    octets = np.frombuffer(data, np.uint8)
    starts = offsets[:-1].astype(np.int64)
    lengths = offsets[1:].astype(np.int64) - starts
    hashed = MURMUR_SEED ^ lengths.astype(np.uint32)
    if octets.size >= 4:
        words = np.ndarray((octets.size - 3,), "<u4", octets, 0, (1,))  # the word at every byte, aligned or not
        counts = lengths >> 2
        for turn in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > turn)
            mixed = words[starts[rows] + 4 * turn] * MURMUR_FACTOR
            mixed ^= mixed >> np.uint32(24)
            mixed *= MURMUR_FACTOR
            hashed[rows] = hashed[rows] * MURMUR_FACTOR ^ mixed
    tails = starts + (lengths & ~3)
    left = lengths & 3
    for index in (2, 1, 0):
        rows = np.flatnonzero(left > index)
        hashed[rows] ^= octets[tails[rows] + index].astype(np.uint32) << np.uint32(8 * index)
    rows = np.flatnonzero(left)
    hashed[rows] *= MURMUR_FACTOR
    hashed ^= hashed >> np.uint32(13)
    hashed *= MURMUR_FACTOR
    hashed ^= hashed >> np.uint32(15)
    return (hashed & np.uint32(0x7FFFFFFF)).astype(np.int32)
