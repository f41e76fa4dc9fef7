"""Columns of texts that PostgreSQL has printed, as Arrow arrays of the values that `column_kinds` makes one by one. Pure.

Each takes `pa.binary()` and raises `pa.ArrowInvalid` where a text is beyond what Arrow reads: infinities, years before 1 and
behind 9999, NaN. Then the rows are made one by one, by what knows those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.data import joined_texts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["booleans", "dates", "decimals", "doubles", "microseconds", "milliseconds", "texts", "whole", "zoned_texts"]

PRECISION_MAX: Final = 38


def texts(column: pa.Array) -> pa.Array:
    """Return strings."""
    import pyarrow as pa

    return column.cast(pa.string())


def booleans(column: pa.Array) -> pa.Array:
    """Return what is `t` or `f` as booleans."""
    import pyarrow.compute as pc

    return pc.equal(column, b"t")


def whole(bits: int) -> Callable[[pa.Array], pa.Array]:
    """Return what makes whole numbers of so many bits."""

    def make(column: pa.Array) -> pa.Array:
        import pyarrow as pa

        return texts(column).cast({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits])

    return make


def doubles(column: pa.Array) -> pa.Array:
    """Return fractions of 64 bits."""
    import pyarrow as pa

    return texts(column).cast(pa.float64())


def decimals(scale: int) -> Callable[[pa.Array], pa.Array] | None:
    """Return what makes decimals of a scale; None for a scale that Arrow's do not have."""
    if not 0 <= scale <= PRECISION_MAX:
        return None

    def make(column: pa.Array) -> pa.Array:
        import pyarrow as pa

        _refuse_longer(column)
        return texts(column).cast(pa.decimal128(PRECISION_MAX, scale))

    return make


def _refuse_longer(column: pa.Array) -> None:
    """Raise pa.ArrowInvalid for more digits than Arrow has: its cast of text takes them, and gives another number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if (pc.max(pc.binary_length(column)).as_py() or 0) <= PRECISION_MAX:
        return
    signs = pc.add(pc.count_substring(column, b"-"), pc.count_substring(column, b"."))
    if pc.max(pc.subtract(pc.binary_length(column), signs)).as_py() > PRECISION_MAX:
        raise pa.ArrowInvalid(f"a number has more than {PRECISION_MAX} digits")


def dates(column: pa.Array) -> pa.Array:
    """Return dates as days since 1970, `pa.int32()`."""
    import pyarrow as pa

    return texts(column).cast(pa.date32()).view(pa.int32())


def microseconds(column: pa.Array) -> pa.Array:
    """Return timestamps without zone as microseconds since 1970, `pa.int64()`."""
    import pyarrow as pa

    return texts(column).cast(pa.timestamp("us")).view(pa.int64())


def milliseconds(column: pa.Array) -> pa.Array:
    """Return timestamps without zone as milliseconds since 1970, `pa.int64()`, what is less left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    us = microseconds(column)
    ms = pc.fill_null(us, 0).to_numpy(zero_copy_only=False) // 1000
    found = pa.array(ms, pa.int64())
    return found if not us.null_count else _where_valid(us, found)


def _where_valid(valid: pa.Array, found: pa.Array) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(valid.is_valid(), found, pa.scalar(None, found.type))


def zoned_texts(column: pa.Array) -> pa.Array:
    """Return timestamps with zone, printed at UTC, as ISO 8601 with six digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.ends_with(column, b"+00"), min_count=0).as_py():
        raise pa.ArrowInvalid("a timestamp is not at UTC")
    local = texts(pc.binary_slice(column, 0, -3)).cast(pa.timestamp("us")).cast(pa.string())
    return joined_texts([pc.replace_substring(local, " ", "T"), "Z"])
