"""Rows as PostgreSQL sends them, turned into columns of texts: messages of `pgoutput`, and `COPY` in CSV. Pure.

A column is `pa.binary()`, null where the value is. Both functions look at all rows at once (NumPy, Arrow), so that a row
costs no more Python than to keep its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["columns_of_csv", "columns_of_messages", "numbers_at"]

_TEXT, _NULL = ord("t"), ord("n")
_BYTES_MAX: Final = (1 << 31) - 1
"""Arrow counts the bytes of a column in 31 bits."""


def numbers_at(messages: Sequence[bytes], at: int) -> NDArray[np.int64]:
    """Return the number of 64 bits that stands at a place in each message, big end first."""
    import numpy as np

    data = b"".join([each[at : at + 8] for each in messages])
    return np.frombuffer(data, ">i8").astype(np.int64)


def columns_of_messages(messages: Sequence[bytes], at: int, count: int) -> list[pa.Array] | None:
    """Return the columns of rows that begin `at` bytes behind each message's begin and end with it.

    None where one is not as it has to be, or has a value that was not sent: `pgoutput.decode` says what it is.
    """
    import numpy as np

    data = b"".join(messages)
    if len(data) > _BYTES_MAX:
        return None
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    octets = np.frombuffer(data + bytes(8), np.uint8)  # so that a number can be read wherever a row ends
    place = ends - sizes + at
    bounds = np.empty((len(messages), 2 * count + 1), np.int32)
    """Where each row's values begin and end, and where the next row begins."""
    valid = np.empty((count, len(messages)), np.bool_)
    for column in range(count):
        if (place >= ends).any():
            return None
        kinds = octets[place]
        np.equal(kinds, _TEXT, out=valid[column])
        if not (valid[column] | (kinds == _NULL)).all():
            return None
        size = np.zeros(len(place), np.int64)
        for byte in range(1, 5):
            size = size << 8 | octets[place + byte]
        begin = np.where(valid[column], place + 5, place + 1)
        place = begin + np.where(valid[column], size, 0)
        if (place > ends).any():
            return None
        bounds[:, 2 * column], bounds[:, 2 * column + 1] = begin, place
    if not (place == ends).all():
        return None
    bounds[:, -1] = ends
    return _cut(data, bounds, valid)


def _cut(data: bytes, bounds: NDArray[np.int32], valid: NDArray[np.bool_]) -> list[pa.Array]:
    """Return the columns: every second stretch of the bytes is a value, and Arrow picks those of a column."""
    import numpy as np
    import pyarrow as pa

    rows, width = bounds.shape
    offsets = np.concatenate([np.zeros(1, np.int32), bounds.reshape(-1)])
    whole = pa.Array.from_buffers(pa.binary(), rows * width, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    first = np.arange(1, rows * width, width, dtype=np.int32)
    return [
        whole.take(pa.array(first + 2 * column, mask=None if present.all() else ~present))
        for column, present in enumerate(valid)
    ]


def columns_of_csv(lines: Sequence[bytes | memoryview], count: int) -> list[pa.Array]:
    """Return the columns of rows that `COPY … TO STDOUT (FORMAT csv)` gave; raises pa.ArrowInvalid for what is none.

    Null is nothing at all, and an empty text stands in quotes.
    """
    import pyarrow as pa
    from pyarrow import csv

    # the reader takes a byte order mark at the beginning away, which may be a row's own: not behind a line that is skipped
    data = b"\n" + b"".join(lines)
    names = [str(place) for place in range(count)]
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names, skip_rows=1),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [table.column(place).combine_chunks() for place in range(count)]
