"""Rows of the binlog's row events as values, by the table's columns and what the event says of their bytes. Pure.

The layouts are those of the servers' replication formats (binary log version 4, row images); values are as `kinds` says.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import IPv4Address
from struct import Struct
from typing import Any, Final

from ottla.connect import DataError
from ottla.connectors.cdc.mysql.calendar import DAY_US, days_of
from ottla.connectors.cdc.mysql.charsets import decoder_of
from ottla.connectors.cdc.mysql.tables import SqlType
from ottla.connectors.cdc.pgoutput import Unchanged

__all__ = ["RowFormat", "WireColumn"]

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 7, 8, 9
DATE, TIME, DATETIME, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 11, 12, 13, 15, 16, 17, 18, 19
JSON, NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 245, 246, 247, 248, 252, 253, 254, 255
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
"""MariaDB's columns that are kept compressed."""
Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a place of a row; gives it, and the place behind it."""
UNCHANGED: Final = Unchanged()


@dataclass(frozen=True, slots=True)
class WireColumn:
    """What a table map says of a column's bytes."""

    type: int
    size: int = 0
    """Bytes at most, of a length, of an enum; digits of a second; bits."""
    scale: int = 0
    """Digits behind the point; `size` has all of them."""


class RowFormat:
    """Reads the rows of one table, as it is and as the events have it."""

    def __init__(self, types: Sequence[SqlType], wires: Sequence[WireColumn], names: Sequence[str] = ()) -> None:
        self.names = [*names]
        pairs = zip(types, wires, strict=True)
        self._reads = [_reader(type_, wire, names[at] if names else "") for at, (type_, wire) in enumerate(pairs)]

    def rows(self, body: bytes, *, is_update: bool) -> Iterator[tuple[list[Any] | None, list[Any]]]:
        """Yield an event's rows behind its header: what was before where that is told, and what is.

        Raises DataError where the bytes are none of the table's.
        """
        count = len(self._reads)
        width = (count + 7) // 8
        present = body[:width]
        second = body[width : 2 * width] if is_update else present
        at = width * (2 if is_update else 1)
        plans = self._plan(present), self._plan(second)
        while at < len(body):
            before = None
            if is_update:
                before, at = self._row(body, at, plans[0])
            row, at = self._row(body, at, plans[1])
            if before is not None and second != present:  # FULL_NODUP: what is as it was is not sent again
                row = [old if new is UNCHANGED else new for old, new in zip(before, row, strict=True)]
            yield before, row
        if at != len(body):
            raise DataError("A row ends behind its event")

    def lacking(self, body: bytes) -> list[int]:
        """Return the places of columns that an event does not tell; those that an update leaves as they were are told."""
        count = len(self._reads)
        width = (count + 7) // 8
        before = body[:width]
        return [at for at in range(count) if not before[at >> 3] >> (at & 7) & 1]

    def _plan(self, present: bytes) -> tuple[int, Sequence[Read | None]]:
        """How many columns were sent, and how each is read; None of those that were not."""
        reads = [read if present[at >> 3] >> (at & 7) & 1 else None for at, read in enumerate(self._reads)]
        return sum(each is not None for each in reads), reads

    def _row(self, body: bytes, at: int, plan: tuple[int, Sequence[Read | None]]) -> tuple[list[Any], int]:
        sent, reads = plan
        end = at + (sent + 7) // 8
        nulls = int.from_bytes(body[at:end], "little")
        at = end
        values: list[Any] = []
        bit = 1
        for read in reads:
            if read is None:
                values.append(UNCHANGED)
                continue
            if nulls & bit:
                values.append(None)
            else:
                value, at = read(body, at)
                values.append(value)
            bit <<= 1
        return values, at


def _reader(type_: SqlType, wire: WireColumn, name: str) -> Read:
    made = _MADE.get(wire.type)
    if made is None:
        raise DataError(f"Column {name} is of a type that is not known in the binlog ({wire.type})")
    return made(type_, wire)


