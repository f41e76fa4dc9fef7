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
_COPIED_BYTES_MAX: Final = 64
"""Up to so many bytes a value has on average, its bytes are picked one by one; longer ones are cut out whole."""


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
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    octets = np.frombuffer(data + bytes(8), np.uint8)  # so that a number can be read wherever a row ends
    place = ends - sizes + at
    found: list[pa.Array] = []
    for _ in range(count):
        if (place >= ends).any():
            return None
        kinds = octets[place]
        valid = kinds == _TEXT
        if not (valid | (kinds == _NULL)).all():
            return None
        size = np.zeros(len(place), np.int64)
        for byte in range(1, 5):
            size = size << 8 | octets[place + byte]
        size = np.where(valid, size, 0)
        begin = np.where(valid, place + 5, place + 1)
        place = begin + size
        if (place > ends).any():
            return None
        found.append(_cut(data, octets, begin, size, valid))
    return found if (place == ends).all() else None


def _cut(
    data: bytes, octets: NDArray[np.uint8], begin: NDArray[np.int64], size: NDArray[np.int64], valid: NDArray[np.bool_]
) -> pa.Array:
    """Return pieces of all messages' bytes."""
    import numpy as np
    import pyarrow as pa

    total = int(size.sum())
    if total > _COPIED_BYTES_MAX * len(size):
        ends = (begin + size).tolist()
        rows = zip(begin.tolist(), ends, valid.tolist(), strict=True)
        return pa.array([data[first:last] if is_valid else None for first, last, is_valid in rows], pa.binary())
    offsets = np.zeros(len(size) + 1, np.int32)
    np.cumsum(size, out=offsets[1:])
    index = np.repeat(begin - offsets[:-1], size) + np.arange(total)
    nulls = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(size), [nulls, pa.py_buffer(offsets), pa.py_buffer(octets[index])])


def columns_of_csv(lines: Sequence[bytes], count: int) -> list[pa.Array]:
    """Return the columns of rows that `COPY … TO STDOUT (FORMAT csv)` gave; raises pa.ArrowInvalid for what is none.

    Null is nothing at all, and an empty text stands in quotes.
    """
    import pyarrow as pa
    from pyarrow import csv

    data = b"".join(lines)
    names = [str(place) for place in range(count)]
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [table.column(place).combine_chunks() for place in range(count)]
