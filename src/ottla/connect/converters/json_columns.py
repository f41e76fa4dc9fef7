"""Columns of values as JSON text, all rows at once in Arrow, with the same bytes that `json_write` makes one by one.

A column's text is an array of strings, or one text where all rows have the same. What Arrow cannot write as Jackson does
(fractions, bytes, texts with control characters) is written value by value, and the rest around it still at once.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ottla.connect.converters.json_text import quoted
from ottla.connect.converters.json_write import Write, writer_of
from ottla.connect.converters.text_columns import octets_of
from ottla.connect.data.arrow import joined_texts, scalar_type, values_of_column
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import DECIMAL

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnWriter", "base64_of_decimals", "quoted_texts"]

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

    def write(self, column: pa.Array) -> pa.Array | None:
        """Return the JSON text of each row, as `pa.string()`."""
        import pyarrow as pa

        found = self._text(column)
        return pa.repeat(pa.scalar(found, pa.string()), len(column)) if isinstance(found, str) else found

    def _text(self, column: pa.Array) -> Any:
        """Return an array of texts, or the one that all rows have; None where that cannot be."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not len(column):
            return pa.array([], pa.string())
        if pa.types.is_dictionary(column.type):
            return self._of_dictionary(column)
        if column.null_count == len(column):
            return self._null
        if not column.null_count:
            return self._of_values(column)
        if self._null is None:
            return None
        found = self._of_values(column.drop_null())
        if found is None:
            return None
        if isinstance(found, str):
            return pc.if_else(column.is_valid(), found, self._null)
        places = pc.subtract(pc.cumulative_sum(column.is_valid().cast(pa.int64())), 1)
        return pc.if_else(column.is_valid(), found.take(pc.max_element_wise(places, 0)), self._null)

    def _of_dictionary(self, column: pa.DictionaryArray) -> Any:
        import pyarrow.compute as pc

        found = self._text(column.dictionary)
        if found is None or (column.null_count and self._null is None):
            return None
        if not isinstance(found, str) and len(found) == 1:
            found = found[0].as_py()
        if isinstance(found, str):
            return found if not column.null_count else pc.if_else(column.is_valid(), found, self._null)
        texts = found.take(column.indices)
        return pc.fill_null(texts, self._null) if column.null_count else texts

    def _of_values(self, column: pa.Array) -> Any:
        """Return the texts of values none of which is null."""
        import pyarrow as pa

        if self._is_struct:
            return self._of_structs(column)
        if self._is_base64:
            found = base64_of_decimals(column)
            return self._one_by_one(column) if found is None else found
        if self._is_plain and column.type == scalar_type(self._schema):
            return column.cast(pa.string())
        if self._is_text:
            found = quoted_texts(column)
            return self._one_by_one(column) if found is None else found
        return self._one_by_one(column)

    def _one_by_one(self, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        return pa.array([self._one(each) for each in values_of_column(self._schema, column)], pa.string())

    def _of_structs(self, column: pa.StructArray) -> Any:
        import pyarrow as pa

        if not pa.types.is_struct(column.type) or column.type.num_fields != len(self._fields):
            return None
        parts: list[Any] = []
        for place, (head, writer) in enumerate(zip(self._heads, self._fields, strict=True)):
            found = writer._text(column.field(place))
            if found is None:
                return None
            parts += [head, found]
        return joined_texts([*parts, "}"] if parts else ["{}"])


def quoted_texts(column: pa.Array) -> pa.Array | None:
    """Return strings as JSON's; None where one needs more than backslashes, or where they are no strings."""
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
    return joined_texts(['"', column, '"'])


def base64_of_decimals(column: pa.Array) -> pa.Array | None:
    """Return decimals as JSON strings of the bytes of their unscaled numbers, big end first and as few as there can be.

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
    size = np.ones(len(low), np.int64)
    magnitude = low ^ (low >> 63)
    for bits in range(7, 63, 8):
        size += (magnitude >> bits) > 0
    octets = low.astype(">i8").view(np.uint8).reshape(-1, 8)
    pieces, places = [], []
    for each in np.unique(size).tolist():
        rows = np.flatnonzero(size == each)
        pieces.append(_base64_rows(octets[rows, 8 - each :]))
        places.append(rows)
    back = np.empty(len(low), np.int64)
    back[np.concatenate(places)] = np.arange(len(low))
    return pa.concat_arrays(pieces).take(pa.array(back))


def _base64_rows(octets: Any) -> pa.Array:
    """Return rows of as many bytes each as strings of Base 64 in quotes (RFC 4648)."""
    import numpy as np
    import pyarrow as pa

    count, size = octets.shape
    groups = -(-size // 3)
    padded = np.zeros((count, 3 * groups), np.uint32)
    padded[:, :size] = octets
    triples = padded.reshape(count, groups, 3)
    whole = triples[:, :, 0] << 16 | triples[:, :, 1] << 8 | triples[:, :, 2]
    digits = np.stack([whole >> shift & 63 for shift in (18, 12, 6, 0)], axis=2).reshape(count, 4 * groups)
    alphabet = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
    made = np.full((count, 4 * groups + 2), _QUOTE, np.uint8)
    made[:, 1:-1] = alphabet[digits]
    if missing := 3 * groups - size:
        made[:, -1 - missing : -1] = ord("=")
    offsets = np.arange(0, (count + 1) * made.shape[1], made.shape[1], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(made.reshape(-1))])