# -- numbers


def _fixed(layout: str) -> Read:
    shape = Struct(layout)
    unpack, size = shape.unpack_from, shape.size

    def read(body: bytes, at: int) -> tuple[Any, int]:
        return unpack(body, at)[0], at + size

    return read


def _whole(signed: str, unsigned: str) -> Callable[[SqlType, WireColumn], Read]:
    readers = _fixed(signed), _fixed(unsigned)
    return lambda type_, wire: readers[type_.is_unsigned]


def _int24(type_: SqlType, wire: WireColumn) -> Read:
    is_signed = not type_.is_unsigned
    return lambda body, at: (int.from_bytes(body[at : at + 3], "little", signed=is_signed), at + 3)


_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of so many digits of a DECIMAL."""


def _decimal(type_: SqlType, wire: WireColumn) -> Read:
    scale = wire.scale
    whole = wire.size - scale
    first, fulls = whole % 9, whole // 9
    ends, last = scale // 9, scale % 9
    groups = [(_DIGIT_BYTES[first], 10**first)] if first else []
    groups += [(4, 10**9)] * (fulls + ends)
    if last:
        groups.append((_DIGIT_BYTES[last], 10**last))
    size = sum(each for each, _ in groups)

    def read(body: bytes, at: int) -> tuple[Any, int]:
        data = bytearray(body[at : at + size])
        is_negative = not data[0] & 0x80
        data[0] ^= 0x80
        if is_negative:
            data = bytearray(each ^ 0xFF for each in data)
        number, place = 0, 0
        for width, factor in groups:
            number = number * factor + int.from_bytes(data[place : place + width], "big")
            place += width
        digits = tuple(map(int, str(number)))
        return Decimal((int(is_negative and number > 0), digits, -scale)), at + size

    return read


def _year(type_: SqlType, wire: WireColumn) -> Read:
    return lambda body, at: (body[at] + 1900 if body[at] else 0, at + 1)


def _bit(type_: SqlType, wire: WireColumn) -> Read:
    size = (wire.size + 7) // 8
    return lambda body, at: (int.from_bytes(body[at : at + size], "big"), at + size)


# -- texts and bytes


def _sized(width: int, convert: Callable[[bytes], Any] | None) -> Read:
    """Reads bytes behind their length of `width` bytes."""

    def read(body: bytes, at: int) -> tuple[Any, int]:
        begin = at + width
        end = begin + int.from_bytes(body[at:begin], "little")
        data = body[begin:end]
        if len(data) != end - begin:
            raise DataError("A row ends behind its event")
        return (data if convert is None else convert(data)), end

    return read


def _convert(type_: SqlType) -> Callable[[bytes], Any] | None:
    """How bytes become a row's value."""
    if type_.is_text or type_.name == "JSON":
        return decoder_of(type_.charset)
    if type_.name == "BINARY":
        width = type_.width or 1
        return lambda data: data.ljust(width, b"\0")
    if type_.name == "UUID":
        return _uuid
    if type_.name == "INET6":
        return _inet6
    if type_.name == "INET4":
        return lambda data: str(IPv4Address(data.ljust(4, b"\0")))
    return None


def _uuid(data: bytes) -> str:
    """The server sends no zeros at the end."""
    return str(uuid.UUID(bytes=data.ljust(16, b"\0")))


def _inet6(data: bytes) -> str:
    """As the server prints it: `::` for the first longest run of zeros, of one too, and IPv4 behind 96 bits of it."""
    data = data.ljust(16, b"\0")
    words = [int.from_bytes(data[at : at + 2], "big") for at in range(0, 16, 2)]
    begin = size = run = 0
    for at, word in enumerate(words):
        run = 0 if word else run + 1
        if run > size:
            begin, size = at + 1 - run, run
    if data[:12] == _MAPPED or (begin == 0 and size == 6):
        return f"::{'ffff:' if words[5] else ''}{IPv4Address(data[12:])}"
    texts = [f"{each:x}" for each in words]
    return f"{':'.join(texts[:begin])}::{':'.join(texts[begin + size :])}" if size else ":".join(texts)


