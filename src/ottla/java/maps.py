"""The order of `java.util.HashMap` and `HashSet`, in which Java goes through what it was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final, TypeVar

from ottla.base import java_hash, low_bits

__all__ = ["SizedMap", "hash_ordered"]

Key = TypeVar("Key")
_LOAD_PERCENT: Final = 75
_CAPACITY_DEFAULT: Final = 16
_INT_MASK: Final = (1 << 32) - 1


class SizedMap(dict[object, object]):
    """A map as Java makes one for a number of entries that it is told of beforehand: they have another order in it."""

    def __init__(self, entries: Mapping[object, object], size: int) -> None:
        super().__init__(entries)
        self.size = size


def _hash(key: object) -> int:
    """`Object.hashCode` of a key, as an unsigned number of 32 bits."""
    if isinstance(key, str):
        return java_hash(key)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        return (key ^ key >> 32) & _INT_MASK if not -(1 << 31) <= key < 1 << 31 else key & _INT_MASK
    if isinstance(key, Decimal):
        return low_bits(key, 64) & _INT_MASK
    return 0


def hash_ordered(keys: Iterable[Key], size: int | None = None) -> list[Key]:
    """Return the keys in the order of a HashMap that they are put into; `size` is what it was made for, where that is said.

    Buckets hold their keys in the order in which they came, which a larger table keeps. A key that comes again changes
    nothing. More than eight keys of one bucket, which Java keeps as a tree, stand here as they came.
    """
    if size is None and isinstance(keys, SizedMap):
        size = keys.size
    given = list(dict.fromkeys(keys))
    if len(given) < 2:
        return given
    capacity = _CAPACITY_DEFAULT if size is None else 1
    while size is not None and capacity < size:
        capacity *= 2
    while len(given) * 100 > capacity * _LOAD_PERCENT:
        capacity *= 2
    hashes = [_hash(key) for key in given]
    buckets = [(each ^ each >> 16) & (capacity - 1) for each in hashes]
    return [key for _, key in sorted(zip(buckets, given, strict=True), key=lambda pair: pair[0])]
