"""Every format of SQL's: hostile values written and read back, hostile bytes read."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from decimal import Decimal

from ottla.sql.errors import SqlError
from ottla.sql.formats import FORMATS, Codec, FormatError, codec
from ottla.sql.schema import SqlColumn
from ottla.sql.types import BIGINT, INTEGER, STRING, ArrayType, DecimalType, MapType, SqlType, StructType
from tests.hostile_values import NAMES, RAW, TEXTS, same
from tests.values.sql_values import PLAIN, values_of
from tests.values.watched import Case, short

TYPES: tuple[SqlType, ...] = (
    *PLAIN,
    DecimalType(4, 2),
    DecimalType(5000, 3000),
    ArrayType(STRING),
    ArrayType(ArrayType(BIGINT)),
    MapType(STRING, INTEGER),
    MapType(INTEGER, STRING),
    StructType((("A", BIGINT), ("b", STRING))),
)
EMPTY_IS_NULL = ("DELIMITED", "PROTOBUF", "PROTOBUF_NOSR")
"""Formats in which nothing and null are one."""
COLUMNS_MAX = 5000


def cases(*formats: str) -> Iterator[Case]:
    """Every format with every type."""
    for format_ in formats or FORMATS:
        for type_ in TYPES:
            for wrapped in (True, False):
                try:
                    made = codec(format_, [SqlColumn("C0", type_)], wrapped=wrapped)
                except SqlError:
                    continue
                yield from _values(f"{format_} {type_} {wrapped}", format_, made, type_)
                yield from _bytes(f"{format_} {type_} {wrapped}", made)
        yield from _names(format_)


def _values(label: str, format_: str, made: Codec, type_: SqlType) -> Iterator[Case]:
    for value in values_of(type_):

        def both_ways(value=value) -> None:
            data = made.encode((value,))
            found = made.decode(data)
            wanted = _as_written(value)
            back = None if found is None else found[0]
            if back is None and format_ in EMPTY_IS_NULL and wanted in (None, "", b"", [], {}):
                return
            if format_ in EMPTY_IS_NULL and (wanted is None or isinstance(wanted, list | dict)):
                return  # nulls become the type's zero, as Protobuf has it
            assert same(wanted, _unsigned(back)), f"{short(wanted)} came back as {short(back)}"

        yield Case(f"{label} <- {short(value)}", both_ways, (FormatError,))


def _as_written(value: object) -> object:
    """A value as Java writes it: half a character is a question mark, and no decimal has the sign of a zero."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case Decimal() if not value:
            return abs(value)
        case list():
            return [_as_written(each) for each in value]
        case dict():
            return {_as_written(key): _as_written(each) for key, each in value.items()}
    return value


def _unsigned(value: object) -> object:
    return abs(value) if isinstance(value, Decimal) and not value else value


def _bytes(label: str, made: Codec) -> Iterator[Case]:
    texts = [each.encode("utf-8", "surrogatepass") for each in TEXTS]
    framed = [
        b"\0" + struct.pack(">i", number) + rest for number in (0, -1, 1) for rest in (b"", b"\xff" * 40, b"\0\2x")
    ]
    wrapped = [b'{"C0":' + each + b"}" for each in texts] + [json.dumps({"C0": each}).encode() for each in TEXTS]
    for raw in (*RAW, *texts, *framed, *wrapped):
        yield Case(f"{label} -> {short(raw)}", lambda raw=raw: made.decode(raw), (FormatError,))


def _names(format_: str) -> Iterator[Case]:
    many = [SqlColumn(f"C{at}", STRING) for at in range(COLUMNS_MAX)]

    def both_ways(columns: list[SqlColumn], row: tuple[object, ...]) -> None:
        made = codec(format_, columns)
        found = made.decode(made.encode(row))
        assert found is None or found == row or (format_ in EMPTY_IS_NULL and len(found) == len(row)), short(found)

    for name in (*NAMES, "C0" * 1000):
        columns = [SqlColumn(name, STRING), SqlColumn(f"{name}_", BIGINT)]
        yield Case(f"{format_} of {short(name)}", lambda columns=columns: both_ways(columns, ("x", 1)), (SqlError,))
    yield Case(f"{format_} of {COLUMNS_MAX} columns", lambda: both_ways(many, ("x",) * COLUMNS_MAX), (SqlError,))
