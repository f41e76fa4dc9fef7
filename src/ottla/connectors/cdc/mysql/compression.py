"""Events of the binlog that hold others compressed: MySQL's transactions, MariaDB's rows and statements. Pure.

MySQL (`binlog_transaction_compression`) writes a TRANSACTION_PAYLOAD_EVENT: fields of a type, a length and a value, up to
the mark of their end, then whole events, compressed as one by zstd or not at all, without checksums. MariaDB
(`log_bin_compress`) compresses the last part of an event: behind a byte that says how (zlib) and how many bytes the plain
length takes, that length, the greatest byte first, and the data.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from ottla.connect import DataError

__all__ = ["HEADER_BYTES", "PACKED", "length_coded", "unpacked"]

HEADER_BYTES: Final = 19
PLAIN_BYTES_MAX: Final = 2 << 30
"""What one event may become: a row has a gigabyte at most."""
_HEADER: Final = Struct("<IBIIIH")
PAYLOAD: Final = 40
_QUERY: Final = 165
_ROWS: Final = {166: 23, 167: 24, 168: 25, 169: 30, 170: 31, 171: 32}
"""MariaDB's types of compressed rows, and those of plain ones; from 169 on with more about them."""
_UPDATES: Final = (167, 170)
_WITH_MORE: Final = 169
PACKED: Final = frozenset((PAYLOAD, _QUERY, *_ROWS))
"""The types of events that are unpacked."""
_END, _SIZE, _METHOD, _PLAIN_SIZE = range(4)
"""Fields of a payload."""
_ZSTD, _NONE = 0, 255


def unpacked(event: bytes) -> Iterator[bytes]:
    """Yield the plain events of one that is `PACKED`, without checksums; raises DataError for what is none."""
    if len(event) < HEADER_BYTES:
        raise DataError("A compressed event of the binlog has no header")
    type_ = event[4]
    try:
        if type_ == PAYLOAD:
            yield from _events(_payload(event[HEADER_BYTES:]))
        elif type_ == _QUERY:
            yield _plain(event, 2, _query_end(event))
        else:
            yield _plain(event, _ROWS[type_], _bitmaps_end(event, type_))
    except (IndexError, KeyError, zlib.error) as error:
        raise DataError(f"An event of the binlog, of type {type_}, cannot be unpacked: {error!r}") from error


def _plain(event: bytes, type_: int, end: int) -> bytes:
    """Return an event of MariaDB's whose bytes from `end` on are compressed as a plain one."""
    body = event[HEADER_BYTES:end] + _inflated(event[end:])
    at_s, _, server, _, next_, flags = _HEADER.unpack_from(event)
    return _HEADER.pack(at_s, type_, server, HEADER_BYTES + len(body), next_, flags) + body


def _inflated(data: bytes) -> bytes:
    how = data[0]
    width = how & 0x07
    if how & 0xF0 != 0x80 or not 1 <= width <= 4:
        raise DataError(f"The binlog has data that are compressed in a way that is not known: {how:#x}")
    size = int.from_bytes(data[1 : 1 + width], "big")
    if size > PLAIN_BYTES_MAX:
        raise DataError(f"The binlog has {size} bytes in one event, and {PLAIN_BYTES_MAX} are the most that is read")
    worker = zlib.decompressobj()
    found = worker.decompress(data[1 + width :], size + 1)
    if len(found) != size or not worker.eof:
        raise DataError(f"The binlog has compressed data of {len(found)} bytes that say they are {size}")
    return found


def _query_end(event: bytes) -> int:
    """Return where a statement begins: behind what is known of its session, and its database."""
    database, more = event[HEADER_BYTES + 8], int.from_bytes(event[HEADER_BYTES + 11 : HEADER_BYTES + 13], "little")
    return HEADER_BYTES + 13 + more + database + 1


def _bitmaps_end(event: bytes, type_: int) -> int:
    """Return where rows begin: behind the numbers of columns, and which of them are there."""
    at = HEADER_BYTES + 8
    if type_ >= _WITH_MORE:
        at += int.from_bytes(event[at : at + 2], "little")
    width, at = length_coded(event, at)
    return at + (width + 7) // 8 * (2 if type_ in _UPDATES else 1)


def length_coded(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of as many bytes as its first one says, and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    if len(data) < at + 1 + size:
        raise IndexError("a number is cut off")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def _payload(body: bytes) -> bytes:
    """Return the events of a transaction, one behind the other."""
    fields: dict[int, int] = {}
    at = 0
    while True:
        kind, at = length_coded(body, at)
        if kind == _END:
            break
        size, at = length_coded(body, at)
        fields[kind] = length_coded(body[at : at + size], 0)[0]
        at += size
    data = body[at : at + fields.get(_SIZE, len(body))]
    if len(data) != fields.get(_SIZE, len(data)):
        raise DataError(f"A compressed transaction of the binlog has {len(data)} bytes of {fields[_SIZE]}")
    method, size = fields.get(_METHOD, _NONE), fields.get(_PLAIN_SIZE, len(data))
    if size > PLAIN_BYTES_MAX:
        raise DataError(f"The binlog has a transaction of {size} bytes: {PLAIN_BYTES_MAX} are the most that is read")
    if method == _NONE:
        return data
    if method != _ZSTD:
        raise DataError(f"The binlog has a transaction that is compressed in a way that is not known: {method}")
    found = _zstd(data, size)
    if len(found) != size:
        raise DataError(f"A compressed transaction of the binlog has {len(found)} bytes, and says it has {size}")
    return found


def _zstd(data: bytes, size: int) -> bytes:
    import cramjam

    room = bytearray(size)
    try:
        count = cramjam.zstd.decompress_into(data, room)
    except Exception as error:  # the library raises one kind of its own, for whatever there is
        raise DataError(f"A compressed transaction of the binlog cannot be unpacked: {error}") from error
    return bytes(room[:count])


def _events(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        if len(data) < at + HEADER_BYTES:
            raise DataError("A compressed transaction of the binlog ends within an event")
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if size < HEADER_BYTES or at + size > len(data):
            raise DataError("A compressed transaction of the binlog has an event that is longer than itself")
        yield data[at : at + size]
        at += size
