"""Bytes cut into lines: as one Arrow array of text for each piece that was read, with the byte behind every line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.connect import data as connect_data

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

__all__ = ["LineBuffer", "Lines", "cut"]

_LF, _CR = 10, 13


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Whole lines: their text without line ends, and how many bytes of the input each of them ends behind."""

    values: pa.Array
    """`pa.string()`"""

    ends: np.ndarray[Any, Any]
    """int64, one for each line, counted from the beginning of the piece that was cut."""

    def __len__(self) -> int:
        return len(self.ends)


def cut(data: bytes, *, lone_returns: bool) -> Lines:
    """Return the whole lines of some UTF-8 text; what is no UTF-8 becomes U+FFFD, as in Java.

    A line ends with `\\n` or `\\r\\n`, and with a `\\r` by itself where `lone_returns`. What follows the last line end is
    no line yet; nor is what ends with a `\\r` there, for a `\\n` may follow it.
    """
    starts, stops, ends = _bounds(data, lone_returns=lone_returns)
    used = int(ends[-1]) if len(ends) else 0
    if not data.isascii():
        mended = _mended(data[:used])
        if mended is not None:
            starts, stops, _ = _bounds(mended, lone_returns=lone_returns)
            return Lines(_gathered(mended, starts, stops), ends)
    return Lines(_gathered(data, starts, stops), ends)


def _mended(data: bytes) -> bytes | None:
    """Return valid UTF-8 with the same line ends, or None where it is valid already."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors=connect_data.AS_JAVA).encode()
    return None


def _bounds(data: bytes, *, lone_returns: bool) -> tuple[Any, Any, Any]:
    """Return where each whole line begins, where its text stops, and where the next one begins."""
    import numpy as np

    each = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(each == _LF) + 1
    stops = ends - 1
    if b"\r" in data:
        returns = np.flatnonzero(each[:-1] == _CR)
        paired = each[returns + 1] == _LF
        stops = stops - np.isin(stops, returns[paired] + 1)
        if lone_returns:
            lone = returns[~paired]
            stops = np.sort(np.concatenate((stops, lone)))
            ends = np.sort(np.concatenate((ends, lone + 1)))
    starts = np.concatenate((np.zeros(min(len(ends), 1), ends.dtype), ends[:-1]))
    return starts, stops, ends


def _gathered(data: bytes, starts: Any, stops: Any) -> pa.Array:
    """Return the texts between starts and stops: every second element of an array over the same bytes, gathered by Arrow."""
    import numpy as np
    import pyarrow as pa

    count = len(starts)
    if not count:
        return pa.array([], pa.string())
    between = np.empty(2 * count, np.int32)
    between[0::2], between[1::2] = starts, stops
    buffers = [None, pa.py_buffer(between), pa.py_buffer(data)]
    whole = pa.Array.from_buffers(pa.string(), 2 * count - 1, buffers)
    return whole.take(pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))


class LineBuffer:
    """Takes pieces of a stream and gives away its lines, some at a time, in order."""

    def __init__(self, *, lone_returns: bool) -> None:
        self._lone_returns = lone_returns
        self._lines: Lines | None = None
        self._given = 0
        self._rest = b""
        self._base = 0

    @property
    def waiting(self) -> bool:
        """Return whether there are lines to take."""
        return self._lines is not None

    def feed(self, data: bytes) -> None:
        """Take the next piece; lines of the piece before have to be taken first."""
        assert self._lines is None, "take the lines first"
        whole = self._rest + data
        newest = max(len(self._rest) - 1, 0)
        if whole.find(b"\n", newest) < 0 and not (self._lone_returns and whole.find(b"\r", newest) >= 0):
            self._rest = whole
            return
        lines = cut(whole, lone_returns=self._lone_returns)
        if len(lines):
            self._lines, self._given = lines, 0
            self._rest = whole[int(lines.ends[-1]) :]
        else:
            self._rest = whole

    def take(self, most: int | None) -> tuple[pa.Array, int]:
        """Return the next lines, `most` at most, and how many bytes were taken in all when they are."""
        lines = self._lines
        assert lines is not None, "there are no lines"
        stop = len(lines) if most is None else min(self._given + most, len(lines))
        values, taken = lines.values.slice(self._given, stop - self._given), self._base + int(lines.ends[stop - 1])
        self._given = stop
        if stop == len(lines):
            self._base += int(lines.ends[-1])
            self._lines = None
        return values, taken
