"""A column of many records inside a Python step, in whichever forms have been needed: bytes, Python values, an Arrow array.

Bytes that no step looks at are never decoded. What all records share in kind (text, numbers) is converted by Arrow and numpy
at once; other serdes are called record by record, without a Python frame of ours in between.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.streams import JsonSerde

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ottla.streams import Serde

__all__ = ["FAILED", "Cells", "apply"]

Failed = Callable[[int, Exception], None]
"""Told the index of a record and what was raised over it; returns where the record is to be skipped."""
BIG_ENDIAN = {"long": ">i8", "int": ">i4", "short": ">i2", "double": ">f8", "float": ">f4"}
NATIVE_KIND = {
    "long": pa.int64(),
    "int": pa.int32(),
    "short": pa.int16(),
    "double": pa.float64(),
    "float": pa.float32(),
}
SCALARS = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


class _Mark:
    """Stands for a record that failed until its row is taken out."""


FAILED: Any = _Mark()


def apply(call: Callable[..., Any], columns: Iterable[Iterable[Any]], failed: Failed) -> tuple[list[Any], bool]:
    """Call a function with each record; where one raises, tell and put FAILED. Returns the results, and whether any did.

    `list.extend` keeps what came before an exception, and `map` goes on behind it: no cost per record for being careful.
    """
    found: list[Any] = []
    calls = map(call, *columns)
    clean = True
    while True:
        try:
            found.extend(calls)
            return found, not clean
        except Exception as error:  # a user's function may raise anything
            failed(len(found), error)
            clean = False
            found.append(FAILED)


class Cells:
    """A column; immutable to its users."""

    def __init__(
        self,
        serde: Serde | None,
        *,
        raw: pa.Array | None = None,
        items: list[Any] | None = None,
        typed: pa.Array | None = None,
    ) -> None:
        self.serde = serde
        self._raw, self._items, self._typed = raw, items, typed

    def __len__(self) -> int:
        return len(next(each for each in (self._raw, self._items, self._typed) if each is not None))

    def items(self, failed: Failed) -> tuple[list[Any], bool]:
        """Return Python values, and whether some are FAILED because their serde refused them."""
        bad = False
        if self._items is None:
            if self._typed is not None:
                self._items = _listed(self._typed)
                if isinstance(self.serde, JsonSerde) and self.serde.type is not None:
                    self._items, bad = apply(self.serde.typed, (self._items,), failed)
            else:
                assert self._raw is not None
                self._items, bad = _decoded(self.serde, self._raw, failed)
        return self._items, bad

    def typed(self, failed: Failed) -> tuple[pa.Array, list[Any] | None]:
        """Return an Arrow array of values; with the list of items instead where some of them FAILED."""
        if self._typed is None:
            if self._raw is not None and self._items is None:
                self._typed = _typed_of(self.serde, self._raw)
            if self._typed is None:
                items, bad = self.items(failed)
                if bad:
                    return None, items
                self._typed = _array(self.serde, items)
        return self._typed, None

    def raw(self, serde: Serde | None, failed: Failed) -> tuple[pa.Array, list[Any] | None]:
        """Return bytes by a serde; with the list of bytes instead where some FAILED."""
        if self._raw is not None and (serde == self.serde or serde is None or self.serde is None):
            return self._raw, None
        serde = serde if serde is not None else self.serde
        if self._typed is not None and self._items is None:
            packed = _packed(serde, self._typed)
            if packed is not None:
                return packed, None
        items, bad = self.items(failed)
        if bad:
            return None, items
        return _encoded(serde, items, failed)

    def present(self) -> NDArray[np.bool_]:
        """Return which rows are not null."""
        if self._items is not None:
            return np.fromiter((each is not None for each in self._items), np.bool_, len(self._items))
        column = self._raw if self._raw is not None else self._typed
        assert column is not None
        valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
        return valid

    def where(self, mask: NDArray[np.bool_], chosen: list[bool]) -> Cells:
        """Return the rows that a mask chooses (the same mask twice, for Arrow and for lists)."""
        arrow = pa.array(mask) if self._raw is not None or self._typed is not None else None
        return Cells(
            self.serde,
            raw=None if self._raw is None else self._raw.filter(arrow),
            items=None if self._items is None else list(compress(self._items, chosen)),
            typed=None if self._typed is None else self._typed.filter(arrow),
        )

    def take(self, indices: NDArray[np.int64]) -> Cells:
        """Return rows by index, some of them several times."""
        places = pa.array(indices)
        return Cells(
            self.serde,
            raw=None if self._raw is None else self._raw.take(places),
            items=None if self._items is None else list(map(self._items.__getitem__, indices.tolist())),
            typed=None if self._typed is None else self._typed.take(places),
        )


def _name(serde: Serde | None) -> str:
    return "bytes" if serde is None else serde.name


def _listed(column: pa.Array) -> list[Any]:
    """Return an Arrow array's Python values; text and bytes by numpy, which is several times as quick."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_string(column.type):
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    if not column.null_count and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        numbers: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return numbers
    values: list[Any] = column.to_pylist()
    return values


