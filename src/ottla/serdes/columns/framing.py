"""Which schema each row of a column was written with: Confluent's prefixes, and GUIDs in headers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ottla.serdes.columns.rows import PADDING, Numbers
from ottla.serdes.errors import SerdeError
from ottla.serdes.wire import SchemaId, split_prefix

__all__ = ["Group", "grouped", "laid_out", "present"]

ID_BYTES = 5


@dataclass(frozen=True)
class Group:
    """Rows that name the same schema, and how many bytes that takes in front of the rest; or what is wrong with them."""

    which: Numbers
    named: SchemaId | None
    skipped: int = 0
    in_header: bool = False
    problem: str = ""


def laid_out(column: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """Return a binary column's bytes with PADDING behind, and where each row begins and ends."""
    kind = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    _, offsets, data = column.buffers()
    if not len(column):
        return np.zeros(PADDING, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    found = np.frombuffer(offsets, kind)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    begun, end = int(found[0]), int(found[-1])
    padded = np.zeros(end - begun + PADDING, np.uint8)
    if data is not None:
        padded[: end - begun] = np.frombuffer(data, np.uint8)[begun:end]
    found -= begun
    return padded, found[:-1], found[1:]


def present(column: pa.Array) -> Numbers:
    """Return the places of the rows that are not null."""
    if not column.null_count:
        return np.arange(len(column))
    return np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))


def grouped(
    data: Numbers, begun: Numbers, end: Numbers, which: Numbers, headers: Sequence[bytes | None] | None = None
) -> Iterator[Group]:
    """Yield the rows by the schema that they name; `headers` are those of all rows that name one."""
    if headers is not None:
        in_header = np.array([headers[row] is not None for row in which.tolist()], bool)
        yield from _by_text(which[in_header], [headers[row] or b"" for row in which[in_header].tolist()], True)
        which = which[~in_header]
    first = begun[which]
    long_enough = end[which] - first >= ID_BYTES
    is_id = long_enough & (data[first] == 0)
    if is_id.all():
        found = which
    else:
        found, others = which[is_id], which[~is_id]
        texts = [bytes(data[begun[row] : min(end[row], begun[row] + 17)]) for row in others.tolist()]
        yield from _by_text(others, texts, False)
    if not len(found):
        return
    ids = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))[begun[found] + 1]
    if (ids == ids[0]).all():
        yield Group(found, SchemaId(int(ids[0])), ID_BYTES)
        return
    for each in np.unique(ids).tolist():
        yield Group(found[ids == each], SchemaId(int(each)), ID_BYTES)


def _by_text(which: Numbers, texts: list[bytes], in_header: bool) -> Iterator[Group]:
    groups: dict[bytes, list[int]] = {}
    for row, text in zip(which.tolist(), texts, strict=True):
        groups.setdefault(text, []).append(row)
    for text, rows in groups.items():
        places = np.array(rows, np.int64)
        try:
            named, rest = split_prefix(text)
        except SerdeError as error:
            yield Group(places, None, problem=str(error))
            continue
        indexes = SchemaId(named.id, named.guid, _indexes(rest)) if in_header and rest else named
        yield Group(places, indexes, 0 if in_header else len(text) - len(rest), in_header)


def _indexes(rest: bytes) -> tuple[int, ...]:
    from ottla.serdes.wire import message_indexes

    return message_indexes(rest)[0]
