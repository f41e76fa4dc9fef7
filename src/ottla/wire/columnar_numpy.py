"""The numpy design of `columnar`, and what both designs share: deltas into offsets and timestamps, and record headers.

Where each record begins follows from the size of the one before, so that is a loop; it leaps over records of equal size by
comparing their length varints all at once. Everything behind is done for all records at once, varint by varint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ottla.wire.columns import Block, Columns, HeaderColumns, Parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]
    Octets = NDArray[np.uint8]

__all__ = ["NumpyFinder", "assemble"]

LAST_SHIFT = 63
"""The tenth byte of a varint holds one bit."""
INT64_MAX = 0x7FFFFFFFFFFFFFFF
ZIGZAG = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], np.int64)
"""The values of one-byte varints."""
LEAP_MIN = 16
"""Records that a first leap tries; each that succeeds makes the next four times as long, so that a failure costs little."""
INT32_MAX = 0x7FFFFFFF


class NumpyFinder:
    """Finds parts without a compiler's help."""

    def find(self, block: Block) -> Parts:
        """Return the parts of every record; raises IndexError or ValueError."""
        octets = np.frombuffer(block.data, np.uint8)
        pieces: list[Positions] = []
        for span in block.spans:
            if self._starts(block.data, octets, span.begin, span.end, pieces) != span.records:
                raise ValueError(f"{span.records} records were declared, and others are there")
        starts = np.concatenate(pieces)
        sizes, at = _varints(octets, starts)
        ends = at + sizes
        timestamp_deltas, at = _varints(octets, at + 1)  # behind the attributes, unused in v2
        offset_deltas, at = _varints(octets, at)
        if offset_deltas.size and not 0 <= int(offset_deltas.min()) <= int(offset_deltas.max()) <= INT32_MAX:
            raise ValueError("an offset delta is out of range")
        key_bounds, key_nulls, at = _binary(octets, at, ends)
        value_bounds, value_nulls, at = _binary(octets, at, ends)
        counts, at = _varints(octets, at)
        if bool(((counts < 0) | (counts > ends - at) | ((counts == 0) & (at != ends))).any()):
            raise ValueError("a record does not end where it declares")
        return Parts(
            offset_deltas,
            timestamp_deltas,
            key_bounds,
            key_nulls,
            value_bounds,
            value_nulls,
            counts.astype(np.int32),
            at,
        )

    @staticmethod
    def _starts(data: bytes, octets: Octets, pos: int, end: int, pieces: list[Positions]) -> int:
        """Add where each record between `pos` and `end` begins; return how many they are."""
        found = 0
        singles: list[int] = []
        while pos < end:
            byte = data[pos]
            head, raw = (1, byte) if byte < 0x80 else _long_size(data, pos, byte)
            whole = head + (raw >> 1)
            if raw & 1 or whole > end - pos:
                raise ValueError("a record passes its batch's end")
            following = pos + whole
            varint = data[pos : pos + head]
            twice = following + whole
            if data[following : following + head] != varint or data[twice : twice + head] != varint:
                singles.append(pos)
                pos = following
                continue
            if singles:
                pieces.append(np.array(singles, np.int64))
                found += len(singles)
                singles = []
            run = _equal_run(octets, pos, end, whole, head)
            pieces.append(np.arange(pos, pos + run * whole, whole, dtype=np.int64))
            found += run
            pos += run * whole
        if singles:
            pieces.append(np.array(singles, np.int64))
        return found + len(singles)


def _long_size(data: bytes, pos: int, byte: int) -> tuple[int, int]:
    """Return (bytes of the length varint, its raw value) where it has more than one byte."""
    raw, shift, head = byte & 0x7F, 7, 1
    while byte >= 0x80:
        byte = data[pos + head]
        raw |= (byte & 0x7F) << shift
        shift += 7
        head += 1
        if head > 5:
            raise ValueError("a record's length is too long")
    return head, raw


def _equal_run(octets: Octets, pos: int, end: int, whole: int, head: int) -> int:
    """Return how many records from `pos` on have this size: the next begins where this one ends, and so on."""
    possible = (end - pos) // whole
    run, step = 1, LEAP_MIN
    while run < possible:
        step = min(step, possible - run)
        first = pos + run * whole
        stop = first + step * whole
        equal = octets[first:stop:whole] == octets[pos]
        for byte in range(1, head):
            equal &= octets[first + byte : stop : whole] == octets[pos + byte]
        least = int(equal.argmin())
        if not equal[least]:
            return run + least
        run += step
        step *= 4
    return run


