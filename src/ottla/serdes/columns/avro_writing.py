"""Columns as Avro's bytes: each field's bytes of all rows at once, then joined row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.serdes.columns.avro_tree import Field, Node
from ottla.serdes.columns.defaults import default_of
from ottla.serdes.columns.rows import Numbers
from ottla.serdes.columns.types import arrow_type_of, branches_of
from ottla.serdes.errors import SerdeError

__all__ = ["Write", "joined", "write_as"]

Write = Callable[[pa.Array], list[pa.BinaryArray]]
"""Makes of a column without nulls the bytes of its rows, in parts that follow each other in each row."""
VARINT_BYTES_MAX, DECIMAL_BYTES, WIDE_DIGITS_MAX = 10, 16, 76


def write_as(node: Node, column: pa.DataType, path: str = "") -> Write:
    """Return what writes such a column by a schema; raises SerdeError where the column has not what the schema asks for."""
    if node.kind == "union":
        return _write_union(node, column, path)
    if node.kind in ("record", "error"):
        return _write_record(node, column, path)
    if node.kind in ("array", "map"):
        return _write_items(node, column, path)
    wanted = arrow_type_of(node)
    if node.kind == "null":
        return lambda column: []
    return _cast(_PLAIN["decimal" if node.logical == "decimal" else node.kind](node), wanted, path)


def joined(parts: list[pa.BinaryArray], count: int) -> pa.BinaryArray:
    """Return each row's parts as one."""
    if not parts:
        return pa.array([b""] * count, pa.binary())
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, b"")


def _cast(write: Write, wanted: pa.DataType, path: str) -> Write:
    def cast(column: pa.Array) -> list[pa.BinaryArray]:
        if column.null_count:
            raise SerdeError(f"{_called(path)} is null, which the Avro schema does not allow")
        try:
            return write(_as_wanted(column, wanted))
        except pa.ArrowException as error:
            text = f"{_called(path)} does not fit the Avro schema, which has {wanted} there: {error}"
            raise SerdeError(text) from error

    return cast


def _as_wanted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        column.validate(full=pa.types.is_decimal(wanted))
        return column
    if pa.types.is_decimal128(wanted) and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        # Arrow reads text of more digits than it holds as another number, which the wider type does not up to these
        if pc.max(pc.binary_length(column)).as_py() > WIDE_DIGITS_MAX:
            raise pa.ArrowInvalid(f"a number has more than {WIDE_DIGITS_MAX} letters")
        column = column.cast(pa.decimal256(WIDE_DIGITS_MAX, wanted.scale))
    return column.cast(wanted)


def _called(path: str) -> str:
    return f"The column's field {path}" if path else "The column"


# Plain types


def _ragged(lengths: Numbers, flat: Numbers) -> pa.BinaryArray:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(flat))]
    )


