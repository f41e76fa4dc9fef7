"""Plain values as bytes: numbers, texts and bytes in lists, tuples and dictionaries, in the form of `marshal`'s version 2.

Written by `marshal`, and read here without it: what a topic holds may be anybody's, and `marshal.loads` makes code of it,
takes memory for lengths that are only said, and may crash the interpreter. The form is the same for every Python.
"""

from __future__ import annotations

import marshal
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

__all__ = ["plain_bytes", "plain_value"]

DEPTH_MAX = 200
INT_DIGITS_MAX = 1000
"""Of 15 bits each."""
SAME_HASH_MAX = 100
"""Keys of one dictionary, or values of one set, that have one hash."""
_FIXED = {ord("N"): None, ord("T"): True, ord("F"): False}
_I32, _F64 = struct.Struct("<i"), struct.Struct("<d")
_TUPLE, _LIST, _SET, _FROZEN, _DICT, _END = (ord(each) for each in "([<>{0")
_INT, _LONG, _FLOAT, _BYTES, _TEXT = (ord(each) for each in "ilgsu")


def plain_bytes(value: Any) -> bytes:
    """Return a value's bytes; raises ValueError for what is no plain value."""
    return marshal.dumps(value, 2)


def plain_value(data: bytes | memoryview) -> Any:
    """Return the value of bytes; raises ValueError for what `plain_bytes` did not write."""
    raw = bytes(data)
    try:
        value, end = _value(raw, 0, DEPTH_MAX)
    except (struct.error, IndexError, TypeError, UnicodeDecodeError, OverflowError) as error:
        raise ValueError(f"no plain value: {error}") from None
    if end != len(raw):
        raise ValueError(f"no plain value: {len(raw) - end} bytes are left")
    return value


def _value(raw: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value that begins at a place, and where it ends."""
    kind = raw[at]
    at += 1
    if kind == _INT:
        return _I32.unpack_from(raw, at)[0], at + 4
    if kind in (_TEXT, _BYTES):
        end = at + 4 + _I32.unpack_from(raw, at)[0]
        if not at + 4 <= end <= len(raw):
            raise ValueError("no plain value: a text is cut off")
        found = raw[at + 4 : end]
        return (found.decode("utf-8", "surrogatepass") if kind == _TEXT else found), end
    if kind == _FLOAT:
        return _F64.unpack_from(raw, at)[0], at + 8
    if kind in _FIXED:
        return _FIXED[kind], at
    if kind == _LONG:
        return _long(raw, at)
    if not depth:
        raise ValueError(f"no plain value: it is more than {DEPTH_MAX} levels deep")
    if kind == _DICT:
        return _dictionary(raw, at, depth - 1)
    if kind not in (_LIST, _TUPLE, _SET, _FROZEN):
        raise ValueError(f"no plain value: {kind:#x} is no kind")
    count = _I32.unpack_from(raw, at)[0]
    at += 4
    if not 0 <= count <= len(raw) - at:
        raise ValueError("no plain value: a list is cut off")
    items = []
    for _ in range(count):
        item, at = _value(raw, at, depth - 1)
        items.append(item)
    if kind == _LIST:
        return items, at
    if kind == _TUPLE:
        return tuple(items), at
    _check_hashes(items)
    return (set(items) if kind == _SET else frozenset(items)), at


def _dictionary(raw: bytes, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    keys, values = [], []
    while raw[at] != _END:
        key, at = _value(raw, at, depth)
        value, at = _value(raw, at, depth)
        keys.append(key)
        values.append(value)
    _check_hashes(keys)
    return dict(zip(keys, values, strict=True)), at + 1


def _check_hashes(keys: Sequence[Any]) -> None:
    """Raise ValueError for keys chosen to have one hash: they would take time that grows with their number's square."""
    if len(keys) <= SAME_HASH_MAX:
        return
    counts = Counter(hash(each) for each in keys if type(each) is not str)
    if counts and max(counts.values()) > SAME_HASH_MAX:
        raise ValueError("no plain value: its keys have one hash")


def _long(raw: bytes, at: int) -> tuple[int, int]:
    count = _I32.unpack_from(raw, at)[0]
    size = abs(count)
    if size > INT_DIGITS_MAX or at + 4 + 2 * size > len(raw):
        raise ValueError("no plain value: a number is too long")
    value = 0
    for digit in reversed(struct.unpack_from(f"<{size}H", raw, at + 4)):
        if digit >> 15:
            raise ValueError("no plain value: a number's digit has 16 bits")
        value = value << 15 | digit
    return (-value if count < 0 else value), at + 4 + 2 * size
