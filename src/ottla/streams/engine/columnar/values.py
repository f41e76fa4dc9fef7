"""One side of a block, keys or values: bytes, an Arrow array or a list of Python's values, each made when it is asked for.

All forms say the same: the list is what a serde's `deserialize` returns, and `encoded` what its `serialize` does. Strings,
bytes and whole numbers have arrays; everything else is a list.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.streams.expressions import Kind, kinds
from ottla.streams.serdes.basic import BytesSerde, FixedSerde, Serde, StringSerde
from ottla.streams.serdes.windowed import TimeWindowedSerde

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Column", "Unfit", "binary_of"]

_WHOLE: dict[str, np.dtype[Any]] = {">q": np.dtype(">i8"), ">i": np.dtype(">i4"), ">h": np.dtype(">i2")}
_KINDS = {
    "string": kinds.STRING,
    "bytes": kinds.BINARY,
    "long": kinds.BIGINT,
    "int": kinds.INT,
    "short": kinds.SMALLINT,
}
_ARRAYS = frozenset({pa.string(), pa.binary(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_(), pa.float64()})
"""Types whose elements are in Python what a serde's values are."""


class Unfit(Exception):
    """A block does not go as columns; it goes record by record."""


class Column:
    """See the module's description."""

    __slots__ = ("_array", "_bytes", "_is_exact", "_make", "_serde", "_values", "_written", "count")

    def __init__(
        self,
        count: int,
        *,
        data: pa.BinaryArray | None = None,
        serde: Serde | None = None,
        array: pa.Array | None = None,
        values: list[Any] | None = None,
        make: Callable[[], list[Any]] | None = None,
    ) -> None:
        """`data` are bytes of `serde`, of which the other forms follow; `make` makes the list where it takes a while."""
        self.count = count
        self._bytes, self._serde = data, serde
        self._array, self._values, self._make = array, values, make
        self._is_exact: bool | None = None
        self._written: tuple[Serde, pa.BinaryArray] | None = None

    @classmethod
    def read(cls, data: pa.BinaryArray, serde: Serde | None) -> Column:
        """Return the column of a topic's bytes; raises what the serde raises for bytes that are no value."""
        count = len(data)
        if serde is None:
            return cls(count, data=data, serde=BytesSerde(), array=data)
        if isinstance(serde, BytesSerde):
            return cls(count, data=data, serde=serde, array=data)
        if isinstance(serde, StringSerde):
            return cls(count, data=data, serde=serde)
        if isinstance(serde, FixedSerde) and serde.form in _WHOLE:
            return cls(count, data=data, serde=serde, array=_whole_numbers(data, _WHOLE[serde.form]))
        return cls(count, data=data, serde=serde, values=list(map(serde.deserialize, _listed(data))))

    @classmethod
    def of_array(cls, found: Any, count: int) -> Column:
        """Return the column of an array that a function has returned; raises Unfit for one of another length."""
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            found = pa.array(found)
        if len(found) != count:
            raise Unfit(f"{len(found)} results of {count} records")
        return cls(count, array=found) if found.type in _ARRAYS else cls(count, values=found.to_pylist())

    @classmethod
    def of_values(cls, values: list[Any]) -> Column:
        """Return the column of Python's values."""
        return cls(len(values), values=values)

    # -- forms

    @property
    def array(self) -> pa.Array | None:
        """The Arrow array; None where there is none of these values."""
        if self._array is None and isinstance(self._serde, StringSerde) and self._bytes is not None:
            self._array = _strings(self._bytes)
        return self._array

    @property
    def kind(self) -> Kind | None:
        """The type of the array's elements as expressions know it, where it is known."""
        array = self.array
        if array is None:
            return None
        return _KIND_OF.get(array.type)

    def listed(self) -> list[Any]:
        """Return Python's values."""
        if self._values is None:
            array = self.array
            if array is not None:
                self._values = _listed(array)
            else:
                assert self._make is not None, "a column has one form at least"
                self._values = self._make()
        return self._values

    def missing(self) -> NDArray[np.bool_] | None:
        """Return which values are None; None where none is."""
        known = self._array
        if known is None and isinstance(self._serde, StringSerde):
            known = self._bytes
        if known is not None:
            return None if not known.null_count else known.is_null().to_numpy(zero_copy_only=False)
        if self._values is None and isinstance(self._serde, TimeWindowedSerde):
            return None  # a key within a window is never null
        found = np.fromiter((each is None for each in self.listed()), np.bool_, self.count)
        return found if found.any() else None

    def encoded(self, serde: Serde | None) -> pa.BinaryArray:
        """Return a serde's bytes of the values; raises what the serde raises."""
        if serde is None:
            return binary_of(self.listed())
        if self._bytes is not None and self._serde is not None and _same(serde, self._serde) and self.is_exact:
            return self._bytes
        written = self._written
        if written is not None and _same(serde, written[0]):
            return written[1]
        found = _encoded(self.array, serde)
        if found is None:
            found = _encoded_list(self.listed(), serde)
        self._written = serde, found
        return found

    @property
    def is_exact(self) -> bool:
        """Whether writing the values gives the bytes that were read."""
        if self._is_exact is None:
            if isinstance(self._serde, StringSerde):
                self._is_exact = _is_text(self._bytes)
            else:
                self._is_exact = isinstance(self._serde, BytesSerde | TimeWindowedSerde) or (
                    isinstance(self._serde, FixedSerde) and self._serde.form in _WHOLE
                )
        return self._is_exact

    def is_read_from(self, data: pa.BinaryArray) -> bool:
        """Whether these very bytes are what was read, so that equal ones are equal values."""
        return data is self._bytes

    def take(self, rows: NDArray[np.int64]) -> Column:
        """Return some rows, each as often as it is named."""
        count, places = len(rows), pa.array(rows)
        data = None if self._bytes is None else self._bytes.take(places)
        array = None if self._array is None else data if self._array is self._bytes else self._array.take(places)
        values = None
        if self._values is not None or (data is None and array is None):
            listed = self.listed()
            values = [] if not count else [listed[rows[0]]] if count == 1 else list(itemgetter(*rows.tolist())(listed))
        make = None
        if values is None and array is None and self._make is not None:
            made = self._make
            make = lambda: list(map(made().__getitem__, rows.tolist()))  # noqa: E731
        found = Column(count, data=data, serde=self._serde, array=array, values=values, make=make)
        found._is_exact = self._is_exact or None
        return found