_MAPPED: Final = bytes(10) + b"\xff\xff"


def _string(type_: SqlType, wire: WireColumn) -> Read:
    return _sized(2 if wire.size > 0xFF else 1, _convert(type_))


def _inflated(data: bytes) -> bytes:
    """Return what MariaDB keeps compressed in a column: behind how, and how long it is, by zlib; or plain behind a zero."""
    if not data or not data[0]:
        return data[1:]
    how, width = data[0] >> 4, data[0] & 0x07
    if how != _ZLIB:
        raise DataError(f"A column is compressed in a way that is not known: {how}")
    size = int.from_bytes(data[1 : 1 + width], "big")
    try:
        found = zlib.decompress(
            data[1 + width :], -zlib.MAX_WBITS if data[0] & 0x08 else zlib.MAX_WBITS, min(size, 1 << 20)
        )
    except zlib.error as error:
        raise DataError(f"A compressed column cannot be read: {error}") from error
    if len(found) != size:
        raise DataError(f"A compressed column has {len(found)} bytes, and says it has {size}")
    return found


_ZLIB: Final = 8


def _compressed(type_: SqlType, wire: WireColumn) -> Read:
    convert = _convert(type_)
    width = wire.size if wire.type == BLOB_COMPRESSED else 2 if wire.size > 0xFF else 1
    return _sized(width, lambda data: _inflated(data) if convert is None else convert(_inflated(data)))


def _blob(type_: SqlType, wire: WireColumn) -> Read:
    return _sized(wire.size, _convert(type_))


def _json(type_: SqlType, wire: WireColumn) -> Read:
    return _sized(wire.size, json_text)