def _varints(octets: Octets, at: Positions) -> tuple[Positions, Positions]:
    """Read one zigzag varint at each position; return the values and the positions after them."""
    byte = octets[at]
    at = at + 1
    if not byte.size or int(byte.max()) < 0x80:
        return ZIGZAG[byte], at
    second = octets.take(at, mode="clip")
    longer = byte >= 0x80
    if bool((second[longer] >= 0x80).any()):
        return _long_varints(octets, byte, at)
    raw = (byte & 0x7F).astype(np.int64)
    raw |= (second * longer).astype(np.int64) << 7
    return (raw >> 1) ^ -(raw & 1), at + longer


def _long_varints(octets: Octets, byte: Octets, at: Positions) -> tuple[Positions, Positions]:
    """Read on behind the first byte of each varint, those of one byte left as they are."""
    raw = (byte & 0x7F).astype(np.int64)
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while more.size:
        byte = octets[at[more]]
        if shift == LAST_SHIFT and int(byte.max()) > 1:
            raise ValueError("a varint is too long")
        raw[more] |= (byte & 0x7F).astype(np.int64) << shift
        at[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    return ((raw >> 1) & INT64_MAX) ^ -(raw & 1), at


def _binary(octets: Octets, at: Positions, ends: Positions) -> tuple[NDArray[np.int32], NDArray[np.bool_], Positions]:
    """Read one length and step over so many bytes at each position; return interleaved bounds, nulls, positions after."""
    sizes, at = _varints(octets, at)
    nulls = sizes < 0
    sizes = np.maximum(sizes, 0)
    if bool((sizes > ends - at).any()):
        raise ValueError("a key or value passes its record's end")
    bounds = np.empty(2 * at.size, np.int32)
    bounds[0::2] = at
    at = at + sizes
    bounds[1::2] = at
    return bounds, nulls, at


def assemble(block: Block, parts: Parts, *, with_headers: bool) -> Columns:
    """Turn parts into columns: deltas become offsets and timestamps by each batch's header."""
    counts, base_offsets, base_timestamps = (
        np.array(column, np.int64) for column in zip(*(span[2:5] for span in block.spans), strict=True)
    )
    offsets = np.repeat(base_offsets, counts)
    offsets += parts.offset_deltas
    if offsets.size > 1 and not bool((offsets[1:] > offsets[:-1]).all()):
        raise ValueError("offsets do not rise")
    timestamps = np.repeat(base_timestamps, counts)
    timestamps += parts.timestamp_deltas
    stamped = np.array([span.log_append_time for span in block.spans], np.bool_)
    by_log = np.repeat(stamped, counts)
    if bool(stamped.any()):
        latest = np.array([span.max_timestamp for span in block.spans], np.int64)
        timestamps = np.where(by_log, np.repeat(latest, counts), timestamps)
    return Columns(
        block.data,
        offsets,
        timestamps,
        by_log,
        parts.key_bounds,
        parts.key_nulls,
        parts.value_bounds,
        parts.value_nulls,
        _headers(block, parts) if with_headers else None,
    )


def _headers(block: Block, parts: Parts) -> HeaderColumns:
    """Find every header: round by round, the first ones of all records, then the second ones of those that have them."""
    octets = np.frombuffer(block.data, np.uint8)
    counts = parts.header_counts.copy()
    rows = np.flatnonzero(counts)
    at = parts.headers_at[rows].astype(np.int64)
    limit = np.full(rows.size, len(block.data), np.int64)
    first_of_row = np.cumsum(counts, dtype=np.int64) - counts
    total = int(counts.sum(dtype=np.int64))
    if total > len(block.data) // 2:
        raise ValueError(f"{total} headers do not fit into {len(block.data)} bytes")
    key_bounds, value_bounds = np.empty((total, 2), np.int32), np.empty((total, 2), np.int32)
    value_nulls = np.empty(total, np.bool_)
    turn = 0
    while rows.size:
        targets = first_of_row[rows] + turn
        keys, key_nulls, at = _binary(octets, at, limit)
        if bool(key_nulls.any()):
            raise ValueError("a header has no key")
        values, nulls, at = _binary(octets, at, limit)
        key_bounds[targets] = keys.reshape(-1, 2)
        value_bounds[targets] = values.reshape(-1, 2)
        value_nulls[targets] = nulls
        turn += 1
        left = counts[rows] > turn
        rows, at, limit = rows[left], at[left], limit[left]
    found = HeaderColumns(counts, key_bounds.reshape(-1), value_bounds.reshape(-1), value_nulls)
    for bounds in (found.key_bounds, found.value_bounds):
        if bool((bounds[1:] < bounds[:-1]).any()):  # a header that reaches into the next record
            raise ValueError("a header passes its record's end")
    return found