def _array(serde: Serde | None, items: list[Any]) -> pa.Array:
    """Return Python values as an Arrow array; typed JSON as the structs, lists and maps that it is written as."""
    if not isinstance(serde, JsonSerde) or serde.type is None:
        return pa.array(items)
    return pa.array(list(map(serde.plain, items)), _arrow_type(serde.type))


def _arrow_type(kind: Any) -> pa.DataType | None:
    """Return what a type is in Arrow; None where only the values tell."""
    if kind in SCALARS:
        return SCALARS[kind]
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        fields = [(each.name, _arrow_type(hints[each.name])) for each in dataclasses.fields(kind) if each.init]
        return None if any(found is None for _, found in fields) else pa.struct(fields)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is list:
        item = _arrow_type(arguments[0])
        return None if item is None else pa.list_(item)
    given = [each for each in arguments if each is not type(None)]
    return _arrow_type(given[0]) if len(given) == 1 and len(arguments) == 2 else None


def _text(column: pa.Array) -> pa.Array | None:
    """Return bytes as text where all of them are UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _numbers(name: str, column: pa.Array) -> pa.Array | None:
    """Return numbers of a fixed size, highest byte first, where every value has that size."""
    kind = np.dtype(BIG_ENDIAN[name])
    if column.null_count or not len(column):
        return None
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    if not bool((np.diff(ends) == kind.itemsize).all()):
        return None
    found = np.frombuffer(data, kind, len(column), int(ends[0]))
    return pa.array(found.astype(kind.newbyteorder("=")))


def _typed_of(serde: Serde | None, column: pa.Array) -> pa.Array | None:
    name = _name(serde)
    if name == "bytes":
        return column
    if name == "string":
        return _text(column)
    return _numbers(name, column) if name in BIG_ENDIAN else None


def _decoded(serde: Serde | None, column: pa.Array, failed: Failed) -> tuple[list[Any], bool]:
    typed = _typed_of(serde, column)
    if typed is not None:
        return _listed(typed), False
    assert serde is not None, "bytes need no serde"
    return apply(serde.deserialize, (_listed(column),), failed)


def _packed(serde: Serde | None, column: pa.Array) -> pa.Array | None:
    """Return an Arrow array's bytes where Arrow or numpy can write them."""
    name = _name(serde)
    if name == "bytes" and pa.types.is_binary(column.type):
        return column
    if name == "string" and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column.cast(pa.string()).cast(pa.binary())
    if name in BIG_ENDIAN and not column.null_count and _is_number(name, column.type):
        data = column.cast(NATIVE_KIND[name]).to_numpy(zero_copy_only=False).astype(BIG_ENDIAN[name]).tobytes()
        size = np.dtype(BIG_ENDIAN[name]).itemsize
        ends = np.arange(0, size * (len(column) + 1), size, dtype=np.int32)
        return pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return None


def _is_number(name: str, kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or (name in ("double", "float") and pa.types.is_floating(kind)))


def _encoded(serde: Serde | None, items: list[Any], failed: Failed) -> tuple[pa.Array, list[Any] | None]:
    """Return Python values' bytes; text at once, where all is text."""
    name = _name(serde)
    if name in ("string", "bytes"):
        try:
            made = pa.array(items, pa.string() if name == "string" else pa.binary())
            if name == "string" and _all_text(items):
                return made.cast(pa.binary()), None
            if name == "bytes" and _all_bytes(items):
                return made, None
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
            pass
    call = (lambda value: value) if serde is None else serde.serialize
    found, bad = apply(call, (items,), failed)
    return (None, found) if bad else (pa.array(found, pa.binary()), None)


def _all_text(items: list[Any]) -> bool:
    return set(map(type, items)) <= {str, type(None)}


def _all_bytes(items: list[Any]) -> bool:
    return set(map(type, items)) <= {bytes, type(None)}
