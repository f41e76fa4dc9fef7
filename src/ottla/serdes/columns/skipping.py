"""Where the items of a few rows' arrays begin: passing over Avro's values one by one, with no look at what they are."""

from __future__ import annotations

import numpy as np

from ottla.serdes.columns.avro_tree import Node
from ottla.serdes.columns.rows import VARINT_BYTES_MAX, BadBytesError, Numbers, Rows

__all__ = ["item_places"]

FIXED = {"float": 4, "double": 8, "boolean": 1, "null": 0}


def item_places(rows: Rows, which: Numbers, left: Numbers, array: Node) -> tuple[Numbers, Numbers]:
    """Move some rows to the end of an array, and return where each item begins, and in which row.

    `left` says how many items of the block that is open are still to come. Raises BadBytesError.
    """
    data = memoryview(rows.data)
    places: list[int] = []
    whose: list[int] = []
    for row in which.tolist():
        pos, end = int(rows.pos[row]), int(rows.end[row])
        before = len(places)
        pos = _items(data, pos, end, int(left[row]), array, places)
        rows.pos[row] = pos
        whose += [row] * (len(places) - before)
    return np.array(places, np.int64), np.array(whose, np.int64)


def _items(data: memoryview, pos: int, end: int, left: int, array: Node, places: list[int]) -> int:
    assert array.items is not None
    while True:
        if left == 0:
            left, pos = _block(data, pos, end)
            if left == 0:
                return pos
        for _ in range(left):
            places.append(pos)
            pos = _skip(data, pos, end, array.items)
        left = 0


def _block(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    count, pos = _number(data, pos, end)
    if count < 0:
        _, pos = _number(data, pos, end)
        count = -count
    if count > end - pos:
        raise BadBytesError
    return count, pos


def _number(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    value = 0
    for place in range(VARINT_BYTES_MAX):
        if pos >= end:
            raise BadBytesError
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), pos
    raise BadBytesError


def _skip(data: memoryview, pos: int, end: int, node: Node) -> int:
    kind = node.kind
    if kind in ("int", "long", "enum"):
        return _number(data, pos, end)[1]
    if kind in ("string", "bytes"):
        length, pos = _number(data, pos, end)
        return _over(pos, length, end)
    if kind in ("record", "error"):
        for each in node.fields:
            pos = _skip(data, pos, end, each.node)
        return pos
    if kind == "union":
        branch, pos = _number(data, pos, end)
        if not 0 <= branch < len(node.branches):
            raise BadBytesError
        return _skip(data, pos, end, node.branches[branch])
    if kind in ("array", "map"):
        return _skip_block(data, pos, end, node)
    return _over(pos, node.size if kind == "fixed" else FIXED[kind], end)


def _over(pos: int, length: int, end: int) -> int:
    if not 0 <= length <= end - pos:
        raise BadBytesError
    return pos + length


def _skip_block(data: memoryview, pos: int, end: int, node: Node) -> int:
    assert node.items is not None
    while True:
        count, pos = _block(data, pos, end)
        if count == 0:
            return pos
        for _ in range(count):
            if node.kind == "map":
                length, pos = _number(data, pos, end)
                pos = _over(pos, length, end)
            pos = _skip(data, pos, end, node.items)
