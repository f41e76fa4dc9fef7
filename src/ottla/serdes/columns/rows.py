"""Where many rows' bytes stand, and reading the same thing from all of them at once.

Every read moves all rows on, and raises BadBytesError where one of them ends before what is read: which one, nobody looks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["PADDING", "BadBytesError", "Numbers", "Rows", "slices"]

Numbers = Any
"""An array of numpy's."""
PADDING = 16
"""How many bytes have to be behind the last row, so that a read may look beyond it."""
ONE_BYTE_MAX = 0x80
WORD_BYTES = 8
VARINT_BYTES_MAX = 10
_TOPS = np.uint64(0x8080808080808080)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


class BadBytesError(Exception):
    """The bytes of at least one row are no value of the schema."""


class Rows:
    """Rows' bytes: `data` with PADDING behind, and where each row is read and ends. They stand in the bytes' order."""

    __slots__ = ("_words", "data", "end", "pos")

    def __init__(self, data: Numbers, pos: Numbers, end: Numbers, words: Numbers = None) -> None:
        self.data, self.pos, self.end = data, pos, end
        self._words = self._at_any_byte("<u8") if words is None else words

    def _at_any_byte(self, kind: str) -> Numbers:
        return np.ndarray((len(self.data) - WORD_BYTES + 1,), kind, self.data, strides=(1,))

    def __len__(self) -> int:
        return len(self.pos)

    def some(self, which: Numbers) -> Rows:
        """Return some of the rows, which are read on their own; `resume` says how far they came."""
        return Rows(self.data, self.pos[which], self.end[which], self._words)

    def at(self, pos: Numbers, end: Numbers) -> Rows:
        """Return other places in the same bytes."""
        return Rows(self.data, pos, end, self._words)

    def resume(self, which: Numbers, other: Rows) -> None:
        """Go on where some of the rows have come to."""
        self.pos[which] = other.pos

    def _moved(self, by: Numbers) -> None:
        self.pos = self.pos + by
        if (self.pos > self.end).any():
            raise BadBytesError

    def bytes_each(self) -> Numbers:
        """Return one byte of each row."""
        found = self.data[self.pos]
        self._moved(1)
        return found

    def fixed(self, kind: str) -> Numbers:
        """Return a number of each row, as it stands there in 4 or 8 bytes."""
        found = self._at_any_byte(kind)[self.pos]
        self._moved(found.dtype.itemsize)
        return found

    def span(self, size: int) -> Numbers:
        """Move over so many bytes of each row, and return where those began."""
        begun = self.pos
        self._moved(size)
        return begun

    def spans(self) -> tuple[Numbers, Numbers]:
        """Move over a length and that many bytes of each row; returns where those began, and how many they are."""
        lengths = self.varints()
        if (lengths < 0).any() or (lengths > self.end - self.pos).any():
            raise BadBytesError
        begun = self.pos
        self.pos = begun + lengths
        return begun, lengths

    def varints(self) -> Numbers:
        """Return a whole number of each row: zigzag, in groups of seven bits."""
        first = self.data[self.pos]
        if not (first >= ONE_BYTE_MAX).any():
            self._moved(1)
            return (first >> 1).astype(np.int64) ^ -(first & 1).astype(np.int64)
        word = self._words[self.pos]
        stop = ~word & _TOPS
        lowest = stop & (_ZERO - stop)
        mask = lowest | (lowest - _ONE)  # all bits up to the last byte's top; all of them where the number is longer
        value = word & mask & _SEVENS
        for low, high, shift in _FOLDS:
            value = (value & low) | ((value & high) >> shift)
        lengths = (np.bitwise_count(mask) >> 3).astype(np.int64)
        longer = np.flatnonzero(stop == _ZERO)
        if len(longer):
            self._lengthen(longer, value, lengths)
        self._moved(lengths)
        return (value >> _ONE).view(np.int64) ^ -(value & _ONE).view(np.int64)

    def _lengthen(self, which: Numbers, value: Numbers, lengths: Numbers) -> None:
        """Read on where a number has more than eight bytes."""
        for count in range(WORD_BYTES, VARINT_BYTES_MAX):
            byte = self.data[self.pos[which] + count].astype(np.uint64)
            if count == VARINT_BYTES_MAX - 1 and (byte > _ONE).any():
                raise BadBytesError  # more than 64 bits
            value[which] |= (byte & np.uint64(0x7F)) << np.uint64(7 * count)
            lengths[which] = count + 1
            which = which[byte >= ONE_BYTE_MAX]
            if not len(which):
                return
        raise BadBytesError


def slices(data: Numbers, begun: Numbers, lengths: Numbers) -> pa.Array:
    """Return stretches of bytes as a column; they stand in order."""
    count = len(begun)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2], offsets[1::2], offsets[-1] = begun, begun + lengths, len(data)
    # each stretch and what is between it and the next one
    both = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
