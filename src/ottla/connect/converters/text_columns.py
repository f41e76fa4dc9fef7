"""Many strings at once, in Arrow: what the converters' column methods are made of.

Every function answers None where the strings have to be gone through one by one; the results are the same either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.connect.data.schema import Schema, SchemaType

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["as_strings", "is_plain_string", "octets_of", "unquoted_column"]

_BLANK, _QUOTE, _BACKSLASH = 0x20, 0x22, 0x5C


def is_plain_string(schema: Schema | None) -> bool:
    """Return whether a schema's values are strings and nothing else is to be thought of: no name, no default."""
    return schema is not None and schema.type is SchemaType.STRING and schema.name is None and schema.default is None


def as_strings(data: pa.Array) -> pa.Array | None:
    """Return bytes as strings, None where some are no UTF-8."""
    import pyarrow as pa

    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def octets_of(values: pa.Array) -> NDArray[np.uint8]:
    """Return all bytes of a column of strings or bytes, one value's behind the other's."""
    import numpy as np

    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset)
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def unquoted_column(data: pa.Array, before: bytes, behind: bytes) -> pa.Array | None:
    """Return what stands in JSON's strings between two texts; None where one is anything but a string without escapes."""
    import pyarrow.compute as pc

    head, tail = before + b'"', b'"' + behind
    if data.null_count or not len(data):
        return None
    if pc.min(pc.binary_length(data)).as_py() < len(head) + len(tail):
        return None
    starts, ends = pc.binary_slice(data, 0, len(head)), pc.binary_slice(data, -len(tail))
    if not (pc.all(pc.equal(starts, head)).as_py() and pc.all(pc.equal(ends, tail)).as_py()):
        return None
    inner = pc.binary_slice(data, len(head), -len(tail))
    octets = octets_of(inner)
    if (octets < _BLANK).any() or (octets == _QUOTE).any() or (octets == _BACKSLASH).any():
        return None
    return as_strings(inner)