def varints(values: Numbers) -> pa.BinaryArray:
    """Return whole numbers in zigzag, in groups of seven bits."""
    found = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = int(found.max()) if len(found) else 0
    if largest < 0x80:
        return _ragged(np.ones(len(found), np.int64), found.astype(np.uint8))
    most = -(-largest.bit_length() // 7)
    lengths = np.ones(len(found), np.int64)
    for place in range(1, most):
        lengths += found >= np.uint64(1 << 7 * place)
    flat = np.empty((len(found), most), np.uint8)
    for place in range(most):
        flat[:, place] = (found >> np.uint64(7 * place)) & np.uint64(0x7F)
        flat[:, place] |= np.where(place < lengths - 1, np.uint8(0x80), np.uint8(0))
    return _ragged(lengths, flat[np.arange(most) < lengths[:, None]])


def _numbers(column: pa.Array) -> Numbers:
    return column.to_numpy(zero_copy_only=False)


def _write_whole(node: Node) -> Write:
    plain = pa.int32() if node.kind == "int" else pa.int64()
    divisor = 1000 if node.logical.endswith("millis") else 1

    def write(column: pa.Array) -> list[pa.BinaryArray]:
        values = _numbers(column.cast(plain)).astype(np.int64)
        return [varints(values if divisor == 1 else values // divisor)]

    return write


def _write_float(node: Node) -> Write:
    kind, size = ("<f4", 4) if node.kind == "float" else ("<f8", 8)

    def write(column: pa.Array) -> list[pa.BinaryArray]:
        values = np.ascontiguousarray(_numbers(column).astype(kind))
        return [_ragged(np.full(len(values), size, np.int64), values.view(np.uint8))]

    return write


def _write_boolean(node: Node) -> Write:
    def write(column: pa.Array) -> list[pa.BinaryArray]:
        return [_ragged(np.ones(len(column), np.int64), _numbers(column).astype(np.uint8))]

    return write


def _stretches(column: pa.Array) -> tuple[Numbers, Numbers]:
    """Return how long each of a column's texts is, and all their bytes."""
    _, offsets, data = column.buffers()
    found = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    flat = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[found[0] : found[-1]]
    return np.diff(found), flat


def _write_text(node: Node) -> Write:
    def write(column: pa.Array) -> list[pa.BinaryArray]:
        if not len(column):
            return [pa.array([], pa.binary())]
        lengths, flat = _stretches(column)
        return [varints(lengths), _ragged(lengths, flat)]

    return write


def _write_fixed(node: Node) -> Write:
    def write(column: pa.Array) -> list[pa.BinaryArray]:
        lengths = pc.binary_length(column)
        if len(column) and not pc.all(pc.equal(lengths, node.size)).as_py():
            raise SerdeError(f"A value of {node.name} has to have {node.size} bytes")
        return [column]

    return write


def _write_enum(node: Node) -> Write:
    symbols = pa.array(node.symbols, pa.string())

    def write(column: pa.Array) -> list[pa.BinaryArray]:
        found = pc.index_in(column, value_set=symbols)
        if found.null_count:
            wrong = column.filter(found.is_null())[0].as_py()
            raise SerdeError(f"{wrong!r:.60} is no symbol of the enum {node.name}")
        return [varints(_numbers(found).astype(np.int64))]

    return write


def _write_decimal(node: Node) -> Write:
    def write(column: pa.Array) -> list[pa.BinaryArray]:
        count = len(column)
        raw = np.frombuffer(column.buffers()[1], np.uint8)[DECIMAL_BYTES * column.offset :]
        found = raw[: DECIMAL_BYTES * count].reshape(count, DECIMAL_BYTES)[:, ::-1]  # the largest byte first
        sign = found[:, :1] >> 7
        filler = np.where(sign == 1, np.uint8(255), np.uint8(0))
        is_spare = (found[:, :-1] == filler) & (found[:, 1:] >> 7 == sign)
        spare = np.logical_and.accumulate(is_spare, axis=1).sum(axis=1)
        if node.kind == "fixed":
            return [_fixed_decimals(found, filler, spare, node)]
        lengths = DECIMAL_BYTES - spare
        return [varints(lengths), _ragged(lengths, found[np.arange(DECIMAL_BYTES) >= spare[:, None]])]

    return write


def _fixed_decimals(found: Numbers, filler: Numbers, spare: Numbers, node: Node) -> pa.BinaryArray:
    size, count = node.size, len(found)
    if size < DECIMAL_BYTES and (DECIMAL_BYTES - spare > size).any():
        raise SerdeError(f"A decimal has more bytes than {node.name}, which has {size}")
    wide = np.concatenate([np.repeat(filler, max(size - DECIMAL_BYTES, 0), axis=1), found], axis=1)
    return _ragged(np.full(count, size, np.int64), wide[:, -size:].ravel())


_PLAIN: dict[str, Callable[[Node], Write]] = {
    "boolean": _write_boolean,
    "int": _write_whole,
    "long": _write_whole,
    "float": _write_float,
    "double": _write_float,
    "bytes": _write_text,
    "string": _write_text,
    "fixed": _write_fixed,
    "enum": _write_enum,
    "decimal": _write_decimal,
}


# What holds other things


def _write_record(node: Node, column: pa.DataType, path: str) -> Write:
    if not pa.types.is_struct(column):
        raise SerdeError(f"{_called(path)} is {column}, and the Avro schema has the record {node.name} there")
    steps = [_field(each, column, f"{path}.{each.name}".lstrip(".")) for each in node.fields]

    def write(values: pa.Array) -> list[pa.BinaryArray]:
        if values.null_count:
            raise SerdeError(f"{_called(path)} is null, which the Avro schema does not allow")
        return [part for step in steps for part in step(values)]

    return write


def _field(field: Field, column: pa.StructType, path: str) -> Write:
    place = column.get_field_index(field.name)
    if place >= 0:
        step = write_as(field.node, column.field(place).type, path)
        return lambda values: step(values.field(place))
    if not field.has_default:
        raise SerdeError(f"{_called(path)} is missing, and the Avro schema has no default for it")
    kind = arrow_type_of(field.node)
    value = pa.array([default_of(field.node, field.default)], kind)
    step = write_as(field.node, kind, path)
    return lambda values: step(value.take(pa.array(np.zeros(len(values), np.int32))))


def _write_items(node: Node, column: pa.DataType, path: str) -> Write:
    assert node.items is not None
    is_map = node.kind == "map"
    if not (pa.types.is_map(column) if is_map else pa.types.is_list(column) or pa.types.is_large_list(column)):
        raise SerdeError(f"{_called(path)} is {column}, and the Avro schema has {node.kind} there")
    inner = f"{path}[]"
    step = write_as(node.items, column.item_type if is_map else column.value_type, inner)
    keys = write_as(Node("string"), column.key_type, f"{path}'s key") if is_map else None

    def write(values: pa.Array) -> list[pa.BinaryArray]:
        if values.null_count:
            raise SerdeError(f"{_called(path)} is null, which the Avro schema does not allow")
        bounds = np.asarray(values.offsets).astype(np.int64)
        begun, end = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
        held = values.items if is_map else values.values
        parts = step(held[begun:end])
        if keys is not None:
            parts = [*keys(values.keys[begun:end]), *parts]
        items = joined(parts, end - begun)
        counts = np.diff(bounds)
        lengths, flat = _stretches(items) if end > begun else (np.zeros(0, np.int64), np.zeros(0, np.uint8))
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])[bounds - begun]
        full = np.flatnonzero(counts)
        heads = _spread(varints(counts[full]), full, len(values))
        zeros = _ragged(np.ones(len(values), np.int64), np.zeros(len(values), np.uint8))
        return [heads, _ragged(np.diff(sums), flat), zeros]

    return write


def _spread(parts: pa.BinaryArray, which: Numbers, count: int) -> pa.BinaryArray:
    """Return bytes of some rows as those of all: the others have none."""
    if len(which) == count:
        return parts
    if not len(which):
        return _ragged(np.zeros(count, np.int64), np.zeros(0, np.uint8))
    some, flat = _stretches(parts)
    lengths = np.zeros(count, np.int64)
    lengths[which] = some
    return _ragged(lengths, flat)


def _write_union(node: Node, column: pa.DataType, path: str) -> Write:
    others = branches_of(node)
    numbers = [index for index, each in enumerate(node.branches) if each.kind != "null"]
    null = next((index for index, each in enumerate(node.branches) if each.kind == "null"), None)
    if len(others) > 1:
        return _write_members(node, column, path, numbers, null)
    step: Any = write_as(others[0], column, path) if others else None

    def write(values: pa.Array) -> list[pa.BinaryArray]:
        count = len(values)
        is_there = ~_numbers(values.is_null()) if values.null_count else np.ones(count, bool)
        if null is None and not is_there.all():
            raise SerdeError(f"{_called(path)} is null, which the Avro schema does not allow")
        branch = np.where(is_there, numbers[0] if numbers else 0, null or 0)
        parts = [varints(branch.astype(np.int64))]
        if step is not None:
            which = np.flatnonzero(is_there)
            some = values if len(which) == count else values.take(pa.array(which))
            parts += [_spread(each, which, count) for each in step(some)]
        return parts

    return write


def _write_members(node: Node, column: pa.DataType, path: str, numbers: list[int], null: int | None) -> Write:
    """Write a struct of members of which one is set as a union."""
    names = [f"member{place}" for place in range(len(numbers))]
    if not pa.types.is_struct(column) or [each.name for each in column] != names:
        text = f"{_called(path)} is {column}, and the Avro schema has a union there: a struct of {', '.join(names)}"
        raise SerdeError(text)
    steps = [
        write_as(each, column.field(place).type, f"{path}.{names[place]}")
        for place, each in enumerate(branches_of(node))
    ]

    def write(values: pa.Array) -> list[pa.BinaryArray]:
        count = len(values)
        found = values.flatten()  # with the struct's own nulls in its members
        is_set = np.array([~_numbers(each.is_null()) for each in found]).reshape(len(names), count)
        members = is_set.sum(axis=0)
        if (members > 1).any() or (null is None and (members == 0).any()):
            raise SerdeError(f"{_called(path)} has to have one member that is set")
        branch = np.where(members == 0, null or 0, np.array(numbers)[is_set.argmax(axis=0)])
        parts = [varints(branch.astype(np.int64))]
        for each, step, which in zip(found, steps, map(np.flatnonzero, is_set), strict=True):
            if len(which):
                parts += [_spread(part, which, count) for part in step(each.take(pa.array(which)))]
        return parts

    return write
