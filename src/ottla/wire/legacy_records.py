"""Message sets of magic 0 and 1, which Kafka wrote before 0.11: read where old folders hold them, never written.

::

    entry   := offset int64, size int32, message
    message := CRC-32 of what follows, magic int8, attributes int8 (bits 0-2 codec, 3 log append time),
               timestamp int64 (magic 1 only), key length int32 (-1 = null), key, value length int32 (-1 = null), value

A compressed entry's value is a message set, and the entry's offset is that of its last message: in magic 1 the inner offsets
count from 0, in magic 0 they are final (KIP-31, KIP-32).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ottla.base import ErrorCode, KafkaError, Millis, Offset
from ottla.wire.batch import NO_TIMESTAMP, Attributes, Buffer
from ottla.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress

__all__ = ["LegacyMessage", "read_legacy_entry", "read_legacy_message"]

ENTRY_OVERHEAD = 12
MESSAGE_OVERHEAD = 14
"""Bytes of a magic 0 message without key and value."""
_entry = Struct(">qiIbb")
_int32 = Struct(">i")
_int64 = Struct(">q")


class LegacyMessage(NamedTuple):
    """One message as stored; `size` counts its whole entry, `valid` says whether its checksum holds."""

    offset: Offset
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: Millis
    key: bytes | None
    value: bytes | None
    valid: bool

    @property
    def codec(self) -> Codec:
        """How the message set in `value` is compressed; NONE where the value is the value."""
        code = self.attributes & Attributes.CODEC
        if code > Codec.LZ4:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {code}")
        return Codec(code)


def read_legacy_message(buf: Buffer, pos: int = 0) -> LegacyMessage:
    """Return the magic 0 or 1 message at `pos`, which must be whole; CORRUPT_MESSAGE where it is none."""
    if len(buf) - pos < ENTRY_OVERHEAD + MESSAGE_OVERHEAD:
        raise _corrupt("the entry is cut off")
    offset, size, crc, magic, attributes = _entry.unpack_from(buf, pos)
    end = pos + ENTRY_OVERHEAD + size
    if magic not in (0, 1) or size < MESSAGE_OVERHEAD + 8 * magic or end > len(buf):
        raise _corrupt(f"magic {magic}, size {size}")
    at = pos + _entry.size
    timestamp = int(NO_TIMESTAMP)
    if magic:
        (timestamp,) = _int64.unpack_from(buf, at)
        at += 8
    key, at = _read_bytes(buf, at, end)
    value, at = _read_bytes(buf, at, end)
    with memoryview(buf) as view:
        valid = crc32(view[pos + 16 : end]) == crc
    return LegacyMessage(
        *(Offset(offset), end - pos, crc, magic, attributes, Millis(timestamp), key, value),
        valid=valid and at == end,
    )


def _read_bytes(buf: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    if end - at < 4:
        raise _corrupt("a field is cut off")
    (size,) = _int32.unpack_from(buf, at)
    at += 4
    if size < 0:
        return None, at
    if size > end - at:
        raise _corrupt("a field passes the message's end")
    return bytes(buf[at : at + size]), at + size


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Message is corrupt: {reason}")


def read_legacy_entry(buf: Buffer, pos: int = 0, *, limit: int = DECOMPRESSED_BYTES_MAX) -> list[LegacyMessage]:
    """Return the messages of the entry at `pos`: those inside where it is compressed, else itself.

    CORRUPT_MESSAGE for a wrong checksum; `limit` bounds what a compressed entry may become.
    """
    outer = read_legacy_message(buf, pos)
    if not outer.valid:
        raise _corrupt("its checksum is not that of its bytes")
    return [outer] if outer.codec is Codec.NONE else _inner_messages(outer, limit)


def _inner_messages(outer: LegacyMessage, limit: int) -> list[LegacyMessage]:
    """Return the messages that a compressed one holds, with their final offsets and timestamps."""
    block = decompress(outer.codec, outer.value or b"", limit)
    inner: list[LegacyMessage] = []
    at = 0
    while at < len(block):
        message = read_legacy_message(block, at)
        if not message.valid or message.codec is not Codec.NONE:
            raise _corrupt("a message inside a compressed one is damaged or compressed itself")
        inner.append(message)
        at += message.size
    shift = outer.offset - inner[-1].offset if inner and outer.magic else 0
    append_time = outer.timestamp if outer.attributes & Attributes.LOG_APPEND_TIME else None
    return [
        each._replace(
            offset=Offset(each.offset + shift), timestamp=each.timestamp if append_time is None else append_time
        )
        for each in inner
    ]
