"""Avro's bytes as columns: what was written with one schema, read as another, a field at a time over all rows.

As Avro's schema resolution has it: numbers are widened, fields are found by their names or aliases, missing ones have their
default, unions lead to the first branch that fits. Whatever is wrong with a row's bytes is a BadBytesError for all of them:
`reading` asks again for fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.serdes.columns.avro_tree import Field, Node
from ottla.serdes.columns.defaults import default_of
from ottla.serdes.columns.rows import BadBytesError, Numbers, Rows, slices
from ottla.serdes.columns.skipping import item_places
from ottla.serdes.columns.types import arrow_type_of, branches_of
from ottla.serdes.errors import SerdeError

__all__ = ["Read", "placed", "read_as"]

Read = Callable[[Rows], pa.Array]
WIDER = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
INT_MAX, MILLIS_MAX = (1 << 31) - 1, (1 << 63) // 1000 - 1
FEW = 32
"""Of so many rows, the rest of an array or a map is looked through one row after another."""
DECIMAL_BYTES, SPARE_BYTES_MAX = 16, 64


class _UnfitError(SerdeError):
    """What was written with the one schema cannot be read as the other."""


def read_as(written: Node, wanted: Node) -> Read:
    """Return what reads rows; raises SerdeError where the schemas do not fit each other."""
    if written.kind == "union":
        return _read_union(written, wanted)
    if wanted.kind == "union":
        return _read_into_union(written, wanted)
    if written.kind in WIDER:
        if wanted.kind not in WIDER[written.kind]:
            raise _unfit(written, wanted)
        return _read_bytes(wanted) if written.kind in ("string", "bytes") else _read_number(written, wanted)
    same = {"error": "record"}.get(written.kind, written.kind) == {"error": "record"}.get(wanted.kind, wanted.kind)
    if not same or not wanted.is_called(written):
        raise _unfit(written, wanted)
    return _NAMED_OR_NESTED[wanted.kind](written, wanted)


def _unfit(written: Node, wanted: Node) -> SerdeError:
    words = (f"{each.kind} {each.name}".strip() for each in (written, wanted))
    return _UnfitError("What was written as {} cannot be read as {}".format(*words))


def _read_null(written: Node, wanted: Node) -> Read:
    return lambda rows: pa.nulls(len(rows))


def _read_boolean(written: Node, wanted: Node) -> Read:
    return lambda rows: pa.array(rows.bytes_each() == 1)


# Numbers, and what is a number with a logical type


def _read_number(written: Node, wanted: Node) -> Read:
    finish = _number_column(wanted)
    if written.kind in ("float", "double"):
        kind = "<f4" if written.kind == "float" else "<f8"
        return lambda rows: finish(rows.fixed(kind))
    if written.kind == "long":
        return lambda rows: finish(rows.varints())

    def small(rows: Rows) -> pa.Array:
        found = rows.varints()
        if len(found) and (found.max() > INT_MAX or found.min() < -INT_MAX - 1):
            raise BadBytesError
        return finish(found)

    return small


_NUMPY = {"int": np.int32, "long": np.int64, "float": np.float32, "double": np.float64}


def _number_column(wanted: Node) -> Callable[[Numbers], pa.Array]:
    if not wanted.logical:
        kind = _NUMPY[wanted.kind]
        return lambda found: pa.array(found.astype(kind, copy=False))
    column = arrow_type_of(wanted)
    if wanted.logical == "date":
        return lambda found: pa.array(found.astype(np.int32, copy=False)).cast(column)
    if wanted.logical.endswith("micros"):
        return lambda found: pa.array(found).cast(column)

    def millis(found: Numbers) -> pa.Array:
        if len(found) and (found.max() > MILLIS_MAX or found.min() < -MILLIS_MAX):
            raise BadBytesError
        return pa.array(found * 1000).cast(column)

    return millis


# Bytes


def _read_bytes(wanted: Node) -> Read:
    if wanted.logical == "decimal":
        return lambda rows: _decimals(rows.data, *rows.spans(), wanted)
    if wanted.kind == "bytes":
        return lambda rows: slices(rows.data, *rows.spans())
    return lambda rows: slices(rows.data, *rows.spans()).cast(pa.string())


def _read_fixed(written: Node, wanted: Node) -> Read:
    size = written.size
    if size != wanted.size:
        raise _unfit(written, wanted)

    def read(rows: Rows) -> pa.Array:
        begun = rows.span(size)
        lengths = np.full(len(begun), size, np.int64)
        return _decimals(rows.data, begun, lengths, wanted) if wanted.logical else slices(rows.data, begun, lengths)

    return read


def _decimals(data: Numbers, begun: Numbers, lengths: Numbers, wanted: Node) -> pa.Array:
    """Return numbers in two's complement, their largest byte first, as decimals."""
    if not len(begun):
        return pa.array([], arrow_type_of(wanted))
    longest = int(lengths.max())
    if longest > SPARE_BYTES_MAX or not lengths.all():
        raise BadBytesError
    filler = np.where(data[begun] >= 128, np.uint8(255), np.uint8(0))
    found = np.empty((len(begun), DECIMAL_BYTES), np.uint8)
    last = begun + lengths - 1
    for place in range(DECIMAL_BYTES):
        found[:, place] = np.where(place < lengths, data[np.maximum(last - place, 0)], filler)
    for place in range(DECIMAL_BYTES, longest):  # more bytes than a decimal has say nothing but the sign
        if ((place < lengths) & (data[np.maximum(last - place, 0)] != filler)).any():
            raise BadBytesError
    if ((lengths > DECIMAL_BYTES) & (found[:, -1] >> 7 != filler >> 7)).any():
        raise BadBytesError
    raw = pa.Array.from_buffers(pa.decimal128(38, wanted.scale), len(begun), [None, pa.py_buffer(found)])
    raw.validate(full=True)  # a cast to as many digits looks at none
    return raw.cast(arrow_type_of(wanted))  # refuses what has more digits