def json_text(data: bytes) -> str:
    """Return MySQL's binary JSON as text."""
    if not data:
        return "null"
    from pymysqlreplication.json_binary import parse_json

    return json.dumps(_plain(parse_json(data[0], data[1:])), separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {str(_plain(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _enum(type_: SqlType, wire: WireColumn) -> Read:
    values, size = type_.values, wire.size

    def read(body: bytes, at: int) -> tuple[Any, int]:
        index = int.from_bytes(body[at : at + size], "little")
        if index > len(values):
            raise DataError(f"An enum of {len(values)} values has its value {index}")
        return (values[index - 1] if index else ""), at + size

    return read


def _set(type_: SqlType, wire: WireColumn) -> Read:
    values, size = type_.values, wire.size

    def read(body: bytes, at: int) -> tuple[Any, int]:
        bits = int.from_bytes(body[at : at + size], "little")
        if bits >> len(values):
            raise DataError(f"A set of {len(values)} values has others")
        return ",".join(each for place, each in enumerate(values) if bits >> place & 1), at + size

    return read


# -- times


def _date(type_: SqlType, wire: WireColumn) -> Read:
    def read(body: bytes, at: int) -> tuple[Any, int]:
        packed = int.from_bytes(body[at : at + 3], "little")
        return days_of(packed >> 9, packed >> 5 & 15, packed & 31), at + 3

    return read


def _fraction(body: bytes, at: int, size: int) -> int:
    """The microseconds of a fraction of so many bytes: hundredths, ten thousandths or millionths."""
    return int.from_bytes(body[at : at + size], "big") * (1, 10_000, 100, 1)[size] if size else 0


def _time2(type_: SqlType, wire: WireColumn) -> Read:
    size = (wire.size + 1) // 2
    zero, unit = 0x800000 << 8 * size, (1, 10_000, 100, 1)[size]
    mask = (1 << 8 * size) - 1

    def read(body: bytes, at: int) -> tuple[Any, int]:
        end = at + 3 + size
        packed = int.from_bytes(body[at:end], "big") - zero
        sign, packed = (-1, -packed) if packed < 0 else (1, packed)
        clock = packed >> 8 * size
        seconds = ((clock >> 12 & 0x3FF) * 60 + (clock >> 6 & 0x3F)) * 60 + (clock & 0x3F)
        return sign * (seconds * 1_000_000 + (packed & mask) * unit if size else seconds * 1_000_000), end

    return read


def _datetime2(type_: SqlType, wire: WireColumn) -> Read:
    size = (wire.size + 1) // 2

    def read(body: bytes, at: int) -> tuple[Any, int]:
        packed = int.from_bytes(body[at : at + 5], "big") - 0x8000000000
        date, clock = packed >> 17, packed & 0x1FFFF
        year, month = divmod(date >> 5, 13)
        days = days_of(year, month, date & 31)
        end = at + 5 + size
        if days is None:
            return None, end
        seconds = ((clock >> 12) * 60 + (clock >> 6 & 0x3F)) * 60 + (clock & 0x3F)
        return days * DAY_US + seconds * 1_000_000 + _fraction(body, at + 5, size), end

    return read


def _timestamp2(type_: SqlType, wire: WireColumn) -> Read:
    size = (wire.size + 1) // 2

    def read(body: bytes, at: int) -> tuple[Any, int]:
        seconds = int.from_bytes(body[at : at + 4], "big")
        return seconds * 1_000_000 + _fraction(body, at + 4, size), at + 4 + size

    return read


def _old_timestamp(type_: SqlType, wire: WireColumn) -> Read:
    return lambda body, at: (int.from_bytes(body[at : at + 4], "little") * 1_000_000, at + 4)


def _old_datetime(type_: SqlType, wire: WireColumn) -> Read:
    def read(body: bytes, at: int) -> tuple[Any, int]:
        date, clock = divmod(int.from_bytes(body[at : at + 8], "little"), 1_000_000)
        days = days_of(date // 10_000, date // 100 % 100, date % 100)
        seconds = (clock // 10_000 * 60 + clock // 100 % 100) * 60 + clock % 100
        return (None if days is None else days * DAY_US + seconds * 1_000_000), at + 8

    return read


def _old_time(type_: SqlType, wire: WireColumn) -> Read:
    def read(body: bytes, at: int) -> tuple[Any, int]:
        packed = int.from_bytes(body[at : at + 3], "little", signed=True)
        sign, packed = (-1, -packed) if packed < 0 else (1, packed)
        return sign * ((packed // 10_000 * 60 + packed // 100 % 100) * 60 + packed % 100) * 1_000_000, at + 3

    return read


def _always(read: Read) -> Callable[[SqlType, WireColumn], Read]:
    return lambda type_, wire: read


_MADE: Final[Mapping[int, Callable[[SqlType, WireColumn], Read]]] = {
    TINY: _whole("<b", "<B"),
    SHORT: _whole("<h", "<H"),
    LONG: _whole("<i", "<I"),
    LONGLONG: _whole("<q", "<Q"),
    INT24: _int24,
    FLOAT: _always(_fixed("<f")),
    DOUBLE: _always(_fixed("<d")),
    NEWDECIMAL: _decimal,
    YEAR: _year,
    BIT: _bit,
    **dict.fromkeys((VARCHAR, VAR_STRING, STRING), _string),
    **dict.fromkeys((BLOB_COMPRESSED, VARCHAR_COMPRESSED), _compressed),
    BLOB: _blob,
    GEOMETRY: _blob,
    JSON: _json,
    ENUM: _enum,
    SET: _set,
    DATE: _date,
    TIME2: _time2,
    DATETIME2: _datetime2,
    TIMESTAMP2: _timestamp2,
    TIMESTAMP: _old_timestamp,
    DATETIME: _old_datetime,
    TIME: _old_time,
}
