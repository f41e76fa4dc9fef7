"""Columns of values as JSON text, all rows at once in Arrow, with the same bytes that `json_write` makes one by one.

A column's text is an array of strings, or one text where all rows have the same. What Arrow cannot write as Jackson does
(fractions, bytes, texts with control characters) is written value by value, and the rest around it still at once.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from ottla.connect.converters.json_text import quoted
from ottla.connect.converters.json_write import Write, writer_of
from ottla.connect.converters.text_columns import octets_of
from ottla.connect.data.arrow import joined_texts, scalar_type, values_of_column
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import DECIMAL

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["ColumnWriter", "base64_of_decimals"]

_PLAIN = frozenset((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.BOOLEAN))
"""What Arrow writes as JSON has it."""
_BLANK, _QUOTE, _BACKSLASH = 0x20, 0x22, 0x5C
_FOUR_BYTES = 0xF0
"""The first byte of a character beyond 16 bits, which Jackson writes as digits, as it does control characters."""


class ColumnWriter:
    """Writes columns of one schema; `write` returns None for what has to be written, or refused, value by value."""

    def __init__(self, schema: Schema, *, numeric: bool, replace_null: bool) -> None:
        """`numeric` is `decimal.format`, `replace_null` puts defaults for null (see `writer_of`)."""
        self._schema = schema
        self._how = {"numeric": numeric, "replace_null": replace_null}
        self._is_struct = schema.type is SchemaType.STRUCT
        self._is_base64 = schema.name == DECIMAL and not numeric
        self._is_plain = schema.type in _PLAIN and schema.name != DECIMAL
        self._is_text = schema.type is SchemaType.STRING and schema.name != DECIMAL
        has_default = schema.default is not None and replace_null
        self._null: str | None = self._one(None) if has_default else "null" if schema.optional else None
        """What null is written as; None where it may not be."""
        self._fields = [ColumnWriter(each.schema, **self._how) for each in schema.struct_fields]
        names = [f"{quoted(each.name)}:" for each in schema.struct_fields]
        self._heads = [("," if place else "{") + name for place, name in enumerate(names)]

    @cached_property
    def _one(self) -> Write:
        """What writes one value, made where it is wanted: it has the writers of everything below."""
        return writer_of(self._schema, **self._how)

    def write(self, column: pa.Array, before: str = "", behind: str = "") -> pa.Array | None:
        """Return the JSON text of each row, as `pa.string()`, between two texts that all rows have."""
        import pyarrow as pa

        if not len(column):
            return pa.array([], pa.string())
        parts = self._parts(column)
        if parts is None:
            return None
        found = joined_texts([before, *parts, behind])
        return pa.repeat(pa.scalar(found, pa.string()), len(column)) if isinstance(found, str) else found

    def _text(self, column: pa.Array) -> Any:
        """Return an array of texts, or the one that all rows have; None where that cannot be."""
        parts = self._parts(column)
        return None if parts is None else joined_texts(parts)

    def _parts(self, column: pa.Array) -> list[Any] | None:
        """Return what makes up the texts, arrays and texts that all rows have; None where that cannot be.

        They are joined once, around everything: a struct within a struct is not copied for each struct that it is in.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(column.type):
            found = self._of_dictionary(column)
            return None if found is None else [found]
        if column.null_count == len(column):
            return None if self._null is None else [self._null]
        if not column.null_count:
            return self._of_values(column)
        if self._null is None:
            return None
        parts = self._of_values(column.drop_null())
        if parts is None:
            return None
        found = joined_texts(parts)
        if not isinstance(found, str):
            places = pc.subtract(pc.cumulative_sum(column.is_valid().cast(pa.int64())), 1)
            found = found.take(pc.max_element_wise(places, 0))
        return [pc.if_else(column.is_valid(), found, self._null)]

    def _of_dictionary(self, column: pa.DictionaryArray) -> Any:
        import pyarrow.compute as pc

        if column.null_count and self._null is None:
            return None
        values = column.dictionary
        if len(values) == 1 and not values.null_count:
            found: Any = self._one(values_of_column(self._schema, values)[0])
        elif (found := self._text(values)) is None:
            return None
        if isinstance(found, str):
            return found if not column.null_count else pc.if_else(column.is_valid(), found, self._null)
        texts = found.take(column.indices)
        return pc.fill_null(texts, self._null) if column.null_count else texts

    def _of_values(self, column: pa.Array) -> list[Any] | None:
        """Return what makes up the texts of values none of which is null."""
        import pyarrow as pa

        if self._is_struct:
            return self._of_structs(column)
        if self._is_base64:
            digits = base64_of_decimals(column)
            return [self._one_by_one(column)] if digits is None else ['"', digits, '"']
        if self._is_plain and column.type == scalar_type(self._schema):
            return [column.cast(pa.string())]
        if self._is_text and (inside := _escaped(column)) is not None:
            return ['"', inside, '"']
        return [self._one_by_one(column)]

    def _one_by_one(self, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        return pa.array([self._one(each) for each in values_of_column(self._schema, column)], pa.string())

    def _of_structs(self, column: pa.StructArray) -> list[Any] | None:
        import pyarrow as pa

        if not pa.types.is_struct(column.type) or column.type.num_fields != len(self._fields):
            return None
        parts: list[Any] = []
        for place, (head, writer) in enumerate(zip(self._heads, self._fields, strict=True)):
            found = writer._parts(column.field(place))
            if found is None:
                return None
            parts += [head, *found]
        return [*parts, "}"] if parts else ["{}"]


def _escaped(column: pa.Array) -> pa.Array | None:
    """Return what stands between quotes in JSON; None where a text needs more than backslashes, or is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type != pa.string():
        return None
    octets = octets_of(column)
    if (octets < _BLANK).any() or (octets >= _FOUR_BYTES).any():
        return None
    if (octets == _BACKSLASH).any():
        column = pc.replace_substring(column, "\\", "\\\\")
    if (octets == _QUOTE).any():
        column = pc.replace_substring(column, '"', '\\"')
    return column


def base64_of_decimals(column: pa.Array) -> pa.Array | None:
    """Return the bytes of decimals' unscaled numbers, big end first and as few as there can be, in Base 64 (RFC 4648).

    None where one has more than 64 bits, or where they are no decimals.
    """
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_decimal128(column.type) or column.null_count:
        return None
    words = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset)
    low, high = words[::2], words[1::2]
    if ((low >> 63) != high).any():
        return None
    magnitude = low ^ (low >> 63)
    size = np.ones(len(low), np.int8)
    for bits in range(7, int(magnitude.max(initial=0)).bit_length(), 8):
        size += magnitude >> bits > 0
    pieces, places = [], []
    for each in np.flatnonzero(np.bincount(size)).tolist():
        rows = np.flatnonzero(size == each)
        pieces.append(_base64_rows(low[rows].view(np.uint64), each))
        places.append(rows)
    if len(pieces) == 1:
        return pieces[0]
    back = np.empty(len(low), np.int64)
    back[np.concatenate(places)] = np.arange(len(low))
    return pa.concat_arrays(pieces).take(pa.array(back))


def _base64_rows(numbers: NDArray[np.uint64], size: int) -> pa.Array:
    """Return the last so many bytes of each number."""
    import numpy as np
    import pyarrow as pa

    groups, spare = -(-size // 3), -size % 3
    made = np.empty((len(numbers), 2 * groups), np.uint16)
    pairs = _digit_pairs()
    for group in range(groups):
        shift = 8 * (size - 3 * group - 3)
        bits = numbers >> np.uint64(shift) if shift >= 0 else numbers << np.uint64(-shift)
        made[:, 2 * group] = pairs[bits >> np.uint64(12) & np.uint64(0xFFF)]
        made[:, 2 * group + 1] = pairs[bits & np.uint64(0xFFF)]
    octets = made.view(np.uint8)
    if spare:
        octets[:, -spare:] = ord("=")
    width = octets.shape[1]
    offsets = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


@cache
def _digit_pairs() -> NDArray[np.uint16]:
    """Return the two digits of every number of twelve bits, as they stand in memory."""
    import numpy as np

    alphabet = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
    numbers = np.arange(4096)
    return np.stack([alphabet[numbers >> 6], alphabet[numbers & 63]], axis=1).reshape(-1).view(np.uint16)