def _read_enum(written: Node, wanted: Node) -> Read:
    known = set(wanted.symbols)
    texts = [each if each in known else wanted.symbol_default for each in written.symbols]
    symbols = pa.array(texts, pa.string())
    unknown = np.array([each is None for each in texts])

    def read(rows: Rows) -> pa.Array:
        found = rows.varints()
        if len(found) and (found.min() < 0 or found.max() >= len(texts) or unknown[found].any()):
            raise BadBytesError
        return symbols.take(pa.array(found))

    return read


# What holds other things


def _read_record(written: Node, wanted: Node) -> Read:
    column = arrow_type_of(wanted)
    places = _places(written, wanted)
    steps: list[tuple[int, Read]] = []
    for each in written.fields:
        place = places.get(each.name)
        node = each.node if place is None else wanted.fields[place].node
        steps.append((-1 if place is None else place, read_as(each.node, node)))
    missing = [(place, _default(each)) for place, each in enumerate(wanted.fields) if place not in places.values()]

    def read(rows: Rows) -> pa.Array:
        count = len(rows)
        found: list[Any] = [None] * len(wanted.fields)
        for place, step in steps:
            values = step(rows)
            if place >= 0:
                found[place] = values
        for place, value in missing:
            found[place] = value.take(pa.array(np.zeros(count, np.int32)))
        if not found:
            return pa.array([{}] * count, column)
        return pa.StructArray.from_arrays(found, fields=list(column))

    return read


def _places(written: Node, wanted: Node) -> dict[str, int]:
    """Return which of the wanted fields each written field is."""
    names = {each.name for each in written.fields}
    found: dict[str, int] = {}
    for place, each in enumerate(wanted.fields):
        called = next((name for name in (each.name, *each.aliases) if name in names), None)
        if called is not None:
            found.setdefault(called, place)
    return found


def _default(wanted: Field) -> pa.Array:
    if not wanted.has_default:
        raise _UnfitError(f"The field {wanted.name} was not written, and has no default")
    return pa.array([default_of(wanted.node, wanted.default)], arrow_type_of(wanted.node))


def _read_array(written: Node, wanted: Node) -> Read:
    assert written.items is not None and wanted.items is not None
    if is_empty(written.items):
        raise SerdeError("Arrays of items that take no bytes are not read: a few bytes could hold any number of them")
    items, column = read_as(written.items, wanted.items), arrow_type_of(wanted)

    def read(rows: Rows) -> pa.Array:
        offsets, found = _gathered(rows, items, written, arrow_type_of(wanted.items))  # type: ignore[arg-type]
        return pa.ListArray.from_arrays(offsets, found, type=column)

    return read


def is_empty(node: Node) -> bool:
    """Whether a value may take no bytes."""
    if node.kind == "record":
        return all(is_empty(each.node) for each in node.fields)
    return node.kind == "null" or (node.kind == "fixed" and node.size == 0)


_KEY = Node("string")


def _read_map(written: Node, wanted: Node) -> Read:
    assert written.items is not None and wanted.items is not None
    entry = Node("record", fields=(Field("key", _KEY), Field("value", written.items)))
    wanted_entry = Node("record", fields=(Field("key", _KEY), Field("value", wanted.items)))
    items, column = read_as(entry, wanted_entry), arrow_type_of(wanted)

    def read(rows: Rows) -> pa.Array:
        offsets, found = _gathered(rows, items, Node("array", items=entry), arrow_type_of(wanted_entry))
        return pa.MapArray.from_arrays(offsets, found.field(0), found.field(1), type=column)

    return read