_KIND_OF = {
    pa.string(): kinds.STRING,
    pa.binary(): kinds.BINARY,
    pa.int64(): kinds.BIGINT,
    pa.int32(): kinds.INT,
    pa.int16(): kinds.SMALLINT,
    pa.bool_(): kinds.BOOLEAN,
}


def _same(one: Serde, other: Serde) -> bool:
    """Whether two serdes write the same bytes: the size of windows is not written."""
    if isinstance(one, TimeWindowedSerde) and isinstance(other, TimeWindowedSerde):
        return _same(one.inner, other.inner)
    return type(one) is type(other) and one == other


def _listed(array: pa.Array) -> list[Any]:
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type) or not array.null_count:
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def _is_text(data: pa.BinaryArray) -> bool:
    try:
        data.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _strings(data: pa.BinaryArray) -> pa.StringArray:
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:  # malformed bytes become U+FFFD
        return pa.array(map(StringSerde().deserialize, _listed(data)), pa.string())


def _whole_numbers(data: pa.BinaryArray, form: np.dtype[Any]) -> pa.Array:
    """Return numbers of so many bytes each, big-endian; raises Unfit where one has more or less."""
    missing = data.is_null().to_numpy(zero_copy_only=False) if data.null_count else None
    lengths = pc.binary_length(data).fill_null(form.itemsize).to_numpy(zero_copy_only=False)
    if (lengths != form.itemsize).any():
        raise Unfit("a number of another length")
    kept = data if missing is None else data.drop_null()
    offsets = np.frombuffer(kept.buffers()[1], np.int32, len(kept) + 1, 4 * kept.offset)
    content = kept.buffers()[2]
    numbers = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]].view(form) if len(kept) else np.zeros(0, form)
    native = numbers.astype(form.newbyteorder("="))
    if missing is None:
        return pa.array(native)
    found = np.zeros(len(data), native.dtype)
    found[~missing] = native
    return pa.array(found, mask=missing)


def _encoded(array: pa.Array | None, serde: Serde) -> pa.BinaryArray | None:
    """Return an array's bytes; None where that is not known here."""
    if array is None:
        return None
    if isinstance(serde, StringSerde) and array.type == pa.string():
        return array.cast(pa.binary())
    if isinstance(serde, BytesSerde) and array.type == pa.binary():
        return array
    if isinstance(serde, FixedSerde) and serde.form in _WHOLE and pa.types.is_integer(array.type):
        wide = array.fill_null(0).to_numpy(zero_copy_only=False)
        missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return _numbers(wide, missing, _WHOLE[serde.form])
    return None


def _numbers(found: NDArray[Any], missing: NDArray[np.bool_] | None, form: np.dtype[Any]) -> pa.BinaryArray | None:
    """Return whole numbers in so many bytes each; None where one does not fit."""
    written = found.astype(form)
    if form.itemsize < found.dtype.itemsize and (written.astype(found.dtype) != found).any():
        return None
    count, size = len(found), form.itemsize
    if missing is None:
        offsets = np.arange(0, size * (count + 1), size, dtype=np.int32)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(written.tobytes())])
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.where(missing, 0, size), out=offsets[1:])
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    content = pa.py_buffer(written[~missing].tobytes())
    return pa.Array.from_buffers(pa.binary(), count, [valid, pa.py_buffer(offsets), content])


def _encoded_list(values: list[Any], serde: Serde) -> pa.BinaryArray:
    """Return a serde's bytes of Python's values, all at once where they are of the one type that it writes."""
    if isinstance(serde, StringSerde) and set(map(type, values)) <= {str, type(None)}:
        try:
            return pa.array(values, pa.string()).cast(pa.binary())
        except (UnicodeEncodeError, pa.ArrowInvalid):
            pass  # half of a surrogate pair, which is written as a question mark
    elif isinstance(serde, FixedSerde) and serde.form in _WHOLE and set(map(type, values)) <= {int}:
        try:
            found = _numbers(np.array(values, np.int64), None, _WHOLE[serde.form])
        except OverflowError:
            found = None  # the serde says which
        if found is not None:
            return found
    return binary_of(list(map(serde.serialize, values)))


def binary_of(values: list[Any]) -> pa.BinaryArray:
    """Return bytes as Arrow's; raises Unfit for what is none."""
    if not set(map(type, values)) <= {bytes, type(None)}:
        raise Unfit("a serde wrote something else than bytes")
    return pa.array(values, pa.binary())