def _gathered(rows: Rows, items: Read, written: Node, column: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return where each row's items begin, and all items: the first of each row, then the second, …, put in order."""
    count = len(rows)
    left = np.zeros(count, np.int64)
    active = np.arange(count)
    chunks: list[pa.Array] = []
    owners: list[Numbers] = []
    while len(active):
        if len(active) < FEW:
            places, whose = item_places(rows, active, left, written)
            if len(whose):
                chunks.append(items(rows.at(places, rows.end[whose])))
                owners.append(whose)
            break
        due = active[left[active] == 0]
        if len(due):
            left[due] = _block(rows, due)
            active = active[left[active] > 0]
            if not len(active):
                break
        some = rows.some(active)
        chunks.append(items(some))
        rows.resume(active, some)
        owners.append(active)
        left[active] -= 1
    offsets = np.zeros(count + 1, np.int32)
    if not chunks:
        return pa.array(offsets), pa.array([], column)
    of = np.concatenate(owners)
    np.cumsum(np.bincount(of, minlength=count), out=offsets[1:])
    found = pa.concat_arrays(chunks)
    if len(chunks) > 1:
        found = found.take(pa.array(np.argsort(of, kind="stable")))
    return pa.array(offsets), found


def _block(rows: Rows, which: Numbers) -> Numbers:
    """Return how many items the next block of some rows has; 0 is the end."""
    some = rows.some(which)
    counts = some.varints()
    sized = np.flatnonzero(counts < 0)
    if len(sized):
        part = some.some(sized)
        part.varints()  # how many bytes the block has, for who passes over it
        some.resume(sized, part)
        counts[sized] = -counts[sized]
    rows.resume(which, some)
    if len(counts) and (counts.min() < 0 or (counts > some.end - some.pos).any()):
        raise BadBytesError
    return counts


# Unions


def _read_into_union(written: Node, wanted: Node) -> Read:
    """Read what was no union into the first branch of one that takes it."""
    column = arrow_type_of(wanted)
    place, branch, step = _branch_for(written, wanted)
    if branch.kind == "null":
        return lambda rows: pa.nulls(len(rows), column)
    if len(branches_of(wanted)) == 1:
        return step
    return lambda rows: _member(step(rows), place, column)


def _branch_for(written: Node, wanted: Node) -> tuple[int, Node, Read]:
    """Return the branch, its place among those that are not null, and what reads it: the same type before a wider one.

    Each branch is tried once, since what it holds is tried with it.
    """
    places = [sum(other.kind != "null" for other in wanted.branches[:index]) for index in range(len(wanted.branches))]
    tried = list(zip(places, wanted.branches, strict=True))
    same = [each for each in tried if each[1].kind == written.kind and each[1].name == written.name]
    for place, each in [*same, *(each for each in tried if each not in same)]:
        try:
            return place, each, read_as(written, each)
        except _UnfitError:
            continue
    raise _unfit(written, Node("union", name="of " + ", ".join(each.name or each.kind for each in wanted.branches)))


def _member(values: pa.Array, place: int, column: pa.StructType) -> pa.Array:
    found = [values if index == place else pa.nulls(len(values), each.type) for index, each in enumerate(column)]
    return pa.StructArray.from_arrays(found, fields=list(column))


def _read_union(written: Node, wanted: Node) -> Read:
    column = arrow_type_of(wanted)
    steps: list[Read | None] = []
    for each in written.branches:
        try:
            steps.append(read_as(each, wanted))
        except _UnfitError:
            steps.append(None)  # only a value of that branch is wrong
    if not any(steps):
        raise _unfit(written, wanted)

    def read(rows: Rows) -> pa.Array:
        branch = rows.varints()
        if len(branch) and (branch.min() < 0 or branch.max() >= len(steps)):
            raise BadBytesError
        parts: list[tuple[Numbers, pa.Array]] = []
        for index, step in enumerate(steps):
            which = np.flatnonzero(branch == index)
            if len(which):
                parts.append((which, _part(rows, which, step)))
        return placed(parts, len(rows), column)

    def _part(rows: Rows, which: Numbers, step: Read | None) -> pa.Array:
        if step is None:
            raise BadBytesError
        if len(which) == len(rows):
            return step(rows)
        some = rows.some(which)
        found = step(some)
        rows.resume(which, some)
        return found

    return read


def placed(parts: Sequence[tuple[Numbers, pa.Array]], count: int, column: pa.DataType) -> pa.Array:
    """Return the rows of all parts in their places."""
    real = [(which, each) for which, each in parts if not pa.types.is_null(each.type) and each.null_count < len(each)]
    if not real:
        return pa.nulls(count, column)
    if len(real) == 1 and len(real[0][0]) == count:
        return real[0][1]
    places = np.zeros(count, np.int64)
    is_null = np.ones(count, bool)
    begun = 0
    for which, each in real:
        places[which] = np.arange(begun, begun + len(each))
        is_null[which] = False
        begun += len(each)
    values = real[0][1] if len(real) == 1 else pa.concat_arrays([each for _, each in real])
    return values.take(pa.array(places, mask=is_null))


_NAMED_OR_NESTED: dict[str, Callable[[Node, Node], Read]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "fixed": _read_fixed,
    "enum": _read_enum,
    "record": _read_record,
    "error": _read_record,
    "array": _read_array,
    "map": _read_map,
}
